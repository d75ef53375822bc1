//! Calls, errors, bytes, waits and times of programs whose calls are known.

use std::collections::BTreeMap;

use profiler::{Config, Target};
use recording::{Abi, Detail, Family};

use crate::workload_process::{
    Workload, attach, await_until, counts, errors, profile, profile_to_end, row,
};

/// Each call, its errors by name and nothing else, at both details.
#[test]
fn known_calls() {
    for detail in [Detail::Counts, Detail::Times] {
        let profile = profile(&["calls", "1000"], detail);
        let expected = [
            ("getppid", 1000),
            ("openat", 1000),
            ("read", 1001),
            ("write", 1),
        ];
        assert_eq!(counts(&profile), BTreeMap::from(expected));
        assert_eq!(
            errors(&profile),
            BTreeMap::from([(("openat", "ENOENT"), 1000)])
        );
        assert_eq!(row(&profile, "read(other)").bytes, Some(1000));
        assert_eq!(row(&profile, "read(pipe)").bytes, Some(1));
        assert_eq!(row(&profile, "getppid").bytes, None);
        assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
        assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
        assert!(profile.cpu_ns.is_some_and(|cpu_ns| cpu_ns > 0));
        let per_call = if detail == Detail::Times { 2 } else { 1 };
        assert_eq!(profile.cost.target_events, 3002 * per_call);
    }
}

/// Times are there at `times` only; every call but the one that was in flight has one.
#[test]
fn times_add_up() {
    let profile = profile(&["calls", "1000"], Detail::Times);
    for call in &profile.calls {
        let time = call.time.as_ref().unwrap();
        let untimed = u64::from(call.label() == "read(pipe)");
        assert_eq!(time.timed, call.count - untimed, "{}", call.name);
        assert_eq!(time.histogram.count(), time.timed, "{}", call.name);
        let (Some(shortest), Some(longest)) = (time.ns_min, time.ns_max) else {
            assert_eq!(time.timed, 0, "{}", call.name);
            continue;
        };
        assert!(
            shortest <= longest && longest <= time.ns_total,
            "{}",
            call.name
        );
        assert!(time.ns_total <= profile.window.length_ns(), "{}", call.name);
    }
    let profile = self::profile(&["calls", "10"], Detail::Counts);
    assert!(profile.calls.iter().all(|call| call.time.is_none()));
}

/// A sleep is in the time, to the millisecond below and to the window above.
#[test]
fn sleeps_are_timed() {
    let profile = profile(&["sleep", "50"], Detail::Times);
    let time = row(&profile, "clock_nanosleep").time.as_ref().unwrap();
    assert!(time.ns_total >= 50_000_000 && time.ns_total < profile.window.length_ns());
    // Bucket 26 begins at 33.6 ms, bucket 27 at 67.1 ms.
    assert!(time.histogram.buckets().len() >= 27);
}

/// Every thread counts, those of before the attach too.
#[test]
fn threads_are_counted() {
    for threads in ["1", "50"] {
        let profile = profile(&["threads", threads, "1000"], Detail::Counts);
        let expected = threads.parse::<u64>().unwrap() * 1000;
        assert_eq!(row(&profile, "getppid").count, expected);
    }
}

/// Calls that seccomp refuses have no entry: counted with their error, not timed, and not timed
/// from a stamp of an earlier call.
#[test]
fn refused_calls() {
    let profile = profile(&["seccomp"], Detail::Times);
    let getppid = row(&profile, "getppid");
    assert_eq!(getppid.count, 10);
    assert_eq!(
        errors(&profile),
        BTreeMap::from([(("getppid", "EPERM"), 7)])
    );
    let time = getppid.time.as_ref().unwrap();
    assert_eq!(time.timed, 3);
    assert!(time.ns_max.unwrap() < 1_000_000_000);
    assert_eq!(profile.lost.of_calls(), 0);
}

/// `rt_sigreturn` is counted under its own name and never as an error.
#[test]
fn signal_handlers() {
    for detail in [Detail::Counts, Detail::Times] {
        let profile = profile(&["signals", "70"], detail);
        assert_eq!(row(&profile, "rt_sigreturn").count, 70);
        assert_eq!(row(&profile, "kill").count, 70);
        assert!(errors(&profile).is_empty(), "{:?}", errors(&profile));
    }
}

/// A call that a signal interrupts and the kernel restarts is two calls, one with an error.
#[test]
fn interrupted_calls() {
    let mut workload = Workload::start(&["interrupted"]);
    workload.await_byte();
    workload.await_blocked(1);
    let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Counts));
    session.open(true).unwrap();
    let pid = rustix::process::Pid::from_raw(workload.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    await_until("the signal handler to return", || {
        let slice = session.slice().unwrap();
        slice.calls.iter().any(|call| call.name == "rt_sigreturn")
    });
    workload.go();
    workload.await_byte();
    let profile = session.close(true).unwrap();
    assert_eq!(
        counts(&profile),
        BTreeMap::from([("read", 2), ("rt_sigreturn", 1), ("write", 1)])
    );
    assert_eq!(
        errors(&profile),
        BTreeMap::from([(("read", "ERESTARTSYS"), 1)])
    );
}

/// Threads that end inside a call, and the call that ended them, are in neither count nor errors.
#[test]
fn deaths_inside_calls() {
    let config = |pid| Config::new([Target::Pid(pid)], Detail::Times);
    let profile = profile_to_end(&["die-in-poll", "3"], 4, config);
    // Which of poll and ppoll it is depends on the library.
    let died: Vec<_> = profile
        .calls
        .iter()
        .filter(|row| row.died_in_call > 0)
        .collect();
    let [poll] = died.as_slice() else {
        panic!("threads died in one kind of call: {died:?}");
    };
    assert_eq!(
        (poll.family, poll.count, poll.died_in_call),
        (Family::Poll, 0, 3),
        "{poll:?}"
    );
    assert_eq!(row(&profile, "exit_group").no_return, 1);
    assert_eq!(row(&profile, "exit_group").count, 0);
    assert!(errors(&profile).is_empty(), "{:?}", errors(&profile));
    assert_eq!(profile.cpu_ns, None);
    assert!(
        profile
            .not_measured
            .iter()
            .any(|missing| missing.what == "CPU time")
    );
    assert!(profile.processes.iter().all(|process| process.ended));
}

/// A thread that ends by itself is one `exit`.
#[test]
fn threads_that_exit() {
    let profile = profile(&["exit-threads", "5"], Detail::Counts);
    assert_eq!(row(&profile, "exit").no_return, 5);
    assert_eq!(row(&profile, "exit").count, 0);
}

/// Calls by the gate of 32-bit programs have their own table.
#[test]
fn calls_of_32_bit_programs() {
    for detail in [Detail::Counts, Detail::Times] {
        let profile = profile(&["int80", "5"], detail);
        let calls = profile.calls.iter().filter(|row| row.abi == Abi::I386);
        let calls: Vec<_> = calls.map(|row| (row.name.as_str(), row.count)).collect();
        assert_eq!(calls, [("getpid", 5)]);
        assert!(!counts(&profile).contains_key("writev"));
    }
}

/// A number that no table has is printed, not dropped.
#[test]
fn unknown_numbers() {
    for detail in [Detail::Counts, Detail::Times, Detail::Stacks] {
        let profile = profile(&["unknown", "600", "2", "4"], detail);
        let call = row(&profile, "syscall_0x258");
        assert_eq!((call.nr, call.count), (600, 4));
        assert_eq!(call.errors, BTreeMap::from([("ENOSYS".to_owned(), 4)]));
        assert_eq!(row(&profile, "syscall_0x259").count, 4);
        assert_eq!(
            call.time.as_ref().map(|time| time.timed),
            match detail {
                Detail::Times | Detail::Sched | Detail::Stacks => Some(4),
                Detail::Counts | Detail::Floor => None,
            }
        );
    }
}

/// Events per wake, waits without an event, and the time of all of them.
#[test]
fn waiting_calls() {
    let profile = profile(&["epoll"], Detail::Times);
    let [wait] = profile.waits.as_slice() else {
        panic!("one waiting call: {:?}", profile.waits);
    };
    assert_eq!(
        (wait.wakes, wait.events, wait.timeouts, wait.interrupted),
        (2, 4, 2, 0)
    );
    // One wake with 1 event (bucket 1), one with 3 (bucket 2).
    assert_eq!(wait.events_per_wake.buckets(), [0, 1, 1]);
    assert!(wait.ns_total.unwrap() >= 1_000_000);
    assert_eq!(row(&profile, &wait.name).count, 4);
}

/// A descriptor that is not ready.
#[test]
fn not_ready() {
    let profile = profile(&["again", "30"], Detail::Counts);
    assert_eq!(errors(&profile), BTreeMap::from([(("read", "EAGAIN"), 30)]));
    assert_eq!(counts(&profile)["read"], 31);
}

/// Bytes are those that were moved, not those that were asked for.
#[test]
fn bytes_are_summed() {
    let profile = profile(&["bytes"], Detail::Counts);
    assert_eq!(row(&profile, "write(other)").bytes, Some(3 * 100));
    assert_eq!(row(&profile, "write(pipe)").bytes, Some(1));
    assert_eq!(row(&profile, "read(other)").bytes, Some(2 * 500));
    assert_eq!(row(&profile, "read(pipe)").bytes, Some(1));
}

/// A blocked call is in flight at both edges: with an age where it was entered under our eyes.
#[test]
fn calls_in_flight() {
    for detail in [Detail::Counts, Detail::Times] {
        let mut workload = Workload::start(&["sleep", "0"]);
        workload.await_blocked(1);
        let mut session = attach(Config::new([Target::Pid(workload.pid())], detail));
        session.open(true).unwrap();
        workload.go();
        workload.await_byte();
        workload.await_blocked(1);
        let profile = session.close(true).unwrap();
        let start = &profile.in_flight_at_start[..];
        let end = &profile.in_flight_at_end[..];
        for edge in [start, end] {
            assert_eq!(edge.len(), 1, "{edge:?}");
            assert_eq!(
                (edge[0].name.as_str(), edge[0].tid),
                ("read", workload.pid())
            );
        }
        assert_eq!(start[0].age_ns, None);
        assert_eq!(end[0].age_ns.is_some(), detail == Detail::Times);
        let within = profile.window.length_ns() * 2;
        assert!(end[0].age_ns.is_none_or(|age_ns| age_ns < within));
        // The one that ended in the window counts, the one that did not does not.
        assert_eq!(row(&profile, "read").count, 1);
    }
}

/// Slices add up to the window, in time and in counts.
#[test]
fn slices_add_up() {
    let mut workload = Workload::start(&["calls", "20000"]);
    let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Counts));
    session.open(true).unwrap();
    workload.go();
    for _ in 0..20 {
        session.slice().unwrap();
    }
    workload.await_byte();
    let profile = session.close(true).unwrap();
    assert_eq!(profile.slices.len(), 21);
    let mut at_ns = profile.window.start_ns;
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for slice in &profile.slices {
        assert_eq!(slice.window.start_ns, at_ns);
        at_ns = slice.window.end_ns;
        for call in &slice.calls {
            *sum.entry(call.name.clone()).or_default() += call.count;
        }
    }
    assert_eq!(at_ns, profile.window.end_ns);
    let whole = counts(&profile).into_iter();
    assert_eq!(
        sum,
        whole
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    );
    assert_eq!(sum["getppid"], 20000);
}

/// The second window of a session does not contain the first.
#[test]
fn windows_are_separate() {
    let mut workload = Workload::start(&["calls", "100"]);
    let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Counts));
    session.open(true).unwrap();
    workload.go();
    workload.await_byte();
    let first = session.close(true).unwrap();
    session.open(true).unwrap();
    let second = session.close(true).unwrap();
    assert_eq!(row(&first, "getppid").count, 100);
    assert!(counts(&second).is_empty(), "{:?}", counts(&second));
}
