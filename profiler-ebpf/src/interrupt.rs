// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Time in interrupts and soft interrupts, per CPU, each without the ones that interrupt it.

use profiler_common::{CpuRow, IN_SOFTIRQ};

use crate::{
    kernel::{bump, clock_ns, cpu, load, store},
    maps::CPUS,
};

/// An interrupt begins.
#[inline(always)]
pub(crate) fn irq_begins() {
    begins(1);
}

/// An interrupt ends.
#[inline(always)]
pub(crate) fn irq_ends() {
    let Some(cpu_row) = CPUS.get(cpu()) else {
        return;
    };
    let nesting = load(&cpu_row.nesting);
    // The programs were attached inside of it.
    if nesting & IRQS == 0 {
        return;
    }
    ends(cpu_row, nesting, nesting - 1);
}

/// A soft interrupt begins.
#[inline(always)]
pub(crate) fn softirq_begins() {
    begins(IN_SOFTIRQ);
}

/// A soft interrupt ends.
#[inline(always)]
pub(crate) fn softirq_ends() {
    let Some(cpu_row) = CPUS.get(cpu()) else {
        return;
    };
    let nesting = load(&cpu_row.nesting);
    if nesting != IN_SOFTIRQ {
        return;
    }
    ends(cpu_row, nesting, 0);
}

#[inline(always)]
fn begins(nested: u64) {
    let Some(cpu_row) = CPUS.get(cpu()) else {
        return;
    };
    let now_ns = clock_ns();
    let nesting = load(&cpu_row.nesting);
    if nesting != 0 {
        count(cpu_row, nesting, now_ns);
    }
    store(&cpu_row.nesting, nesting.wrapping_add(nested));
    store(&cpu_row.interrupted_ns, now_ns);
    bump(&cpu_row.interrupts, 1);
}

#[inline(always)]
fn ends(cpu_row: &CpuRow, nesting: u64, rest: u64) {
    let now_ns = clock_ns();
    count(cpu_row, nesting, now_ns);
    store(&cpu_row.nesting, rest);
    store(&cpu_row.interrupted_ns, now_ns);
}

/// The time since the last change belongs to the innermost.
#[inline(always)]
fn count(cpu_row: &CpuRow, nesting: u64, now_ns: u64) {
    let ns = now_ns.wrapping_sub(load(&cpu_row.interrupted_ns));
    if nesting & IRQS != 0 {
        bump(&cpu_row.irq_ns, ns);
    } else {
        bump(&cpu_row.softirq_ns, ns);
    }
}

/// Of the nesting, the interrupts.
const IRQS: u64 = IN_SOFTIRQ - 1;
