// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Detail `sched`: the state machine of every thread of the target, on one clock.
//!
//! Programs on switches and wake-ups run with interrupts off, those on calls with preemption off:
//! one of the latter may be interrupted by a wake-up, never by a switch. No two that may interrupt
//! each other add to the same word.

use core::hint::black_box;

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::{
    ASLEEP, CPU_IDLE, CPU_OTHER, CPU_TARGET, CpuRow, ENDED, LABEL_RUNNABLE, OUTSIDE_ROW, ROWS,
    RUN_QUEUE_BUCKETS, RUNNABLE, RUNNING, SplitRow, TARGET, label_of_sleep, log2_bucket,
    one_thread, pack_segment, pack_start, segment_ns, segment_start_ns, segment_state, start_row,
};

use crate::{
    charge, group,
    idle::{self, relabel},
    kernel::{Task, add, bump, clock_ns, cpu, fetch_add, kind, load, replace_zero, slot, store},
    lifecycle::flags,
    maps::{CPUS, EVENTS, LIVES, SEGMENTS, SPLITS, STARTS},
    stack,
};

/// Which program adds the time on a CPU: see [`SplitRow`].
#[derive(Clone, Copy)]
pub(crate) enum Context {
    Call,
    Switch,
}

/// A running thread passes from one row to another: the time since the last change belongs to
/// `row`. Returns it, ns.
#[inline(always)]
pub(crate) fn pass(task: Task, row: u64, now_ns: u64, context: Context) -> u64 {
    let Some(segment) = SEGMENTS.get(task.tid()) else {
        return 0;
    };
    let cpu = cpu();
    let Some(cpu_row) = CPUS.get(cpu) else {
        return 0;
    };
    let packed = load(&segment.0);
    if packed == 0 {
        not_ours(cpu_row);
        first_seen(task, now_ns, RUNNING);
        return 0;
    }
    store(&segment.0, pack_segment(now_ns, RUNNING));
    let ns = segment_ns(packed, now_ns).wrapping_sub(interrupted(cpu_row));
    let Some(split) = split(cpu, row) else {
        return 0;
    };
    // Where the switch onto its CPU was not reported, it is until now what it had been. This is arithmetic
    // because the verifier follows what comes after a branch once for each of its ends.
    let state = segment_state(packed);
    let is_unseen = black_box(state >> 1);
    let (asleep_ns, waits_ns) = unseen_times(ns, state, is_unseen);
    bump(&split.off_cpu_ns, asleep_ns);
    bump(&split.run_queue_ns, waits_ns);
    let ns = ns.wrapping_sub(asleep_ns).wrapping_sub(waits_ns);
    match context {
        Context::Call => bump(&split.on_cpu_ns, ns),
        Context::Switch => bump(&split.on_cpu_switch_ns, ns),
    }
    if is_unseen != 0 {
        came_unseen(row, state, now_ns);
    }
    ns
}

/// Time asleep and time in a run queue of a thread that came onto its CPU unseen; nothing of another.
#[inline(always)]
fn unseen_times(ns: u64, state: u64, is_unseen: u64) -> (u64, u64) {
    let is_asleep = is_unseen & state & 1;
    (
        ns.wrapping_mul(is_asleep),
        ns.wrapping_mul(is_unseen - is_asleep),
    )
}

/// A thread runs that came onto its CPU in a switch that was not reported: nobody may go on to take it for
/// one that sleeps or waits. A global function, which the verifier checks once and not at each call.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn came_unseen(row: u64, state: u64, now_ns: u64) -> u32 {
    add(EVENTS.get(0).map(|events| &events.lost_switches), 1);
    let was = if state == ASLEEP {
        label(row)
    } else {
        LABEL_RUNNABLE
    };
    relabel(one_thread(was), 0, now_ns);
    0
}

/// The same where nothing else is counted for the group of the thread.
#[inline(always)]
pub(crate) fn pass_alone(task: Task, row: u64, now_ns: u64, context: Context) {
    let ns = pass(task, row, now_ns, context);
    if group::is_on()
        && let Some(entry) = group::entry(task, row)
    {
        fetch_add(&entry.on_cpu_ns, ns);
    }
}

/// `sched_switch(preempt, prev, next, prev_state)`.
#[inline(always)]
pub(crate) fn switch(ctx: &BtfTracePointContext) {
    let now_ns = clock_ns();
    let prev = Task::argument(ctx, 1);
    let next = Task::argument(ctx, 2);
    let Some(cpu_row) = CPUS.get(cpu()) else {
        return;
    };
    if is_target(prev) {
        charge::leaves(prev, cpu_row, now_ns);
        let is_preempted: u64 = ctx.arg(0);
        let state: u64 = ctx.arg(3);
        let sleeps = off(
            prev,
            cpu_row,
            now_ns,
            is_preempted & 0xff != 0,
            state as u32,
        );
        if sleeps && stack::is_on() {
            stack::sleeps(ctx, prev);
        }
    }
    // What was interrupted until now is not the next one's.
    not_ours(cpu_row);
    let running = if is_target(next) {
        charge::comes(next, cpu_row, now_ns);
        on(next, cpu_row, now_ns);
        CPU_TARGET
    } else if next.tid() == 0 {
        CPU_IDLE
    } else {
        CPU_OTHER
    };
    idle::switch(cpu_row, running, now_ns);
}

/// `sched_wakeup(task)`, on the CPU of whoever wakes.
#[inline(always)]
pub(crate) fn wakeup(ctx: &BtfTracePointContext) {
    let task = Task::argument(ctx, 0);
    if flags(task.tgid()) & TARGET == 0 {
        return;
    }
    let Some(segment) = SEGMENTS.get(task.tid()) else {
        return;
    };
    let now_ns = clock_ns();
    let packed = load(&segment.0);
    if packed == 0 {
        first_seen(task, now_ns, RUNNABLE);
        return;
    }
    // One that had not left its CPU yet only goes on.
    if segment_state(packed) != ASLEEP {
        return;
    }
    store(&segment.0, pack_segment(now_ns, RUNNABLE));
    let row = row_of(task);
    slept(task, row, segment_ns(packed, now_ns));
    relabel(one_thread(label(row)), one_thread(LABEL_RUNNABLE), now_ns);
    if let Some(cpu_row) = CPUS.get(cpu()) {
        bump(&cpu_row.wakeups, 1);
        charge::woken(task, cpu_row, now_ns);
    }
}

/// `sched_migrate_task(task, cpu)`.
#[inline(always)]
pub(crate) fn migrate(ctx: &BtfTracePointContext) {
    if flags(Task::argument(ctx, 0).tgid()) & TARGET != 0
        && let Some(cpu_row) = CPUS.get(cpu())
    {
        bump(&cpu_row.migrations, 1);
    }
}

/// `page_fault_user(address, registers, error_code)`.
#[inline(always)]
pub(crate) fn page_fault() {
    if flags(Task::current().tgid()) & TARGET != 0
        && let Some(cpu_row) = CPUS.get(cpu())
    {
        bump(&cpu_row.page_faults, 1);
    }
}

/// A new thread of the target, which does not run yet; in its parent.
#[inline(always)]
pub(crate) fn born(child: Task) {
    let tid = child.tid();
    if let (Some(start), Some(segment)) = (STARTS.get(tid), SEGMENTS.get(tid)) {
        store(&start.0, 0);
        store(&segment.0, 0);
    }
    if stack::is_on() {
        stack::forget(child);
    }
    first_seen(child, clock_ns(), RUNNABLE);
    add(LIVES.get(0).map(|lives| &lives.born), 1);
}

/// A pending process becomes a target at this moment.
#[inline(always)]
pub(crate) fn joins(task: Task) {
    if let Some(segment) = SEGMENTS.get(task.tid()) {
        store(&segment.0, 0);
    }
    if let Some(cpu_row) = CPUS.get(cpu()) {
        not_ours(cpu_row);
    }
    first_seen(task, clock_ns(), RUNNING);
}

/// A thread takes over the id of its leader, which has ended, and has had it for a while: what it did
/// meanwhile began a life under that id, which goes on, and the one under the old id is no other.
#[inline(always)]
pub(crate) fn takes_id(old_tid: u32, tid: u32) {
    let (Some(old), Some(new)) = (SEGMENTS.get(old_tid), SEGMENTS.get(tid)) else {
        return;
    };
    let packed = load(&old.0);
    store(&old.0, 0);
    if load(&new.0) == 0 {
        store(&new.0, packed);
    } else if packed != 0
        && let Some(lives) = LIVES.get(0)
    {
        // As if it had ended when it was last seen, but no thread has.
        fetch_add(&lives.began, u64::MAX);
        fetch_add(&lives.began_ns, segment_start_ns(packed).wrapping_neg());
    }
}

/// The thread begins to end: all that follows is the kernel's work for its exit.
#[inline(always)]
pub(crate) fn ends(task: Task) {
    let now_ns = clock_ns();
    pass_alone(task, row_of(task), now_ns, Context::Call);
    if let Some(start) = STARTS.get(task.tid()) {
        store(&start.0, pack_start(now_ns, NR_EXIT_GROUP));
    }
}

/// A thread leaves its CPU: whether to sleep.
#[inline(always)]
fn off(task: Task, cpu_row: &CpuRow, now_ns: u64, is_preempted: bool, state: u32) -> bool {
    let row = row_of(task);
    pass_alone(task, row, now_ns, Context::Switch);
    let tid = task.tid();
    let Some(segment) = SEGMENTS.get(tid) else {
        return false;
    };
    if state & TASK_DEAD != 0 {
        store(&segment.0, 0);
        if let Some(start) = STARTS.get(tid) {
            store(&start.0, 0);
        }
        ended(now_ns);
        return false;
    }
    // The kernel's own definition. It says why the thread leaves, not what it is from now on: it may
    // have been woken after it had decided to sleep, which was before this switch and is not told
    // again.
    let is_voluntary = !is_preempted && state != 0;
    let sleeps = is_voluntary && !task.is_runnable();
    if sleeps {
        store(&segment.0, pack_segment(now_ns, ASLEEP));
        relabel(0, one_thread(label(row)), now_ns);
    } else {
        store(&segment.0, pack_segment(now_ns, RUNNABLE));
        relabel(0, one_thread(LABEL_RUNNABLE), now_ns);
    }
    if is_voluntary {
        bump(&cpu_row.voluntary_switches, 1);
    } else {
        bump(&cpu_row.involuntary_switches, 1);
    }
    sleeps
}

/// A thread comes onto its CPU.
#[inline(always)]
fn on(task: Task, cpu_row: &CpuRow, now_ns: u64) {
    let Some(segment) = SEGMENTS.get(task.tid()) else {
        return;
    };
    let packed = load(&segment.0);
    if packed == 0 {
        first_seen(task, now_ns, RUNNING);
        return;
    }
    store(&segment.0, pack_segment(now_ns, RUNNING));
    let ns = segment_ns(packed, now_ns);
    let row = row_of(task);
    if segment_state(packed) == ASLEEP {
        slept(task, row, ns);
        relabel(one_thread(label(row)), 0, now_ns);
        return;
    }
    // Off its CPU without a switch that was seen, when the programs were attached.
    if segment_state(packed) == RUNNABLE {
        relabel(one_thread(LABEL_RUNNABLE), 0, now_ns);
    }
    let bucket = log2_bucket(ns);
    let bucket = if bucket < RUN_QUEUE_BUCKETS {
        bucket
    } else {
        RUN_QUEUE_BUCKETS - 1
    };
    bump(slot(&cpu_row.run_queue_waits, bucket), 1);
    if let Some(split) = split(cpu(), row) {
        bump(&split.run_queue_ns, ns);
    }
    if group::is_on()
        && let Some(entry) = group::entry(task, row)
    {
        fetch_add(&entry.run_queue_ns, ns);
    }
}

#[inline(always)]
fn slept(task: Task, row: u64, ns: u64) {
    if let Some(split) = split(cpu(), row) {
        bump(&split.off_cpu_ns, ns);
        bump(&split.sleeps, 1);
    }
    if group::is_on()
        && let Some(entry) = group::entry(task, row)
    {
        fetch_add(&entry.off_cpu_ns, ns);
    }
    if stack::is_on() {
        stack::slept(task, ns);
    }
}

/// A thread without a state gets its first, unless another program was quicker: whether it did.
#[inline(always)]
pub(crate) fn first_seen(task: Task, now_ns: u64, state: u64) -> bool {
    let Some(segment) = SEGMENTS.get(task.tid()) else {
        return false;
    };
    if replace_zero(&segment.0, pack_segment(now_ns, state)) != 0 {
        return false;
    }
    if let Some(lives) = LIVES.get(0) {
        fetch_add(&lives.began, 1);
        fetch_add(&lives.began_ns, now_ns);
    }
    if state == RUNNABLE {
        relabel(0, one_thread(LABEL_RUNNABLE), now_ns);
    }
    true
}

#[inline(always)]
fn ended(now_ns: u64) {
    if let Some(lives) = LIVES.get(0) {
        fetch_add(&lives.ended, 1);
        fetch_add(&lives.ended_ns, now_ns);
    }
}

/// Interrupts since the running thread was last accounted for, which become the target's, ns.
#[inline(always)]
fn interrupted(cpu_row: &CpuRow) -> u64 {
    let irq_ns = load(&cpu_row.irq_ns);
    let softirq_ns = load(&cpu_row.softirq_ns);
    let irq = irq_ns.wrapping_sub(load(&cpu_row.seen_irq_ns));
    let softirq = softirq_ns.wrapping_sub(load(&cpu_row.seen_softirq_ns));
    let both = irq.wrapping_add(softirq);
    if both != 0 {
        store(&cpu_row.seen_irq_ns, irq_ns);
        store(&cpu_row.seen_softirq_ns, softirq_ns);
        bump(&cpu_row.target_irq_ns, irq);
        bump(&cpu_row.target_softirq_ns, softirq);
    }
    both
}

#[inline(always)]
fn not_ours(cpu_row: &CpuRow) {
    store(&cpu_row.seen_irq_ns, load(&cpu_row.irq_ns));
    store(&cpu_row.seen_softirq_ns, load(&cpu_row.softirq_ns));
}

/// The row of the call that a thread is in.
#[inline(always)]
pub(crate) fn row_of(task: Task) -> u64 {
    let start = STARTS.get(task.tid()).map_or(0, |start| load(&start.0));
    if start == 0 {
        OUTSIDE_ROW.into()
    } else {
        start_row(start).into()
    }
}

#[inline(always)]
pub(crate) fn label(row: u64) -> usize {
    label_of_sleep(kind(row))
}

#[inline(always)]
fn split(cpu: u32, row: u64) -> Option<&'static SplitRow> {
    SPLITS.get(cpu * ROWS + row as u32)
}

/// One that has ended runs on for a while.
#[inline(always)]
fn is_target(task: Task) -> bool {
    flags(task.tgid()) & (TARGET | ENDED) != 0
}

/// include/linux/sched.h.
const TASK_DEAD: u32 = 0x80;
/// `exit_group` of x86-64.
const NR_EXIT_GROUP: u64 = 231;
