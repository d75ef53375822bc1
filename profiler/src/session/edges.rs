//! The edges of a window: everything that is read there, as close together as it goes.

use std::time::{Duration, Instant};

use recording::Detail;

use super::{Session, clock_ns};
use crate::closed_window::Edge;
use crate::cpus::KernelClocks;
use crate::groups::{GroupCopy, Taken};
use crate::processes;
use crate::snapshot::Snapshot;
use crate::stacks::StackCopy;
use crate::states::States;
use crate::tls::TlsCopy;

/// The counters at one moment.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) snapshot: Snapshot,
    /// Whether there was quiet, where that was asked for.
    pub(super) was_quiet: bool,
    pub(super) states: Option<States>,
    pub(super) groups: GroupCopy,
    stacks: StackCopy,
}

impl Session {
    /// With what else is read at the edges of a window.
    pub(super) fn edge(&self, copied: Copied) -> Edge {
        Edge {
            snapshot: copied.snapshot,
            states: copied.states,
            groups: copied.groups,
            stacks: copied.stacks,
            tls: TlsCopy::take(self.source.tables().tls),
            clocks: KernelClocks::read(&self.tracked.alive()),
            run_statistics: self.source.run_statistics(),
        }
    }

    /// The counters, and at detail `sched` the states of the same moment: where we lost the CPU between
    /// the two, both are copied again.
    pub(super) fn copy(&self, quiet: bool) -> Copied {
        let tables = self.source.tables();
        if self.config.detail < Detail::Sched {
            let (snapshot, was_quiet) = self.snapshot_when(quiet);
            let groups = GroupCopy {
                entries: Taken::find(&tables).copy(),
                open: Vec::new(),
            };
            return Copied {
                snapshot,
                was_quiet,
                states: None,
                groups,
                stacks: StackCopy::default(),
            };
        }
        let mut attempts = 0;
        loop {
            let (snapshot, was_quiet) = self.snapshot_when(quiet);
            let taken = Taken::find(&tables);
            let rest = || std::thread::sleep(REST);
            let also = || (taken.copy(), StackCopy::closed(&tables.stacks));
            let (states, (entries, mut stacks), open) =
                States::copy(&tables, || self.tids(), also, clock_ns, rest);
            stacks.add_open(&open);
            attempts += 1;
            let is_close = states.at_ns().saturating_sub(snapshot.end_ns) < CLOSE_NS;
            if is_close || !was_quiet || attempts == ATTEMPTS {
                return Copied {
                    snapshot,
                    was_quiet,
                    states: Some(states),
                    groups: GroupCopy { entries, open },
                    stacks,
                };
            }
        }
    }

    fn tids(&self) -> Vec<u32> {
        let pids = self.tracked.alive().into_iter();
        pids.flat_map(processes::tids).collect()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot::copy(
            &self.source.tables(),
            self.source.recursion_misses(),
            clock_ns,
        )
    }

    /// A copy, and whether it equals an earlier one where that was asked for.
    fn snapshot_when(&self, quiet: bool) -> (Snapshot, bool) {
        let mut snapshot = self.snapshot();
        if !quiet {
            return (snapshot, true);
        }
        let begun = Instant::now();
        while begun.elapsed() < QUIET_WITHIN {
            // Not to wait for something, but to let time pass in which nothing may happen.
            std::thread::sleep(QUIET_FOR);
            let next = self.snapshot();
            if next.same_counters(&snapshot) {
                return (next, true);
            }
            snapshot = next;
        }
        (snapshot, false)
    }
}

/// As the wire protocol promises.
const QUIET_FOR: Duration = Duration::from_millis(1);
const QUIET_WITHIN: Duration = Duration::from_secs(1);
/// Whoever has slept has a whole turn on a CPU before him.
const REST: Duration = Duration::from_micros(50);
/// Longer than both copies take, shorter than a turn of another process.
const CLOSE_NS: u64 = 1_000_000;
const ATTEMPTS: usize = 5;
