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

mod below;
mod descriptor;
mod events;
mod flag;
mod group;
mod kind;
mod rows;
mod sched;
mod stack;
mod start;
mod tls;
mod uring;

pub use below::{BelowEvents, PORT_WORDS, PortWord, port_bit};
pub use descriptor::{
    DESCRIPTOR_ENTRIES, DESCRIPTOR_LIMIT, DescriptorEntry, descriptor_index, descriptor_key,
    remembered,
};
pub use events::Events;
pub use flag::{ENDED, PENDING, TARGET, TARGETS_PER_ENTRY, TargetEntry, bits, flags_in};
pub use group::{
    GROUP_ENTRIES, GROUP_NONE, GROUP_PROBES, GROUP_PROCESS, GROUP_THREAD, GroupEntry, group_hash,
    group_key, group_key_parts,
};
pub use kind::{
    CALL_KINDS, EVENTFD, FILE, FUTEX_COMMAND_MASK, FUTEX_OTHER, FUTEX_SPLIT, FUTEX_WAIT,
    FUTEX_WAKE, Kind, NR_CLOSE, OBJECTS, OTHER, PIPE, SOCKET, SPLIT_CALLS, WAIT_ROWS, WaitLimits,
    futex_object, wait_limits,
};
pub use rows::{
    COMPAT_ROWS, CountRow, DIED_ERRNOS, EAGAIN, ERRNO_OTHER, ERRNO_SLOTS, EndRow, ErrnoRow,
    FIRST_RESTART_ERRNO, FIRST_SPLIT_ROW, MAX_ERRNO, NATIVE_ROWS, NR_SIGRETURN_COMPAT,
    NR_SIGRETURN_NATIVE, OUTSIDE_ROW, ROWS, TIME_BUCKETS, TimeRow, UNKNOWN_ROWS, UnknownEntry,
    WAIT_BUCKETS, WaitRow, errno_of_slot, errno_slot, log2_bucket, split_parts, split_row,
    unknown_key, unknown_key_parts,
};
pub use sched::{
    ASLEEP, CPU_IDLE, CPU_OTHER, CPU_TARGET, CpuRow, IN_SOFTIRQ, LABEL_BLOCKED, LABEL_CLOCK_TRIES,
    LABEL_NONE, LABEL_PARKED, LABEL_RUNNABLE, LABEL_WAITING, LABELS, LabelClock, Lives,
    RUN_QUEUE_BUCKETS, RUNNABLE, RUNNING, SegmentSlot, SplitRow, label_of, label_of_sleep,
    one_thread, pack_segment, segment_ns, segment_start_ns, segment_state,
};
pub use stack::{
    COMM_WORDS, LOST_SLEEP, NO_PLACE, STACK_CONTEXTS, STACK_DEPTH, STACK_ENTRIES, STACK_PROBES,
    STACK_WORDS, SleepSlot, StackEntry, StackHash, StackHead, StackScratch, TAKEN_WORDS,
    pack_place, place_parts,
};
pub use start::{StartSlot, elapsed_ns, pack_start, start_row};
pub use tls::{
    TLS_FUNCTIONS, TLS_ROWS, TLS_SLOTS, TLS_STACK_BYTES, TlsRow, TlsSlot, completes_handshake,
    is_handshake, jumps_to, tls_slot,
};
pub use uring::{
    URING_BUCKETS, URING_PROBES, URING_REPEATS, URING_ROWS, URING_SLOTS, URING_UNKNOWN_ROW,
    UringRepeat, UringRow, UringSlot, may_repeat, pack_submission, repeat_entry, repeat_index,
    repeat_key, repeat_opcode, request_hash, submission_age_ns, submission_opcode,
};

/// Version of everything in this crate; an object built from another one is refused.
pub const ABI_VERSION: u32 = 5;

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
    /// Per CPU: [`CpuRow`](crate::CpuRow).
    pub const CPUS: &str = "CPUS";
    /// [`DescriptorEntry`](crate::DescriptorEntry).
    pub const DESCRIPTORS: &str = "DESCRIPTORS";
    /// Per row, shared: [`EndRow`](crate::EndRow).
    pub const ENDS: &str = "ENDS";
    /// Per row, shared: [`ErrnoRow`](crate::ErrnoRow).
    pub const ERRNOS: &str = "ERRNOS";
    /// One entry: [`Events`](crate::Events).
    pub const EVENTS: &str = "EVENTS";
    /// Table: [`GroupEntry`](crate::GroupEntry).
    pub const GROUPS: &str = "GROUPS";
    /// One entry: [`LabelClock`](crate::LabelClock).
    pub const LABEL_CLOCK: &str = "LABEL_CLOCK";
    /// One entry: [`Lives`](crate::Lives).
    pub const LIVES: &str = "LIVES";
    /// Bit set of rows that are counted: 64 to an entry.
    pub const ONLY: &str = "ONLY";
    /// By tid: [`SegmentSlot`](crate::SegmentSlot).
    pub const SEGMENTS: &str = "SEGMENTS";
    /// Per CPU and row: [`SplitRow`](crate::SplitRow).
    pub const SPLITS: &str = "SPLITS";
    /// By tid: [`SleepSlot`](crate::SleepSlot).
    pub const SLEEPS: &str = "SLEEPS";
    /// Table: [`StackEntry`](crate::StackEntry).
    pub const STACKS: &str = "STACKS";
    /// One entry: [`StackHead`](crate::StackHead).
    pub const STACK_HEAD: &str = "STACK_HEAD";
    /// Per CPU and context: [`StackScratch`](crate::StackScratch).
    pub const STACK_SCRATCH: &str = "STACK_SCRATCH";
    /// Addresses of the stacks.
    pub const STACK_WORDS: &str = "STACK_WORDS";
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
    /// One entry: [`BelowEvents`](crate::BelowEvents).
    pub const BELOW: &str = "BELOW";
    /// Bit set: [`PortWord`](crate::PortWord).
    pub const PORTS: &str = "PORTS";
    /// Per CPU and operation: [`UringRow`](crate::UringRow).
    pub const URINGS: &str = "URINGS";
    /// Table: [`UringRepeat`](crate::UringRepeat).
    pub const URING_REPEATS: &str = "URING_REPEATS";
    /// Table: [`UringSlot`](crate::UringSlot).
    pub const URING_SLOTS: &str = "URING_SLOTS";
    /// Per CPU and function: [`TlsRow`](crate::TlsRow).
    pub const TLS_ROWS: &str = "TLS_ROWS";
    /// By tid: [`TlsSlot`](crate::TlsSlot).
    pub const TLS_SLOTS: &str = "TLS_SLOTS";
}

/// Names of the globals that user space sets before it loads the object.
pub mod global {
    /// `u8`: whether children of a target become targets.
    pub const FOLLOW: &str = "FOLLOW";
    /// `u8`: what calls are grouped by, [`GROUP_NONE`](crate::GROUP_NONE) and so on.
    pub const GROUP_BY: &str = "GROUP_BY";
    /// `u8`: whether descriptors may be looked up in the kernel's tables.
    pub const LOOK_UP: &str = "LOOK_UP";
    /// `u8`: whether only the calls of a set are counted.
    pub const FILTERED: &str = "FILTERED";
    /// `u8`: whether stacks are kept.
    pub const KEEP_STACKS: &str = "KEEP_STACKS";
    /// `u32`: entries of the list of unknown numbers that may be used.
    pub const UNKNOWN_LIMIT: &str = "UNKNOWN_LIMIT";
    /// `u32`: offset of `tgid` in `struct task_struct`.
    pub const TASK_TGID: &str = "TASK_TGID";
    /// `u32`: offset of `pid` in `struct task_struct`.
    pub const TASK_PID: &str = "TASK_PID";
    /// `u32`: offset of `__state` in `struct task_struct`.
    pub const TASK_STATE: &str = "TASK_STATE";
    /// `u32`: offset of `thread_info.status` in `struct task_struct`.
    pub const TASK_STATUS: &str = "TASK_STATUS";
    /// `u32`: offset of `signal` in `struct task_struct`.
    pub const TASK_SIGNAL: &str = "TASK_SIGNAL";
    /// `u32`: offset of `live` in `struct signal_struct`.
    pub const SIGNAL_LIVE: &str = "SIGNAL_LIVE";
    /// `u32`: offset of `files` in `struct task_struct`.
    pub const TASK_FILES: &str = "TASK_FILES";
    /// `u32`: offset of `fdt` in `struct files_struct`.
    pub const FILES_FDT: &str = "FILES_FDT";
    /// `u32`: offset of `max_fds` in `struct fdtable`.
    pub const FDT_MAX_FDS: &str = "FDT_MAX_FDS";
    /// `u32`: offset of `fd` in `struct fdtable`.
    pub const FDT_FD: &str = "FDT_FD";
    /// `u32`: offset of `f_inode` in `struct file`.
    pub const FILE_INODE: &str = "FILE_INODE";
    /// `u32`: offset of `f_path.dentry` in `struct file`.
    pub const FILE_DENTRY: &str = "FILE_DENTRY";
    /// `u32`: offset of `d_name.name` in `struct dentry`.
    pub const DENTRY_NAME: &str = "DENTRY_NAME";
    /// `u32`: offset of `i_mode` in `struct inode`.
    pub const INODE_MODE: &str = "INODE_MODE";
    /// `u32`: offset of `i_sb` in `struct inode`.
    pub const INODE_SB: &str = "INODE_SB";
    /// `u32`: offset of `s_magic` in `struct super_block`.
    pub const SB_MAGIC: &str = "SB_MAGIC";
    /// `u8`: whether operations of `io_uring` are timed.
    pub const URING_TIMED: &str = "URING_TIMED";
    /// `u32`: offset of `opcode` in `struct io_kiocb`.
    pub const KIOCB_OPCODE: &str = "KIOCB_OPCODE";
    /// `u32`: offset of `ctx` in `struct io_kiocb`.
    pub const KIOCB_RING: &str = "KIOCB_RING";
    /// `u32`: offset of `cqe.user_data` in `struct io_kiocb`.
    pub const KIOCB_USER_DATA: &str = "KIOCB_USER_DATA";
    /// `u32`: offset of `skc_num` in `struct sock_common`, with which `struct sock` begins.
    pub const SOCK_NUM: &str = "SOCK_NUM";
    /// `u32`: offset of `inet_sport` in `struct inet_sock`, which begins with a `struct sock`.
    pub const INET_SPORT: &str = "INET_SPORT";
    /// `u32`: offset of `on_cpu` in `struct task_struct`; zero for a kernel of one CPU, without it.
    pub const TASK_ON_CPU: &str = "TASK_ON_CPU";
    /// `u32`: offset of `se.exec_start` in `struct task_struct`; zero where one of the next four
    /// fields is missing.
    pub const TASK_EXEC_START: &str = "TASK_EXEC_START";
    /// `u32`: offset of `se.cfs_rq` in `struct task_struct`.
    pub const TASK_CFS_RQ: &str = "TASK_CFS_RQ";
    /// `u32`: offset of `rq` in `struct cfs_rq`.
    pub const CFS_RQ_RQ: &str = "CFS_RQ_RQ";
    /// `u32`: offset of `clock` in `struct rq`.
    pub const RQ_CLOCK: &str = "RQ_CLOCK";
    /// `u32`: offset of `clock_task` in `struct rq`.
    pub const RQ_CLOCK_TASK: &str = "RQ_CLOCK_TASK";
    /// `u32`: offset of `se.sum_exec_runtime` in `struct task_struct`.
    pub const TASK_SUM_EXEC: &str = "TASK_SUM_EXEC";
    /// `u8`: whether functions of TLS libraries are probed.
    pub const TLS: &str = "TLS";
}

/// Names of the programs in the object.
pub mod program {
    /// Detail `counts`, on `sys_exit`.
    pub const COUNTS_EXIT: &str = "counts_exit";
    /// Detail `times`, on `sys_enter`.
    pub const TIMES_ENTER: &str = "times_enter";
    /// Detail `times`, on `sys_exit`.
    pub const TIMES_EXIT: &str = "times_exit";
    /// Detail `sched`, on `sys_enter`.
    pub const SCHED_ENTER: &str = "sched_enter";
    /// Detail `sched`, on `sys_exit`.
    pub const SCHED_EXIT: &str = "sched_exit";
    /// Detail `sched`, on `sched_switch`.
    pub const SCHED_SWITCH: &str = "sched_switch";
    /// Detail `sched`, on `sched_wakeup`.
    pub const SCHED_WAKEUP: &str = "sched_wakeup";
    /// Detail `sched`, on `sched_migrate_task`.
    pub const SCHED_MIGRATE: &str = "sched_migrate";
    /// Detail `sched`, on `sched_process_fork`.
    pub const SCHED_FORK: &str = "sched_fork";
    /// Detail `sched`, on `sched_process_exec`.
    pub const SCHED_EXEC: &str = "sched_exec";
    /// Detail `sched`, on `sched_process_exit`.
    pub const SCHED_END: &str = "sched_end";
    /// Detail `sched`, for each thread that exists.
    pub const FIRST_STATES: &str = "first_states";
    /// Detail `sched`, on `page_fault_user`.
    pub const PAGE_FAULT: &str = "page_fault";
    /// Detail `sched`: programs on interrupts and their tracepoints, of which a kernel may lack some.
    ///
    /// Ends before begins: an interrupt that is seen to begin and not to end would never end, while
    /// an end without a beginning is ignored.
    pub const INTERRUPTS: [(&str, &str); 12] = [
        ("irq_out", "irq_handler_exit"),
        ("timer_out", "local_timer_exit"),
        ("resched_out", "reschedule_exit"),
        ("call_out", "call_function_exit"),
        ("call1_out", "call_function_single_exit"),
        ("work_out", "irq_work_exit"),
        ("irq_in", "irq_handler_entry"),
        ("timer_in", "local_timer_entry"),
        ("resched_in", "reschedule_entry"),
        ("call_in", "call_function_entry"),
        ("call1_in", "call_function_single_entry"),
        ("work_in", "irq_work_entry"),
    ];
    /// Detail `sched`, on `softirq_entry`.
    pub const SOFTIRQ_ENTRY: &str = "softirq_entry";
    /// Detail `sched`, on `softirq_exit`.
    pub const SOFTIRQ_EXIT: &str = "softirq_exit";
    /// Detail `stacks`, on a clock of each CPU.
    pub const STACK_SAMPLE: &str = "stack_sample";
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
    /// On `io_uring_submit_req`, before Linux 6.5 `io_uring_submit_sqe`.
    pub const URING_SUBMIT: &str = "uring_submit";
    /// On `io_uring_complete` where its last argument is the completion: Linux 6.15 and later.
    pub const URING_COMPLETE: &str = "uring_complete";
    /// On `io_uring_complete` where user data and result are arguments of their own: before.
    pub const URING_COMPLETE_RESULT: &str = "uring_complete_result";
    /// On `io_uring_cqe_overflow`.
    pub const URING_OVERFLOW: &str = "uring_overflow";
    /// On `tcp_retransmit_skb`.
    pub const TCP_RETRANSMIT: &str = "tcp_retransmit";
    /// On `tcp_send_reset`.
    pub const TCP_RESET_SENT: &str = "tcp_reset_sent";
    /// On `tcp_receive_reset`.
    pub const TCP_RESET_RECEIVED: &str = "tcp_reset_received";
    /// At the entry of functions of TLS libraries.
    pub const TLS_ENTER: &str = "tls_enter";
    /// At their exit.
    pub const TLS_EXIT: &str = "tls_exit";
}

const _: () = assert!(size_of::<AbiStamp>() == 16);
