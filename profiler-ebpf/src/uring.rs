// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Operations of `io_uring`, which are no calls: counted where they are submitted and where they
//! complete.
//!
//! Both happen in a thread of the process: in the one that submits, in the one that polls the queue
//! for it, or in a worker, all of which the kernel makes threads of the same process. Counters per
//! CPU are added to without atomics: these programs run with preemption off, outside of interrupts.

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::{
    MAX_ERRNO, TARGET, URING_PROBES, URING_ROWS, URING_SLOTS, URING_UNKNOWN_ROW, UringRow,
    UringSlot, log2_bucket, may_repeat, pack_submission, repeat_entry, repeat_index, repeat_key,
    repeat_opcode, request_hash, submission_age_ns, submission_opcode,
};

use crate::{
    kernel::{
        Cqe, Request, Task, add, argument_bits, bump, clock_ns, cpu, load, opcode_at, replace_zero,
        slot, store,
    },
    lifecycle::flags,
    maps::{BELOW, URING_REPEATS, URING_SLOTS as SLOTS, URING_TIMED, URINGS},
};

/// What a completion says.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    user_data: u64,
    result: i32,
}

impl Completion {
    /// `io_uring_complete(ring, request, cqe)`.
    #[inline(always)]
    pub(crate) fn whole(ctx: &BtfTracePointContext) -> Self {
        let cqe = Cqe::argument(ctx, 2);
        Self {
            user_data: cqe.user_data(),
            result: cqe.result(),
        }
    }

    /// `io_uring_complete(ring, request, user_data, result, ...)`.
    #[inline(always)]
    pub(crate) fn pieces(ctx: &BtfTracePointContext) -> Self {
        Self {
            user_data: ctx.arg(2),
            result: ctx.arg(3),
        }
    }

    #[inline(always)]
    fn is_error(self) -> bool {
        // In a whole register: see `errno_slot`.
        let errno = i64::from(self.result).wrapping_neg() as u64;
        errno.wrapping_sub(1) < MAX_ERRNO
    }
}

/// `io_uring_submit_req(request)`: counts, and leaves the stamp.
#[inline(always)]
pub(crate) fn submit(ctx: &BtfTracePointContext) {
    if !is_target(Task::current()) {
        return;
    }
    let request = Request::argument(ctx, 0);
    let opcode = request.opcode();
    let Some(row) = row(opcode) else {
        return;
    };
    bump(&row.submitted, 1);
    if may_repeat(opcode) {
        let key = repeat_key(request.ring(), request.user_data());
        if let Some(entry) = URING_REPEATS.get(repeat_index(key)) {
            store(&entry.0, repeat_entry(key, opcode));
        }
    }
    if URING_TIMED.load() != 0
        && let Some(slot) = claim(argument_bits(ctx, 0))
    {
        store(&slot.submission, pack_submission(clock_ns(), opcode));
    }
}

/// `io_uring_complete`: counts, and takes the time where there is a stamp.
#[inline(always)]
pub(crate) fn complete(ctx: &BtfTracePointContext, completion: Completion) {
    let request = argument_bits(ctx, 1);
    let is_target = is_target(Task::current());
    if request == 0 {
        if is_target {
            repeat(argument_bits(ctx, 0), completion);
        }
        return;
    }
    let submission = if URING_TIMED.load() != 0 {
        take(request)
    } else {
        None
    };
    if submission.is_none() && !is_target {
        return;
    }
    let opcode = match submission {
        Some(submission) => Some(submission_opcode(submission)),
        None => opcode_at(request),
    };
    let Some(row) = row(opcode.unwrap_or(u8::MAX)) else {
        return;
    };
    if completion.is_error() {
        bump(&row.errors, 1);
    }
    if let Some(submission) = submission
        && let Some(ns) = submission_age_ns(submission, clock_ns())
    {
        bump(slot(&row.buckets, log2_bucket(ns)), 1);
        bump(&row.ns_total, ns);
        if ns > load(&row.ns_max) {
            store(&row.ns_max, ns);
        }
        bump(&row.timed, 1);
    }
    bump(&row.completed, 1);
}

/// `io_uring_cqe_overflow`: the completion waits outside of the queue, or is dropped.
#[inline(always)]
pub(crate) fn overflow() {
    if is_target(Task::current()) {
        add(BELOW.get(0).map(|events| &events.uring_overflows), 1);
    }
}

/// A completion of a request that goes on.
#[inline(always)]
fn repeat(ring: u64, completion: Completion) {
    let key = repeat_key(ring, completion.user_data);
    let entry = URING_REPEATS.get(repeat_index(key));
    let opcode = entry.and_then(|entry| repeat_opcode(load(&entry.0), key));
    let Some(row) = row(opcode.unwrap_or(u8::MAX)) else {
        return;
    };
    if completion.is_error() {
        bump(&row.errors, 1);
    }
    bump(&row.repeated, 1);
}

/// The entry for a request that begins. Where all that it may have are taken, the first one is taken
/// from another request, which may be one whose completion is never seen; if it is not, it will have
/// no time.
#[inline(always)]
fn claim(request: u64) -> Option<&'static UringSlot> {
    let first = request_hash(request);
    for probe in 0..URING_PROBES {
        let slot = SLOTS.get(index(first, probe))?;
        let found = load(&slot.request);
        // An address that is used again: its last completion was not seen.
        if found == request || (found == 0 && replace_zero(&slot.request, request) == 0) {
            return Some(slot);
        }
    }
    let slot = SLOTS.get(index(first, 0))?;
    store(&slot.request, request);
    Some(slot)
}

/// The stamp of a request that is done; its entry becomes free.
#[inline(always)]
fn take(request: u64) -> Option<u64> {
    let first = request_hash(request);
    for probe in 0..URING_PROBES {
        let slot = SLOTS.get(index(first, probe))?;
        if load(&slot.request) == request {
            let submission = load(&slot.submission);
            store(&slot.request, 0);
            return Some(submission);
        }
    }
    None
}

#[inline(always)]
fn index(first: u32, probe: u32) -> u32 {
    first.wrapping_add(probe) % URING_SLOTS
}

#[inline(always)]
fn row(opcode: u8) -> Option<&'static UringRow> {
    let row = u32::from(opcode).min(URING_UNKNOWN_ROW);
    URINGS.get(cpu() * URING_ROWS + row)
}

#[inline(always)]
fn is_target(task: Task) -> bool {
    flags(task.tgid()) & TARGET != 0
}
