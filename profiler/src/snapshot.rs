//! A copy of the counters at one moment, summed over CPUs: made in one pass over shared memory,
//! without a system call.
//!
//! Counters only grow, and each program writes in a fixed order; the copy is made in the opposite
//! order, so that a detail is never seen without the call that it belongs to.

use std::collections::BTreeMap;

use profiler_common::{
    CALL_KINDS, COMPAT_ROWS, DIED_ERRNOS, EAGAIN, ERRNO_SLOTS, EVENTFD, FILE, FIRST_RESTART_ERRNO,
    FIRST_SPLIT_ROW, FUTEX_SPLIT, FUTEX_WAIT, FUTEX_WAKE, Kind, NATIVE_ROWS, PIPE, ROWS, SOCKET,
    SPLIT_CALLS, TIME_BUCKETS, WAIT_BUCKETS, WAIT_ROWS, errno_slot, split_parts, unknown_key_parts,
};
use recording::CallObject;

use crate::network::TcpCounters;
use crate::source::{Tables, read};
use crate::uring::UringCounters;

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// When the copy began, ns.
    pub(crate) start_ns: u64,
    /// When it was complete, ns.
    pub(crate) end_ns: u64,
    /// Rows with a call.
    pub(crate) calls: BTreeMap<u32, CallCounters>,
    pub(crate) events: EventCounters,
    pub(crate) uring: UringCounters,
    pub(crate) tcp: TcpCounters,
}

/// Counters of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallCounters {
    /// Returned, those in `died` not included.
    pub(crate) count: u64,
    /// By slot, those in `died` not included.
    pub(crate) errors: BTreeMap<usize, u64>,
    pub(crate) bytes: u64,
    pub(crate) died: u64,
    pub(crate) no_return: u64,
    pub(crate) time: TimeCounters,
    pub(crate) wait: WaitCounters,
}

/// Time of one row. The extremes are since the programs were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeCounters {
    pub(crate) ns_total: u64,
    pub(crate) ns_min: Option<u64>,
    pub(crate) ns_max: u64,
    pub(crate) buckets: Vec<u64>,
}

/// Results of one waiting call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitCounters {
    pub(crate) wakes: u64,
    pub(crate) events: u64,
    pub(crate) timeouts: u64,
    pub(crate) interrupted: u64,
    pub(crate) polls: u64,
    pub(crate) truncated: u64,
    pub(crate) buckets: Vec<u64>,
}

/// Rare events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventCounters {
    pub(crate) forks: u64,
    pub(crate) ends: u64,
    pub(crate) lost_untracked: u64,
    pub(crate) lost_untimed: u64,
    pub(crate) lost_unknown: u64,
    pub(crate) lost_clock: u64,
    pub(crate) lost_ungrouped: u64,
    pub(crate) lost_switches: u64,
    pub(crate) recursion_misses: u64,
}

impl Snapshot {
    /// Copies the counters. `clock` is read before and after.
    pub(crate) fn copy(
        tables: &Tables<'_>,
        recursion_misses: u64,
        clock: impl Fn() -> u64,
    ) -> Self {
        let start_ns = clock();
        let mut calls = BTreeMap::new();
        for row in 0..ROWS {
            // A first look without the details: most rows are never used.
            if !is_used(tables, row) {
                continue;
            }
            calls.insert(row, CallCounters::copy(tables, row));
        }
        Self {
            start_ns,
            calls,
            events: EventCounters::copy(tables, recursion_misses),
            uring: UringCounters::copy(tables),
            tcp: TcpCounters::copy(tables.below),
            end_ns: clock(),
        }
    }

    /// Whether nothing happened between two copies.
    pub(crate) fn same_counters(&self, other: &Self) -> bool {
        self.calls == other.calls && self.uring == other.uring
    }
}

impl CallCounters {
    fn copy(tables: &Tables<'_>, row: u32) -> Self {
        let mut counters = Self::default();
        let (died, no_return) = ends(tables, row);
        counters.no_return = no_return;
        counters.time = times(tables, row);
        if let Kind::Wait(index) = kind_of_row(row) {
            counters.wait = waits(tables, index);
        }
        counters.errors = errnos(tables, row);
        let mut again = 0;
        for counts in per_cpu(tables.counts, row, ROWS) {
            counters.bytes += read(&counts.bytes);
            again += read(&counts.again);
            counters.count += read(&counts.count);
        }
        if again > 0 {
            counters.errors.insert(errno_slot(EAGAIN), again);
        }
        counters.take_out_died(&died);
        counters
    }

    /// A call that its thread died in was counted at `sys_exit`, as an error.
    fn take_out_died(&mut self, died: &[u64; DIED_ERRNOS]) {
        for (code, &died) in (FIRST_RESTART_ERRNO..).zip(died) {
            self.died += died;
            self.count = self.count.saturating_sub(died);
            if let Some(errors) = self.errors.get_mut(&errno_slot(code)) {
                *errors = errors.saturating_sub(died);
            }
        }
        self.errors.retain(|_, &mut errors| errors > 0);
    }
}

impl TimeCounters {
    /// Calls with a time.
    pub(crate) fn timed(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl EventCounters {
    fn copy(tables: &Tables<'_>, recursion_misses: u64) -> Self {
        let events = tables.events;
        Self {
            forks: read(&events.forks),
            ends: read(&events.ends),
            lost_untracked: read(&events.lost_untracked),
            lost_untimed: read(&events.lost_untimed),
            lost_unknown: read(&events.lost_unknown),
            lost_clock: read(&events.lost_clock),
            lost_ungrouped: read(&events.lost_ungrouped),
            lost_switches: read(&events.lost_switches),
            recursion_misses,
        }
    }
}

/// The kind of a row.
pub(crate) fn kind_of_row(row: u32) -> Kind {
    let byte = CALL_KINDS.get(row as usize).copied();
    byte.map_or(Kind::Plain, Kind::from_byte)
}

/// Number and whether it is one of 32-bit programs; `None` for a row that no number was given.
pub(crate) fn number_of_row(tables: &Tables<'_>, row: u32) -> Option<(u32, bool)> {
    if row < NATIVE_ROWS {
        Some((row, false))
    } else if row < NATIVE_ROWS + COMPAT_ROWS {
        Some((row - NATIVE_ROWS, true))
    } else if row >= FIRST_SPLIT_ROW {
        Some((split_parts(row)?.0, false))
    } else {
        let entry = (row - NATIVE_ROWS - COMPAT_ROWS) as usize;
        unknown_key_parts(read(&tables.unknowns.get(entry)?.key))
    }
}

/// What the calls of a row were done to; `None` for rows that are not told apart.
pub(crate) fn object_of_row(row: u32) -> Option<CallObject> {
    let (nr, object) = split_parts(row)?;
    Some(if nr == SPLIT_CALLS[FUTEX_SPLIT as usize] {
        match object {
            FUTEX_WAIT => CallObject::FutexWait,
            FUTEX_WAKE => CallObject::FutexWake,
            _ => CallObject::FutexOther,
        }
    } else {
        match object {
            SOCKET => CallObject::Socket,
            FILE => CallObject::File,
            PIPE => CallObject::Pipe,
            EVENTFD => CallObject::Eventfd,
            _ => CallObject::Other,
        }
    })
}

fn is_used(tables: &Tables<'_>, row: u32) -> bool {
    per_cpu(tables.counts, row, ROWS).any(|counts| read(&counts.count) > 0)
        || ends(tables, row) != ([0; DIED_ERRNOS], 0)
}

fn ends(tables: &Tables<'_>, row: u32) -> ([u64; DIED_ERRNOS], u64) {
    let Some(ends) = tables.ends.get(row as usize) else {
        return ([0; DIED_ERRNOS], 0);
    };
    (ends.died.each_ref().map(read), read(&ends.no_return))
}

/// Errors of a row by slot, `EAGAIN` not included.
fn errnos(tables: &Tables<'_>, row: u32) -> BTreeMap<usize, u64> {
    // The row has more than a thousand bytes; most calls never fail otherwise.
    let failed =
        per_cpu(tables.counts, row, ROWS).any(|counts| read(&counts.errors) > read(&counts.again));
    let Some(errnos) = tables.errnos.get(row as usize).filter(|_| failed) else {
        return BTreeMap::new();
    };
    let slots = (0..ERRNO_SLOTS).zip(errnos.slots.iter().map(read));
    slots.filter(|&(_, errors)| errors > 0).collect()
}

fn times(tables: &Tables<'_>, row: u32) -> TimeCounters {
    let mut sum = TimeCounters::default();
    for times in per_cpu(tables.times, row, ROWS) {
        let buckets = times.buckets.each_ref().map(read);
        if buckets == [0; TIME_BUCKETS] {
            continue;
        }
        add_buckets(&mut sum.buckets, &buckets);
        let ns_min = !read(&times.ns_min_inverted);
        sum.ns_min = Some(sum.ns_min.map_or(ns_min, |found| found.min(ns_min)));
        sum.ns_max = sum.ns_max.max(read(&times.ns_max));
        sum.ns_total += read(&times.ns_total);
    }
    sum
}

fn waits(tables: &Tables<'_>, index: u32) -> WaitCounters {
    let mut sum = WaitCounters::default();
    for waits in per_cpu(tables.waits, index, WAIT_ROWS) {
        let buckets = waits.buckets.each_ref().map(read);
        if buckets != [0; WAIT_BUCKETS] {
            add_buckets(&mut sum.buckets, &buckets);
        }
        sum.events += read(&waits.events);
        sum.wakes += read(&waits.wakes);
        sum.timeouts += read(&waits.timeouts);
        sum.interrupted += read(&waits.interrupted);
        sum.polls += read(&waits.polls);
        sum.truncated += read(&waits.truncated);
    }
    sum
}

/// Adds the buckets of a histogram to those of another one.
pub(crate) fn add_buckets(sum: &mut Vec<u64>, buckets: &[u64]) {
    sum.resize(sum.len().max(buckets.len()), 0);
    for (sum, bucket) in sum.iter_mut().zip(buckets) {
        *sum += bucket;
    }
}

/// One row of every CPU.
fn per_cpu<T>(table: &[T], row: u32, rows: u32) -> impl Iterator<Item = &T> {
    table.iter().skip(row as usize).step_by(rows as usize)
}
