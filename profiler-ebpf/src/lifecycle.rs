// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Who is a target: followed at fork, begun at exec, ended at exit; and calls that never returned.

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::{
    DIED_ERRNOS, ENDED, FIRST_RESTART_ERRNO, Kind, NATIVE_ROWS, PENDING, TARGET, TARGETS_PER_ENTRY,
    bits, flags_in,
};

use crate::{
    call, descriptor,
    kernel::{Task, add, fetch_and, fetch_or, kind, load, slot, store},
    maps::{ENDS, EVENTS, FOLLOW, STARTS, TARGETS},
    sched, tls,
};

/// The flags of a process; none for an id outside the table.
#[inline(always)]
pub(crate) fn flags(tgid: u32) -> u8 {
    let Some(entry) = TARGETS.get(tgid / TARGETS_PER_ENTRY) else {
        return 0;
    };
    flags_in(load(&entry.0), tgid)
}

/// `sched_process_fork(parent, child)`: in the parent, before the child runs.
#[inline(always)]
pub(crate) fn fork(ctx: &BtfTracePointContext, states: bool) {
    let parent = Task::argument(ctx, 0).tgid();
    let task = Task::argument(ctx, 1);
    let child = task.tgid();
    if parent == child {
        if states && flags(parent) & TARGET != 0 {
            sched::born(task);
        }
        return;
    }
    let follow = FOLLOW.load() != 0 && flags(parent) & TARGET != 0;
    if !follow {
        // A target that ended may have had this id.
        if flags(child) != 0 {
            set_flags(child, 0);
        }
        return;
    }
    let events = EVENTS.get(0);
    if set_flags(child, TARGET) {
        add(events.map(|events| &events.forks), 1);
        if states {
            sched::born(task);
        }
    } else {
        add(events.map(|events| &events.lost_untracked), 1);
    }
}

/// `sched_process_exec(task, old_tid, binary)`: the point of no return inside execve.
#[inline(always)]
pub(crate) fn exec(ctx: &BtfTracePointContext, states: bool) {
    let task = Task::argument(ctx, 0);
    let tgid = task.tgid();
    let flags = flags(tgid);
    if flags & PENDING != 0 {
        set_flags(tgid, TARGET);
        if states {
            sched::joins(task);
        }
    }
    // A thread that is not the leader takes over the leader's id: its stamp moves with it.
    let old_tid: u32 = ctx.arg(1);
    let tid = task.tid();
    if flags & (TARGET | PENDING) != 0
        && old_tid != tid
        && let Some(old) = STARTS.get(old_tid)
        && let Some(new) = STARTS.get(tid)
    {
        store(&new.0, load(&old.0));
        store(&old.0, 0);
        if states && flags & TARGET != 0 {
            sched::takes_id(old_tid, tid);
        }
    }
}

/// `sched_process_exit(task)`: in the thread that ends.
#[inline(always)]
pub(crate) fn exit(ctx: &BtfTracePointContext, states: bool) {
    let task = Task::argument(ctx, 0);
    let tgid = task.tgid();
    let flags = flags(tgid);
    if flags == 0 {
        return;
    }
    if states && flags & (TARGET | ENDED) != 0 {
        sched::ends(task);
    } else if let Some(start) = STARTS.get(task.tid()) {
        store(&start.0, 0);
    }
    tls::ends(task);
    // The last two threads may both find none alive: the flags of a process that has just ended
    // count as well.
    if flags & (TARGET | ENDED) != 0 {
        left_open(task);
    }
    if flags & (TARGET | PENDING) != 0 && task.live_threads() == 0 {
        set_flags(tgid, ENDED);
        // Another process may get this id, and has descriptors of its own.
        descriptor::forget_all();
        add(EVENTS.get(0).map(|events| &events.ends), 1);
    }
}

/// Accounts for the call that the thread was in. A restart code that is still in the register was
/// seen by `sys_exit`, but no program will ever see it: the signal ended the thread.
#[inline(always)]
fn left_open(task: Task) {
    let registers = task.registers();
    let nr = registers.nr();
    if nr < 0 || nr >= NATIVE_ROWS.into() {
        return;
    }
    let mut row = nr as u64;
    if task.is_compat() {
        row += u64::from(NATIVE_ROWS);
    }
    // As it was counted.
    let row = call::told_apart(row, registers, task.tgid(), call::known_at_exit);
    let Some(ends) = ENDS.get(row as u32) else {
        return;
    };
    let returned = registers.returned();
    let code = (returned.wrapping_neg() as u64).wrapping_sub(FIRST_RESTART_ERRNO);
    if code < DIED_ERRNOS as u64 {
        add(Some(slot(&ends.died, code as usize)), 1);
    } else if returned == -ENOSYS && matches!(kind(row), Kind::Exit) {
        add(Some(&ends.no_return), 1);
    }
}

/// Whether the id is inside the table.
#[inline(always)]
fn set_flags(tgid: u32, flags: u8) -> bool {
    let Some(entry) = TARGETS.get(tgid / TARGETS_PER_ENTRY) else {
        return false;
    };
    fetch_or(&entry.0, bits(tgid, flags));
    fetch_and(&entry.0, !bits(tgid, !flags));
    true
}

/// What entry puts into the register of the return value.
const ENOSYS: i64 = 38;
