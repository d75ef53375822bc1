// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Counting a call: at its exit, where number and result are known.
//!
//! Counters per CPU are added to without atomics: programs on these tracepoints run with preemption
//! off, and no interrupt makes a system call.

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::{
    COMPAT_ROWS, EAGAIN, FIRST_RESTART_ERRNO, FUTEX_SPLIT, Kind, MAX_ERRNO, NATIVE_ROWS, NR_CLOSE,
    NR_SIGRETURN_COMPAT, NR_SIGRETURN_NATIVE, OBJECTS, PENDING, ROWS, SPLIT_CALLS, TARGET,
    UNKNOWN_ROWS, WAIT_ROWS, WaitLimits, elapsed_ns, errno_slot, futex_object, log2_bucket,
    pack_start, split_row, start_row, unknown_key, wait_limits,
};

use crate::{
    descriptor,
    group::{self, Part},
    kernel::{Registers, Task, add, bump, clock_ns, cpu, kind, load, replace_zero, slot, store},
    lifecycle::flags,
    maps::{COUNTS, ERRNOS, EVENTS, FILTERED, ONLY, STARTS, TIMES, UNKNOWN_LIMIT, UNKNOWNS, WAITS},
    sched, tls,
};

/// What is probed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Counts,
    Times,
    Sched,
}

/// `sys_enter(regs, nr)`: leaves the stamp.
#[inline(always)]
pub(crate) fn enter(ctx: &BtfTracePointContext, level: Level) {
    let task = Task::current();
    // Of a pending process too: its first counted call, execve, is entered before it is a target.
    let tgid = task.tgid();
    let flags = flags(tgid);
    if flags & (TARGET | PENDING) == 0 {
        return;
    }
    let Some(start) = STARTS.get(task.tid()) else {
        return;
    };
    let nr: u64 = ctx.arg(1);
    let Some(row) = row(nr, task.is_compat()) else {
        return;
    };
    let row = told_apart(row, Registers::argument(ctx, 0), tgid, descriptor::object);
    let now_ns = clock_ns();
    if level == Level::Sched && flags & TARGET != 0 {
        sched::pass_alone(task, sched::row_of(task), now_ns, sched::Context::Call);
    }
    store(&start.0, pack_start(now_ns, row));
}

/// `sys_exit(regs, ret)`: counts, and takes the time where there is a stamp.
///
/// Of what timing costs beyond an empty pair of programs, two thirds are the two reads of the clock;
/// histogram and extremes are lost in the noise. To find the process from the task or from
/// `bpf_get_current_pid_tgid` costs the same, and the task is needed anyway.
#[inline(always)]
pub(crate) fn leave(ctx: &BtfTracePointContext, level: Level) {
    leave_with(Registers::argument(ctx, 0), ctx.arg(1), level);
}

/// The same for any hook that knows registers and result.
#[inline(always)]
pub(crate) fn leave_with(registers: Registers, ret: i64, level: Level) {
    let task = Task::current();
    let tgid = task.tgid();
    let flags = flags(tgid);
    let timed = level != Level::Counts;
    if flags & TARGET == 0 {
        if timed && flags & PENDING != 0 {
            take_start(task);
        }
        return;
    }
    // First of all, so that as little as possible of this program is in the time.
    let now_ns = if timed { clock_ns() } else { 0 };
    let start = if timed { take_start(task) } else { None };
    let row = match start {
        // As it was entered: its descriptor may be closed by now.
        Some(start) => start_row(start).into(),
        None => match row_at_exit(registers, task, ret) {
            Some(row) => told_apart(row, registers, tgid, known_at_exit),
            None => {
                add(EVENTS.get(0).map(|events| &events.lost_unknown), 1);
                return;
            }
        },
    };
    let on_cpu_ns = if level == Level::Sched {
        sched::pass(task, row, now_ns, sched::Context::Call)
    } else {
        0
    };
    let kind = kind(row);
    // The child's way out of clone, fork or vfork is not a call of its own.
    let is_call = ret != 0 || !matches!(kind, Kind::Fork);
    if is_call {
        keep_track(kind, registers, tgid, ret);
    }
    let mut part = Part {
        on_cpu_ns,
        ..Part::default()
    };
    if is_call && (FILTERED.load() == 0 || is_wanted(row)) {
        let cpu = cpu();
        count(row, cpu, kind, ret, registers, &mut part);
        if let Some(start) = start {
            part.inside_ns = time(row, cpu, start, now_ns);
            tls::called(task, part.inside_ns);
        }
    }
    // Last, and without a branch on what was counted: the verifier walks the search in the table, and what
    // follows each of its ends, once for each way here that it cannot take for the same.
    if group::is_on() {
        group::add(task, row, &part);
    }
}

/// The row of a call that is told apart by what it is done to; other rows stay.
#[inline(always)]
pub(crate) fn told_apart(
    row: u64,
    registers: Registers,
    tgid: u32,
    object: impl Fn(u32, u64) -> u32,
) -> u64 {
    match kind(row) {
        Kind::Descriptor { split, .. } => {
            let fd = registers.call_argument::<0>() as u32;
            let object = object(tgid, fd.into());
            if object < OBJECTS {
                split_row(split, object).into()
            } else {
                row
            }
        }
        Kind::Futex => {
            let object = futex_object(registers.call_argument::<1>());
            split_row(FUTEX_SPLIT, object).into()
        }
        _ => row,
    }
}

/// The object of a descriptor when its call leaves. What was closed can only be remembered, which
/// it is if it was used or made before; a new descriptor may have its number by now.
#[inline(always)]
pub(crate) fn known_at_exit(tgid: u32, fd: u64) -> u32 {
    match descriptor::recall(tgid, fd) {
        Some(object) => object,
        None if Registers::of_current().nr() == NR_CLOSE.into() => OBJECTS,
        None => descriptor::object(tgid, fd),
    }
}

/// Descriptors that a call makes or closes.
#[inline(always)]
fn keep_track(kind: Kind, registers: Registers, tgid: u32, ret: i64) {
    match kind {
        Kind::Opens(object) if ret >= 0 => descriptor::learn(tgid, ret as u64, object),
        Kind::Descriptor {
            split: CLOSE_SPLIT, ..
        } => descriptor::forget(tgid, u64::from(registers.call_argument::<0>() as u32)),
        Kind::Forgets if ret >= 0 => descriptor::forget_all(),
        _ => {}
    }
}

/// Whether a row is in the set of those that are counted.
#[inline(always)]
fn is_wanted(row: u64) -> bool {
    ONLY.get((row / 64) as u32)
        .is_some_and(|bits| bits >> (row % 64) & 1 != 0)
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
fn count(row: u64, cpu: u32, kind: Kind, ret: i64, registers: Registers, part: &mut Part) {
    let Some(counts) = COUNTS.get(cpu * ROWS + row as u32) else {
        return;
    };
    bump(&counts.count, 1);
    part.count = 1;
    let errno = ret.wrapping_neg() as u64;
    if errno.wrapping_sub(1) < MAX_ERRNO {
        bump(&counts.errors, 1);
        part.errors = 1;
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
    if kind.counts_bytes() {
        bump(&counts.bytes, ret as u64);
        part.bytes = ret as u64;
    } else if let Kind::Wait(index) = kind {
        woke(index, cpu, ret as u64, registers);
    }
}

#[inline(always)]
fn woke(index: u32, cpu: u32, events: u64, registers: Registers) {
    let Some(wait) = WAITS.get(cpu * WAIT_ROWS + index) else {
        return;
    };
    let limits = wait_limits(index);
    if events == 0 {
        bump(&wait.timeouts, 1);
        let is_poll = match limits {
            WaitLimits::Epoll => registers.call_argument::<3>() as u32 == 0,
            WaitLimits::Poll => registers.call_argument::<2>() as u32 == 0,
            WaitLimits::EpollTimespec | WaitLimits::Hidden => false,
        };
        if is_poll {
            bump(&wait.polls, 1);
        }
        return;
    }
    bump(&wait.wakes, 1);
    bump(&wait.events, events);
    bump(slot(&wait.buckets, log2_bucket(events)), 1);
    if matches!(limits, WaitLimits::Epoll | WaitLimits::EpollTimespec)
        && events == registers.call_argument::<2>() & 0xffff_ffff
    {
        bump(&wait.truncated, 1);
    }
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

/// Returns the time inside of the call, ns; 0 where it is not known.
#[inline(always)]
fn time(row: u64, cpu: u32, start: u64, now_ns: u64) -> u64 {
    // Found asleep when the programs were attached: when it was entered is not known.
    if start < pack_start(1, 0) {
        return 0;
    }
    let Some(ns) = elapsed_ns(start, now_ns) else {
        add(EVENTS.get(0).map(|events| &events.lost_clock), 1);
        return 0;
    };
    let Some(times) = TIMES.get(cpu * ROWS + row as u32) else {
        return 0;
    };
    bump(&times.ns_total, ns);
    if ns > load(&times.ns_max) {
        store(&times.ns_max, ns);
    }
    if !ns > load(&times.ns_min_inverted) {
        store(&times.ns_min_inverted, !ns);
    }
    bump(slot(&times.buckets, log2_bucket(ns)), 1);
    ns
}

const EINTR: u64 = 4;
const ENOSYS: i64 = 38;
/// The place of `close` in [`SPLIT_CALLS`].
const CLOSE_SPLIT: u32 = {
    let mut split = 0;
    while SPLIT_CALLS[split as usize] != NR_CLOSE {
        split += 1;
    }
    split
};
