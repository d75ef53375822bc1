// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! All that is unsafe: reading kernel structures, helpers, and what the object must contain.
//!
//! Kernel structures are read with ordinary loads. The verifier knows the types of these pointers
//! and of the offsets, and makes a load that faults yield zero.

mod arguments;
mod walk;

pub(crate) use arguments::{attach_cookie, local_port, probed_result, probed_stack};

use core::{
    intrinsics::{AtomicOrdering, atomic_and, atomic_cxchg, atomic_or, atomic_xadd, atomic_xchg},
    sync::atomic::AtomicU64,
};

use aya_ebpf::{
    EbpfContext as _, Global,
    helpers::bpf_probe_read_kernel,
    helpers::generated::{
        bpf_get_current_task_btf, bpf_get_smp_processor_id, bpf_ktime_get_ns, bpf_task_pt_regs,
    },
    programs::{BtfTracePointContext, FExitContext},
};
use profiler_common::{ABI_MAGIC, ABI_VERSION, AbiStamp, CALL_KINDS, Kind, ROWS};

use crate::maps::{
    CFS_RQ_RQ, FDT_FD, FDT_MAX_FDS, FILES_FDT, KIOCB_OPCODE, KIOCB_RING, KIOCB_USER_DATA, RQ_CLOCK,
    RQ_CLOCK_TASK, SIGNAL_LIVE, TASK_CFS_RQ, TASK_EXEC_START, TASK_FILES, TASK_ON_CPU, TASK_PID,
    TASK_SIGNAL, TASK_STATE, TASK_STATUS, TASK_SUM_EXEC, TASK_TGID,
};

pub(crate) use walk::{Side, comm, stack_depth};

/// A `struct task_struct`.
#[derive(Clone, Copy)]
pub(crate) struct Task(*const u8);

impl Task {
    /// The running thread.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        // SAFETY: the helper has no precondition; the running thread outlives the program.
        Self(unsafe { bpf_get_current_task_btf() }.cast())
    }

    /// The `n`th argument of a tracepoint, which must be a `struct task_struct *`.
    #[inline(always)]
    pub(crate) fn argument(ctx: &BtfTracePointContext, n: usize) -> Self {
        Self(ctx.arg(n))
    }

    /// The thread that an iterator has come to; `None` behind the last one.
    #[inline(always)]
    pub(crate) fn iterated(ctx: &BtfTracePointContext) -> Option<Self> {
        // `struct bpf_iter__task` begins as the arguments of a tracepoint would.
        let task: *const u8 = ctx.arg(1);
        (!task.is_null()).then_some(Self(task))
    }

    /// The process.
    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        read(self.0, &TASK_TGID)
    }

    /// The thread.
    #[inline(always)]
    pub(crate) fn tid(self) -> u32 {
        read(self.0, &TASK_PID)
    }

    /// Whether the thread is inside a call with a 32-bit number.
    #[inline(always)]
    pub(crate) fn is_compat(self) -> bool {
        read::<u32>(self.0, &TASK_STATUS) & TS_COMPAT != 0
    }

    /// Whether the thread runs or may run as soon as a CPU takes it.
    #[inline(always)]
    pub(crate) fn is_runnable(self) -> bool {
        read::<u32>(self.0, &TASK_STATE) == TASK_RUNNING
    }

    /// Whether the thread has left its CPU for the last time, or is about to.
    #[inline(always)]
    pub(crate) fn is_dead(self) -> bool {
        read::<u32>(self.0, &TASK_STATE) & TASK_DEAD != 0
    }

    /// Whether a CPU is executing the thread, or switching to or from it.
    #[inline(always)]
    pub(crate) fn is_on_cpu(self) -> bool {
        TASK_ON_CPU.load() != 0 && read::<u32>(self.0, &TASK_ON_CPU) != 0
    }

    /// The clocks of the run queue that the thread is in; `None` where the kernel keeps them
    /// elsewhere.
    #[inline(always)]
    pub(crate) fn queue_clocks(self) -> Option<QueueClocks> {
        if TASK_EXEC_START.load() == 0 {
            return None;
        }
        let fair: *const u8 = read(self.0, &TASK_CFS_RQ);
        let queue: *const u8 = read(fair, &CFS_RQ_RQ);
        let task_ns: u64 = read(queue, &RQ_CLOCK_TASK);
        Some(QueueClocks {
            ns: read(queue, &RQ_CLOCK),
            since_charged_ns: task_ns.wrapping_sub(read(self.0, &TASK_EXEC_START)),
        })
    }

    /// What the running thread has had of its CPUs, ns since an arbitrary moment that is the same for the
    /// thread as long as it lives; `None` where the kernel keeps its clocks elsewhere.
    ///
    /// The kernel charges a thread now and then, by a clock without the time of interrupts and of the
    /// hypervisor. What came since is added by the clock that all CPUs share.
    #[inline(always)]
    pub(crate) fn cpu_clock_ns(self, now_ns: u64) -> Option<u64> {
        if TASK_EXEC_START.load() == 0 {
            return None;
        }
        let charged_ns: u64 = read(self.0, &TASK_SUM_EXEC);
        let charged_at: u64 = read(self.0, &TASK_EXEC_START);
        let fair: *const u8 = read(self.0, &TASK_CFS_RQ);
        let queue: *const u8 = read(fair, &CFS_RQ_RQ);
        let clock_ns: u64 = read(queue, &RQ_CLOCK);
        let left_out_ns = clock_ns.wrapping_sub(read(queue, &RQ_CLOCK_TASK));
        let since_ns = now_ns.wrapping_sub(charged_at.wrapping_add(left_out_ns));
        Some(charged_ns.wrapping_add(since_ns))
    }

    /// Threads of the process that have not begun to exit.
    #[inline(always)]
    pub(crate) fn live_threads(self) -> i32 {
        let signal: *const u8 = read(self.0, &TASK_SIGNAL);
        read(signal, &SIGNAL_LIVE)
    }

    /// The `struct file` behind a descriptor; `None` where there is none.
    #[inline(always)]
    pub(crate) fn file(self, fd: u64) -> Option<Object> {
        let files: *const u8 = read(self.0, &TASK_FILES);
        let table: *const u8 = read(files, &FILES_FDT);
        if fd >= read::<u32>(table, &FDT_MAX_FDS).into() {
            return None;
        }
        let slots: u64 = read(table, &FDT_FD);
        Object(slots.wrapping_add(fd * 8)).follow_at(0)
    }

    /// The registers that the thread entered the kernel with.
    #[inline(always)]
    pub(crate) fn registers(self) -> Registers {
        // SAFETY: the pointer is a task that the verifier vouches for.
        Registers(unsafe { bpf_task_pt_regs(self.0.cast_mut().cast()) } as *const u8)
    }
}

/// What the scheduler knows about time, as of the last time that it looked.
#[derive(Clone, Copy)]
pub(crate) struct QueueClocks {
    /// The clock, ns since an arbitrary moment.
    pub(crate) ns: u64,
    /// From when the thread was last charged, or came, until then, ns.
    pub(crate) since_charged_ns: u64,
}

/// A kernel structure that the verifier does not know the type of: read with a helper, which fails
/// on an address that is none.
#[derive(Clone, Copy)]
pub(crate) struct Object(u64);

impl Object {
    /// The structure that a field points at; `None` for a null pointer.
    #[inline(always)]
    pub(crate) fn follow(self, offset: &Global<u32>) -> Option<Self> {
        self.follow_at(offset.load().into())
    }

    #[inline(always)]
    fn follow_at(self, offset: u64) -> Option<Self> {
        let pointer = self.copy_at(offset)?;
        (pointer != 0).then_some(Self(pointer))
    }

    /// A field.
    #[inline(always)]
    pub(crate) fn copy<T>(self, offset: &Global<u32>) -> Option<T> {
        self.copy_at(offset.load().into())
    }

    /// The first bytes.
    #[inline(always)]
    pub(crate) fn copy_at<T>(self, offset: u64) -> Option<T> {
        // SAFETY: the helper checks the address; every `T` here is an integer.
        unsafe { bpf_probe_read_kernel(self.0.wrapping_add(offset) as *const T) }.ok()
    }
}

/// A `struct io_kiocb`: a request of `io_uring`.
#[derive(Clone, Copy)]
pub(crate) struct Request(*const u8);

impl Request {
    /// The `n`th argument of a tracepoint, which must be a `struct io_kiocb *`.
    #[inline(always)]
    pub(crate) fn argument(ctx: &BtfTracePointContext, n: usize) -> Self {
        Self(ctx.arg(n))
    }

    /// What it does.
    #[inline(always)]
    pub(crate) fn opcode(self) -> u8 {
        read(self.0, &KIOCB_OPCODE)
    }

    /// The address of its ring.
    #[inline(always)]
    pub(crate) fn ring(self) -> u64 {
        // Not a load: of what the verifier knows to be an address no hash may be made.
        Object(self.0 as u64).copy(&KIOCB_RING).unwrap_or(0)
    }

    /// What the program knows it by.
    #[inline(always)]
    pub(crate) fn user_data(self) -> u64 {
        read(self.0, &KIOCB_USER_DATA)
    }
}

/// A `struct io_uring_cqe`.
#[derive(Clone, Copy)]
pub(crate) struct Cqe(*const u8);

impl Cqe {
    /// The `n`th argument of a tracepoint, which must be a `struct io_uring_cqe *`.
    #[inline(always)]
    pub(crate) fn argument(ctx: &BtfTracePointContext, n: usize) -> Self {
        Self(ctx.arg(n))
    }

    /// What the program knows the request by.
    #[inline(always)]
    pub(crate) fn user_data(self) -> u64 {
        // SAFETY: the verifier vouches for the pointer; the layout is part of the user ABI.
        unsafe { self.0.cast::<u64>().read() }
    }

    /// The result.
    #[inline(always)]
    pub(crate) fn result(self) -> i32 {
        // SAFETY: as above.
        unsafe { self.0.add(CQE_RES).cast::<i32>().read() }
    }
}

/// The `n`th argument of a tracepoint as a number, also where it is an address: the verifier lets
/// nobody calculate with those.
#[inline(always)]
pub(crate) fn argument_bits(ctx: &BtfTracePointContext, n: usize) -> u64 {
    Object(ctx.as_ptr() as u64)
        .copy_at(n as u64 * 8)
        .unwrap_or(0)
}

/// The opcode of the request at an address.
#[inline(always)]
pub(crate) fn opcode_at(request: u64) -> Option<u8> {
    Object(request).copy(&KIOCB_OPCODE)
}

/// A `struct pt_regs` of x86-64.
#[derive(Clone, Copy)]
pub(crate) struct Registers(*const u8);

impl Registers {
    /// The first argument of a function, which must be a `struct pt_regs *`.
    #[inline(always)]
    pub(crate) fn first_argument(ctx: &FExitContext) -> Self {
        Self(ctx.arg(0))
    }

    /// The `n`th argument of a tracepoint, which must be a `struct pt_regs *`.
    #[inline(always)]
    pub(crate) fn argument(ctx: &BtfTracePointContext, n: usize) -> Self {
        Self(ctx.arg(n))
    }

    /// Those of the running thread.
    #[inline(always)]
    pub(crate) fn of_current() -> Self {
        Task::current().registers()
    }

    /// The number of the call; -1 outside of calls and at the end of `rt_sigreturn`.
    #[inline(always)]
    pub(crate) fn nr(self) -> i64 {
        // SAFETY: the pointer is a `struct pt_regs` that the verifier vouches for.
        unsafe { self.0.add(PT_REGS_ORIG_AX).cast::<i64>().read() }
    }

    /// Whether there are none: a thread that the kernel made for itself has never been in user code.
    #[inline(always)]
    pub(crate) fn are_blank(self) -> bool {
        // SAFETY: as above.
        let word = |at: usize| unsafe { self.0.add(at).cast::<u64>().read() };
        word(PT_REGS_IP) == 0 && word(PT_REGS_SP) == 0
    }

    /// An argument of the call, as it was at entry.
    #[inline(always)]
    pub(crate) fn call_argument<const N: usize>(self) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.add(PT_REGS_ARGUMENTS[N]).cast::<u64>().read() }
    }

    /// The return value of the call, -ENOSYS until it has one.
    #[inline(always)]
    pub(crate) fn returned(self) -> i64 {
        // SAFETY: as above.
        unsafe { self.0.add(PT_REGS_AX).cast::<i64>().read() }
    }
}

/// `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub(crate) fn clock_ns() -> u64 {
    // SAFETY: the helper has no precondition.
    unsafe { bpf_ktime_get_ns() }
}

/// The CPU that the program runs on.
#[inline(always)]
pub(crate) fn cpu() -> u32 {
    // SAFETY: the helper has no precondition.
    unsafe { bpf_get_smp_processor_id() }
}

/// An ordinary load: the target has no instruction for relaxed atomic ones, and does not need any.
#[inline(always)]
pub(crate) fn load(word: &AtomicU64) -> u64 {
    // SAFETY: the pointer comes from a reference; aligned loads of a word are never torn.
    unsafe { word.as_ptr().read_volatile() }
}

/// An ordinary store.
#[inline(always)]
pub(crate) fn store(word: &AtomicU64, value: u64) {
    // SAFETY: as above; stores are not torn either.
    unsafe { word.as_ptr().write_volatile(value) };
}

/// Adds to a counter that all CPUs share.
#[inline(always)]
pub(crate) fn fetch_add(counter: &AtomicU64, by: u64) {
    // SAFETY: the pointer comes from a reference to an atomic.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(counter.as_ptr(), by) };
}

/// The same; what it was before. The compiler makes an instruction without a result of a relaxed one, even
/// where the result is used.
#[inline(always)]
pub(crate) fn advance(counter: &AtomicU64, by: u64) -> u64 {
    // SAFETY: as above.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::AcqRel }>(counter.as_ptr(), by) }
}

/// Replaces a word that all CPUs share; what it was before.
#[inline(always)]
pub(crate) fn exchange(word: &AtomicU64, new: u64) -> u64 {
    // SAFETY: as above.
    unsafe { atomic_xchg::<u64, { AtomicOrdering::Relaxed }>(word.as_ptr(), new) }
}

/// Adds to a counter of this CPU that no program which may interrupt this one adds to.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    store(counter, load(counter).wrapping_add(by));
}

/// Adds to a counter of all CPUs.
#[inline(always)]
pub(crate) fn add(counter: Option<&AtomicU64>, by: u64) {
    if let Some(counter) = counter {
        fetch_add(counter, by);
    }
}

/// Sets bits of a word that all CPUs share.
#[inline(always)]
pub(crate) fn fetch_or(word: &AtomicU64, bits: u64) {
    // SAFETY: as above.
    unsafe { atomic_or::<u64, u64, { AtomicOrdering::Relaxed }>(word.as_ptr(), bits) };
}

/// Keeps only these bits of a word that all CPUs share.
#[inline(always)]
pub(crate) fn fetch_and(word: &AtomicU64, bits: u64) {
    // SAFETY: as above.
    unsafe { atomic_and::<u64, u64, { AtomicOrdering::Relaxed }>(word.as_ptr(), bits) };
}

/// Replaces zero by `new`; what was found.
#[inline(always)]
pub(crate) fn replace_zero(word: &AtomicU64, new: u64) -> u64 {
    replace(word, 0, new)
}

/// Replaces `old` by `new`; what was found.
#[inline(always)]
pub(crate) fn replace(word: &AtomicU64, old: u64, new: u64) -> u64 {
    // SAFETY: as above.
    let (found, _) = unsafe {
        atomic_cxchg::<u64, { AtomicOrdering::Relaxed }, { AtomicOrdering::Relaxed }>(
            word.as_ptr(),
            old,
            new,
        )
    };
    found
}

/// A counter of an array; the last one for an index beyond.
///
/// The compiler proves that an index is in range and leaves the check out, or merges it with others;
/// the verifier of Linux 6.1 cannot follow. The barrier keeps this check apart.
#[inline(always)]
pub(crate) fn slot<const N: usize>(slots: &[AtomicU64; N], index: usize) -> &AtomicU64 {
    let index = core::hint::black_box(index);
    slots.get(index).unwrap_or(&slots[N - 1])
}

/// The kind of a row below [`ROWS`]; other rows are plain.
#[inline(always)]
pub(crate) fn kind(row: u64) -> Kind {
    // As in `slot`: one register is checked and used.
    let row = core::hint::black_box(row);
    if row >= ROWS.into() {
        return Kind::Plain;
    }
    // SAFETY: the index was checked. Volatile, or the compiler makes a chain of compares of it.
    Kind::from_byte(unsafe { CALL_KINDS_TABLE.as_ptr().add(row as usize).read_volatile() })
}

/// Reads a field at an offset that the loader filled in.
#[inline(always)]
fn read<T: Copy>(base: *const u8, offset: &Global<u32>) -> T {
    // SAFETY: the loader took the offset from the kernel's own BTF, and the verifier checks base,
    // offset and size against it.
    unsafe { base.add(offset.load() as usize).cast::<T>().read() }
}

/// include/linux/sched.h.
const TASK_RUNNING: u32 = 0;
const TASK_DEAD: u32 = 0x80;
/// arch/x86/include/asm/thread_info.h.
const TS_COMPAT: u32 = 2;
/// arch/x86/include/asm/ptrace.h; the order of the registers is part of the user ABI.
const PT_REGS_AX: usize = 80;
const PT_REGS_ORIG_AX: usize = 120;
const PT_REGS_IP: usize = 128;
const PT_REGS_SP: usize = 152;
/// `di`, `si`, `dx`, `r10`.
const PT_REGS_ARGUMENTS: [usize; 4] = [112, 104, 96, 56];

/// `struct io_uring_cqe` of include/uapi/linux/io_uring.h.
const CQE_RES: usize = 8;

static CALL_KINDS_TABLE: [u8; ROWS as usize] = CALL_KINDS;

#[used]
#[unsafe(no_mangle)]
static ABI_STAMP: AbiStamp = AbiStamp {
    magic: ABI_MAGIC,
    version: ABI_VERSION,
};

/// `bpf_task_pt_regs` and the BTF helpers are for programs under the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
