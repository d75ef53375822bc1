//! A copy of what the state machine of detail `sched` counted, and the difference of two. Pure, but
//! for the shared memory that it copies.
//!
//! A thread that sleeps through the window is in no counter: its time is added when it wakes. So a
//! copy holds the threads' open segments too, taken before and after the counters and compared:
//! where a thread passed on meanwhile, the copy is made again.

mod threads;

use std::collections::BTreeMap;

use profiler_common::{
    ASLEEP, CPU_IDLE, CPU_OTHER, CPU_TARGET, CpuRow, LABELS, LabelClock, OUTSIDE_ROW, ROWS,
    RUN_QUEUE_BUCKETS, RUNNABLE, RUNNING, label_of,
};
use recording::{CallTime, CpuView, IdleLabel, Log2Histogram, ThreadTime};

use crate::snapshot::add_buckets;
use crate::source::{Tables, read};
pub(crate) use threads::OpenSegment;
use threads::{Attempt, LivesCopy, copy_between, open_segments};

/// Everything that the state machine counted until one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct States {
    /// The moment, ns.
    at_ns: u64,
    /// Time of each row, open segments included; all sums wrap.
    rows: BTreeMap<u32, RowTime>,
    /// Of all threads so far, ns.
    lifetime_ns: u64,
    began: u64,
    born: u64,
    ended: u64,
    cpus: Vec<CpuTime>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowTime {
    on_cpu_ns: u64,
    off_cpu_ns: u64,
    run_queue_ns: u64,
    sleeps: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    /// What has run since the last switch, which is in no sum yet.
    running: OnCpu,
    target_ns: u64,
    other_ns: u64,
    idle_ns: u64,
    irq_ns: u64,
    softirq_ns: u64,
    target_irq_ns: u64,
    target_softirq_ns: u64,
    idle_by_label_ns: [u64; LABELS],
    voluntary_switches: u64,
    involuntary_switches: u64,
    migrations: u64,
    wakeups: u64,
    page_faults: u64,
    interrupts: u64,
    run_queue_waits: Vec<u64>,
    /// Wraps; negative where the kernel counted less.
    charged_ns: u64,
    /// Zero where the kernel's clocks were not found, or not needed yet.
    clock_based_ns: u64,
}

/// What a CPU has done since it switched last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OnCpu {
    /// As the programs know it.
    running: u64,
    switched_ns: u64,
    switched_interrupts_ns: u64,
    idle_from_ns: [u64; LABELS],
}

/// What happened between two copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatesDelta {
    /// What the threads did.
    pub(crate) threads: ThreadTime,
    /// By row, those outside of calls not included.
    pub(crate) rows: BTreeMap<u32, CallTime>,
    /// Runs of our programs on switches, wake-ups and interrupts.
    pub(crate) events: u64,
    cpus: Vec<CpuTime>,
    length_ns: u64,
}

impl States {
    /// Copies the counters, and what `also` copies, of one moment; with what the threads were doing then.
    /// See [`copy_between`].
    pub(crate) fn copy<T>(
        tables: &Tables<'_>,
        tids: impl Fn() -> Vec<u32>,
        also: impl Fn() -> T,
        clock: impl Fn() -> u64,
        rest: impl Fn(),
    ) -> (Self, T, Vec<OpenSegment>) {
        let both = || (Self::closed(tables), also());
        let Attempt { copy, at_ns, slots } = copy_between(tables, tids, both, clock, rest);
        let (mut states, other) = copy;
        states.at_ns = at_ns;
        let open: Vec<OpenSegment> = open_segments(&slots, at_ns).collect();
        states.add_open(tables, &open);
        (states, other, open)
    }

    /// What the programs have added up, without the threads' open segments.
    fn closed(tables: &Tables<'_>) -> Self {
        let mut rows = BTreeMap::new();
        for (index, split) in (0..).zip(tables.splits) {
            let row = RowTime {
                on_cpu_ns: read(&split.on_cpu_ns).wrapping_add(read(&split.on_cpu_switch_ns)),
                off_cpu_ns: read(&split.off_cpu_ns),
                run_queue_ns: read(&split.run_queue_ns),
                sleeps: read(&split.sleeps),
            };
            if row != RowTime::default() {
                rows.entry(index % ROWS)
                    .or_insert_with(RowTime::default)
                    .add(&row);
            }
        }
        let lives = LivesCopy::copy(tables.lives);
        Self {
            at_ns: 0,
            rows,
            // Completed by `add_open`: each thread that lives has lived until `at_ns`.
            lifetime_ns: lives.ended_ns.wrapping_sub(lives.began_ns),
            began: lives.began,
            born: read(&tables.lives.born),
            ended: lives.ended,
            cpus: tables.cpus.iter().map(CpuTime::copy).collect(),
        }
    }

    /// The moment of the copy, ns.
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }

    fn add_open(&mut self, tables: &Tables<'_>, open: &[OpenSegment]) {
        let alive = self.began.wrapping_sub(self.ended);
        self.lifetime_ns = self
            .lifetime_ns
            .wrapping_add(alive.wrapping_mul(self.at_ns));
        for &OpenSegment { row, state, ns, .. } in open {
            let row = self.rows.entry(row).or_default();
            match state {
                RUNNING => row.on_cpu_ns = row.on_cpu_ns.wrapping_add(ns),
                RUNNABLE => row.run_queue_ns = row.run_queue_ns.wrapping_add(ns),
                ASLEEP => row.off_cpu_ns = row.off_cpu_ns.wrapping_add(ns),
                _ => {}
            }
        }
        for cpu in &mut self.cpus {
            cpu.add_open(tables.label_clock, self.at_ns);
        }
    }
}

impl RowTime {
    fn add(&mut self, other: &Self) {
        self.on_cpu_ns = self.on_cpu_ns.wrapping_add(other.on_cpu_ns);
        self.off_cpu_ns = self.off_cpu_ns.wrapping_add(other.off_cpu_ns);
        self.run_queue_ns = self.run_queue_ns.wrapping_add(other.run_queue_ns);
        self.sleeps = self.sleeps.wrapping_add(other.sleeps);
    }
}

impl CpuTime {
    /// Sums and what is in none of them yet, of one moment: a switch in between would leave out all
    /// that ran until then.
    fn copy(row: &CpuRow) -> Self {
        let mut copy = Self::copy_once(row);
        for _again in 1..ATTEMPTS {
            if read(&row.switched_ns) == copy.running.switched_ns {
                break;
            }
            copy = Self::copy_once(row);
        }
        copy
    }

    fn copy_once(row: &CpuRow) -> Self {
        Self {
            running: OnCpu::copy(row),
            target_ns: read(&row.target_ns),
            other_ns: read(&row.other_ns),
            idle_ns: read(&row.idle_ns),
            irq_ns: read(&row.irq_ns),
            softirq_ns: read(&row.softirq_ns),
            target_irq_ns: read(&row.target_irq_ns),
            target_softirq_ns: read(&row.target_softirq_ns),
            idle_by_label_ns: row.idle_by_label_ns.each_ref().map(read),
            voluntary_switches: read(&row.voluntary_switches),
            involuntary_switches: read(&row.involuntary_switches),
            migrations: read(&row.migrations),
            wakeups: read(&row.wakeups),
            page_faults: read(&row.page_faults),
            interrupts: read(&row.interrupts),
            run_queue_waits: row.run_queue_waits.iter().map(read).collect(),
            charged_ns: read(&row.charged_ns),
            clock_based_ns: read(&row.clock_based_ns),
        }
    }

    /// Adds what runs since the last switch.
    fn add_open(&mut self, clock: &LabelClock, at_ns: u64) {
        let open = self.running;
        let interrupts_ns = self.irq_ns.wrapping_add(self.softirq_ns);
        let interrupted = interrupts_ns.wrapping_sub(open.switched_interrupts_ns);
        let ns = at_ns
            .wrapping_sub(open.switched_ns)
            .wrapping_sub(interrupted);
        match open.running {
            CPU_TARGET => self.target_ns = self.target_ns.wrapping_add(ns),
            CPU_OTHER => self.other_ns = self.other_ns.wrapping_add(ns),
            CPU_IDLE => {
                self.idle_ns = self.idle_ns.wrapping_add(ns);
                let now = label_times(clock, at_ns);
                let sums = self.idle_by_label_ns.iter_mut();
                for ((sum, now), from) in sums.zip(now).zip(open.idle_from_ns) {
                    *sum = sum.wrapping_add(now.wrapping_sub(from));
                }
            }
            _ => {}
        }
    }
}

impl OnCpu {
    fn copy(row: &CpuRow) -> Self {
        Self {
            switched_ns: read(&row.switched_ns),
            running: read(&row.running),
            switched_interrupts_ns: read(&row.switched_interrupts_ns),
            idle_from_ns: row.idle_from_ns.each_ref().map(read),
        }
    }
}

impl StatesDelta {
    /// What happened after `from` and until `to`.
    pub(crate) fn between(from: &States, to: &States) -> Self {
        let mut threads = ThreadTime {
            lifetime_ns: difference(from.lifetime_ns, to.lifetime_ns),
            threads_began: to.born.wrapping_sub(from.born),
            threads_ended: to.ended.wrapping_sub(from.ended),
            ..ThreadTime::default()
        };
        let mut rows = BTreeMap::new();
        let zero = RowTime::default();
        for (&row, time) in &to.rows {
            let call = call_time(from.rows.get(&row).unwrap_or(&zero), time);
            threads.run_queue_ns += call.run_queue_ns;
            if row == OUTSIDE_ROW {
                threads.user_ns += call.on_cpu_ns;
                threads.off_cpu_outside_ns += call.off_cpu_ns;
                rows.insert(row, call);
            } else if call.on_cpu_ns + call.off_cpu_ns + call.run_queue_ns > 0 {
                threads.kernel_ns += call.on_cpu_ns;
                threads.off_cpu_in_calls_ns += call.off_cpu_ns;
                rows.insert(row, call);
            }
        }
        let cpus: Vec<CpuTime> = from.cpus.iter().zip(&to.cpus).map(cpu_delta).collect();
        let sum = |term: fn(&CpuTime) -> u64| cpus.iter().map(term).sum::<u64>();
        threads.irq_ns = sum(|cpu| cpu.target_irq_ns);
        threads.softirq_ns = sum(|cpu| cpu.target_softirq_ns);
        threads.voluntary_switches = sum(|cpu| cpu.voluntary_switches);
        threads.involuntary_switches = sum(|cpu| cpu.involuntary_switches);
        threads.migrations = sum(|cpu| cpu.migrations);
        threads.wakeups = sum(|cpu| cpu.wakeups);
        threads.page_faults = sum(|cpu| cpu.page_faults);
        threads.run_queue_waits = waits(&cpus);
        threads.charged_at_switches_ns = charged_at_switches(&threads, &cpus);
        let events = sum(|cpu| {
            let switches = cpu.voluntary_switches + cpu.involuntary_switches;
            // A switch has two ends, an interrupt too.
            2 * switches + cpu.wakeups + cpu.migrations + cpu.page_faults + 2 * cpu.interrupts
        });
        threads.residual_ns = signed_difference(threads.accounted_ns(), threads.lifetime_ns);
        Self {
            threads,
            rows,
            events,
            cpus,
            length_ns: difference(from.at_ns, to.at_ns),
        }
    }

    /// Switches of the target's threads onto and off a CPU.
    pub(crate) fn switches(&self) -> u64 {
        self.threads.voluntary_switches + self.threads.involuntary_switches
    }

    /// The view of these CPUs. What the programs cannot see is given: what the hypervisor took, and
    /// how long the target was throttled.
    pub(crate) fn cpu_view(
        &self,
        numbers: &[u32],
        steal_ns: Option<u64>,
        throttled_ns: Option<u64>,
    ) -> CpuView {
        let mut view = CpuView {
            capacity_ns: self.length_ns * numbers.len() as u64,
            steal_ns,
            throttled_ns,
            cpus: numbers.to_vec(),
            ..CpuView::default()
        };
        for cpu in numbers
            .iter()
            .filter_map(|&cpu| self.cpus.get(cpu as usize))
        {
            view.target_ns += cpu.target_ns;
            view.other_ns += cpu.other_ns;
            view.irq_ns += cpu.irq_ns;
            view.softirq_ns += cpu.softirq_ns;
            // Labels go on while interrupts run, which have their own term: taken out in proportion.
            let labelled_ns: u64 = cpu.idle_by_label_ns.iter().sum();
            for (label, ns) in IdleLabel::ALL.into_iter().zip(cpu.idle_by_label_ns) {
                let ns = if labelled_ns > cpu.idle_ns {
                    scaled(ns, cpu.idle_ns, labelled_ns)
                } else {
                    ns
                };
                *view.idle.entry(label).or_default() += ns;
            }
        }
        let idle_ns: u64 = view.idle.values().sum();
        let terms = view.target_ns + view.other_ns + view.irq_ns + view.softirq_ns + idle_ns;
        view.residual_ns = signed_difference(terms, view.capacity_ns);
        view
    }
}

/// A part of a whole that shrinks, whose denominator is not zero.
fn scaled(part: u64, whole: u64, of: u64) -> u64 {
    let ns = u128::from(part) * u128::from(whole) / u128::from(of);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

fn call_time(from: &RowTime, to: &RowTime) -> CallTime {
    CallTime {
        on_cpu_ns: difference(from.on_cpu_ns, to.on_cpu_ns),
        off_cpu_ns: difference(from.off_cpu_ns, to.off_cpu_ns),
        run_queue_ns: difference(from.run_queue_ns, to.run_queue_ns),
        sleeps: Some(difference(from.sleeps, to.sleeps)),
    }
}

fn cpu_delta((from, to): (&CpuTime, &CpuTime)) -> CpuTime {
    let mut idle_by_label_ns = [0; LABELS];
    for (index, ns) in idle_by_label_ns.iter_mut().enumerate() {
        *ns = difference(from.idle_by_label_ns[index], to.idle_by_label_ns[index]);
    }
    let waits = from.run_queue_waits.iter().zip(&to.run_queue_waits);
    CpuTime {
        target_ns: difference(from.target_ns, to.target_ns),
        other_ns: difference(from.other_ns, to.other_ns),
        idle_ns: difference(from.idle_ns, to.idle_ns),
        irq_ns: difference(from.irq_ns, to.irq_ns),
        softirq_ns: difference(from.softirq_ns, to.softirq_ns),
        target_irq_ns: difference(from.target_irq_ns, to.target_irq_ns),
        target_softirq_ns: difference(from.target_softirq_ns, to.target_softirq_ns),
        idle_by_label_ns,
        voluntary_switches: difference(from.voluntary_switches, to.voluntary_switches),
        involuntary_switches: difference(from.involuntary_switches, to.involuntary_switches),
        migrations: difference(from.migrations, to.migrations),
        wakeups: difference(from.wakeups, to.wakeups),
        page_faults: difference(from.page_faults, to.page_faults),
        interrupts: difference(from.interrupts, to.interrupts),
        run_queue_waits: waits.map(|(&from, &to)| difference(from, to)).collect(),
        charged_ns: to.charged_ns.wrapping_sub(from.charged_ns),
        clock_based_ns: to.clock_based_ns,
        running: OnCpu::default(),
    }
}

/// Nobody switched: the kernel cannot have counted anything then. Else it takes its clocks to know.
fn charged_at_switches(threads: &ThreadTime, cpus: &[CpuTime]) -> Option<i64> {
    let switched = threads.voluntary_switches + threads.involuntary_switches > 0;
    let is_known = !switched || cpus.iter().any(|cpu| cpu.clock_based_ns != 0);
    let charged = cpus.iter().map(|cpu| cpu.charged_ns.cast_signed());
    is_known.then(|| charged.sum())
}

fn waits(cpus: &[CpuTime]) -> Log2Histogram {
    let mut buckets = vec![0; RUN_QUEUE_BUCKETS];
    for cpu in cpus {
        add_buckets(&mut buckets, &cpu.run_queue_waits);
    }
    Log2Histogram::new(buckets)
}

/// How long each label has applied until now, ns.
fn label_times(clock: &LabelClock, at_ns: u64) -> [u64; LABELS] {
    let mut times = clock.ns.each_ref().map(read);
    let label = label_of(read(&clock.threads));
    let changed_ns = read(&clock.changed_ns);
    if changed_ns != 0 {
        times[label] = times[label].wrapping_add(at_ns.wrapping_sub(changed_ns));
    }
    times
}

/// Sums wrap; what was taken out before it was added is no huge time.
fn difference(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from);
    if difference > u64::MAX / 2 {
        0
    } else {
        difference
    }
}

fn signed_difference(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

const ATTEMPTS: usize = 20;

#[cfg(test)]
mod tests;
