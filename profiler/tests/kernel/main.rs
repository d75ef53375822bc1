//! Counts real programs in the kernel and expects their calls exactly.
//!
//! Needs root and BTF: `cargo test -p profiler --features kernel-tests --test kernel -- \
//! --test-threads=1`. Without privileges every test fails with what is missing. `cargo xtask test vm`
//! runs all but `distribution` on other kernels, and there what the feature `vm-tests` adds.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod asleep;
mod below;
mod cost;
mod counts;
mod distribution;
#[cfg(feature = "vm-tests")]
mod function_hook;
mod groups;
mod kernel_state;
mod kinds;
mod lifecycle;
mod limits;
#[cfg(feature = "vm-tests")]
mod locked_down;
mod sched;
mod stacks;
mod strace;
mod targets;
mod tls;
mod tracers;
mod workload_process;
