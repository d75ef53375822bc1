// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! What CPUs do, and why they are idle, by what the threads of the target do meanwhile.
//!
//! One clock counts how long each label has applied; a CPU takes the difference over its idle time.
//! It has a lock, held for a dozen instructions, so that nobody reads a change half made.

use profiler_common::{
    CPU_IDLE, CPU_OTHER, CPU_TARGET, CpuRow, LABEL_CLOCK_TRIES, LABELS, LabelClock, label_of,
};

use crate::{
    kernel::{advance, bump, exchange, load, slot, store},
    maps::LABEL_CLOCK,
};

/// The CPU passes from one task to another.
#[inline(always)]
pub(crate) fn switch(cpu_row: &CpuRow, running: u64, now_ns: u64) {
    let interrupts_ns = load(&cpu_row.irq_ns).wrapping_add(load(&cpu_row.softirq_ns));
    let interrupted = interrupts_ns.wrapping_sub(load(&cpu_row.switched_interrupts_ns));
    let ns = now_ns
        .wrapping_sub(load(&cpu_row.switched_ns))
        .wrapping_sub(interrupted);
    store(&cpu_row.switched_interrupts_ns, interrupts_ns);
    store(&cpu_row.switched_ns, now_ns);
    let before = load(&cpu_row.running);
    store(&cpu_row.running, running);
    if before == CPU_TARGET {
        bump(&cpu_row.target_ns, ns);
    } else if before == CPU_OTHER {
        bump(&cpu_row.other_ns, ns);
    } else if before == CPU_IDLE {
        bump(&cpu_row.idle_ns, ns);
        if let Some(clock) = LABEL_CLOCK.get(0) {
            idle_ended(cpu_row, clock, now_ns);
        }
    }
    if running == CPU_IDLE
        && let Some(clock) = LABEL_CLOCK.get(0)
    {
        lock(clock);
        let label = label_of(load(&clock.threads));
        for index in 0..LABELS {
            store(
                &cpu_row.idle_from_ns[index],
                at(clock, index, label, now_ns),
            );
        }
        unlock(clock);
    }
}

/// Threads of the target change what they do.
#[inline(always)]
pub(crate) fn relabel(from: u64, to: u64, now_ns: u64) {
    let Some(clock) = LABEL_CLOCK.get(0) else {
        return;
    };
    let change = to.wrapping_sub(from);
    lock(clock);
    // Atomic nevertheless: without the lock a label may be wrong for a moment, never for good.
    let threads = advance(&clock.threads, change);
    let before = label_of(threads);
    if before != label_of(threads.wrapping_add(change)) {
        let since_ns = load(&clock.changed_ns);
        store(&clock.changed_ns, now_ns);
        if since_ns != 0 {
            bump(slot(&clock.ns, before), now_ns.wrapping_sub(since_ns));
        }
    }
    unlock(clock);
}

/// Takes the lock, or goes on without it after some tries.
#[inline(always)]
fn lock(clock: &LabelClock) {
    for _try in 0..LABEL_CLOCK_TRIES {
        if exchange(&clock.lock, 1) == 0 {
            break;
        }
    }
}

#[inline(always)]
fn unlock(clock: &LabelClock) {
    store(&clock.lock, 0);
}

#[inline(always)]
fn idle_ended(cpu_row: &CpuRow, clock: &LabelClock, now_ns: u64) {
    lock(clock);
    let label = label_of(load(&clock.threads));
    for index in 0..LABELS {
        let ns = at(clock, index, label, now_ns).wrapping_sub(load(&cpu_row.idle_from_ns[index]));
        bump(&cpu_row.idle_by_label_ns[index], ns);
    }
    unlock(clock);
}

/// How long a label has applied until now.
#[inline(always)]
fn at(clock: &LabelClock, index: usize, label: usize, now_ns: u64) -> u64 {
    let ns = load(&clock.ns[index]);
    let changed_ns = load(&clock.changed_ns);
    if index == label && changed_ns != 0 {
        ns.wrapping_add(now_ns.wrapping_sub(changed_ns))
    } else {
        ns
    }
}
