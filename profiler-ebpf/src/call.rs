// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Counting a call: at its exit, where number and result are known.
//!
//! Counters per CPU are added to without atomics: programs on these tracepoints run with preemption
//! off, and no interrupt makes a system call.

use core::sync::atomic::AtomicU64;

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::{
    COMPAT_ROWS, EAGAIN, FIRST_RESTART_ERRNO, Kind, MAX_ERRNO, NATIVE_ROWS, NR_SIGRETURN_COMPAT,
    NR_SIGRETURN_NATIVE, PENDING, ROWS, TARGET, UNKNOWN_ROWS, WAIT_ROWS, elapsed_ns, errno_slot,
    log2_bucket, pack_start, unknown_key,
};

use crate::{
    kernel::{Registers, Task, clock_ns, cpu, fetch_add, kind, load, replace_zero, slot, store},
    lifecycle::flags,
    maps::{COUNTS, ERRNOS, EVENTS, STARTS, TIMES, UNKNOWN_LIMIT, UNKNOWNS, WAITS},
};

/// `sys_enter(regs, nr)`: leaves the stamp.
#[inline(always)]
pub(crate) fn enter(ctx: &BtfTracePointContext) {
    let task = Task::current();
    // Of a pending process too: its first counted call, execve, is entered before it is a target.
    if flags(task.tgid()) & (TARGET | PENDING) == 0 {
        return;
    }
    let Some(start) = STARTS.get(task.tid()) else {
        return;
    };
    let nr: u64 = ctx.arg(1);
    if let Some(row) = row(nr, task.is_compat()) {
        store(&start.0, pack_start(clock_ns(), row));
    }
}

/// `sys_exit(regs, ret)`: counts, and takes the time where there is a stamp.
///
/// Of what timing costs beyond an empty pair of programs, two thirds are the two reads of the clock;
/// histogram and extremes are lost in the noise. To find the process from the task or from
/// `bpf_get_current_pid_tgid` costs the same, and the task is needed anyway.
#[inline(always)]
pub(crate) fn leave(ctx: &BtfTracePointContext, timed: bool) {
    leave_with(Registers::argument(ctx, 0), ctx.arg(1), timed);
}

/// The same for any hook that knows registers and result.
#[inline(always)]
pub(crate) fn leave_with(registers: Registers, ret: i64, timed: bool) {
    let task = Task::current();
    let flags = flags(task.tgid());
    if flags & TARGET == 0 {
        if timed && flags & PENDING != 0 {
            take_start(task);
        }
        return;
    }
    // First of all, so that as little as possible of this program is in the time.
    let now_ns = if timed { clock_ns() } else { 0 };
    let start = if timed { take_start(task) } else { None };
    let Some(row) = row_at_exit(registers, task, ret) else {
        add(EVENTS.get(0).map(|events| &events.lost_unknown), 1);
        return;
    };
    let kind = kind(row);
    // The child's way out of clone, fork or vfork: not a call of its own.
    if ret == 0 && matches!(kind, Kind::Fork) {
        return;
    }
    let cpu = cpu();
    count(row, cpu, kind, ret);
    if let Some(start) = start {
        time(row, cpu, start, now_ns);
    }
}

/// The row of a number; `None` for an unknown one when the list of such numbers is full.
///
/// Rows are whole registers: the verifier loses the bounds of a number that is cut to 32 bits.
#[inline(always)]
fn row(nr: u64, compat: bool) -> Option<u64> {
    if nr < NATIVE_ROWS.into() {
        return Some(if compat {
            nr + u64::from(NATIVE_ROWS)
        } else {
            nr
        });
    }
    let row = unknown_row(nr as u32, compat);
    (row < ROWS.into()).then_some(row)
}

#[inline(always)]
fn row_at_exit(registers: Registers, task: Task, ret: i64) -> Option<u64> {
    let nr = registers.nr();
    let compat = task.is_compat();
    // rt_sigreturn replaces all registers, the number among them. A call that a tracer or a filter
    // cancelled, and a program's own call of number -1, fail with ENOSYS and stay what they are.
    if nr == -1 && ret != -ENOSYS {
        return Some(if compat {
            (NATIVE_ROWS + NR_SIGRETURN_COMPAT).into()
        } else {
            NR_SIGRETURN_NATIVE.into()
        });
    }
    row(nr as u64, compat)
}

/// Finds or takes the entry of an unknown number; [`ROWS`] when the list is full. A function of its
/// own, so that it costs the ordinary path nothing.
#[inline(never)]
fn unknown_row(nr: u32, compat: bool) -> u64 {
    let key = unknown_key(nr, compat);
    let limit = UNKNOWN_LIMIT.load();
    for probe in 0..UNKNOWN_ROWS {
        if probe >= limit {
            break;
        }
        let Some(entry) = UNKNOWNS.get(probe) else {
            break;
        };
        let found = replace_zero(&entry.key, key);
        if found == 0 || found == key {
            return (NATIVE_ROWS + COMPAT_ROWS + probe).into();
        }
    }
    ROWS.into()
}

#[inline(always)]
fn count(row: u64, cpu: u32, kind: Kind, ret: i64) {
    let Some(counts) = COUNTS.get(cpu * ROWS + row as u32) else {
        return;
    };
    bump(&counts.count, 1);
    let errno = ret.wrapping_neg() as u64;
    if errno.wrapping_sub(1) < MAX_ERRNO {
        bump(&counts.errors, 1);
        if errno == EAGAIN {
            bump(&counts.again, 1);
        } else if let Some(errnos) = ERRNOS.get(row as u32) {
            add(Some(slot(&errnos.slots, errno_slot(errno))), 1);
        }
        if let Kind::Wait(index) = kind
            && (errno == EINTR || errno >= FIRST_RESTART_ERRNO)
        {
            if let Some(wait) = WAITS.get(cpu * WAIT_ROWS + index) {
                bump(&wait.interrupted, 1);
            }
        }
        return;
    }
    match kind {
        Kind::Bytes => bump(&counts.bytes, ret as u64),
        Kind::Wait(index) => woke(cpu * WAIT_ROWS + index, ret as u64),
        Kind::Exit | Kind::Fork | Kind::Plain => {}
    }
}

#[inline(always)]
fn woke(index: u32, events: u64) {
    let Some(wait) = WAITS.get(index) else {
        return;
    };
    if events == 0 {
        bump(&wait.timeouts, 1);
        return;
    }
    bump(&wait.wakes, 1);
    bump(&wait.events, events);
    bump(slot(&wait.buckets, log2_bucket(events)), 1);
}

/// Takes the stamp of the running thread, so that a later exit without an entry (a call that seccomp
/// refuses) is not timed from it.
#[inline(always)]
fn take_start(task: Task) -> Option<u64> {
    let Some(slot) = STARTS.get(task.tid()) else {
        add(EVENTS.get(0).map(|events| &events.lost_untimed), 1);
        return None;
    };
    let start = load(&slot.0);
    if start == 0 {
        return None;
    }
    store(&slot.0, 0);
    Some(start)
}

#[inline(always)]
fn time(row: u64, cpu: u32, start: u64, now_ns: u64) {
    let Some(ns) = elapsed_ns(start, now_ns) else {
        add(EVENTS.get(0).map(|events| &events.lost_clock), 1);
        return;
    };
    let Some(times) = TIMES.get(cpu * ROWS + row as u32) else {
        return;
    };
    bump(&times.ns_total, ns);
    if ns > load(&times.ns_max) {
        store(&times.ns_max, ns);
    }
    if !ns > load(&times.ns_min_inverted) {
        store(&times.ns_min_inverted, !ns);
    }
    bump(slot(&times.buckets, log2_bucket(ns)), 1);
}

/// Adds to a counter of this CPU.
#[inline(always)]
fn bump(counter: &AtomicU64, by: u64) {
    store(counter, load(counter) + by);
}

/// Adds to a counter of all CPUs.
#[inline(always)]
pub(crate) fn add(counter: Option<&AtomicU64>, by: u64) {
    if let Some(counter) = counter {
        fetch_add(counter, by);
    }
}

const EINTR: u64 = 4;
const ENOSYS: i64 = 38;
