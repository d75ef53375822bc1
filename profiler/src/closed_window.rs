//! From the counters at both edges of a window to the profile of a recording. Pure.

use std::collections::BTreeMap;

use recording::{
    Calibration, Detail, Group, GroupBy, IoUring, NotMeasured, OwnCost, Profile, ProfileSlice,
    ProfiledProcess, Stacks, TlsTime, Warning, Window,
};

use crate::below::{self, BelowWindow};
use crate::cpus::KernelClocks;
use crate::delta::{Delta, RowNames};
use crate::groups::GroupCopy;
use crate::in_flight::InFlight;
use crate::slices::counts_between;
use crate::snapshot::Snapshot;
use crate::stacks::StackCopy;
use crate::states::{States, StatesDelta};
use crate::tls::{TlsCopy, TlsWindow};

/// What was read at an edge of the window.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) snapshot: Snapshot,
    /// At detail `sched`.
    pub(crate) states: Option<States>,
    pub(crate) groups: GroupCopy,
    /// At detail `stacks`.
    pub(crate) stacks: StackCopy,
    pub(crate) tls: TlsCopy,
    pub(crate) clocks: KernelClocks,
    /// Run time and runs of our programs by the kernel's statistics.
    pub(crate) run_statistics: Option<(u64, u64)>,
}

impl Edge {
    /// From the beginning of the first copy to the end of the last one, ns.
    fn copy_ns(&self) -> u64 {
        let states_ns = self.states.as_ref().map_or(0, States::at_ns);
        let end_ns = self.snapshot.end_ns.max(states_ns);
        end_ns.saturating_sub(self.snapshot.start_ns)
    }
}

/// What is known when a window has been closed.
#[derive(Debug)]
pub(crate) struct ClosedWindow {
    pub(crate) detail: Detail,
    pub(crate) follow: bool,
    pub(crate) group_by: Option<GroupBy>,
    /// Names of the only calls that were counted, where not all were.
    pub(crate) only: Option<Vec<String>>,
    /// Process and name by thread, where groups need them.
    pub(crate) thread_names: BTreeMap<u32, (u32, String)>,
    /// The CPUs that the target may run on.
    pub(crate) cpus: Vec<u32>,
    /// Release of the kernel.
    pub(crate) kernel: String,
    /// Tracepoints that this kernel lacks.
    pub(crate) missing: Vec<String>,
    /// Whether the kernel forbids to look descriptors up.
    pub(crate) locked_down: bool,
    pub(crate) calibration: Option<Calibration>,
    /// Whether quiet came at the edges where it was asked for.
    pub(crate) was_quiet: bool,
    pub(crate) start: Edge,
    /// At the end of the last slice; the start if there is none.
    pub(crate) last: Snapshot,
    pub(crate) end: Edge,
    pub(crate) slices: Vec<ProfileSlice>,
    pub(crate) in_flight_at_start: InFlight,
    pub(crate) in_flight_at_end: InFlight,
    pub(crate) processes: Vec<ProfiledProcess>,
    pub(crate) cpu_ns: Option<u64>,
    pub(crate) reader_cpu_ns: u64,
    pub(crate) map_bytes: u64,
    pub(crate) attach_ns: u64,
    pub(crate) below: BelowWindow,
    /// What the reader has to know of the processes.
    pub(crate) about_processes: Vec<Warning>,
    /// Where TLS libraries were looked for.
    pub(crate) tls: Option<TlsWindow>,
    /// At detail `stacks`.
    pub(crate) stacks: Option<WindowStacks>,
}

/// The stacks of a window, and what is to be said of them.
#[derive(Debug)]
pub(crate) struct WindowStacks {
    pub(crate) stacks: Stacks,
    pub(crate) warnings: Vec<Warning>,
    /// Stacks that our programs took.
    pub(crate) events: u64,
    /// Whether functions of the kernel have names.
    pub(crate) knows_kernel: bool,
}

impl ClosedWindow {
    /// The profile.
    pub(crate) fn into_profile<F: Fn(u32) -> Option<(u32, bool)>>(
        mut self,
        names: &RowNames<F>,
    ) -> Profile {
        let detail = self.detail;
        let (start, end) = (&self.start.snapshot, &self.end.snapshot);
        let delta = Delta::between(start, end);
        let window = Window {
            start_ns: start.end_ns,
            end_ns: end.end_ns,
        };
        let boundary_ns = self.start.copy_ns() + self.end.copy_ns();
        if self.last.end_ns > start.end_ns {
            let rest = counts_between(&self.last, end, names, detail);
            self.slices.push(rest);
        }
        let states = self.states();
        let rows = states.as_ref().map(|states| states.rows.clone());
        let in_flight = &self.in_flight_at_end.calls;
        let mut calls = names.call_rows(&delta, detail, in_flight, &rows.unwrap_or_default());
        calls.retain(|call| self.is_counted(&call.name));
        Profile {
            detail,
            window,
            kernel: Some(self.kernel.clone()),
            boundary_ns,
            follow: self.follow,
            calls,
            waits: names.wait_rows(&delta, detail),
            lost: delta.lost(),
            cost: self.cost(&delta, states.as_ref()),
            ended_early: None,
            tls_time: self.tls_time(),
            requests: None,
            not_measured: self.not_measured(),
            warnings: self.warnings(),
            cpus: states.as_ref().map(|states| {
                let (from, to) = (&self.start.clocks, &self.end.clocks);
                let steal_ns = to.steal_since(from, &self.cpus);
                states.cpu_view(&self.cpus, steal_ns, to.throttled_since(from))
            }),
            threads: states.map(|states| states.threads),
            grouped_by: self.group_by,
            groups: self.groups(names),
            io_uring: self.uring(),
            network: self.below.network(start, end, &self.missing),
            hardware: self.below.hardware,
            processes: self.processes,
            in_flight_at_start: self.in_flight_at_start.calls,
            in_flight_at_end: self.in_flight_at_end.calls,
            cpu_ns: self.cpu_ns,
            slices: self.slices,
            stacks: self.stacks.map(|window| window.stacks),
        }
    }

    fn tls_time(&self) -> Option<TlsTime> {
        let are_calls_timed = self.detail >= Detail::Times && self.only.is_none();
        let window = self.tls.as_ref()?;
        Some(window.tls_time(&self.start.tls, &self.end.tls, are_calls_timed))
    }

    /// Whether calls of this name were counted: one that was not has no row, not one of zeros.
    fn is_counted(&self, name: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.iter().any(|counted| counted == name))
    }

    fn states(&self) -> Option<StatesDelta> {
        let (from, to) = (self.start.states.as_ref()?, self.end.states.as_ref()?);
        let mut states = StatesDelta::between(from, to);
        let fault_ns = self
            .calibration
            .and_then(|calibration| calibration.page_fault_ns);
        states.threads.page_fault_ns_estimate =
            fault_ns.map(|ns| whole(ns * states.threads.page_faults as f64));
        Some(states)
    }

    fn groups<F: Fn(u32) -> Option<(u32, bool)>>(&self, names: &RowNames<F>) -> Vec<Group> {
        let Some(by) = self.group_by else {
            return Vec::new();
        };
        let (from, to) = (&self.start.groups, &self.end.groups);
        let known = |id: u32| {
            let thread = self.thread_names.get(&id).map(|(_, comm)| comm.clone());
            thread.or_else(|| {
                let process = self.processes.iter().find(|process| process.pid == id);
                process.and_then(|process| process.comm.clone())
            })
        };
        let process_of = |tid: u32| self.thread_names.get(&tid).map(|&(pid, _)| pid);
        let mut groups =
            crate::groups::between(from, to, by, self.detail, names, known, process_of);
        for group in &mut groups {
            group.calls.retain(|call| self.is_counted(&call.name));
        }
        groups
    }

    fn uring(&self) -> Option<IoUring> {
        let (start, end) = (&self.start.snapshot, &self.end.snapshot);
        below::io_uring(self.detail, start, end, &self.missing)
    }

    fn cost(&self, delta: &Delta, states: Option<&StatesDelta>) -> OwnCost {
        let calls = delta.count();
        let switches = states.map_or(0, StatesDelta::switches);
        let run = |of: fn((u64, u64)) -> u64| {
            let (from, to) = self.start.run_statistics.zip(self.end.run_statistics)?;
            Some(of(to) - of(from))
        };
        let uring_events = self.uring().as_ref().map_or(0, below::uring_events);
        OwnCost {
            target_events: calls * events_per_call(self.detail),
            reader_cpu_ns: self.reader_cpu_ns,
            map_bytes: self.map_bytes,
            attach_ns: self.attach_ns,
            sched_events: states.map_or(0, |states| states.events),
            stack_events: self.stacks.as_ref().map_or(0, |window| window.events),
            uring_events,
            calibration: self.calibration,
            // Programs run for calls that are not counted, too.
            target_ns_estimate: self.calibration.filter(|_| self.only.is_none()).map(
                |calibration| {
                    let per_switch = calibration.probe_ns_per_switch.unwrap_or(0.0);
                    // Not calibrated: a run on `io_uring` is taken for one on a call.
                    let uring_calls = uring_events as f64 / events_per_call(self.detail) as f64;
                    let ns = calibration.probe_ns_per_call * (calls as f64 + uring_calls)
                        + per_switch * switches as f64;
                    whole(ns)
                },
            ),
            bpf_run_ns: run(|(ns, _)| ns),
            bpf_runs: run(|(_, runs)| runs),
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
        if self.only.is_some() {
            not_measured.push(missing(
                "other system calls",
                "--only counts the calls that it names; how often programs ran for others, and what \
                 that cost the target, is not known",
                Some("leave --only out"),
            ));
        }
        if self.cpu_ns.is_none() {
            not_measured.push(missing(
                "CPU time",
                "a process of the target ended during the window, before its clock could be read",
                None,
            ));
        }
        let interrupts: Vec<&str> = self
            .missing
            .iter()
            .map(String::as_str)
            .filter(|tracepoint| !below::is_below(tracepoint))
            .collect();
        if !interrupts.is_empty() {
            not_measured.push(missing(
                "some interrupts and page faults",
                &format!(
                    "this kernel has no tracepoint {}: their time is in what they interrupted",
                    interrupts.join(", ")
                ),
                None,
            ));
        }
        if self.locked_down {
            not_measured.push(missing(
                "kinds of descriptors",
                "the kernel is locked down for confidentiality, which forbids eBPF to look them up: \
                 calls on files, pipes and sockets are mostly in one row",
                Some("boot with lockdown=integrity or without lockdown"),
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
        if self
            .stacks
            .as_ref()
            .is_some_and(|window| !window.knows_kernel)
        {
            not_measured.push(missing(
                "names of functions of the kernel",
                "the kernel shows the addresses of its functions to nobody (kernel.kptr_restrict is 2), or not \
                 to this user",
                Some("run as root, with sysctl kernel.kptr_restrict=1"),
            ));
        }
        not_measured.extend(self.below.not_measured(&self.missing));
        not_measured.extend(self.tls.iter().filter_map(TlsWindow::not_measured));
        not_measured
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.about_processes.clone();
        if self.tls.is_some() {
            warnings.push(Warning {
                code: "tls_probes".into(),
                text: "probes on TLS libraries slow the target down (--tls); from Linux 6.11 on each of them \
                       makes a system call of the target, uretprobe, which is among its calls"
                    .into(),
            });
        }
        if !self.was_quiet {
            warnings.push(Warning {
                code: "not_quiet".into(),
                text: "the target went on making system calls for a second at an edge of the \
                       window: calls of other work are in the counts"
                    .into(),
            });
        }
        let of_stacks = self.stacks.iter().flat_map(|window| &window.warnings);
        warnings.extend(of_stacks.cloned());
        warnings
    }
}

/// Programs that run for a call.
fn events_per_call(detail: Detail) -> u64 {
    match detail {
        Detail::Floor | Detail::Times | Detail::Sched | Detail::Stacks => 2,
        Detail::Counts => 1,
    }
}

/// Rounds an estimate, which is far below 2^53 and not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, and so large an estimate would be nonsense anyway"
)]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}
