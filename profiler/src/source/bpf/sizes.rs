//! How large the maps are, which depends on the machine and the detail.

use profiler_common::{
    GROUP_ENTRIES, GROUP_NONE, ROWS, STACK_CONTEXTS, STACK_ENTRIES, STACK_WORDS, TARGETS_PER_ENTRY,
    TLS_ROWS, TLS_SLOTS, URING_REPEATS, URING_ROWS, URING_SLOTS, WAIT_ROWS, map,
};
use recording::Detail;

use super::LoadPlan;
use crate::ProfilerError;

/// Entries of the maps whose size depends on the machine and the detail.
pub(super) struct Sizes {
    pub(super) counts: u32,
    pub(super) cpus: u32,
    pub(super) groups: u32,
    pub(super) segments: u32,
    pub(super) splits: u32,
    pub(super) starts: u32,
    pub(super) targets: u32,
    pub(super) times: u32,
    pub(super) waits: u32,
    pub(super) urings: u32,
    uring_slots: u32,
    pub(super) sleeps: u32,
    pub(super) stacks: u32,
    stack_scratch: u32,
    pub(super) stack_words: u32,
    pub(super) tls: u32,
    tls_slots: u32,
}

impl Sizes {
    pub(super) fn new(plan: &LoadPlan) -> Result<Self, ProfilerError> {
        let cpus = aya::util::nr_cpus().map_err(|(path, source)| ProfilerError::Read {
            path: path.into(),
            source,
        })?;
        let cpus = u32::try_from(cpus).expect("a kernel has at most thousands of CPUs");
        let timed = plan.detail >= Detail::Times;
        let states = plan.detail >= Detail::Sched;
        let stacks = plan.detail >= Detail::Stacks;
        Ok(Self {
            counts: cpus * ROWS,
            cpus: if states { cpus } else { 1 },
            groups: if plan.group_by == GROUP_NONE {
                1
            } else {
                GROUP_ENTRIES
            },
            segments: if states { plan.start_ids.max(1) } else { 1 },
            splits: if states { cpus * ROWS } else { 1 },
            starts: if timed { plan.start_ids.max(1) } else { 1 },
            targets: plan.target_ids.div_ceil(TARGETS_PER_ENTRY).max(1),
            times: if timed { cpus * ROWS } else { 1 },
            waits: cpus * WAIT_ROWS,
            urings: cpus * URING_ROWS,
            uring_slots: if timed { URING_SLOTS } else { 1 },
            sleeps: if stacks { plan.start_ids.max(1) } else { 1 },
            stacks: if stacks { STACK_ENTRIES } else { 1 },
            stack_scratch: if stacks { cpus * STACK_CONTEXTS } else { 1 },
            stack_words: if stacks { STACK_WORDS } else { 1 },
            tls: if plan.tls { cpus * TLS_ROWS } else { 1 },
            tls_slots: if plan.tls { TLS_SLOTS } else { 1 },
        })
    }

    /// They, by the name of the map.
    pub(super) fn by_map(&self) -> [(&'static str, u32); 18] {
        [
            (map::COUNTS, self.counts),
            (map::CPUS, self.cpus),
            (map::GROUPS, self.groups),
            (map::SEGMENTS, self.segments),
            (map::SPLITS, self.splits),
            (map::STARTS, self.starts),
            (map::TARGETS, self.targets),
            (map::TIMES, self.times),
            (map::WAITS, self.waits),
            (map::URINGS, self.urings),
            (map::URING_REPEATS, URING_REPEATS),
            (map::URING_SLOTS, self.uring_slots),
            (map::SLEEPS, self.sleeps),
            (map::STACKS, self.stacks),
            (map::STACK_SCRATCH, self.stack_scratch),
            (map::STACK_WORDS, self.stack_words),
            (map::TLS_ROWS, self.tls),
            (map::TLS_SLOTS, self.tls_slots),
        ]
    }
}
