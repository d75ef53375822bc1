//! The seam to the kernel: everything above it is tested without root, on tables in memory.

mod bpf;
mod object;
#[cfg(test)]
pub(crate) mod replay;

pub use bpf::loaded_programs;
pub(crate) use bpf::{Bpf, LoadPlan};
pub use object::bpf_object_sha256;

use profiler_common::{
    CountRow, EndRow, ErrnoRow, Events, StartSlot, TARGETS_PER_ENTRY, TargetEntry, TimeRow,
    UnknownEntry, WaitRow,
};

/// The counters that the programs write, as shared memory.
pub(crate) trait CounterSource: std::fmt::Debug + Send {
    /// The tables. Reading them costs no system call.
    fn tables(&self) -> Tables<'_>;

    /// Runs of our programs that the kernel skipped so far.
    fn recursion_misses(&self) -> u64;

    /// Memory of all maps, bytes.
    fn map_bytes(&self) -> u64;
}

/// The tables as `profiler-common` describes them; one that a detail does not use has one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a> {
    pub(crate) counts: &'a [CountRow],
    pub(crate) ends: &'a [EndRow],
    pub(crate) errnos: &'a [ErrnoRow],
    pub(crate) events: &'a Events,
    pub(crate) starts: &'a [StartSlot],
    pub(crate) targets: &'a [TargetEntry],
    pub(crate) times: &'a [TimeRow],
    pub(crate) unknowns: &'a [UnknownEntry],
    pub(crate) waits: &'a [WaitRow],
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

    fn target(&self, tgid: u32) -> Option<&'a TargetEntry> {
        self.targets.get((tgid / TARGETS_PER_ENTRY) as usize)
    }
}
