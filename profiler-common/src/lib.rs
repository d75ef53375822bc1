//! The types that both sides of the kernel boundary share, and nothing else.
//!
//! The programs in the kernel write plain arrays of these types; user space maps the same memory
//! and reads it. Every field is an atomic, because writer and reader run at once; the programs use
//! relaxed loads and stores, which are ordinary instructions. This crate takes no decision about
//! what a count means: the programs decide what is counted, the `profiler` crate what it adds up
//! to.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "rows, slots and buckets are far below 2^32; `try_from` is not const"
)]

mod events;
mod flag;
mod kind;
mod rows;
mod start;

pub use events::Events;
pub use flag::{ENDED, PENDING, TARGET, TARGETS_PER_ENTRY, TargetEntry, bits, flags_in};
pub use kind::{CALL_KINDS, Kind, WAIT_ROWS};
pub use rows::{
    COMPAT_ROWS, CountRow, DIED_ERRNOS, EAGAIN, ERRNO_OTHER, ERRNO_SLOTS, EndRow, ErrnoRow,
    FIRST_RESTART_ERRNO, MAX_ERRNO, NATIVE_ROWS, NR_SIGRETURN_COMPAT, NR_SIGRETURN_NATIVE, ROWS,
    TIME_BUCKETS, TimeRow, UNKNOWN_ROWS, UnknownEntry, WAIT_BUCKETS, WaitRow, errno_of_slot,
    errno_slot, log2_bucket, unknown_key, unknown_key_parts,
};
pub use start::{StartSlot, elapsed_ns, pack_start, start_row};

/// Version of everything in this crate; an object built from another one is refused.
pub const ABI_VERSION: u32 = 1;

/// What precedes [`ABI_VERSION`] in the object file, so that it can be found without loading it.
pub const ABI_MAGIC: [u8; 12] = *b"whyfast-abi:";

/// The stamp in the object file.
#[repr(C)]
#[derive(Debug)]
pub struct AbiStamp {
    /// [`ABI_MAGIC`].
    pub magic: [u8; 12],
    /// [`ABI_VERSION`].
    pub version: u32,
}

/// Names of the maps in the object.
pub mod map {
    /// Per CPU and row: [`CountRow`](crate::CountRow).
    pub const COUNTS: &str = "COUNTS";
    /// Per row, shared: [`EndRow`](crate::EndRow).
    pub const ENDS: &str = "ENDS";
    /// Per row, shared: [`ErrnoRow`](crate::ErrnoRow).
    pub const ERRNOS: &str = "ERRNOS";
    /// One entry: [`Events`](crate::Events).
    pub const EVENTS: &str = "EVENTS";
    /// By tid: [`StartSlot`](crate::StartSlot).
    pub const STARTS: &str = "STARTS";
    /// By tgid: [`TargetEntry`](crate::TargetEntry).
    pub const TARGETS: &str = "TARGETS";
    /// Per CPU and row: [`TimeRow`](crate::TimeRow).
    pub const TIMES: &str = "TIMES";
    /// List: [`UnknownEntry`](crate::UnknownEntry).
    pub const UNKNOWNS: &str = "UNKNOWNS";
    /// Per CPU and waiting call: [`WaitRow`](crate::WaitRow).
    pub const WAITS: &str = "WAITS";
}

/// Names of the globals that user space sets before it loads the object.
pub mod global {
    /// `u8`: whether children of a target become targets.
    pub const FOLLOW: &str = "FOLLOW";
    /// `u32`: entries of the list of unknown numbers that may be used.
    pub const UNKNOWN_LIMIT: &str = "UNKNOWN_LIMIT";
    /// `u32`: offset of `tgid` in `struct task_struct`.
    pub const TASK_TGID: &str = "TASK_TGID";
    /// `u32`: offset of `pid` in `struct task_struct`.
    pub const TASK_PID: &str = "TASK_PID";
    /// `u32`: offset of `thread_info.status` in `struct task_struct`.
    pub const TASK_STATUS: &str = "TASK_STATUS";
    /// `u32`: offset of `signal` in `struct task_struct`.
    pub const TASK_SIGNAL: &str = "TASK_SIGNAL";
    /// `u32`: offset of `live` in `struct signal_struct`.
    pub const SIGNAL_LIVE: &str = "SIGNAL_LIVE";
}

/// Names of the programs in the object.
pub mod program {
    /// Detail `counts`, on `sys_exit`.
    pub const COUNTS_EXIT: &str = "counts_exit";
    /// Detail `times`, on `sys_enter`.
    pub const TIMES_ENTER: &str = "times_enter";
    /// Detail `times`, on `sys_exit`.
    pub const TIMES_EXIT: &str = "times_exit";
    /// Detail `floor`, on `sys_enter`: empty.
    pub const FLOOR_ENTER: &str = "floor_enter";
    /// Detail `floor`, on `sys_exit`: empty.
    pub const FLOOR_EXIT: &str = "floor_exit";
    /// Detail `counts`, at the end of the function `x64_sys_call`.
    pub const FUNCTION_EXIT: &str = "function_exit";
    /// On `sched_process_fork`.
    pub const PROCESS_FORK: &str = "process_fork";
    /// On `sched_process_exec`.
    pub const PROCESS_EXEC: &str = "process_exec";
    /// On `sched_process_exit`.
    pub const PROCESS_EXIT: &str = "process_exit";
}

const _: () = assert!(size_of::<AbiStamp>() == 16);
