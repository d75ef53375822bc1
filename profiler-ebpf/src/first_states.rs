// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Gives the threads that exist when the programs are attached their first state: one that sleeps has
//! no event until it wakes, which may be after the window.
//!
//! The kernel hands over one thread after the other, which may move on meanwhile. A state is written
//! only where there is none, here and by the programs on events, so whoever comes second changes
//! nothing.

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::{
    ASLEEP, NATIVE_ROWS, OUTSIDE_ROW, RUNNABLE, RUNNING, TARGET, one_thread, pack_start,
};

use crate::{
    call, descriptor,
    idle::relabel,
    kernel::{Task, clock_ns, load, replace, replace_zero},
    lifecycle::flags,
    maps::{SEGMENTS, STARTS},
    sched,
};

/// One thread of the machine, or the end.
#[inline(always)]
pub(crate) fn give(ctx: &BtfTracePointContext) {
    let Some(task) = Task::iterated(ctx) else {
        return;
    };
    if flags(task.tgid()) & TARGET == 0 || task.is_dead() {
        return;
    }
    let (Some(segment), Some(start)) = (SEGMENTS.get(task.tid()), STARTS.get(task.tid())) else {
        return;
    };
    if load(&segment.0) != 0 {
        return;
    }
    // One that is about to leave its CPU will be seen to.
    let state = if task.is_on_cpu() {
        RUNNING
    } else if task.is_runnable() {
        RUNNABLE
    } else {
        ASLEEP
    };
    if state != ASLEEP {
        sched::first_seen(task, clock_ns(), state);
        return;
    }
    let row = row_of_sleep(task);
    // Without a time: when the call was entered is not known.
    let stamp = if row == OUTSIDE_ROW.into() {
        0
    } else {
        pack_start(0, row)
    };
    let is_stamped = stamp != 0 && replace_zero(&start.0, stamp) == 0;
    let now_ns = clock_ns();
    if sched::first_seen(task, now_ns, ASLEEP) {
        relabel(0, one_thread(sched::label(row)), now_ns);
    } else if is_stamped {
        // It moved on, and has left the call for all we know.
        replace(&start.0, stamp, 0);
    }
}

/// The row of the call that a thread sleeps in, with what it is done to.
#[inline(always)]
fn row_of_sleep(task: Task) -> u64 {
    let registers = task.registers();
    let nr = registers.nr();
    // What looks like the call of a thread of the kernel's is the one that made it.
    if nr < 0 || nr >= NATIVE_ROWS.into() || registers.are_blank() {
        return OUTSIDE_ROW.into();
    }
    let nr = nr as u64;
    if task.is_compat() {
        return nr + u64::from(NATIVE_ROWS);
    }
    let object = |tgid, fd| descriptor::object_of(task, tgid, fd);
    call::told_apart(nr, registers, task.tgid(), object)
}
