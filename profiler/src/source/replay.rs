//! Counters in ordinary memory, for tests of everything above the kernel: it does to the tables what
//! the programs would.

use std::array::from_fn;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use profiler_common::{
    BelowEvents, CountRow, CpuRow, EAGAIN, EndRow, ErrnoRow, Events, FIRST_RESTART_ERRNO,
    GroupEntry, Kind, LabelClock, Lives, PORT_WORDS, PortWord, ROWS, SegmentSlot, SleepSlot,
    SplitRow, StackEntry, StackHead, StartSlot, TARGETS_PER_ENTRY, TIME_BUCKETS, TargetEntry,
    TimeRow, UNKNOWN_ROWS, URING_ROWS, UnknownEntry, UringRow, WAIT_ROWS, WaitRow, errno_slot,
    log2_bucket, pack_place,
};

use super::{ByThread, CounterSource, Probed, StackTables, Tables};
use recording::StackClock;

use crate::ProfilerError;
use crate::snapshot::kind_of_row;

/// Tables of a machine with [`CPUS`] CPUs.
#[derive(Debug)]
pub(crate) struct Replay {
    counts: Vec<CountRow>,
    pub(crate) cpus: Vec<CpuRow>,
    ends: Vec<EndRow>,
    errnos: Vec<ErrnoRow>,
    events: Events,
    pub(crate) groups: Vec<GroupEntry>,
    pub(crate) label_clock: LabelClock,
    pub(crate) lives: Lives,
    only: Vec<AtomicU64>,
    pub(crate) segments: Vec<SegmentSlot>,
    pub(crate) splits: Vec<SplitRow>,
    pub(crate) starts: Vec<StartSlot>,
    targets: Vec<TargetEntry>,
    times: Vec<TimeRow>,
    unknowns: Vec<UnknownEntry>,
    waits: Vec<WaitRow>,
    pub(crate) below: BelowEvents,
    ports: Vec<PortWord>,
    pub(crate) urings: Vec<UringRow>,
    pub(crate) stacks: Vec<StackEntry>,
    pub(crate) stack_head: StackHead,
    pub(crate) stack_words: Vec<AtomicU64>,
    pub(crate) sleeps: Vec<SleepSlot>,
    /// Runs that the kernel skipped.
    pub(crate) recursion_misses: Arc<AtomicU64>,
}

impl Replay {
    /// Process ids below `pid_max` have room.
    pub(crate) fn new(pid_max: u32) -> Self {
        Self {
            counts: table(CPUS * ROWS, CountRow::default),
            ends: table(ROWS, EndRow::default),
            errnos: table(ROWS, || ErrnoRow {
                slots: from_fn(|_| AtomicU64::default()),
            }),
            events: Events::default(),
            cpus: table(CPUS, empty_cpu),
            groups: table(64, GroupEntry::default),
            label_clock: LabelClock::default(),
            lives: Lives::default(),
            only: table(ROWS.div_ceil(64), AtomicU64::default),
            segments: table(pid_max, SegmentSlot::default),
            splits: table(CPUS * ROWS, SplitRow::default),
            starts: table(pid_max, || StartSlot(AtomicU64::default())),
            targets: table(pid_max / TARGETS_PER_ENTRY, TargetEntry::default),
            times: table(CPUS * ROWS, || TimeRow {
                ns_total: AtomicU64::default(),
                ns_max: AtomicU64::default(),
                ns_min_inverted: AtomicU64::default(),
                buckets: from_fn(|_| AtomicU64::default()),
            }),
            unknowns: table(UNKNOWN_ROWS, UnknownEntry::default),
            waits: table(CPUS * WAIT_ROWS, || WaitRow {
                wakes: AtomicU64::default(),
                events: AtomicU64::default(),
                timeouts: AtomicU64::default(),
                interrupted: AtomicU64::default(),
                polls: AtomicU64::default(),
                truncated: AtomicU64::default(),
                buckets: from_fn(|_| AtomicU64::default()),
            }),
            below: BelowEvents::default(),
            ports: table(PORT_WORDS, PortWord::default),
            urings: table(CPUS * URING_ROWS, || UringRow {
                submitted: AtomicU64::default(),
                completed: AtomicU64::default(),
                errors: AtomicU64::default(),
                repeated: AtomicU64::default(),
                timed: AtomicU64::default(),
                ns_total: AtomicU64::default(),
                ns_max: AtomicU64::default(),
                buckets: from_fn(|_| AtomicU64::default()),
            }),
            stacks: table(128, StackEntry::default),
            stack_head: empty_head(),
            stack_words: table(4096, AtomicU64::default),
            sleeps: table(pid_max, SleepSlot::default),
            recursion_misses: Arc::default(),
        }
    }

    /// A stack in the table, its addresses the innermost first.
    pub(crate) fn put_stack(&self, index: u32, tgid: u32, comm: &[u8; 16], parts: [&[u64]; 2]) {
        let [kernel, user] = parts;
        let at = self.stack_head.words.load(Relaxed);
        let words = kernel.iter().chain(user);
        for (slot, word) in self.stack_words[usize::try_from(at).expect("a place in the table")..]
            .iter()
            .zip(words)
        {
            slot.store(*word, Relaxed);
        }
        add(&self.stack_head.words, (kernel.len() + user.len()) as u64);
        let entry = &self.stacks[index as usize];
        entry.key.store(1, Relaxed);
        entry.tgid.store(tgid.into(), Relaxed);
        for (word, bytes) in entry.comm.iter().zip(comm.chunks(8)) {
            let bytes = bytes.try_into().expect("sixteen is twice eight");
            word.store(u64::from_ne_bytes(bytes), Relaxed);
        }
        let count = |part: &[u64]| u32::try_from(part.len()).expect("a stack is short");
        let at = u32::try_from(at).expect("the list is short");
        let place = pack_place(at, count(kernel), count(user));
        entry.place.store(place, Relaxed);
        self.stack_head.taken[index as usize / 64].fetch_or(1 << (index % 64), Relaxed);
    }

    /// A call that returned after `ns`.
    pub(crate) fn call(&self, cpu: u32, row: u32, ret: i64, ns: u64) {
        let counts = &self.counts[(cpu * ROWS + row) as usize];
        add(&counts.count, 1);
        if let Ok(errno) = u64::try_from(-ret)
            && errno > 0
        {
            add(&counts.errors, 1);
            if errno == EAGAIN {
                add(&counts.again, 1);
            } else {
                add(&self.errnos[row as usize].slots[errno_slot(errno)], 1);
            }
        } else if kind_of_row(row).counts_bytes() {
            add(&counts.bytes, ret.unsigned_abs());
        } else if let Kind::Wait(index) = kind_of_row(row) {
            let wait = &self.waits[(cpu * WAIT_ROWS + index) as usize];
            if ret == 0 {
                add(&wait.timeouts, 1);
            } else {
                add(&wait.wakes, 1);
                add(&wait.events, ret.unsigned_abs());
                add(&wait.buckets[log2_bucket(ret.unsigned_abs())], 1);
            }
        }
        let times = &self.times[(cpu * ROWS + row) as usize];
        add(&times.ns_total, ns);
        times.ns_max.fetch_max(ns, Relaxed);
        times.ns_min_inverted.fetch_max(!ns, Relaxed);
        add(&times.buckets[log2_bucket(ns).min(TIME_BUCKETS - 1)], 1);
    }

    /// A call that was counted as -512 and then its thread ended.
    pub(crate) fn die_in(&self, cpu: u32, row: u32) {
        self.call(cpu, row, -FIRST_RESTART_ERRNO.cast_signed(), 1);
        add(&self.ends[row as usize].died[0], 1);
    }
}

impl CounterSource for Replay {
    fn tables(&self) -> Tables<'_> {
        Tables {
            counts: &self.counts,
            cpus: &self.cpus,
            ends: &self.ends,
            errnos: &self.errnos,
            events: &self.events,
            groups: &self.groups,
            label_clock: &self.label_clock,
            lives: &self.lives,
            only: &self.only,
            segments: ByThread::Here(&self.segments),
            splits: &self.splits,
            starts: ByThread::Here(&self.starts),
            targets: &self.targets,
            times: &self.times,
            unknowns: &self.unknowns,
            waits: &self.waits,
            below: &self.below,
            ports: &self.ports,
            urings: &self.urings,
            stacks: StackTables {
                entries: &self.stacks,
                head: &self.stack_head,
                words: &self.stack_words,
                sleeps: ByThread::Here(&self.sleeps),
            },
            tls: &[],
        }
    }

    fn recursion_misses(&self) -> u64 {
        self.recursion_misses.load(Relaxed)
    }

    fn map_bytes(&self) -> u64 {
        4096
    }

    fn run_statistics(&self) -> Option<(u64, u64)> {
        None
    }

    fn missing(&self) -> &[String] {
        &[]
    }

    fn stack_clock(&self) -> Option<StackClock> {
        None
    }

    fn probe_functions(&mut self, _: &Path, _: &[Probed]) -> Result<(), ProfilerError> {
        Ok(())
    }

    fn give_states(&mut self) -> Result<(), ProfilerError> {
        Ok(())
    }
}

fn table<T>(entries: u32, entry: impl Fn() -> T) -> Vec<T> {
    (0..entries).map(|_| entry()).collect()
}

fn empty_cpu() -> CpuRow {
    let zero = AtomicU64::default;
    CpuRow {
        irq_ns: zero(),
        softirq_ns: zero(),
        interrupted_ns: zero(),
        nesting: zero(),
        seen_irq_ns: zero(),
        seen_softirq_ns: zero(),
        target_irq_ns: zero(),
        target_softirq_ns: zero(),
        switched_ns: zero(),
        switched_interrupts_ns: zero(),
        running: zero(),
        target_ns: zero(),
        other_ns: zero(),
        idle_ns: zero(),
        idle_by_label_ns: from_fn(|_| zero()),
        idle_from_ns: from_fn(|_| zero()),
        voluntary_switches: zero(),
        involuntary_switches: zero(),
        migrations: zero(),
        wakeups: zero(),
        page_faults: zero(),
        interrupts: zero(),
        run_queue_waits: from_fn(|_| zero()),
        charged_ns: zero(),
        clock_base_ns: zero(),
        clock_based_ns: zero(),
        padding: from_fn(|_| zero()),
    }
}

fn empty_head() -> StackHead {
    let zero = AtomicU64::default;
    StackHead {
        words: zero(),
        lost_samples: zero(),
        lost_sleeps: zero(),
        lost_asleep_ns: zero(),
        unseen_sleeps: zero(),
        unseen_asleep_ns: zero(),
        taken: from_fn(|_| zero()),
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}

/// CPUs of the machine.
pub(crate) const CPUS: u32 = 3;
/// The largest that Linux has: tests put their own process in.
pub(crate) const PID_MAX: u32 = 1 << 22;
