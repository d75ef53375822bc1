//! What threads are doing, looked at before and after something is copied: which of them passed on
//! meanwhile, and how many came and went.

use std::collections::BTreeMap;

use profiler_common::{Lives, OUTSIDE_ROW, segment_ns, segment_start_ns, segment_state, start_row};

use super::ATTEMPTS;
use crate::source::{Tables, read};

/// Stamp, segment, and entry of the stack that they sleep with, of the threads that have a segment, by tid.
pub(super) type Slots = BTreeMap<u32, (u64, u64, u64)>;

/// What a thread was doing at the moment of a copy, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenSegment {
    pub(crate) tid: u32,
    pub(crate) row: u32,
    /// As the programs know it.
    pub(crate) state: u64,
    pub(crate) ns: u64,
    /// As the programs know the stack that it went to sleep with; meaningless where it does not.
    pub(crate) sleep: u64,
}

/// A copy of what the time of threads is added up in, with what the threads were doing.
#[derive(Debug)]
pub(super) struct Attempt<T> {
    pub(super) copy: T,
    /// The moment of the copy, ns.
    pub(super) at_ns: u64,
    pub(super) slots: Slots,
}

/// Copies until no thread passes on meanwhile; the best of some attempts. `tids` finds the threads of the
/// target, where the table is too large to be walked through; `rest` lets others have the CPU, so that
/// another attempt has a whole turn.
pub(super) fn copy_between<T>(
    tables: &Tables<'_>,
    tids: impl Fn() -> Vec<u32>,
    copy: impl Fn() -> T,
    clock: impl Fn() -> u64,
    rest: impl Fn(),
) -> Attempt<T> {
    let mut threads = Vec::new();
    let mut listed_began = None;
    let mut attempt = || {
        // To look for them takes longer than all the rest: only where there are new ones.
        let began = Some(read(&tables.lives.began));
        if began != listed_began {
            listed_began = began;
            threads = with_segments(tables, &tids);
        }
        let before = slots(tables, &threads);
        let copy = copy();
        let slots = slots(tables, &threads);
        let at_ns = clock();
        let doubt_ns = if Some(read(&tables.lives.began)) == listed_began {
            doubt(&before, &slots, at_ns)
        } else {
            u64::MAX
        };
        let attempt = Attempt { copy, at_ns, slots };
        (doubt_ns, attempt)
    };
    let (mut least_ns, mut best) = attempt();
    for _again in 1..ATTEMPTS {
        if least_ns < NO_DOUBT_NS * tables.cpus.len() as u64 {
            break;
        }
        rest();
        let (doubt_ns, other) = attempt();
        if doubt_ns < least_ns {
            (least_ns, best) = (doubt_ns, other);
        }
    }
    best
}

/// What the threads were doing at this moment.
pub(super) fn open_segments(slots: &Slots, at_ns: u64) -> impl Iterator<Item = OpenSegment> {
    slots.iter().map(move |(&tid, &(start, segment, sleep))| {
        // One that passed on after the clock was read has nothing open.
        let ns = segment_ns(segment, at_ns);
        OpenSegment {
            tid,
            row: if start == 0 {
                OUTSIDE_ROW
            } else {
                start_row(start)
            },
            state: segment_state(segment),
            ns: if ns > u64::MAX / 2 { 0 } else { ns },
            sleep,
        }
    })
}

/// The threads that have a segment.
fn with_segments(tables: &Tables<'_>, tids: impl Fn() -> Vec<u32>) -> Vec<u32> {
    let tids = if walks(tables) {
        let all = 0..WALK_AT_MOST.min(tables.segments.len());
        all.filter_map(|tid| u32::try_from(tid).ok()).collect()
    } else {
        tids()
    };
    let has_segment = |&tid: &u32| {
        let segment = tables.segments.get(tid);
        segment.is_some_and(|segment| read(&segment.0) != 0)
    };
    tids.into_iter().filter(has_segment).collect()
}

/// Those of the threads that still have a segment.
fn slots(tables: &Tables<'_>, threads: &[u32]) -> Slots {
    let slot = |&tid: &u32| {
        // First: one that goes to sleep meanwhile has slept for no time yet.
        let sleep = tables
            .stacks
            .sleeps
            .get(tid)
            .map_or(0, |sleep| read(&sleep.0));
        let segment = read(&tables.segments.get(tid)?.0);
        let start = read(&tables.starts.get(tid)?.0);
        (segment != 0).then_some((tid, (start, segment, sleep)))
    };
    threads.iter().filter_map(slot).collect()
}

/// How much time may be in the counters and in an open segment, or in neither, ns: the segments that
/// ended between the two looks. Of a thread that is gone it is not known when.
fn doubt(before: &Slots, after: &Slots, at_ns: u64) -> u64 {
    let changed = before.iter().filter_map(|(tid, &(_, was, _))| {
        let is = after.get(tid).map_or(0, |&(_, segment, _)| segment);
        let ended_ns = if is == 0 { at_ns } else { segment_start_ns(is) };
        (was != is).then(|| segment_ns(was, ended_ns))
    });
    changed.fold(0, u64::saturating_add)
}

/// Threads that came and went, all of one moment: a stamp without its thread, or a thread without
/// its stamp, would be a life as long as the clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LivesCopy {
    pub(super) began: u64,
    pub(super) began_ns: u64,
    pub(super) ended: u64,
    pub(super) ended_ns: u64,
}

impl LivesCopy {
    pub(super) fn copy(lives: &Lives) -> Self {
        let once = || Self {
            began: read(&lives.began),
            began_ns: read(&lives.began_ns),
            ended: read(&lives.ended),
            ended_ns: read(&lives.ended_ns),
        };
        let mut copy = once();
        for _again in 1..ATTEMPTS {
            let next = once();
            if next == copy {
                break;
            }
            copy = next;
        }
        copy
    }
}

/// Whether the table is small enough to be walked through.
fn walks(tables: &Tables<'_>) -> bool {
    tables.segments.len() <= WALK_AT_MOST
}

/// A table of up to this many threads is walked through, which is faster than to ask `/proc`.
const WALK_AT_MOST: usize = 1 << 16;
/// What the thread of a busy CPU passes on while others are looked at.
const NO_DOUBT_NS: u64 = 20_000;
