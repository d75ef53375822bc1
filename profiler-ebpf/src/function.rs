// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! The hook on a function of the kernel instead of a tracepoint, where a kernel allows it.
//!
//! Tracepoints send every task of the machine the slow way into the kernel and out of it; this hook
//! does not. It does not see what never comes to the function: calls that seccomp refuses, and calls
//! with 32-bit numbers or with numbers that no call has.

use aya_ebpf::{macros::fexit, programs::FExitContext};

use crate::{
    call::{self, Level},
    kernel::Registers,
};

/// Detail `counts`: `x64_sys_call(regs, nr)`, which calls the function of each number.
///
/// It may be preempted, unlike programs on tracepoints. The counters of a CPU are safe nevertheless:
/// the kernel skips a program that is running on the CPU already, and counts that.
#[fexit(function = "x64_sys_call")]
fn function_exit(ctx: FExitContext) -> i32 {
    // The result follows the two arguments.
    call::leave_with(Registers::first_argument(&ctx), ctx.arg(2), Level::Counts);
    0
}
