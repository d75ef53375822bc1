//! Counters of rare events, shared by all CPUs and added to atomically.

use core::sync::atomic::AtomicU64;

/// What happened to targets, and what was lost.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Events {
    /// Children of targets that became targets.
    pub forks: AtomicU64,
    /// Targets whose last thread ended.
    pub ends: AtomicU64,
    /// Children of targets with an id outside the table of targets: not counted.
    pub lost_untracked: AtomicU64,
    /// Calls of threads with an id outside the table of start times: not timed.
    pub lost_untimed: AtomicU64,
    /// Calls with an unknown number that found the list full: not counted.
    pub lost_unknown: AtomicU64,
    /// Calls that ended before they began by the clock: not timed.
    pub lost_clock: AtomicU64,
    /// Calls that found the table of groups full: in no group.
    pub lost_ungrouped: AtomicU64,
    /// Threads that were seen to run although no switch onto their CPU was.
    pub lost_switches: AtomicU64,
    /// Changes when what is known of descriptors has to be forgotten.
    pub descriptor_epoch: AtomicU64,
}

const _: () = assert!(size_of::<Events>() == 72);
