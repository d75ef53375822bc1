// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! The programs of whyfast that run in the kernel: entry points only, one per hook.
//!
//! For every other architecture than BPF this is an empty program, so that the workspace builds
//! everywhere with stable Rust; `cargo xtask ebpf` builds the object that `profiler` embeds.
//! What is read, which map, and what user space makes of it are not decided here.

#![cfg_attr(target_arch = "bpf", no_std, no_main)]
// Rust says that BPF has no atomic operations, which was true of its first instruction set; the
// intrinsics compile to them.
#![cfg_attr(
    target_arch = "bpf",
    feature(core_intrinsics),
    expect(
        internal_features,
        reason = "the only way to an atomic add on this target"
    )
)]

#[cfg(target_arch = "bpf")]
mod call;
#[cfg(target_arch = "bpf")]
mod charge;
#[cfg(target_arch = "bpf")]
mod descriptor;
#[cfg(target_arch = "bpf")]
mod first_states;
#[cfg(target_arch = "bpf")]
mod function;
#[cfg(target_arch = "bpf")]
mod group;
#[cfg(target_arch = "bpf")]
mod idle;
#[cfg(target_arch = "bpf")]
mod interrupt;
#[cfg(target_arch = "bpf")]
mod kernel;
#[cfg(target_arch = "bpf")]
mod lifecycle;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod programs;
#[cfg(target_arch = "bpf")]
mod sched;
#[cfg(target_arch = "bpf")]
mod stack;
#[cfg(target_arch = "bpf")]
mod tcp;
#[cfg(target_arch = "bpf")]
mod tls;
#[cfg(target_arch = "bpf")]
mod uring;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
