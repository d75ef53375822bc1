//! Open segments count, edges cut, lifetimes and labels add up.

use std::sync::atomic::Ordering::Relaxed;

use profiler_common::{pack_segment, pack_start};

use super::*;
use crate::source::CounterSource as _;
use crate::source::replay::Replay;

/// `epoll_wait`.
const ROW: u32 = 232;

fn copy(replay: &Replay, at_ns: u64) -> States {
    States::copy(&replay.tables(), Vec::new, || at_ns, || {})
}

/// A thread that was seen first at `at_ns`.
fn begin(replay: &Replay, tid: usize, at_ns: u64, row: u32, state: u64) {
    replay.lives.began.fetch_add(1, Relaxed);
    replay.lives.began_ns.fetch_add(at_ns, Relaxed);
    let start = if row == OUTSIDE_ROW {
        0
    } else {
        pack_start(at_ns, row.into())
    };
    replay.starts[tid].0.store(start, Relaxed);
    replay.segments[tid]
        .0
        .store(pack_segment(at_ns, state), Relaxed);
}

/// A thread that sleeps through the window has slept all of it, and one that runs has run.
#[test]
fn open_segments_count() {
    let replay = Replay::new(64);
    begin(&replay, 5, 100, ROW, ASLEEP);
    begin(&replay, 6, 500, OUTSIDE_ROW, RUNNING);
    begin(&replay, 7, 700, OUTSIDE_ROW, RUNNABLE);
    let delta = StatesDelta::between(&copy(&replay, 1_000), &copy(&replay, 5_000));
    let threads = &delta.threads;
    assert_eq!(threads.lifetime_ns, 12_000);
    assert_eq!(
        (threads.off_cpu_in_calls_ns, threads.user_ns),
        (4_000, 4_000)
    );
    assert_eq!((threads.run_queue_ns, threads.residual_ns), (4_000, 0));
    assert_eq!(delta.rows[&ROW].off_cpu_ns, 4_000);
}

/// A segment that began before the window and ended in it counts from the window's start.
#[test]
fn segments_are_cut_at_the_edge() {
    let replay = Replay::new(64);
    begin(&replay, 5, 100, ROW, ASLEEP);
    let from = copy(&replay, 1_000);
    let split = &replay.splits[ROW as usize];
    split.off_cpu_ns.fetch_add(2_900, Relaxed);
    split.sleeps.fetch_add(1, Relaxed);
    replay.segments[5]
        .0
        .store(pack_segment(3_000, RUNNING), Relaxed);
    let delta = StatesDelta::between(&from, &copy(&replay, 5_000));
    let row = delta.rows[&ROW];
    assert_eq!(
        (row.off_cpu_ns, row.on_cpu_ns, row.sleeps),
        (2_000, 2_000, Some(1))
    );
    assert_eq!(delta.threads.residual_ns, 0);
}

/// Threads that begin and end inside the window live only as long as they do.
#[test]
fn lifetimes_of_short_threads() {
    let replay = Replay::new(64);
    let from = copy(&replay, 1_000);
    begin(&replay, 9, 2_000, OUTSIDE_ROW, RUNNING);
    replay.lives.born.fetch_add(1, Relaxed);
    replay.splits[OUTSIDE_ROW as usize]
        .on_cpu_switch_ns
        .fetch_add(500, Relaxed);
    replay.segments[9].0.store(0, Relaxed);
    replay.lives.ended.fetch_add(1, Relaxed);
    replay.lives.ended_ns.fetch_add(2_500, Relaxed);
    let delta = StatesDelta::between(&from, &copy(&replay, 9_000));
    assert_eq!(
        (delta.threads.lifetime_ns, delta.threads.user_ns),
        (500, 500)
    );
    assert_eq!(
        (delta.threads.threads_began, delta.threads.threads_ended),
        (1, 1)
    );
}

/// An idle CPU is idle under the label that applies, also before the next switch.
#[test]
fn open_idle_time_is_labelled() {
    let replay = Replay::new(64);
    replay
        .label_clock
        .threads
        .store(profiler_common::one_thread(3), Relaxed);
    replay.label_clock.changed_ns.store(400, Relaxed);
    let cpu = &replay.cpus[1];
    cpu.running.store(CPU_IDLE, Relaxed);
    cpu.switched_ns.store(600, Relaxed);
    cpu.idle_from_ns[3].store(200, Relaxed);
    let delta = StatesDelta::between(&copy(&replay, 1_000), &copy(&replay, 3_000));
    let view = delta.cpu_view(&[1], None, None);
    assert_eq!(view.idle[&IdleLabel::Waiting], 2_000);
    assert_eq!((view.capacity_ns, view.residual_ns), (2_000, 0));
}
