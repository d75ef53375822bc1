// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! The entry points. All are BTF tracepoints: half the cost of perf tracepoints, never skipped
//! because another program runs on the CPU, and their own skips are counted by the kernel
//! (`recursion_misses`).

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

use crate::{call, lifecycle};

/// Detail `counts`: all from the exit of a call, which every call has that returns, refused ones
/// (seccomp) included.
#[btf_tracepoint(function = "sys_exit")]
fn counts_exit(ctx: BtfTracePointContext) -> i32 {
    call::leave(&ctx, false);
    0
}

/// Detail `times`: the stamp that the exit takes the time from.
#[btf_tracepoint(function = "sys_enter")]
fn times_enter(ctx: BtfTracePointContext) -> i32 {
    call::enter(&ctx);
    0
}

/// Detail `times`: what `counts_exit` does, and the time.
#[btf_tracepoint(function = "sys_exit")]
fn times_exit(ctx: BtfTracePointContext) -> i32 {
    call::leave(&ctx, true);
    0
}

/// Detail `floor`: what any program pair costs.
#[btf_tracepoint(function = "sys_enter")]
fn floor_enter(_ctx: BtfTracePointContext) -> i32 {
    0
}

/// Detail `floor`: what any program pair costs.
#[btf_tracepoint(function = "sys_exit")]
fn floor_exit(_ctx: BtfTracePointContext) -> i32 {
    0
}

/// Children of targets become targets.
#[btf_tracepoint(function = "sched_process_fork")]
fn process_fork(ctx: BtfTracePointContext) -> i32 {
    lifecycle::fork(&ctx);
    0
}

/// Pending targets become targets.
#[btf_tracepoint(function = "sched_process_exec")]
fn process_exec(ctx: BtfTracePointContext) -> i32 {
    lifecycle::exec(&ctx);
    0
}

/// Targets end, and the call that a thread died in is told apart from a failed one.
#[btf_tracepoint(function = "sched_process_exit")]
fn process_exit(ctx: BtfTracePointContext) -> i32 {
    lifecycle::exit(&ctx);
    0
}
