//! Detail `sched`: what every thread does at any moment, and what that adds up to.
//!
//! A thread is in one state: running, ready to run, or asleep. Each program that sees it leave a
//! state adds the time since the last change to the counters of the CPU, under the row of the call
//! that the thread is in ([`OUTSIDE_ROW`](crate::OUTSIDE_ROW) if none), and stamps the new state. Time
//! in interrupts is counted per CPU as it passes, and taken out of what they interrupted.

use core::sync::atomic::AtomicU64;

use crate::{Kind, SOCKET};

/// State of a thread and when it began; zero until the thread was first seen.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct SegmentSlot(pub AtomicU64);

/// On a CPU.
pub const RUNNING: u64 = 1;
/// Ready to run, waiting for a CPU.
pub const RUNNABLE: u64 = 2;
/// Asleep.
pub const ASLEEP: u64 = 3;

/// Packs a state and when it began; never zero. The time is kept modulo 2^62 ns.
#[inline]
pub const fn pack_segment(now_ns: u64, state: u64) -> u64 {
    (now_ns << STATE_BITS) | state
}

/// The state of a packed segment.
#[inline]
pub const fn segment_state(packed: u64) -> u64 {
    packed & STATE_MASK
}

/// When a packed segment began, ns modulo 2^62.
#[inline]
pub const fn segment_start_ns(packed: u64) -> u64 {
    packed >> STATE_BITS
}

/// Nanoseconds from the beginning of a segment to `now_ns`. Wraps where the clock went backwards,
/// so that sums stay exact.
#[inline]
pub const fn segment_ns(packed: u64, now_ns: u64) -> u64 {
    now_ns.wrapping_sub(segment_start_ns(packed))
}

const STATE_BITS: u32 = 2;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;

/// Time of one row on one CPU. Each word has one writer: a program in the context of a call
/// (`on_cpu_ns`), of a switch (`run_queue_ns`) or of a wake-up (the others), of which one may
/// interrupt another. Sums wrap: a term may be taken out before it was added.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SplitRow {
    /// On a CPU, without interrupts, ns. Added to by calls.
    pub on_cpu_ns: AtomicU64,
    /// The same, added to by switches.
    pub on_cpu_switch_ns: AtomicU64,
    /// Waiting for a CPU, ns.
    pub run_queue_ns: AtomicU64,
    /// Asleep, ns, by the wake-ups that ended it.
    pub off_cpu_ns: AtomicU64,
    /// Sleeps.
    pub sleeps: AtomicU64,
}

/// Buckets of [`CpuRow::run_queue_waits`].
pub const RUN_QUEUE_BUCKETS: usize = 40;

/// What one CPU did.
#[repr(C)]
#[derive(Debug)]
pub struct CpuRow {
    /// Interrupts, ns.
    pub irq_ns: AtomicU64,
    /// Soft interrupts, ns, without the interrupts that interrupted them.
    pub softirq_ns: AtomicU64,
    /// When the innermost interrupt or soft interrupt began or went on; zero outside of them.
    pub interrupted_ns: AtomicU64,
    /// Interrupts that are being handled, 1 each, and a soft interrupt, [`IN_SOFTIRQ`].
    pub nesting: AtomicU64,

    /// `irq_ns` and `softirq_ns` when the running target was last accounted for.
    pub seen_irq_ns: AtomicU64,
    /// See `seen_irq_ns`.
    pub seen_softirq_ns: AtomicU64,
    /// Of `irq_ns`, what interrupted threads of the target.
    pub target_irq_ns: AtomicU64,
    /// Of `softirq_ns`, what interrupted threads of the target or ran at the end of their calls.
    pub target_softirq_ns: AtomicU64,

    /// When the last switch was.
    pub switched_ns: AtomicU64,
    /// `irq_ns` and `softirq_ns` together at the last switch.
    pub switched_interrupts_ns: AtomicU64,
    /// What has run since: [`CPU_TARGET`], [`CPU_OTHER`] or [`CPU_IDLE`]; zero until the first
    /// switch.
    pub running: AtomicU64,
    /// Threads of the target, ns, without interrupts.
    pub target_ns: AtomicU64,
    /// Other tasks, ns, without interrupts.
    pub other_ns: AtomicU64,
    /// Idle, ns, without interrupts.
    pub idle_ns: AtomicU64,
    /// Idle by [label](LABELS), ns.
    pub idle_by_label_ns: [AtomicU64; LABELS],
    /// [`LabelClock::ns`] when the CPU became idle.
    pub idle_from_ns: [AtomicU64; LABELS],

    /// Threads of the target that gave up the CPU to sleep.
    pub voluntary_switches: AtomicU64,
    /// Threads of the target that were taken off the CPU.
    pub involuntary_switches: AtomicU64,
    /// Threads of the target that were moved from or to another CPU.
    pub migrations: AtomicU64,
    /// Threads of the target that were woken.
    pub wakeups: AtomicU64,
    /// Page faults of threads of the target in user mode.
    pub page_faults: AtomicU64,
    /// Runs of programs on interrupts, of any task.
    pub interrupts: AtomicU64,
    /// Waits of threads of the target for a CPU, by [`log2_bucket`](crate::log2_bucket).
    pub run_queue_waits: [AtomicU64; RUN_QUEUE_BUCKETS],

    /// What the kernel's CPU clock counted at switches beyond what is counted here, ns, wrapping: it
    /// goes by the clock of the run queue, which is mostly read before a switch.
    pub charged_ns: AtomicU64,
    /// `CLOCK_MONOTONIC` less the clock of the run queue when that was last known to be fresh.
    pub clock_base_ns: AtomicU64,
    /// When that was; zero until then.
    pub clock_based_ns: AtomicU64,
    /// Keeps two CPUs off one cache line.
    pub padding: [AtomicU64; 7],
}

/// [`CpuRow::nesting`] of a soft interrupt.
pub const IN_SOFTIRQ: u64 = 1 << 32;
/// A thread of the target runs.
pub const CPU_TARGET: u64 = 1;
/// Another task runs.
pub const CPU_OTHER: u64 = 2;
/// The idle task runs.
pub const CPU_IDLE: u64 = 3;

/// Labels of idle time, in order of precedence: ready to run on another CPU, blocked, parked on a
/// futex, waiting for events, none of them.
pub const LABELS: usize = 5;
/// A thread of the target waits for a CPU.
pub const LABEL_RUNNABLE: usize = 0;
/// A thread of the target sleeps in a call that is no wait for events.
pub const LABEL_BLOCKED: usize = 1;
/// A thread of the target waits on a futex.
pub const LABEL_PARKED: usize = 2;
/// All threads of the target that sleep wait for events.
pub const LABEL_WAITING: usize = 3;
/// No thread of the target is asleep or ready to run.
pub const LABEL_NONE: usize = 4;

/// What the target's threads are doing, and for how long that has decided the label.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LabelClock {
    /// 1 while somebody changes or reads the rest. Whoever waits in vain for
    /// [`LABEL_CLOCK_TRIES`] goes on without: it may have interrupted the holder.
    pub lock: AtomicU64,
    /// How many threads are in each of the first four labels, 16 bits each.
    pub threads: AtomicU64,
    /// When the label last changed.
    pub changed_ns: AtomicU64,
    /// How long each label applied, ns.
    pub ns: [AtomicU64; LABELS],
}

/// What a thread that sleeps in a call of this kind says about idle time.
#[inline]
pub const fn label_of_sleep(kind: Kind) -> usize {
    match kind {
        Kind::Wait(_) | Kind::Idle | Kind::Opens(SOCKET) => LABEL_WAITING,
        Kind::Futex => LABEL_PARKED,
        _ => LABEL_BLOCKED,
    }
}

/// How often the lock of the [`LabelClock`] is tried.
pub const LABEL_CLOCK_TRIES: u32 = 64;

/// One thread in [`LabelClock::threads`].
#[inline]
pub const fn one_thread(label: usize) -> u64 {
    1 << (label as u32 * LABEL_BITS)
}

/// The label that these threads give to idle time.
#[inline]
pub const fn label_of(threads: u64) -> usize {
    if threads & LABEL_MASK != 0 {
        LABEL_RUNNABLE
    } else if threads & (LABEL_MASK << LABEL_BITS) != 0 {
        LABEL_BLOCKED
    } else if threads & (LABEL_MASK << (2 * LABEL_BITS)) != 0 {
        LABEL_PARKED
    } else if threads >> (3 * LABEL_BITS) != 0 {
        LABEL_WAITING
    } else {
        LABEL_NONE
    }
}

const LABEL_BITS: u32 = 16;
const LABEL_MASK: u64 = (1 << LABEL_BITS) - 1;

/// Threads that came and went. What lived between two moments follows from counts and sums of
/// stamps, which wrap.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Lives {
    /// Threads that were first seen.
    pub began: AtomicU64,
    /// Sum of when that was.
    pub began_ns: AtomicU64,
    /// Of them, those that had not existed before.
    pub born: AtomicU64,
    /// Threads that ended.
    pub ended: AtomicU64,
    /// Sum of when that was.
    pub ended_ns: AtomicU64,
}

const _: () = assert!(size_of::<SegmentSlot>() == 8);
const _: () = assert!(size_of::<SplitRow>() == 40);
const _: () = assert!(size_of::<CpuRow>() == 10 * 64);
const _: () = assert!(size_of::<LabelClock>() == 64);
const _: () = assert!(size_of::<Lives>() == 40);

#[cfg(test)]
mod tests {
    use super::*;

    /// State and age of a segment come back.
    #[test]
    fn segments_round_trip() {
        for state in [RUNNING, RUNNABLE, ASLEEP] {
            let packed = pack_segment(1 << 50, state);
            assert_eq!(segment_state(packed), state);
            assert_eq!(segment_ns(packed, (1 << 50) + 9), 9);
            assert_eq!(segment_ns(packed, (1 << 50) - 1), u64::MAX);
        }
    }

    /// The first label with a thread applies, however many threads are in the others.
    #[test]
    fn labels_have_precedence() {
        let mut threads = 0;
        assert_eq!(label_of(threads), LABEL_NONE);
        for label in [LABEL_WAITING, LABEL_PARKED, LABEL_BLOCKED, LABEL_RUNNABLE] {
            threads += 3 * one_thread(label);
            assert_eq!(label_of(threads), label);
        }
        threads -= 3 * one_thread(LABEL_RUNNABLE);
        assert_eq!(label_of(threads), LABEL_BLOCKED);
    }
}
