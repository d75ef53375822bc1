// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Time inside a TLS library: programs at the entry and the exit of its functions.
//!
//! Of calls inside each other only the outermost counts, which the stack pointer tells: it needs no
//! count of what is open, which would never be right again after a `longjmp` or the death of a thread.
//! These programs can be preempted, so what they share is added to atomically; a slot belongs to one
//! thread.

use aya_ebpf::{
    macros::{uprobe, uretprobe},
    programs::{ProbeContext, RetProbeContext},
};
use profiler_common::{
    TARGET, TLS_ROWS, TLS_STACK_BYTES, TlsRow, TlsSlot, completes_handshake, jumps_to, log2_bucket,
    tls_slot,
};

use crate::{
    kernel::{
        Task, add, attach_cookie, clock_ns, cpu, load, probed_result, probed_stack, replace,
        replace_zero, slot, store,
    },
    lifecycle::flags,
    maps::{TLS, TLS_ROWS as ROWS, TLS_SLOTS},
};

/// A function of a TLS library begins; the cookie says which.
#[uprobe]
fn tls_enter(ctx: ProbeContext) -> u32 {
    enter(attach_cookie(&ctx), probed_stack(&ctx));
    0
}

/// A function of a TLS library has returned.
#[uretprobe]
fn tls_exit(ctx: RetProbeContext) -> u32 {
    leave(probed_stack(&ctx), probed_result(&ctx));
    0
}

/// The thread has been in a system call: part of the function that it is in.
#[inline(always)]
pub(crate) fn called(task: Task, ns: u64) {
    if TLS.load() == 0 || ns == 0 {
        return;
    }
    let tid = task.tid();
    if let Some(open) = TLS_SLOTS.get(tls_slot(tid))
        && load(&open.tid) == tid.into()
    {
        store(&open.calls_ns, load(&open.calls_ns).wrapping_add(ns));
    }
}

/// The thread ends.
#[inline(always)]
pub(crate) fn ends(task: Task) {
    if TLS.load() == 0 {
        return;
    }
    let tid = task.tid();
    if let Some(open) = TLS_SLOTS.get(tls_slot(tid))
        && load(&open.tid) == tid.into()
    {
        lose(load(&open.function));
        store(&open.tid, 0);
    }
}

#[inline(always)]
fn enter(function: u64, stack: u64) {
    let task = Task::current();
    if flags(task.tgid()) & TARGET == 0 {
        return;
    }
    let tid = task.tid();
    let Some(open) = TLS_SLOTS.get(tls_slot(tid)) else {
        return;
    };
    if load(&open.tid) == tid.into() {
        if is_inside(open, function, stack) {
            return;
        }
        // Left without a return, or on another stack.
        lose(load(&open.function));
    } else if replace_zero(&open.tid, tid.into()) != 0 {
        lose(function);
        return;
    }
    store(&open.function, function);
    store(&open.stack, stack);
    store(&open.calls_ns, 0);
    // Last of all, so that as little as possible of this program is in the time.
    let now_ns = clock_ns();
    store(&open.cpu_ns, task.cpu_clock_ns(now_ns).unwrap_or(0));
    store(&open.entered_ns, now_ns);
}

#[inline(always)]
fn is_inside(open: &TlsSlot, function: u64, stack: u64) -> bool {
    let outer = load(&open.stack);
    if stack == outer {
        return jumps_to(load(&open.function), function);
    }
    outer.wrapping_sub(stack) < TLS_STACK_BYTES
}

#[inline(always)]
fn leave(stack: u64, returned: u64) {
    let now_ns = clock_ns();
    let task = Task::current();
    if flags(task.tgid()) & TARGET == 0 {
        return;
    }
    let tid = task.tid();
    let Some(open) = TLS_SLOTS.get(tls_slot(tid)) else {
        return;
    };
    // Entered before the probe was there, lost at entry, or the second of two that end as one.
    if load(&open.tid) != tid.into() {
        return;
    }
    // The return address was taken off the stack.
    let above = stack.wrapping_sub(load(&open.stack)).wrapping_sub(8);
    if above != 0 {
        if above < TLS_STACK_BYTES {
            lose(load(&open.function));
            store(&open.tid, 0);
        }
        return;
    }
    count(open, task, returned, now_ns);
    store(&open.tid, 0);
}

#[inline(always)]
fn count(open: &TlsSlot, task: Task, returned: u64, now_ns: u64) {
    let function = load(&open.function);
    let Some(row) = row(function) else {
        return;
    };
    let ns = now_ns.wrapping_sub(load(&open.entered_ns));
    let on_cpu_ns = match task.cpu_clock_ns(now_ns) {
        Some(clock) => clock.wrapping_sub(load(&open.cpu_ns)),
        None => 0,
    };
    add(Some(&row.ns_total), ns);
    add(Some(&row.calls_ns), load(&open.calls_ns));
    // The clock of a run queue may jump a little when a thread moves to another CPU.
    if (on_cpu_ns as i64) > 0 {
        add(
            Some(&row.cpu_ns),
            if on_cpu_ns < ns { on_cpu_ns } else { ns },
        );
    }
    if completes_handshake(function as u32, returned as i32) {
        add(Some(&row.handshakes), 1);
    }
    raise(&row.ns_max, ns);
    raise(&row.ns_min_inverted, !ns);
    add(Some(slot(&row.buckets, log2_bucket(ns))), 1);
    add(Some(&row.count), 1);
}

#[inline(always)]
fn raise(most: &core::sync::atomic::AtomicU64, value: u64) {
    let mut found = load(most);
    for _ in 0..RAISES {
        if value <= found {
            return;
        }
        let before = replace(most, found, value);
        if before == found {
            return;
        }
        found = before;
    }
}

#[inline(always)]
fn lose(function: u64) {
    if let Some(row) = row(function) {
        add(Some(&row.lost), 1);
    }
}

#[inline(always)]
fn row(function: u64) -> Option<&'static TlsRow> {
    if function >= TLS_ROWS.into() {
        return None;
    }
    ROWS.get(cpu() * TLS_ROWS + function as u32)
}

/// Whoever loses so many races for an extreme was preempted by as many others.
const RAISES: u32 = 4;
