//! Counts real programs in the kernel and expects their calls exactly.
//!
//! Needs root and BTF: `cargo test -p profiler --features kernel-tests --test kernel -- \
//! --test-threads=1`. Without privileges every test fails with what is missing.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod counts;
mod kernel_state;
mod lifecycle;
mod limits;
mod strace;
mod targets;
mod workload_process;
