//! The difference of two copies of the counters, and its rows in a recording.

use std::collections::{BTreeMap, BTreeSet};

use profiler_common::{COMPAT_ROWS, Kind, NATIVE_ROWS, WaitLimits, errno_of_slot, wait_limits};
use recording::{
    Abi, CallObject, CallRow, CallTime, Detail, InFlightCall, Log2Histogram, Lost, LostClass,
    SliceCall, TimeStats, WaitRow, errno_name, family, name, number,
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

    /// The calls of a slice.
    pub(crate) fn slice_calls(&self, delta: &Delta, detail: Detail) -> Vec<SliceCall> {
        let calls = delta.calls.iter().filter(|(_, call)| call.count > 0);
        let calls = calls.filter_map(|(&row, call)| {
            let (abi, nr) = self.of(row)?;
            Some(SliceCall {
                abi,
                name: name(abi, nr).into_owned(),
                on: object_of_row(row),
                count: call.count,
                errors: call.errors.values().sum(),
                bytes: kind_of_row(row).counts_bytes().then_some(call.bytes),
                ns_total: (detail >= Detail::Times).then_some(call.time.ns_total),
            })
        });
        calls.collect()
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
        recursion_misses: to.recursion_misses.saturating_sub(from.recursion_misses),
    }
}

fn subtract_buckets(buckets: &mut [u64], from: &[u64]) {
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::CounterSource as _;
    use crate::source::replay::{CPUS, Replay};

    /// `read`, `openat`, `epoll_wait`, `getpid` of i386, an unknown number.
    const USED_ROWS: [u32; 5] = [0, 257, 232, NATIVE_ROWS + 20, NATIVE_ROWS + COMPAT_ROWS];

    #[derive(Clone, Debug)]
    struct Call {
        cpu: u32,
        row: u32,
        ret: i64,
        ns: u64,
        dies: bool,
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let ret = prop_oneof![
            Just(0),
            1_i64..100_000,
            Just(-11),
            -133_i64..0,
            Just(-512),
            Just(-4000)
        ];
        let row = prop::sample::select(USED_ROWS.to_vec());
        let call = (0..CPUS, row, ret, 1_u64..1 << 45, prop::bool::weighted(0.1));
        let call = call.prop_map(|(cpu, row, ret, ns, dies)| Call {
            cpu,
            row,
            ret,
            ns,
            dies,
        });
        prop::collection::vec(call, 0..40)
    }

    fn play(replay: &Replay, calls: &[Call]) -> Snapshot {
        for call in calls {
            if call.dies {
                replay.die_in(call.cpu, call.row);
            } else {
                replay.call(call.cpu, call.row, call.ret, call.ns);
            }
        }
        snapshot(replay)
    }

    fn snapshot(replay: &Replay) -> Snapshot {
        Snapshot::copy(&replay.tables(), 0, || 7)
    }

    /// Adds what is additive; the extremes of time are those of the later window.
    fn sum(a: &Delta, b: &Delta) -> Delta {
        let mut sum = a.clone();
        for (&row, b) in &b.calls {
            let a = sum.calls.entry(row).or_default();
            a.count += b.count;
            a.bytes += b.bytes;
            a.died += b.died;
            a.no_return += b.no_return;
            for (&slot, errors) in &b.errors {
                *a.errors.entry(slot).or_default() += errors;
            }
            a.time.ns_total += b.time.ns_total;
            a.time.ns_min = b.time.ns_min;
            a.time.ns_max = b.time.ns_max;
            add(&mut a.time.buckets, &b.time.buckets);
            a.wait.wakes += b.wait.wakes;
            a.wait.events += b.wait.events;
            a.wait.timeouts += b.wait.timeouts;
            a.wait.interrupted += b.wait.interrupted;
            add(&mut a.wait.buckets, &b.wait.buckets);
        }
        sum
    }

    fn add(sum: &mut Vec<u64>, buckets: &[u64]) {
        sum.resize(sum.len().max(buckets.len()), 0);
        for (sum, bucket) in sum.iter_mut().zip(buckets) {
            *sum += bucket;
        }
    }

    fn without_extremes(mut delta: Delta) -> Delta {
        for call in delta.calls.values_mut() {
            call.time.ns_min = None;
            call.time.ns_max = 0;
        }
        delta
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Two windows that meet add up to the whole.
        #[test]
        fn deltas_add_up(first in calls(), second in calls()) {
            let replay = Replay::new(8);
            let a = snapshot(&replay);
            let b = play(&replay, &first);
            let c = play(&replay, &second);
            let parts = sum(&Delta::between(&a, &b), &Delta::between(&b, &c));
            let whole = Delta::between(&a, &c);
            prop_assert_eq!(without_extremes(parts), without_extremes(whole));
        }

        /// The sum over CPUs is the number of calls, whatever CPU they ran on; each error is
        /// listed once, and no call that its thread died in is among them.
        #[test]
        fn cpus_add_up(calls in calls()) {
            let replay = Replay::new(8);
            let a = snapshot(&replay);
            let delta = Delta::between(&a, &play(&replay, &calls));
            let alive = || calls.iter().filter(|call| !call.dies);
            prop_assert_eq!(delta.count(), alive().count() as u64);
            let errors: u64 = delta.calls.values().flat_map(|call| call.errors.values()).sum();
            prop_assert_eq!(errors, alive().filter(|call| call.ret < 0).count() as u64);
            let died: u64 = delta.calls.values().map(|call| call.died).sum();
            prop_assert_eq!(died, (calls.len() - alive().count()) as u64);
            let bytes: i64 = alive().filter(|call| call.row == 0 && call.ret > 0).map(|call| call.ret).sum();
            let counted = delta.calls.get(&0).map_or(0, |call| call.bytes);
            prop_assert_eq!(counted, bytes.unsigned_abs());
            let total: u64 = delta.calls.values().map(|call| call.time.timed()).sum();
            prop_assert_eq!(total, calls.len() as u64);
        }

        /// Nothing happens between a copy and itself.
        #[test]
        fn nothing_between_equals(calls in calls()) {
            let replay = Replay::new(8);
            let a = play(&replay, &calls);
            prop_assert_eq!(Delta::between(&a, &a), Delta::default());
            prop_assert!(a.same_counters(&snapshot(&replay)));
        }
    }

    fn names() -> RowNames<impl Fn(u32) -> Option<(u32, bool)>> {
        RowNames {
            native: Abi::X86_64,
            number: |row| match row {
                0..NATIVE_ROWS => Some((row, false)),
                NATIVE_ROWS..1024 => Some((row - NATIVE_ROWS, true)),
                1024 => Some((500, false)),
                _ => None,
            },
        }
    }

    /// Native calls come first, by number; each has what its kind has, and the detail its times.
    #[test]
    fn rows_are_named_and_ordered() {
        let replay = Replay::new(8);
        let a = snapshot(&replay);
        for (row, ret) in [
            (NATIVE_ROWS + 20, 1),
            (1024, -38),
            (257, -2),
            (0, 100),
            (0, -11),
        ] {
            replay.call(1, row, ret, 1000);
        }
        let delta = Delta::between(&a, &snapshot(&replay));
        let waiting = InFlightCall {
            pid: 1,
            tid: 1,
            abi: Abi::X86_64,
            name: "epoll_wait".into(),
            on: None,
            age_ns: None,
        };
        let rows = names().call_rows(&delta, Detail::Counts, &[waiting], &BTreeMap::new());
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.count, row.bytes, row.error_count()))
            .collect();
        assert_eq!(
            found,
            [
                ("read", 2, Some(100), 1),
                ("epoll_wait", 0, None, 0),
                ("openat", 1, None, 1),
                ("syscall_0x1f4", 1, None, 1),
                ("getpid", 1, None, 0),
            ]
        );
        assert_eq!(rows[0].errors, BTreeMap::from([("EAGAIN".to_owned(), 1)]));
        assert!(rows.iter().all(|row| row.time.is_none()));
        let rows = names().call_rows(&delta, Detail::Times, &[], &BTreeMap::new());
        let time = rows[0].time.as_ref().unwrap();
        assert_eq!(
            (time.timed, time.ns_total, time.ns_min),
            (2, 2000, Some(1000))
        );
    }

    /// The numbers in the shared list of kinds mean the calls that it says.
    #[test]
    fn kinds_match_the_names() {
        for row in 0..NATIVE_ROWS + COMPAT_ROWS {
            let (abi, nr) = names().of(row).unwrap();
            let name = name(abi, nr);
            let expected = match name.as_ref() {
                "read" | "write" | "pread64" | "pwrite64" | "readv" | "writev" | "preadv"
                | "pwritev" | "preadv2" | "pwritev2" | "sendfile" | "sendfile64" | "sendto"
                | "recvfrom" | "sendmsg" | "recvmsg" | "splice" | "tee" | "vmsplice"
                | "copy_file_range" => "bytes",
                "fork" | "vfork" | "clone" | "clone3" => "fork",
                "exit" | "exit_group" => "exit",
                "poll" | "ppoll" | "ppoll_time64" | "select" | "_newselect" | "pselect6"
                | "pselect6_time64" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => "wait",
                _ => "plain",
            };
            let found = match kind_of_row(row) {
                kind if kind.counts_bytes() => "bytes",
                Kind::Fork => "fork",
                Kind::Exit => "exit",
                Kind::Wait(_) => "wait",
                _ => "plain",
            };
            assert_eq!(found, expected, "{abi:?} {nr} {name}");
        }
    }
}
