//! Open segments count, edges cut, lifetimes and labels add up.

use std::sync::atomic::Ordering::Relaxed;

use profiler_common::{pack_segment, pack_start};

use super::*;
use crate::source::CounterSource as _;
use crate::source::replay::Replay;

/// `epoll_wait`.
const ROW: u32 = 232;

fn copy(replay: &Replay, at_ns: u64) -> States {
    let nothing = || ();
    States::copy(&replay.tables(), Vec::new, nothing, || at_ns, || {}).0
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

/// What is copied while a thread passes on is copied again, for groups as for all.
#[test]
fn torn_copies_are_made_again() {
    let replay = Replay::new(64);
    begin(&replay, 5, 100, ROW, ASLEEP);
    let copies = std::cell::Cell::new(0);
    let wake_once = || {
        copies.set(copies.get() + 1);
        if copies.get() == 1 {
            replay.segments[5]
                .0
                .store(pack_segment(900_000, RUNNABLE), Relaxed);
        }
        copies.get()
    };
    let (states, last, open) =
        States::copy(&replay.tables(), Vec::new, wake_once, || 1_000_000, || {});
    assert_eq!((last, states.at_ns()), (2, 1_000_000));
    let waiting = OpenSegment {
        tid: 5,
        row: ROW,
        state: RUNNABLE,
        ns: 100_000,
        sleep: 0,
    };
    assert_eq!(open, [waiting]);
}

/// The kernel's clock is ours and what it counts at switches, which may be less than nothing; where
/// threads switched and its clocks were not found, that is not known.
#[test]
fn charges_at_switches() {
    let replay = Replay::new(64);
    let cpus = &replay.cpus;
    cpus[0].charged_ns.store(7, Relaxed);
    let from = copy(&replay, 1_000);
    let still = StatesDelta::between(&from, &copy(&replay, 2_000));
    assert_eq!(still.threads.charged_at_switches_ns, Some(0));
    cpus[0].voluntary_switches.store(2, Relaxed);
    let unknown = StatesDelta::between(&from, &copy(&replay, 2_000));
    assert_eq!(unknown.threads.charged_at_switches_ns, None);
    cpus[1].clock_based_ns.store(1_500, Relaxed);
    cpus[0].charged_ns.store(4, Relaxed);
    cpus[1].charged_ns.store(50, Relaxed);
    let mut threads = StatesDelta::between(&from, &copy(&replay, 2_000)).threads;
    assert_eq!(threads.charged_at_switches_ns, Some(47));
    threads.user_ns = 100;
    assert_eq!((threads.on_cpu_ns(), threads.cpu_clock_ns()), (100, 147));
    threads.charged_at_switches_ns = Some(-30);
    assert_eq!(threads.cpu_clock_ns(), 70);
}
