//! Operations of `io_uring`: from the counters of all CPUs at both edges of a window to the rows of
//! a recording.

use std::collections::BTreeMap;

use profiler_common::{URING_ROWS, URING_UNKNOWN_ROW, UringRow};
use recording::{Detail, IoUring, Log2Histogram, TimeStats, UringOperation, uring_operation_name};

use crate::delta::subtract_buckets;
use crate::snapshot::add_buckets;
use crate::source::{Tables, read};

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UringCounters {
    /// Rows with anything in them.
    rows: BTreeMap<u32, OperationCounters>,
    overflows: u64,
}

/// Counters of one operation, all CPUs. The longest time is since the programs were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OperationCounters {
    submitted: u64,
    completed: u64,
    repeated: u64,
    errors: u64,
    timed: u64,
    ns_total: u64,
    ns_max: u64,
    buckets: Vec<u64>,
}

impl UringCounters {
    /// Copies the counters, each after those that the programs write later.
    pub(crate) fn copy(tables: &Tables<'_>) -> Self {
        let mut rows: BTreeMap<u32, OperationCounters> = BTreeMap::new();
        for (index, row) in (0_u32..).zip(tables.urings) {
            let completed = read(&row.completed);
            let repeated = read(&row.repeated);
            let submitted = read(&row.submitted);
            if completed + repeated + submitted > 0 {
                let sum = rows.entry(index % URING_ROWS).or_default();
                sum.completed += completed;
                sum.repeated += repeated;
                sum.submitted += submitted;
                sum.add_details(row);
            }
        }
        Self {
            rows,
            overflows: read(&tables.below.uring_overflows),
        }
    }

    /// What happened after `from`.
    pub(crate) fn since(&self, from: &Self, detail: Detail) -> IoUring {
        let none = OperationCounters::default();
        let rows = self.rows.iter().filter_map(|(&row, to)| {
            let delta = to.since(from.rows.get(&row).unwrap_or(&none));
            let is_used = delta.submitted + delta.completed + delta.repeated > 0;
            is_used.then(|| operation(row, &delta, detail))
        });
        IoUring {
            operations: rows.collect(),
            overflows: self.overflows - from.overflows,
        }
    }
}

impl OperationCounters {
    fn add_details(&mut self, row: &UringRow) {
        self.timed += read(&row.timed);
        self.ns_max = self.ns_max.max(read(&row.ns_max));
        self.ns_total += read(&row.ns_total);
        add_buckets(&mut self.buckets, &row.buckets.each_ref().map(read));
        self.errors += read(&row.errors);
    }

    fn since(&self, from: &Self) -> Self {
        let mut buckets = self.buckets.clone();
        subtract_buckets(&mut buckets, &from.buckets);
        Self {
            submitted: self.submitted - from.submitted,
            completed: self.completed - from.completed,
            repeated: self.repeated - from.repeated,
            errors: self.errors - from.errors,
            timed: self.timed - from.timed,
            ns_total: self.ns_total - from.ns_total,
            ns_max: self.ns_max,
            buckets,
        }
    }
}

fn operation(row: u32, counters: &OperationCounters, detail: Detail) -> UringOperation {
    let opcode = u8::try_from(row).ok().filter(|_| row < URING_UNKNOWN_ROW);
    UringOperation {
        opcode,
        name: opcode.map_or_else(
            || UNKNOWN.into(),
            |opcode| uring_operation_name(opcode).into_owned(),
        ),
        submitted: counters.submitted,
        completed: counters.completed,
        repeated: counters.repeated,
        errors: counters.errors,
        time: (detail >= Detail::Times).then(|| TimeStats {
            timed: counters.timed,
            ns_total: counters.ns_total,
            ns_min: None,
            ns_max: (counters.timed > 0).then_some(counters.ns_max),
            histogram: Log2Histogram::new(counters.buckets.clone()),
        }),
    }
}

const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::source::CounterSource as _;
    use crate::source::replay::{CPUS, Replay};

    const READ: u32 = 22;

    fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    fn operate(replay: &Replay, row: u32, times: u64) {
        for cpu in 0..CPUS {
            let counters = &replay.urings[(cpu * URING_ROWS + row) as usize];
            add(&counters.submitted, times);
            add(&counters.completed, times);
            add(&counters.errors, 1);
            add(&counters.timed, times);
            add(&counters.ns_total, 8 * times);
            add(&counters.buckets[4], times);
            counters.ns_max.fetch_max(8, Relaxed);
        }
    }

    /// A window has what happened in it on all CPUs, and no row of what happened before.
    #[test]
    fn windows_are_differences() {
        let replay = Replay::new(8);
        operate(&replay, READ, 5);
        operate(&replay, 0, 1);
        let from = UringCounters::copy(&replay.tables());
        operate(&replay, READ, 3);
        add(&replay.below.uring_overflows, 2);
        let to = UringCounters::copy(&replay.tables());
        let uring = to.since(&from, Detail::Times);
        let [read] = &uring.operations[..] else {
            panic!("{uring:?}");
        };
        let cpus = u64::from(CPUS);
        assert_eq!((read.name.as_str(), read.opcode), ("read", Some(22)));
        assert_eq!(
            (read.submitted, read.completed, read.errors),
            (3 * cpus, 3 * cpus, cpus)
        );
        let time = read.time.as_ref().unwrap();
        assert_eq!((time.timed, time.ns_total), (3 * cpus, 24 * cpus));
        assert_eq!(time.ns_max, Some(8));
        assert_eq!(time.histogram.buckets(), [0, 0, 0, 0, 3 * cpus]);
        assert_eq!(uring.overflows, 2);
        assert_eq!(to.since(&to, Detail::Times), IoUring::default());
    }

    /// The row of unknown operations has no opcode, and below detail `times` none has a time.
    #[test]
    fn unknown_operations() {
        let replay = Replay::new(8);
        let from = UringCounters::copy(&replay.tables());
        operate(&replay, URING_UNKNOWN_ROW, 1);
        let to = UringCounters::copy(&replay.tables());
        let [unknown] = &to.since(&from, Detail::Counts).operations[..] else {
            panic!("{to:?}");
        };
        assert_eq!((unknown.name.as_str(), unknown.opcode), ("unknown", None));
        assert_eq!(unknown.time, None);
    }
}
