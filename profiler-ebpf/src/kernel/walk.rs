// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! What the kernel tells of the running thread: its name, and its stack.

use core::sync::atomic::AtomicU64;

use aya_ebpf::{
    EbpfContext,
    helpers::generated::{bpf_get_current_comm, bpf_get_stack},
};
use profiler_common::{COMM_WORDS, STACK_DEPTH};

/// Which part of a stack.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Side {
    /// In the kernel.
    Kernel = 0,
    /// In the program: `BPF_F_USER_STACK` of include/uapi/linux/bpf.h.
    User = 1 << 8,
}

/// Name of the running thread.
#[inline(always)]
pub(crate) fn comm() -> [u64; COMM_WORDS] {
    let mut words = [0; COMM_WORDS];
    // SAFETY: the buffer has the size that is told.
    unsafe { bpf_get_current_comm(words.as_mut_ptr().cast(), size_of_val(&words) as u32) };
    words
}

/// Walks a stack of the running thread, the innermost address first; how many there are.
#[inline(always)]
pub(crate) fn stack_depth<C: EbpfContext>(
    ctx: &C,
    into: &[AtomicU64; STACK_DEPTH],
    side: Side,
) -> u64 {
    let (at, size) = (into.as_ptr().cast_mut().cast(), size_of_val(into) as u32);
    // SAFETY: the buffer has the size that is told, and is made of atomics.
    let bytes = unsafe { bpf_get_stack(ctx.as_ptr(), at, size, side as u64) };
    if bytes < 0 { 0 } else { bytes as u64 / 8 }
}
