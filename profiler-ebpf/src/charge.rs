// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Detail `sched`: what the kernel's own CPU clock counts otherwise than the state machine.
//!
//! The kernel charges a thread by the clock of its run queue, which it reads now and then; the state
//! machine goes by the moment of a switch. Where a wake-up asks for a switch, the clock is not read
//! again for it: the thread that comes is charged from its wake-up on, the end of the interrupt and the
//! way out of idle included, while it still waits for its CPU. What lies between the last reading and
//! the switch is added up here.
//!
//! How far the clock of a run queue is behind cannot be read, only how it moves against
//! `CLOCK_MONOTONIC`: whenever it was just read, which it is at a wake-up, the difference of the two
//! is the smallest.

use profiler_common::CpuRow;

use crate::kernel::{QueueClocks, Task, bump, load, store};

/// A thread of the target was woken a moment ago.
#[inline(always)]
pub(crate) fn woken(task: Task, cpu_row: &CpuRow, now_ns: u64) {
    if let Some(clocks) = task.queue_clocks() {
        rebase(cpu_row, now_ns, now_ns.wrapping_sub(clocks.ns));
    }
}

/// A thread of the target comes onto this CPU.
#[inline(always)]
pub(crate) fn comes(task: Task, cpu_row: &CpuRow, now_ns: u64) {
    if let Some(clocks) = task.queue_clocks() {
        bump(&cpu_row.charged_ns, uncharged(clocks, cpu_row, now_ns));
    }
}

/// A thread of the target leaves this CPU.
#[inline(always)]
pub(crate) fn leaves(task: Task, cpu_row: &CpuRow, now_ns: u64) {
    if let Some(clocks) = task.queue_clocks() {
        let ns = uncharged(clocks, cpu_row, now_ns);
        bump(&cpu_row.charged_ns, ns.wrapping_neg());
    }
}

/// From when the thread was last charged, or came, until now, ns.
#[inline(always)]
fn uncharged(clocks: QueueClocks, cpu_row: &CpuRow, now_ns: u64) -> u64 {
    let difference_ns = now_ns.wrapping_sub(clocks.ns);
    let based_ns = load(&cpu_row.clock_based_ns);
    if based_ns == 0 {
        rebase(cpu_row, now_ns, difference_ns);
        return clocks.since_charged_ns;
    }
    let drift_ns = now_ns.wrapping_sub(based_ns) >> MOST_DRIFT_SHIFT;
    let base_ns = load(&cpu_row.clock_base_ns).wrapping_add(drift_ns);
    let behind_ns = difference_ns.wrapping_sub(base_ns);
    if (behind_ns as i64) < 0 {
        rebase(cpu_row, now_ns, difference_ns);
        return clocks.since_charged_ns;
    }
    rebase(cpu_row, now_ns, base_ns);
    clocks.since_charged_ns.wrapping_add(behind_ns)
}

#[inline(always)]
fn rebase(cpu_row: &CpuRow, now_ns: u64, base_ns: u64) {
    store(&cpu_row.clock_base_ns, base_ns);
    store(&cpu_row.clock_based_ns, now_ns);
}

/// `CLOCK_MONOTONIC` is slowed and sped up to keep time: by 1/2^15, 30 millionths, it may run ahead
/// unnoticed between two wake-ups.
const MOST_DRIFT_SHIFT: u32 = 15;
