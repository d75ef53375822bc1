//! Gives the threads that exist when the programs are attached their first state, from `/proc`: one
//! that sleeps has no event until it wakes, which may be after the window.
//!
//! A thread may move on while it is looked at. The programs and this write its state only where it
//! has none, so whoever comes second changes nothing.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use profiler_common::{
    ASLEEP, EVENTFD, FILE, FUTEX_SPLIT, Kind, LABEL_CLOCK_TRIES, LABEL_RUNNABLE, NATIVE_ROWS,
    OTHER, OUTSIDE_ROW, PIPE, RUNNABLE, RUNNING, SOCKET, futex_object, label_of, label_of_sleep,
    one_thread, pack_segment, pack_start, segment_start_ns, split_row,
};

use crate::processes::{self, CurrentCall, Descriptor};
use crate::snapshot::kind_of_row;
use crate::source::Tables;

/// Starts the clock of idle labels: before the first target is set.
pub(crate) fn start_label_clock(tables: &Tables<'_>, now_ns: u64) {
    tables.label_clock.changed_ns.store(now_ns, Relaxed);
}

/// Gives every thread of these processes that has no state one; the threads among them that run, or
/// wait for a CPU: `/proc` does not tell these apart.
pub(crate) fn give(
    pids: &BTreeSet<u32>,
    tables: &Tables<'_>,
    clock: impl Fn() -> u64,
) -> Vec<BusyThread> {
    let mut busy = Vec::new();
    for &pid in pids {
        let is_32_bit = processes::is_32_bit(pid);
        let tids = processes::tids(pid).into_iter();
        busy.extend(tids.filter_map(|tid| give_one(pid, tid, is_32_bit, tables, &clock)));
    }
    busy
}

/// A thread that was taken for running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BusyThread {
    tid: u32,
    segment: u64,
}

/// Corrects the states of threads that were taken for running, when all CPUs have switched since:
/// those that do not have another state by now were waiting for a CPU all the time.
pub(crate) fn correct(busy: &[BusyThread], tables: &Tables<'_>) {
    for thread in busy {
        let Some(segment) = tables.segments.get(thread.tid) else {
            continue;
        };
        let since_ns = segment_start_ns(thread.segment);
        let waiting = pack_segment(since_ns, RUNNABLE);
        let exchanged = segment
            .0
            .compare_exchange(thread.segment, waiting, AcqRel, Acquire);
        if exchanged.is_ok() {
            relabel(tables, 0, one_thread(LABEL_RUNNABLE), since_ns);
        }
    }
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

fn give_one(
    pid: u32,
    tid: u32,
    is_32_bit: bool,
    tables: &Tables<'_>,
    clock: impl Fn() -> u64,
) -> Option<BusyThread> {
    let segment = tables.segments.get(tid)?;
    let start = tables.starts.get(tid)?;
    if segment.0.load(Acquire) != 0 {
        return None;
    }
    let (state, row) = match CurrentCall::of(pid, tid) {
        // What looks like the call of such a thread is the one that made it.
        CurrentCall::In { .. } if processes::is_kernel_made(pid, tid) => (ASLEEP, OUTSIDE_ROW),
        CurrentCall::In { nr, arguments } => (ASLEEP, row_of_call(pid, nr, arguments, is_32_bit)),
        CurrentCall::Outside => (ASLEEP, OUTSIDE_ROW),
        CurrentCall::Running | CurrentCall::Hidden => (RUNNING, OUTSIDE_ROW),
        CurrentCall::Gone => return None,
    };
    let stamp = if row == OUTSIDE_ROW {
        0
    } else {
        pack_start(0, row.into())
    };
    let stamped = stamp != 0 && start.0.compare_exchange(0, stamp, AcqRel, Acquire).is_ok();
    let now_ns = clock();
    let packed = pack_segment(now_ns, state);
    if segment
        .0
        .compare_exchange(0, packed, AcqRel, Acquire)
        .is_err()
    {
        // It moved on, and has left the call for all we know.
        if stamped {
            let _still_there = start.0.compare_exchange(stamp, 0, AcqRel, Acquire);
        }
        return None;
    }
    tables.lives.began.fetch_add(1, Relaxed);
    tables.lives.began_ns.fetch_add(now_ns, Relaxed);
    if state == ASLEEP {
        relabel(tables, 0, sleeper(row), now_ns);
        return None;
    }
    Some(BusyThread {
        tid,
        segment: packed,
    })
}

/// The row of a call that `/proc` shows, with what it is done to.
pub(crate) fn row_of_call(pid: u32, nr: u32, arguments: [u64; 2], is_32_bit: bool) -> u32 {
    if nr >= NATIVE_ROWS {
        return OUTSIDE_ROW;
    }
    if is_32_bit {
        return NATIVE_ROWS + nr;
    }
    match kind_of_row(nr) {
        Kind::Descriptor { split, .. } => match processes::descriptor(pid, arguments[0]) {
            Some(Descriptor::Socket) => split_row(split, SOCKET),
            Some(Descriptor::Pipe) => split_row(split, PIPE),
            Some(Descriptor::Eventfd) => split_row(split, EVENTFD),
            Some(Descriptor::File) => split_row(split, FILE),
            Some(Descriptor::Other) => split_row(split, OTHER),
            None => nr,
        },
        Kind::Futex => split_row(FUTEX_SPLIT, futex_object(arguments[1])),
        _ => nr,
    }
}

/// A thread asleep in a row, as the label clock counts it.
fn sleeper(row: u32) -> u64 {
    one_thread(label_of_sleep(kind_of_row(row)))
}

/// As the programs do it.
fn relabel(tables: &Tables<'_>, from: u64, to: u64, now_ns: u64) {
    let clock = tables.label_clock;
    let change = to.wrapping_sub(from);
    for _try in 0..LABEL_CLOCK_TRIES {
        if clock.lock.swap(1, AcqRel) == 0 {
            break;
        }
    }
    let threads = clock.threads.fetch_add(change, AcqRel);
    let before = label_of(threads);
    if before != label_of(threads.wrapping_add(change)) {
        let since_ns = clock.changed_ns.swap(now_ns, AcqRel);
        clock.ns[before].fetch_add(now_ns.saturating_sub(since_ns), Relaxed);
    }
    clock.lock.store(0, Release);
}
