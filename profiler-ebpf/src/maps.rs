// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! The maps and the globals.
//!
//! Plain arrays only: their look-up is inlined by the JIT, a hash look-up costs more than all else
//! together. All that user space reads is mappable, so that reading costs no system call. Capacities
//! that depend on the machine are set before the object is loaded.

use core::sync::atomic::AtomicU64;

use aya_ebpf::{Global, bindings::BPF_F_MMAPABLE, macros::map, maps::Array};
use profiler_common::{
    BelowEvents, CountRow, CpuRow, DESCRIPTOR_ENTRIES, DescriptorEntry, EndRow, ErrnoRow, Events,
    GROUP_NONE, GroupEntry, LabelClock, Lives, PORT_WORDS, PortWord, ROWS, SegmentSlot, SleepSlot,
    SplitRow, StackEntry, StackHead, StackScratch, StartSlot, TargetEntry, TimeRow, TlsRow,
    TlsSlot, UNKNOWN_ROWS, UnknownEntry, UringRepeat, UringRow, UringSlot, WaitRow,
};

/// Per CPU and row; capacity: possible CPUs * rows.
#[map]
pub(crate) static COUNTS: Array<CountRow> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// By row. Shared by all CPUs: errors other than EAGAIN are rare, one copy per CPU would be large.
#[map]
pub(crate) static ERRNOS: Array<ErrnoRow> = Array::with_max_entries(ROWS, BPF_F_MMAPABLE);
/// Per CPU; capacity: possible CPUs, or 1 below detail `sched`.
#[map]
pub(crate) static CPUS: Array<CpuRow> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// What descriptors are. Only the programs read it.
#[map]
pub(crate) static DESCRIPTORS: Array<DescriptorEntry> =
    Array::with_max_entries(DESCRIPTOR_ENTRIES, 0);
/// By process or thread; capacity: as many entries as the table has, or 1 without grouping.
#[map]
pub(crate) static GROUPS: Array<GroupEntry> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// What the threads of the target do, all CPUs.
#[map]
pub(crate) static LABEL_CLOCK: Array<LabelClock> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Threads that came and went.
#[map]
pub(crate) static LIVES: Array<Lives> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Bit set of rows, 64 to an entry.
#[map]
pub(crate) static ONLY: Array<u64> = Array::with_max_entries(ROWS.div_ceil(64), BPF_F_MMAPABLE);
/// By tid; capacity: `pid_max`, or 1 below detail `sched`.
#[map]
pub(crate) static SEGMENTS: Array<SegmentSlot> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Per CPU and row; capacity: possible CPUs * rows, or 1 below detail `sched`.
#[map]
pub(crate) static SPLITS: Array<SplitRow> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// By tid; capacity: `pid_max`, or 1 below detail `stacks`.
#[map]
pub(crate) static SLEEPS: Array<SleepSlot> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Stacks; capacity: as many entries as the table has, or 1 below detail `stacks`.
#[map]
pub(crate) static STACKS: Array<StackEntry> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// What the table of stacks as a whole has.
#[map]
pub(crate) static STACK_HEAD: Array<StackHead> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Per CPU and context; capacity: possible CPUs * contexts, or 1 below detail `stacks`. Only the programs read it.
#[map]
pub(crate) static STACK_SCRATCH: Array<StackScratch> = Array::with_max_entries(1, 0);
/// Addresses of the stacks; capacity: as the table needs, or 1 below detail `stacks`.
#[map]
pub(crate) static STACK_WORDS: Array<AtomicU64> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// By row.
#[map]
pub(crate) static ENDS: Array<EndRow> = Array::with_max_entries(ROWS, BPF_F_MMAPABLE);
/// Rare events.
#[map]
pub(crate) static EVENTS: Array<Events> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// By tid; capacity: `pid_max`, or 1 below detail `times`.
#[map]
pub(crate) static STARTS: Array<StartSlot> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// By tgid, eight to an entry; capacity: `pid_max` / 8.
#[map]
pub(crate) static TARGETS: Array<TargetEntry> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Per CPU and row; capacity: possible CPUs * rows, or 1 below detail `times`.
#[map]
pub(crate) static TIMES: Array<TimeRow> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Numbers outside the table.
#[map]
pub(crate) static UNKNOWNS: Array<UnknownEntry> =
    Array::with_max_entries(UNKNOWN_ROWS, BPF_F_MMAPABLE);
/// Per CPU and waiting call; capacity: possible CPUs * waiting calls.
#[map]
pub(crate) static WAITS: Array<WaitRow> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Rare events below the calls.
#[map]
pub(crate) static BELOW: Array<BelowEvents> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Bit set of the ports that the target listens on.
#[map]
pub(crate) static PORTS: Array<PortWord> = Array::with_max_entries(PORT_WORDS, BPF_F_MMAPABLE);
/// Per CPU and operation; capacity: possible CPUs * operations.
#[map]
pub(crate) static URINGS: Array<UringRow> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// What may complete more than once. Only the programs read it.
#[map]
pub(crate) static URING_REPEATS: Array<UringRepeat> = Array::with_max_entries(1, 0);
/// Requests in flight; capacity: all entries, or 1 below detail `times`. Only the programs read it.
#[map]
pub(crate) static URING_SLOTS: Array<UringSlot> = Array::with_max_entries(1, 0);

/// Per CPU and function of TLS libraries; capacity: possible CPUs * functions, or 1 where none are probed.
#[map]
pub(crate) static TLS_ROWS: Array<TlsRow> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// By thread; capacity: all slots, or 1 where no TLS library is probed. Only the programs read it.
#[map]
pub(crate) static TLS_SLOTS: Array<TlsSlot> = Array::with_max_entries(1, 0);

/// Whether children of a target become targets.
#[unsafe(no_mangle)]
pub(crate) static FOLLOW: Global<u8> = Global::new(0);
/// What calls are grouped by.
#[unsafe(no_mangle)]
pub(crate) static GROUP_BY: Global<u8> = Global::new(GROUP_NONE);
/// Whether descriptors and ports may be looked up in the kernel's tables, which a kernel that is locked down
/// for confidentiality forbids.
#[unsafe(no_mangle)]
pub(crate) static LOOK_UP: Global<u8> = Global::new(1);
/// Whether only the rows in [`ONLY`] are counted.
#[unsafe(no_mangle)]
pub(crate) static FILTERED: Global<u8> = Global::new(0);
/// Whether functions of TLS libraries are probed.
#[unsafe(no_mangle)]
pub(crate) static TLS: Global<u8> = Global::new(0);
/// Whether operations of `io_uring` are timed.
#[unsafe(no_mangle)]
pub(crate) static URING_TIMED: Global<u8> = Global::new(0);
/// Whether stacks are kept.
#[unsafe(no_mangle)]
pub(crate) static KEEP_STACKS: Global<u8> = Global::new(0);
/// Entries of [`UNKNOWNS`] that may be used.
#[unsafe(no_mangle)]
pub(crate) static UNKNOWN_LIMIT: Global<u32> = Global::new(UNKNOWN_ROWS);

// Offsets in the structures of the running kernel, from its BTF. Read-only data is frozen before
// the verifier runs, so these are constants to it, as in an object relocated by libbpf.

/// `task_struct.tgid`.
#[unsafe(no_mangle)]
pub(crate) static TASK_TGID: Global<u32> = Global::new(0);
/// `task_struct.pid`.
#[unsafe(no_mangle)]
pub(crate) static TASK_PID: Global<u32> = Global::new(0);
/// `task_struct.__state`.
#[unsafe(no_mangle)]
pub(crate) static TASK_STATE: Global<u32> = Global::new(0);
/// `task_struct.thread_info.status`.
#[unsafe(no_mangle)]
pub(crate) static TASK_STATUS: Global<u32> = Global::new(0);
/// `task_struct.signal`.
#[unsafe(no_mangle)]
pub(crate) static TASK_SIGNAL: Global<u32> = Global::new(0);
/// `signal_struct.live`.
#[unsafe(no_mangle)]
pub(crate) static SIGNAL_LIVE: Global<u32> = Global::new(0);
/// `task_struct.files`.
#[unsafe(no_mangle)]
pub(crate) static TASK_FILES: Global<u32> = Global::new(0);
/// `files_struct.fdt`.
#[unsafe(no_mangle)]
pub(crate) static FILES_FDT: Global<u32> = Global::new(0);
/// `fdtable.max_fds`.
#[unsafe(no_mangle)]
pub(crate) static FDT_MAX_FDS: Global<u32> = Global::new(0);
/// `fdtable.fd`.
#[unsafe(no_mangle)]
pub(crate) static FDT_FD: Global<u32> = Global::new(0);
/// `file.f_inode`.
#[unsafe(no_mangle)]
pub(crate) static FILE_INODE: Global<u32> = Global::new(0);
/// `file.f_path.dentry`.
#[unsafe(no_mangle)]
pub(crate) static FILE_DENTRY: Global<u32> = Global::new(0);
/// `dentry.d_name.name`.
#[unsafe(no_mangle)]
pub(crate) static DENTRY_NAME: Global<u32> = Global::new(0);
/// `inode.i_mode`.
#[unsafe(no_mangle)]
pub(crate) static INODE_MODE: Global<u32> = Global::new(0);
/// `inode.i_sb`.
#[unsafe(no_mangle)]
pub(crate) static INODE_SB: Global<u32> = Global::new(0);
/// `super_block.s_magic`.
#[unsafe(no_mangle)]
pub(crate) static SB_MAGIC: Global<u32> = Global::new(0);
/// `sock_common.skc_num`.
#[unsafe(no_mangle)]
pub(crate) static SOCK_NUM: Global<u32> = Global::new(0);
/// `inet_sock.inet_sport`.
#[unsafe(no_mangle)]
pub(crate) static INET_SPORT: Global<u32> = Global::new(0);
/// `io_kiocb.opcode`.
#[unsafe(no_mangle)]
pub(crate) static KIOCB_OPCODE: Global<u32> = Global::new(0);
/// `io_kiocb.ctx`.
#[unsafe(no_mangle)]
pub(crate) static KIOCB_RING: Global<u32> = Global::new(0);
/// `io_kiocb.cqe.user_data`.
#[unsafe(no_mangle)]
pub(crate) static KIOCB_USER_DATA: Global<u32> = Global::new(0);
/// `task_struct.on_cpu`; zero where a kernel of one CPU has none.
#[unsafe(no_mangle)]
pub(crate) static TASK_ON_CPU: Global<u32> = Global::new(0);
/// `task_struct.se.exec_start`; zero where this or one of the following is missing.
#[unsafe(no_mangle)]
pub(crate) static TASK_EXEC_START: Global<u32> = Global::new(0);
/// `task_struct.se.cfs_rq`.
#[unsafe(no_mangle)]
pub(crate) static TASK_CFS_RQ: Global<u32> = Global::new(0);
/// `cfs_rq.rq`.
#[unsafe(no_mangle)]
pub(crate) static CFS_RQ_RQ: Global<u32> = Global::new(0);
/// `rq.clock`.
#[unsafe(no_mangle)]
pub(crate) static RQ_CLOCK: Global<u32> = Global::new(0);
/// `rq.clock_task`.
#[unsafe(no_mangle)]
pub(crate) static RQ_CLOCK_TASK: Global<u32> = Global::new(0);
/// `task_struct.se.sum_exec_runtime`.
#[unsafe(no_mangle)]
pub(crate) static TASK_SUM_EXEC: Global<u32> = Global::new(0);
