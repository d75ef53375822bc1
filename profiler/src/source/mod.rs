//! The seam to the kernel: everything above it is tested without root, on tables in memory.

mod below;
mod bpf;
mod loaded;
mod object;
mod offsets;
mod programs;
mod refusal;
#[cfg(test)]
pub(crate) mod replay;

pub(crate) use below::{TCP_RESET_RECEIVED, TCP_RESET_SENT, TCP_RETRANSMIT, URING_TRACEPOINTS};
pub(crate) use bpf::{Bpf, LoadPlan, loaded};
pub(crate) use loaded::Loaded;
pub use loaded::loaded_programs;
pub use object::bpf_object_sha256;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use profiler_common::{
    BelowEvents, CountRow, CpuRow, ENDED, EndRow, ErrnoRow, Events, GroupEntry, LabelClock, Lives,
    PortWord, SegmentSlot, SleepSlot, SplitRow, StackEntry, StackHead, StartSlot,
    TARGETS_PER_ENTRY, TargetEntry, TimeRow, TlsRow, UnknownEntry, UringRow, WaitRow, bits,
};

use recording::StackClock;

use crate::ProfilerError;
use crate::sys::{Parts, Shared};

/// A counter that the programs may be adding to.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Acquire)
}

/// The counters that the programs write, as shared memory.
pub(crate) trait CounterSource: std::fmt::Debug + Send {
    /// The tables. Reading them costs no system call.
    fn tables(&self) -> Tables<'_>;

    /// Runs of our programs that the kernel skipped so far.
    fn recursion_misses(&self) -> u64;

    /// Memory of all maps, bytes.
    fn map_bytes(&self) -> u64;

    /// Run time, ns, and runs of our programs by the kernel's statistics; `None` where they are not
    /// kept.
    fn run_statistics(&self) -> Option<(u64, u64)>;

    /// Tracepoints that this kernel lacks, and what is not measured for that.
    fn missing(&self) -> &[String];

    /// What stacks are sampled by; `None` below detail `stacks`.
    fn stack_clock(&self) -> Option<StackClock>;

    /// Probes entry and exit of functions of a file, in every process that has it: all of them, or none.
    fn probe_functions(&mut self, file: &Path, functions: &[Probed]) -> Result<(), ProfilerError>;

    /// Gives every thread of the targets that has no state its first: detail `sched`.
    fn give_states(&mut self) -> Result<(), ProfilerError>;
}

/// A function of a file that is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probed {
    /// What the programs know it by.
    pub(crate) cookie: u32,
    /// Where its code is in the file, bytes.
    pub(crate) file_offset: u64,
}

/// The tables as `profiler-common` describes them; one that a detail does not use has one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a> {
    pub(crate) counts: &'a [CountRow],
    pub(crate) cpus: &'a [CpuRow],
    pub(crate) ends: &'a [EndRow],
    pub(crate) errnos: &'a [ErrnoRow],
    pub(crate) events: &'a Events,
    pub(crate) groups: &'a [GroupEntry],
    pub(crate) label_clock: &'a LabelClock,
    pub(crate) lives: &'a Lives,
    pub(crate) only: &'a [AtomicU64],
    pub(crate) segments: ByThread<'a, SegmentSlot>,
    pub(crate) splits: &'a [SplitRow],
    pub(crate) starts: ByThread<'a, StartSlot>,
    pub(crate) targets: &'a [TargetEntry],
    pub(crate) times: &'a [TimeRow],
    pub(crate) unknowns: &'a [UnknownEntry],
    pub(crate) waits: &'a [WaitRow],
    pub(crate) below: &'a BelowEvents,
    pub(crate) ports: &'a [PortWord],
    pub(crate) urings: &'a [UringRow],
    pub(crate) stacks: StackTables<'a>,
    pub(crate) tls: &'a [TlsRow],
}

/// Those of detail `stacks`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackTables<'a> {
    pub(crate) entries: &'a [StackEntry],
    pub(crate) head: &'a StackHead,
    pub(crate) words: &'a [AtomicU64],
    pub(crate) sleeps: ByThread<'a, SleepSlot>,
}

/// A table with an entry for every thread id.
#[derive(Debug)]
pub(crate) enum ByThread<'a, T> {
    /// In this process.
    #[cfg(test)]
    Here(&'a [T]),
    /// In the kernel.
    Mapped(&'a Parts<T>),
}

impl<T> Clone for ByThread<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ByThread<'_, T> {}

impl<'a, T: Shared> ByThread<'a, T> {
    /// The entry of a thread; `None` outside of the table.
    pub(crate) fn get(self, tid: u32) -> Option<&'a T> {
        match self {
            #[cfg(test)]
            Self::Here(entries) => entries.get(tid as usize),
            Self::Mapped(parts) => parts.get(tid as usize),
        }
    }

    /// Ids that have an entry are below this.
    pub(crate) fn len(self) -> usize {
        match self {
            #[cfg(test)]
            Self::Here(entries) => entries.len(),
            Self::Mapped(parts) => parts.len(),
        }
    }
}

impl<'a> Tables<'a> {
    /// The flags of a process; `None` outside of the table.
    pub(crate) fn flags(&self, tgid: u32) -> Option<u8> {
        Some(self.target(tgid)?.load(tgid))
    }

    /// Sets the flags of a process; whether it is inside the table.
    pub(crate) fn set_flags(&self, tgid: u32, flags: u8) -> bool {
        self.target(tgid)
            .map(|entry| entry.store(tgid, flags))
            .is_some()
    }

    /// Forgets that a process ended. One that has the id by now keeps its own flags.
    pub(crate) fn forget_end(&self, tgid: u32) {
        if let Some(entry) = self.target(tgid) {
            entry.0.fetch_and(!bits(tgid, ENDED), Relaxed);
        }
    }

    /// Forgets the shortest and longest time of every call.
    pub(crate) fn forget_extremes(&self) {
        for times in self.times {
            times.ns_max.store(0, Relaxed);
            times.ns_min_inverted.store(0, Relaxed);
        }
    }

    fn target(&self, tgid: u32) -> Option<&'a TargetEntry> {
        self.targets.get((tgid / TARGETS_PER_ENTRY) as usize)
    }
}
