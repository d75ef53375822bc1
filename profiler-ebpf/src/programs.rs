// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! The entry points. All but the clock of stacks are BTF tracepoints: half the cost of perf tracepoints, never skipped
//! because another program runs on the CPU, and their own skips are counted by the kernel
//! (`recursion_misses`).

use core::ffi::c_void;

use aya_ebpf::{
    macros::{btf_tracepoint, perf_event},
    programs::{BtfTracePointContext, PerfEventContext},
};

use crate::{
    call::{self, Level},
    first_states as states, interrupt, lifecycle, sched, stack, tcp, uring,
};

/// Detail `counts`: all from the exit of a call, which every call has that returns, refused ones
/// (seccomp) included.
#[btf_tracepoint(function = "sys_exit")]
fn counts_exit(ctx: BtfTracePointContext) -> i32 {
    call::leave(&ctx, Level::Counts);
    0
}

/// Detail `times`: the stamp that the exit takes the time from.
#[btf_tracepoint(function = "sys_enter")]
fn times_enter(ctx: BtfTracePointContext) -> i32 {
    call::enter(&ctx, Level::Times);
    0
}

/// Detail `times`: what `counts_exit` does, and the time.
#[btf_tracepoint(function = "sys_exit")]
fn times_exit(ctx: BtfTracePointContext) -> i32 {
    call::leave(&ctx, Level::Times);
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
    lifecycle::fork(&ctx, false);
    0
}

/// Pending targets become targets.
#[btf_tracepoint(function = "sched_process_exec")]
fn process_exec(ctx: BtfTracePointContext) -> i32 {
    lifecycle::exec(&ctx, false);
    0
}

/// Targets end, and the call that a thread died in is told apart from a failed one.
#[btf_tracepoint(function = "sched_process_exit")]
fn process_exit(ctx: BtfTracePointContext) -> i32 {
    lifecycle::exit(&ctx, false);
    0
}

/// Detail `sched`: what `times_enter` does, and the end of the time outside.
#[btf_tracepoint(function = "sys_enter")]
fn sched_enter(ctx: BtfTracePointContext) -> i32 {
    call::enter(&ctx, Level::Sched);
    0
}

/// Detail `sched`: what `times_exit` does, and the end of the time inside.
#[btf_tracepoint(function = "sys_exit")]
fn sched_exit(ctx: BtfTracePointContext) -> i32 {
    call::leave(&ctx, Level::Sched);
    0
}

/// Detail `sched`: threads and CPUs pass from one task to another.
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    sched::switch(&ctx);
    0
}

/// Detail `sched`: threads wake up.
#[btf_tracepoint(function = "sched_wakeup")]
fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
    sched::wakeup(&ctx);
    0
}

/// Detail `sched`: threads move to another CPU.
#[btf_tracepoint(function = "sched_migrate_task")]
fn sched_migrate(ctx: BtfTracePointContext) -> i32 {
    sched::migrate(&ctx);
    0
}

/// Detail `sched`: what `process_fork` does, and threads begin.
#[btf_tracepoint(function = "sched_process_fork")]
fn sched_fork(ctx: BtfTracePointContext) -> i32 {
    lifecycle::fork(&ctx, true);
    0
}

/// Detail `sched`: what `process_exec` does, and a pending thread begins.
#[btf_tracepoint(function = "sched_process_exec")]
fn sched_exec(ctx: BtfTracePointContext) -> i32 {
    lifecycle::exec(&ctx, true);
    0
}

/// Detail `sched`: what `process_exit` does, and the kernel's work for the exit begins.
#[btf_tracepoint(function = "sched_process_exit")]
fn sched_end(ctx: BtfTracePointContext) -> i32 {
    lifecycle::exit(&ctx, true);
    0
}

/// Detail `sched`: threads that are there already, when user space asks for them. There is no macro for
/// programs of this kind; what they are handed begins as for a tracepoint.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
fn first_states(ctx: *mut c_void) -> i32 {
    states::give(&BtfTracePointContext::new(ctx));
    0
}

/// Detail `sched`: page faults.
#[btf_tracepoint(function = "page_fault_user")]
fn page_fault(_ctx: BtfTracePointContext) -> i32 {
    sched::page_fault();
    0
}

/// Detail `sched`: soft interrupts begin.
#[btf_tracepoint(function = "softirq_entry")]
fn softirq_entry(_ctx: BtfTracePointContext) -> i32 {
    interrupt::softirq_begins();
    0
}

/// Detail `sched`: soft interrupts end.
#[btf_tracepoint(function = "softirq_exit")]
fn softirq_exit(_ctx: BtfTracePointContext) -> i32 {
    interrupt::softirq_ends();
    0
}

/// Detail `stacks`: a clock of each CPU, which only target threads have to do with.
#[perf_event]
fn stack_sample(ctx: PerfEventContext) -> u32 {
    stack::sample(&ctx);
    0
}

/// A pair of programs for one kind of interrupt: a program has one tracepoint.
macro_rules! interrupts {
    ($($entry:ident $on_entry:literal, $exit:ident $on_exit:literal;)*) => {$(
        #[btf_tracepoint(function = $on_entry)]
        fn $entry(_ctx: BtfTracePointContext) -> i32 {
            interrupt::irq_begins();
            0
        }

        #[btf_tracepoint(function = $on_exit)]
        fn $exit(_ctx: BtfTracePointContext) -> i32 {
            interrupt::irq_ends();
            0
        }
    )*};
}

// Detail `sched`: interrupts of devices, and those that x86 CPUs raise themselves.
interrupts! {
    irq_in "irq_handler_entry", irq_out "irq_handler_exit";
    timer_in "local_timer_entry", timer_out "local_timer_exit";
    resched_in "reschedule_entry", resched_out "reschedule_exit";
    call_in "call_function_entry", call_out "call_function_exit";
    call1_in "call_function_single_entry", call1_out "call_function_single_exit";
    work_in "irq_work_entry", work_out "irq_work_exit";
}

/// Requests of `io_uring` that begin. Loaded for the tracepoint that the kernel has.
#[btf_tracepoint(function = "io_uring_submit_req")]
fn uring_submit(ctx: BtfTracePointContext) -> i32 {
    uring::submit(&ctx);
    0
}

/// Completions of `io_uring`, passed as what the program will read.
#[btf_tracepoint(function = "io_uring_complete")]
fn uring_complete(ctx: BtfTracePointContext) -> i32 {
    uring::complete(&ctx, uring::Completion::whole(&ctx));
    0
}

/// Completions of `io_uring`, passed in pieces.
#[btf_tracepoint(function = "io_uring_complete")]
fn uring_complete_result(ctx: BtfTracePointContext) -> i32 {
    uring::complete(&ctx, uring::Completion::pieces(&ctx));
    0
}

/// Completions of `io_uring` without a place in the queue.
#[btf_tracepoint(function = "io_uring_cqe_overflow")]
fn uring_overflow(_ctx: BtfTracePointContext) -> i32 {
    uring::overflow();
    0
}

/// Segments that are sent again.
#[btf_tracepoint(function = "tcp_retransmit_skb")]
fn tcp_retransmit(ctx: BtfTracePointContext) -> i32 {
    tcp::count(&ctx, |events| &events.tcp_retransmits);
    0
}

/// Resets that are sent.
#[btf_tracepoint(function = "tcp_send_reset")]
fn tcp_reset_sent(ctx: BtfTracePointContext) -> i32 {
    tcp::count(&ctx, |events| &events.tcp_resets_sent);
    0
}

/// Resets that are received.
#[btf_tracepoint(function = "tcp_receive_reset")]
fn tcp_reset_received(ctx: BtfTracePointContext) -> i32 {
    tcp::count(&ctx, |events| &events.tcp_resets_received);
    0
}
