//! The processes of a target: which are known, alive, and what their CPU clocks showed.

use std::collections::{BTreeMap, BTreeSet};

use profiler_common::{ENDED, PENDING, TARGET, TARGETS_PER_ENTRY};
use recording::ProfiledProcess;

use crate::processes::{self, ProcessInfo};
use crate::source::Tables;
use crate::sys::process_cpu_ns;

/// All processes that were ever part of the target.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    processes: BTreeMap<u32, TrackedProcess>,
    /// Whether a window is open: a process that is forked in it has all its CPU time in it.
    window_open: bool,
}

#[derive(Debug, Default)]
struct TrackedProcess {
    comm: Option<String>,
    threads: Option<u32>,
    container: Option<String>,
    ended: bool,
    ended_before_window: bool,
    /// CPU clock when the window was opened, or when the process joined.
    cpu_ns_from: u64,
    /// CPU clock when it was last read.
    cpu_ns_to: Option<u64>,
}

/// How a process became part of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It was there before and was found in `/proc`.
    Found,
    /// A target forked it.
    Forked,
}

impl Tracked {
    /// Adds a process if it is new.
    pub(crate) fn add(&mut self, pid: u32, joined: Joined) {
        let window_open = self.window_open;
        self.processes.entry(pid).or_insert_with(|| {
            let mut process = TrackedProcess::default();
            process.look(pid);
            if joined == Joined::Found || !window_open {
                process.cpu_ns_from = process.cpu_ns_to.unwrap_or(0);
            }
            process
        });
    }

    /// Takes over what the programs in the kernel know: children that joined, processes that ended.
    pub(crate) fn follow(&mut self, tables: &Tables<'_>) {
        for (first, entry) in (0_u32..)
            .step_by(TARGETS_PER_ENTRY as usize)
            .zip(tables.targets)
        {
            if entry.0.load(std::sync::atomic::Ordering::Relaxed) == 0 {
                continue;
            }
            for pid in first..first + TARGETS_PER_ENTRY {
                if entry.load(pid) != 0 {
                    self.add(pid, Joined::Forked);
                }
            }
        }
        for (&pid, process) in &mut self.processes {
            let flags = tables.flags(pid).unwrap_or(0);
            // Flags that are gone: the id belongs to another process by now.
            let ended = flags & ENDED != 0 || flags & (TARGET | PENDING) == 0;
            if ended && !process.ended {
                process.ended = true;
                process.ended_before_window = !self.window_open;
            }
        }
    }

    /// Begins a window: CPU time counts from now on.
    pub(crate) fn open_window(&mut self) {
        self.window_open = true;
        for (&pid, process) in &mut self.processes {
            if process.ended {
                process.ended_before_window = true;
            } else {
                process.look(pid);
                process.cpu_ns_from = process.cpu_ns_to.unwrap_or(process.cpu_ns_from);
            }
        }
    }

    /// Reads name, threads and clock of all that are alive.
    pub(crate) fn look_again(&mut self) {
        for (&pid, process) in &mut self.processes {
            if !process.ended {
                process.look(pid);
            }
        }
    }

    /// Ends a window; its processes, and their CPU time if it is known of all of them.
    pub(crate) fn close_window(&mut self) -> (Vec<ProfiledProcess>, Option<u64>) {
        self.look_again();
        self.window_open = false;
        let mut cpu_ns = Some(0);
        let mut processes = Vec::new();
        for (&pid, process) in &self.processes {
            if process.ended_before_window {
                continue;
            }
            let own = process.cpu_ns_to.filter(|_| !process.ended);
            let own = own.map(|to| to.saturating_sub(process.cpu_ns_from));
            cpu_ns = cpu_ns.zip(own).map(|(sum, own)| sum + own);
            processes.push(ProfiledProcess {
                pid,
                comm: process.comm.clone(),
                threads: process.threads,
                container: process.container.clone(),
                ended: process.ended,
            });
        }
        (processes, cpu_ns)
    }

    /// The processes that have not ended.
    pub(crate) fn alive(&self) -> BTreeSet<u32> {
        let alive = self.processes.iter().filter(|(_, process)| !process.ended);
        alive.map(|(&pid, _)| pid).collect()
    }

    /// Whether the process is known and has not ended.
    pub(crate) fn is_alive(&self, pid: u32) -> bool {
        self.processes
            .get(&pid)
            .is_some_and(|process| !process.ended)
    }

    /// Forgets a process that ended, so that its id can join again.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

impl TrackedProcess {
    /// Reads what can be read; what was seen before stays where the process has just ended.
    fn look(&mut self, pid: u32) {
        let Some(info) = ProcessInfo::of(pid) else {
            return;
        };
        self.comm = Some(info.comm);
        self.threads = Some(info.threads);
        if self.container.is_none() {
            self.container = processes::container(pid);
        }
        self.cpu_ns_to = process_cpu_ns(pid).or(self.cpu_ns_to);
    }
}
