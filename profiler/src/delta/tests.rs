//! Differences of copies add up, and their rows are named.

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
