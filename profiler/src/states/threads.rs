//! What threads are doing, looked at twice: which of them passed on meanwhile, and how many came and
//! went.

use std::collections::BTreeMap;

use profiler_common::{Lives, segment_ns, segment_start_ns};

use super::ATTEMPTS;
use crate::source::{Tables, read};

/// Stamp and segment of the threads that have one, by tid.
pub(super) type Slots = BTreeMap<u32, (u64, u64)>;

/// The threads that have a segment.
pub(super) fn with_segments(tables: &Tables<'_>, tids: impl Fn() -> Vec<u32>) -> Vec<u32> {
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

/// Stamp and segment of those of the threads that still have a segment.
pub(super) fn slots(tables: &Tables<'_>, threads: &[u32]) -> Slots {
    let slot = |&tid: &u32| {
        let segment = read(&tables.segments.get(tid)?.0);
        let start = read(&tables.starts.get(tid)?.0);
        (segment != 0).then_some((tid, (start, segment)))
    };
    threads.iter().filter_map(slot).collect()
}

/// How much time may be in the counters and in an open segment, or in neither, ns: the segments that
/// ended between the two looks. Of a thread that is gone it is not known when.
pub(super) fn doubt(before: &Slots, after: &Slots, at_ns: u64) -> u64 {
    let changed = before.iter().filter_map(|(tid, &(_, was))| {
        let is = after.get(tid).map_or(0, |&(_, segment)| segment);
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
