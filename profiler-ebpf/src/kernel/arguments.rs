// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! What programs are handed: by tracepoints of sockets, and by probes on functions of processes.

use aya_ebpf::{
    EbpfContext, helpers::generated::bpf_get_attach_cookie, programs::BtfTracePointContext,
};

use super::{Object, PT_REGS_AX, PT_REGS_SP, read};
use crate::maps::{INET_SPORT, LOOK_UP, SOCK_NUM};

/// The local port of the `struct sock` that the `n`th argument of a tracepoint points at; `None`
/// where it is null.
#[inline(always)]
pub(crate) fn local_port(ctx: &BtfTracePointContext, n: usize) -> Option<u16> {
    let sock: *const u8 = ctx.arg(n);
    if sock.is_null() {
        return None;
    }
    let port: u16 = read(sock, &SOCK_NUM);
    if port != 0 {
        return Some(port);
    }
    // It has given up its port, and the last segments that it sends still come from there. Only what
    // was a whole socket gets here. Not a load: to the verifier it is no `struct inet_sock`.
    if LOOK_UP.load() == 0 {
        return None;
    }
    let port: u16 = Object(sock as u64).copy(&INET_SPORT)?;
    Some(u16::from_be(port))
}

/// What the probe was attached with.
#[inline(always)]
pub(crate) fn attach_cookie(ctx: &impl EbpfContext) -> u64 {
    // SAFETY: the context is the one that the kernel handed to this program.
    unsafe { bpf_get_attach_cookie(ctx.as_ptr()) }
}

/// The stack pointer of the probed function.
#[inline(always)]
pub(crate) fn probed_stack(ctx: &impl EbpfContext) -> u64 {
    // SAFETY: the context of a probe is a `struct pt_regs`, which the verifier checks.
    unsafe {
        ctx.as_ptr()
            .cast::<u8>()
            .add(PT_REGS_SP)
            .cast::<u64>()
            .read()
    }
}

/// What the probed function returns.
#[inline(always)]
pub(crate) fn probed_result(ctx: &impl EbpfContext) -> u64 {
    // SAFETY: as above.
    unsafe {
        ctx.as_ptr()
            .cast::<u8>()
            .add(PT_REGS_AX)
            .cast::<u64>()
            .read()
    }
}
