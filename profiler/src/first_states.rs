//! What the state machine of detail `sched` starts from, before the first target is set. (The threads of
//! the targets get their first state from a program in the kernel.)

use std::sync::atomic::Ordering::Relaxed;

use crate::source::Tables;

/// Starts the clock of idle labels: before the first target is set.
pub(crate) fn start_label_clock(tables: &Tables<'_>, now_ns: u64) {
    tables.label_clock.changed_ns.store(now_ns, Relaxed);
}

/// Forgets everything that these threads, which are no targets any more, and no others have done:
/// before the first target is set.
pub(crate) fn forget(tids: &[u32], tables: &Tables<'_>, now_ns: u64) {
    for &tid in tids {
        if let (Some(segment), Some(start)) = (tables.segments.get(tid), tables.starts.get(tid)) {
            segment.0.store(0, Relaxed);
            start.0.store(0, Relaxed);
        }
    }
    let lives = tables.lives;
    for counter in [
        &lives.began,
        &lives.began_ns,
        &lives.born,
        &lives.ended,
        &lives.ended_ns,
    ] {
        counter.store(0, Relaxed);
    }
    tables.label_clock.threads.store(0, Relaxed);
    start_label_clock(tables, now_ns);
}
