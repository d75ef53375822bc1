//! The difference of two copies of the counters, and its rows in a recording.

use std::collections::{BTreeMap, BTreeSet};

use profiler_common::{COMPAT_ROWS, Kind, NATIVE_ROWS, WaitLimits, errno_of_slot, wait_limits};
use recording::{
    Abi, CallObject, CallRow, CallTime, Detail, InFlightCall, Log2Histogram, Lost, LostClass,
    SliceCall, SliceWait, TimeStats, WaitRow, errno_name, family, name, number,
};

use crate::snapshot::{
    CallCounters, EventCounters, Snapshot, TimeCounters, kind_of_row, object_of_row,
};

/// What happened between two copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Rows with anything in them.
    pub(crate) calls: BTreeMap<u32, CallCounters>,
    pub(crate) events: EventCounters,
}

impl Delta {
    /// What happened after `from` and until `to`.
    ///
    /// A counter can only go back where a thread died on the far side of an edge in a call that
    /// had been counted on this side; that is zero here, not a negative count.
    pub(crate) fn between(from: &Snapshot, to: &Snapshot) -> Self {
        let empty = CallCounters::default();
        let calls = to.calls.iter().filter_map(|(&row, to)| {
            let delta = call_delta(from.calls.get(&row).unwrap_or(&empty), to);
            (delta.count > 0 || delta.died > 0 || delta.no_return > 0).then_some((row, delta))
        });
        Self {
            calls: calls.collect(),
            events: event_delta(&from.events, &to.events),
        }
    }

    /// Calls that returned, of all rows.
    pub(crate) fn count(&self) -> u64 {
        self.calls.values().map(|call| call.count).sum()
    }

    /// What was lost.
    pub(crate) fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        lost.add(LostClass::ClockBackwards, self.events.lost_clock);
        lost.add(LostClass::UngroupedCalls, self.events.lost_ungrouped);
        lost.add(LostClass::MissedSwitches, self.events.lost_switches);
        lost.add(LostClass::RecursionMisses, self.events.recursion_misses);
        lost.add(LostClass::UntrackedProcesses, self.events.lost_untracked);
        lost.add(LostClass::UntimedCalls, self.events.lost_untimed);
        lost.add(LostClass::UnknownNumbers, self.events.lost_unknown);
        lost
    }
}

/// What a row is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowNames<F> {
    /// ABI of 64-bit programs.
    pub(crate) native: Abi,
    /// Number of a row and whether it is one of 32-bit programs.
    pub(crate) number: F,
}

impl<F: Fn(u32) -> Option<(u32, bool)>> RowNames<F> {
    /// ABI and number of a row; `None` for a row that no number was given.
    pub(crate) fn of(&self, row: u32) -> Option<(Abi, u32)> {
        let (nr, compat) = (self.number)(row)?;
        let abi = if compat {
            self.native.compat()?
        } else {
            self.native
        };
        Some((abi, nr))
    }

    /// The rows of a profile: of the calls that were made, of those that are in flight, and of those
    /// that time was spent in (`split`, by row).
    pub(crate) fn call_rows(
        &self,
        delta: &Delta,
        detail: Detail,
        in_flight: &[InFlightCall],
        split: &BTreeMap<u32, CallTime>,
    ) -> Vec<CallRow> {
        let none = CallCounters::default();
        let used: BTreeSet<u32> = delta.calls.keys().chain(split.keys()).copied().collect();
        let made = used.into_iter().filter_map(|row| {
            let (abi, nr) = self.of(row)?;
            let call = delta.calls.get(&row).unwrap_or(&none);
            let mut made = call_row(abi, nr, object_of_row(row), call, detail);
            made.split =
                (detail >= Detail::Sched).then(|| split.get(&row).copied().unwrap_or_default());
            Some(made)
        });
        let mut rows: Vec<CallRow> = made.collect();
        for call in in_flight {
            let Some(nr) = number_of_name(call.abi, &call.name) else {
                continue;
            };
            let is_same = |row: &CallRow| (row.abi, row.nr, row.on) == (call.abi, nr, call.on);
            if !rows.iter().any(is_same) {
                rows.push(call_row(call.abi, nr, call.on, &none, detail));
            }
        }
        rows.sort_by_key(|row| (row.abi != self.native, row.abi, row.nr, row.on));
        rows
    }

    /// The waiting calls of a profile.
    pub(crate) fn wait_rows(&self, delta: &Delta, detail: Detail) -> Vec<WaitRow> {
        let waits = delta.calls.iter().filter_map(|(&row, call)| {
            if !matches!(kind_of_row(row), Kind::Wait(_)) {
                return None;
            }
            let (abi, nr) = self.of(row)?;
            Some(WaitRow {
                abi,
                name: name(abi, nr).into_owned(),
                wakes: call.wait.wakes,
                events: call.wait.events,
                events_per_wake: Log2Histogram::new(call.wait.buckets.clone()),
                timeouts: call.wait.timeouts,
                polls: passes_timeout(row).then_some(call.wait.polls),
                truncated: has_room(row).then_some(call.wait.truncated),
                interrupted: call.wait.interrupted,
                ns_total: (detail >= Detail::Times).then_some(call.time.ns_total),
            })
        });
        waits.collect()
    }

    /// The calls of a slice, with the time that was spent in them (`split`, by row) where it is known.
    pub(crate) fn slice_calls(
        &self,
        delta: &Delta,
        detail: Detail,
        split: &BTreeMap<u32, CallTime>,
    ) -> Vec<SliceCall> {
        let none = CallCounters::default();
        let used: BTreeSet<u32> = delta.calls.keys().chain(split.keys()).copied().collect();
        let calls = used.into_iter().filter_map(|row| {
            let call = delta.calls.get(&row).unwrap_or(&none);
            let split = split.get(&row).copied();
            if call.count == 0 && split.is_none() {
                return None;
            }
            let (abi, nr) = self.of(row)?;
            Some(SliceCall {
                abi,
                name: name(abi, nr).into_owned(),
                on: object_of_row(row),
                count: call.count,
                errors: call.errors.values().sum(),
                bytes: kind_of_row(row).counts_bytes().then_some(call.bytes),
                ns_total: (detail >= Detail::Times).then_some(call.time.ns_total),
                split,
            })
        });
        calls.collect()
    }

    /// The waiting calls of a slice.
    pub(crate) fn slice_waits(&self, delta: &Delta) -> Vec<SliceWait> {
        let waits = delta.calls.iter().filter_map(|(&row, call)| {
            if !matches!(kind_of_row(row), Kind::Wait(_)) {
                return None;
            }
            let (abi, nr) = self.of(row)?;
            Some(SliceWait {
                abi,
                name: name(abi, nr).into_owned(),
                wakes: call.wait.wakes,
                events: call.wait.events,
                timeouts: call.wait.timeouts,
            })
        });
        waits.collect()
    }
}

fn call_delta(from: &CallCounters, to: &CallCounters) -> CallCounters {
    let mut delta = to.clone();
    delta.count = to.count.saturating_sub(from.count);
    delta.bytes -= from.bytes.min(delta.bytes);
    delta.died -= from.died;
    delta.no_return -= from.no_return;
    for (slot, errors) in &mut delta.errors {
        *errors = errors.saturating_sub(from.errors.get(slot).copied().unwrap_or(0));
    }
    delta.errors.retain(|_, &mut errors| errors > 0);
    delta.time.ns_total -= from.time.ns_total;
    subtract_buckets(&mut delta.time.buckets, &from.time.buckets);
    delta.wait.wakes -= from.wait.wakes;
    delta.wait.events -= from.wait.events;
    delta.wait.timeouts -= from.wait.timeouts;
    delta.wait.interrupted -= from.wait.interrupted;
    delta.wait.polls -= from.wait.polls;
    delta.wait.truncated -= from.wait.truncated;
    subtract_buckets(&mut delta.wait.buckets, &from.wait.buckets);
    delta
}

fn event_delta(from: &EventCounters, to: &EventCounters) -> EventCounters {
    EventCounters {
        forks: to.forks - from.forks,
        ends: to.ends - from.ends,
        lost_untracked: to.lost_untracked - from.lost_untracked,
        lost_untimed: to.lost_untimed - from.lost_untimed,
        lost_unknown: to.lost_unknown - from.lost_unknown,
        lost_clock: to.lost_clock - from.lost_clock,
        lost_ungrouped: to.lost_ungrouped - from.lost_ungrouped,
        lost_switches: to.lost_switches - from.lost_switches,
        recursion_misses: to.recursion_misses.saturating_sub(from.recursion_misses),
    }
}

/// Takes the buckets of an earlier copy of a histogram out of a later one.
pub(crate) fn subtract_buckets(buckets: &mut [u64], from: &[u64]) {
    for (bucket, from) in buckets.iter_mut().zip(from) {
        *bucket -= from;
    }
}

fn time_stats(time: &TimeCounters) -> TimeStats {
    let timed = time.timed();
    TimeStats {
        timed,
        ns_total: time.ns_total,
        ns_min: time.ns_min.filter(|_| timed > 0),
        ns_max: (timed > 0).then_some(time.ns_max),
        histogram: Log2Histogram::new(time.buckets.clone()),
    }
}

fn call_row(
    abi: Abi,
    nr: u32,
    on: Option<CallObject>,
    call: &CallCounters,
    detail: Detail,
) -> CallRow {
    let name = name(abi, nr);
    CallRow {
        abi,
        nr,
        family: family(&name),
        name: name.into_owned(),
        on,
        count: call.count,
        errors: error_names(&call.errors),
        bytes: bytes(abi, nr, call),
        died_in_call: call.died,
        no_return: call.no_return,
        time: (detail >= Detail::Times).then(|| time_stats(&call.time)),
        split: None,
    }
}

/// Whether a waiting call passes its timeout by value.
fn passes_timeout(row: u32) -> bool {
    matches!(kind_of_row(row), Kind::Wait(index)
        if matches!(wait_limits(index), WaitLimits::Epoll | WaitLimits::Poll))
}

/// Whether a waiting call says how many events it has room for.
fn has_room(row: u32) -> bool {
    matches!(kind_of_row(row), Kind::Wait(index)
        if matches!(wait_limits(index), WaitLimits::Epoll | WaitLimits::EpollTimespec))
}

/// Bytes of a call that counts them.
fn bytes(abi: Abi, nr: u32, call: &CallCounters) -> Option<u64> {
    let first_row = match abi {
        Abi::Aarch64 | Abi::X86_64 if nr < NATIVE_ROWS => 0,
        Abi::Arm | Abi::I386 if nr < COMPAT_ROWS => NATIVE_ROWS,
        _ => return None,
    };
    kind_of_row(first_row + nr)
        .counts_bytes()
        .then_some(call.bytes)
}

/// The number of a name, `syscall_0x1f4` included.
fn number_of_name(abi: Abi, name: &str) -> Option<u32> {
    number(abi, name).or_else(|| {
        let digits = name.strip_prefix("syscall_0x")?;
        u32::from_str_radix(digits, 16).ok()
    })
}

fn error_names(errors: &BTreeMap<usize, u64>) -> BTreeMap<String, u64> {
    let named = errors.iter().map(|(&slot, &errors)| {
        let name = errno_of_slot(slot)
            .and_then(|errno| u16::try_from(errno).ok())
            .map_or_else(|| OTHER_ERRORS.into(), errno_name);
        (name.into_owned(), errors)
    });
    named.collect()
}

/// Numbers that no kernel interface is documented to return.
const OTHER_ERRORS: &str = "other";

#[cfg(test)]
mod tests;
