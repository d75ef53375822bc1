//! From the counters at both edges of a window to the profile of a recording. Pure.

use recording::{
    Detail, NotMeasured, OwnCost, Profile, ProfileSlice, ProfiledProcess, Warning, Window,
};

use crate::delta::{Delta, RowNames};
use crate::in_flight::InFlight;
use crate::snapshot::Snapshot;

/// What is known when a window has been closed.
#[derive(Debug)]
pub(crate) struct ClosedWindow {
    pub(crate) detail: Detail,
    pub(crate) follow: bool,
    /// Whether quiet came at the edges where it was asked for.
    pub(crate) was_quiet: bool,
    pub(crate) start: Snapshot,
    /// At the end of the last slice; the start if there is none.
    pub(crate) last: Snapshot,
    pub(crate) end: Snapshot,
    pub(crate) slices: Vec<ProfileSlice>,
    pub(crate) in_flight_at_start: InFlight,
    pub(crate) in_flight_at_end: InFlight,
    pub(crate) processes: Vec<ProfiledProcess>,
    pub(crate) cpu_ns: Option<u64>,
    pub(crate) reader_cpu_ns: u64,
    pub(crate) map_bytes: u64,
    pub(crate) attach_ns: u64,
}

impl ClosedWindow {
    /// The profile.
    pub(crate) fn into_profile<F: Fn(u32) -> Option<(u32, bool)>>(
        mut self,
        names: &RowNames<F>,
    ) -> Profile {
        let detail = self.detail;
        let delta = Delta::between(&self.start, &self.end);
        if !self.slices.is_empty() {
            let rest = slice_between(&self.last, &self.end, names, detail);
            self.slices.push(rest);
        }
        Profile {
            detail,
            window: Window {
                start_ns: self.start.end_ns,
                end_ns: self.end.end_ns,
            },
            boundary_ns: copy_ns(&self.start) + copy_ns(&self.end),
            follow: self.follow,
            calls: names.call_rows(&delta, detail, &self.in_flight_at_end.calls),
            waits: names.wait_rows(&delta, detail),
            lost: delta.lost(),
            cost: OwnCost {
                target_events: delta.count() * events_per_call(detail),
                reader_cpu_ns: self.reader_cpu_ns,
                map_bytes: self.map_bytes,
                attach_ns: self.attach_ns,
            },
            ended_early: None,
            not_measured: self.not_measured(),
            warnings: self.warnings(&delta),
            processes: self.processes,
            in_flight_at_start: self.in_flight_at_start.calls,
            in_flight_at_end: self.in_flight_at_end.calls,
            cpu_ns: self.cpu_ns,
            slices: self.slices,
        }
    }

    fn not_measured(&self) -> Vec<NotMeasured> {
        let missing = |what: &str, why: &str, remedy: Option<&str>| NotMeasured {
            what: what.into(),
            why: why.into(),
            remedy: remedy.map(Into::into),
        };
        let mut not_measured = Vec::new();
        if self.detail == Detail::Floor {
            not_measured.push(missing(
                "system calls",
                "detail floor attaches empty programs, to show what any programs cost",
                Some("use --detail counts"),
            ));
        }
        if self.cpu_ns.is_none() {
            not_measured.push(missing(
                "CPU time",
                "a process of the target ended during the window, before its clock could be read",
                None,
            ));
        }
        if self.in_flight_at_start.hidden || self.in_flight_at_end.hidden {
            not_measured.push(missing(
                "calls in flight",
                "/proc/PID/task/TID/syscall of other users may not be read without CAP_SYS_PTRACE and \
                 CAP_DAC_READ_SEARCH",
                Some("run with sudo"),
            ));
        }
        not_measured
    }

    fn warnings(&self, delta: &Delta) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if !self.was_quiet {
            warnings.push(Warning {
                code: "not_quiet".into(),
                text: "the target went on making system calls for a second at an edge of the \
                       window: calls of other work are in the counts"
                    .into(),
            });
        }
        let io_uring_threads = self.in_flight_at_start.io_uring || self.in_flight_at_end.io_uring;
        if io_uring_threads || delta.calls.contains_key(&IO_URING_ENTER) {
            warnings.push(Warning {
                code: "io_uring".into(),
                text: "the target uses io_uring: operations that it submits that way are not \
                       system calls and are not counted"
                    .into(),
            });
        }
        warnings
    }
}

/// The sub-window between two copies.
pub(crate) fn slice_between<F: Fn(u32) -> Option<(u32, bool)>>(
    from: &Snapshot,
    to: &Snapshot,
    names: &RowNames<F>,
    detail: Detail,
) -> ProfileSlice {
    ProfileSlice {
        window: Window {
            start_ns: from.end_ns,
            end_ns: to.end_ns,
        },
        calls: names.slice_calls(&Delta::between(from, to), detail),
    }
}

/// Programs that run for a call.
fn events_per_call(detail: Detail) -> u64 {
    match detail {
        Detail::Floor | Detail::Times => 2,
        Detail::Counts => 1,
    }
}

fn copy_ns(snapshot: &Snapshot) -> u64 {
    snapshot.end_ns.saturating_sub(snapshot.start_ns)
}

/// The same number in every table: arch/x86/entry/syscalls, include/uapi/asm-generic/unistd.h.
const IO_URING_ENTER: u32 = 426;
