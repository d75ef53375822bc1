//! What measuring costs, and what is left of it in the result; and counting only some calls.

use profiler::{Config, ProfilerError, Session, Target};
use recording::{Detail, Profile};

use crate::workload_process::{Workload, attach, counts, profile, profile_with, row};

/// The cost of a call is measured at start at every detail that has probes, and is plausible.
#[test]
fn calibration() {
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let profile = profile(&["calls", "1000"], detail);
        let calibration = profile.cost.calibration.unwrap();
        let plausible = |ns: f64| ns > 0.0 && ns < 100_000.0;
        assert!(plausible(calibration.entry_exit_ns), "{calibration:?}");
        // Noise may hide it, never make it negative.
        assert!(calibration.probe_ns_per_call >= 0.0, "{calibration:?}");
        assert!(calibration.probe_ns_per_call < 100_000.0, "{calibration:?}");
        assert!(
            calibration.page_fault_ns.is_some_and(plausible),
            "{calibration:?}"
        );
        // Below the time of the call as a whole, probes included.
        let inside = calibration.null_call_inside_ns;
        assert_eq!(inside.is_some(), detail >= Detail::Times);
        let whole = 2.0 * (calibration.entry_exit_ns + calibration.probe_ns_per_call);
        assert!(
            inside.is_none_or(|ns| ns > 0.0 && ns < whole),
            "{calibration:?}"
        );

        let per_switch = calibration.probe_ns_per_switch;
        assert_eq!(per_switch.is_some(), detail == Detail::Sched);
        assert!(per_switch.is_none_or(|ns| (0.0..100_000.0).contains(&ns)));

        let calls: u64 = profile.calls.iter().map(|call| call.count).sum();
        let switches = profile.threads.as_ref().map_or(0, |threads| {
            threads.voluntary_switches + threads.involuntary_switches
        });
        let expected = calibration.probe_ns_per_call * calls as f64
            + per_switch.unwrap_or(0.0) * switches as f64;
        let estimate = profile.cost.target_ns_estimate.unwrap() as f64;
        assert!((estimate - expected).abs() <= 0.5, "{estimate} {expected}");
        assert_eq!(profile.cost.sched_events > 0, detail == Detail::Sched);
    }
    let floor = profile(&["calls", "10"], Detail::Floor);
    assert_eq!(floor.cost.calibration, None);
    assert_eq!(floor.cost.target_ns_estimate, None);
}

/// The profiler calls, sleeps and wakes to measure itself: none of that is in the counts or in the
/// extremes of the target. A call that was made once is its own shortest and longest.
#[test]
fn nothing_of_ours_is_left() {
    for detail in [Detail::Times, Detail::Sched] {
        let profile = profile(&["calls", "1"], detail);
        for call in &profile.calls {
            let time = call.time.as_ref().unwrap();
            if time.timed == 1 {
                let once = Some(time.ns_total);
                assert_eq!((time.ns_min, time.ns_max), (once, once), "{}", call.label());
            }
        }
        let made: u64 = counts(&profile).values().sum();
        assert_eq!(made, 5, "{:?}", counts(&profile));
        let own = std::process::id();
        assert!(profile.processes.iter().all(|process| process.pid != own));
        if let Some(threads) = &profile.threads {
            assert_eq!((threads.threads_began, threads.threads_ended), (0, 0));
        }
    }
}

/// The kernel's own statistics are read where they are asked for, and not switched on otherwise.
#[test]
fn statistics_of_the_kernel() {
    for bpf_stats in [false, true] {
        let profile = profile_with(&["calls", "1000"], |pid| Config {
            bpf_stats,
            ..Config::new([Target::Pid(pid)], Detail::Times)
        });
        let cost = &profile.cost;
        assert_eq!(cost.bpf_run_ns.is_some(), bpf_stats);
        // All processes' calls run the programs.
        let least = if bpf_stats { cost.target_events } else { 0 };
        assert!(cost.bpf_runs.unwrap_or(0) >= least, "{cost:?}");
        assert!(cost.bpf_run_ns.is_none_or(|ns| ns > 0), "{cost:?}");
    }
}

fn only(names: &[&str], pid: u32, detail: Detail) -> Config {
    Config {
        only: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..Config::new([Target::Pid(pid)], detail)
    }
}

/// Only the calls that were asked for are counted, all rows of each; the others are absent, and
/// that they are is said.
#[test]
fn only_some_calls() {
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let profile = profile_with(&["calls", "100"], |pid| {
            only(&["read", "openat"], pid, detail)
        });
        let made: Vec<(&str, u64)> = counts(&profile).into_iter().collect();
        assert_eq!(made, [("openat", 100), ("read", 101)], "{detail:?}");
        assert_eq!(row(&profile, "openat").errors["ENOENT"], 100);
        assert!(
            profile
                .calls
                .iter()
                .all(|call| ["read", "openat"].contains(&call.name.as_str())),
            "{detail:?}: {:?}",
            profile
                .calls
                .iter()
                .map(recording::CallRow::label)
                .collect::<Vec<_>>()
        );
        assert!(is_said(&profile), "{:?}", profile.not_measured);
        // The programs ran for the others too, and how often is not known.
        assert_eq!(profile.cost.target_ns_estimate, None);
        assert!(profile.cost.calibration.is_some());
    }
}

fn is_said(profile: &Profile) -> bool {
    profile
        .not_measured
        .iter()
        .any(|missing| missing.what == "other system calls")
}

/// A name that no call has is an error that says so, before anything is counted.
#[test]
fn only_unknown_calls() {
    let workload = Workload::start(&["calls", "1"]);
    let error =
        Session::attach(only(&["read", "raed"], workload.pid(), Detail::Counts)).unwrap_err();
    assert!(
        matches!(&error, ProfilerError::NoSuchCall { name } if name == "raed"),
        "{error}"
    );
}

/// Every system call that the kernel has, by name: none is left out by default.
#[test]
fn every_call_is_counted() {
    for detail in [Detail::Counts, Detail::Times] {
        let mut workload = Workload::start(&["every-call"]);
        workload.await_blocked(1);
        let mut session = attach(Config::new([Target::Pid(workload.pid())], detail));
        session.open(true).unwrap();
        workload.go();
        let told = workload.await_numbers();
        workload.await_blocked(1);
        let profile = session.close(true).unwrap();
        assert!(told[0] > 300, "{told:?}");
        let made = counts(&profile);
        // `read` starts it and `write` tells; both are among the calls as well.
        assert_eq!(made.len() as u64, told[0], "{made:?}");
        assert_eq!(made.values().sum::<u64>(), told[0] + 2);
        assert_eq!(profile.lost.of_calls(), 0);
        assert!(
            made.keys().all(|name| !name.starts_with("syscall_")),
            "{made:?}"
        );
    }
}

/// Under load, with a reader that copies all the time, entries and exits balance: every call but the
/// one that was in flight at the attach has its time, and nothing is missing.
#[test]
fn entries_and_exits_balance() {
    for (args, name, count) in [
        (&["poll-family"][..], "epoll_wait", 7),
        (&["ping-pong", "5000"], "write(pipe)", 10_001),
        (&["threads", "4", "20000"], "getppid", 80_000),
    ] {
        let mut workload = Workload::start(args);
        let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Times));
        session.open(true).unwrap();
        workload.go();
        let done = std::thread::spawn(move || {
            workload.await_byte();
            workload
        });
        let mut slices = 0;
        while !done.is_finished() {
            session.slice().unwrap();
            slices += 1;
        }
        let workload = done.join().unwrap();
        let profile = session.close(true).unwrap();
        drop(workload);
        assert!(slices > 0);
        assert_eq!(row(&profile, name).count, count);
        let calls: u64 = profile.calls.iter().map(|call| call.count).sum();
        let timed: u64 = profile
            .calls
            .iter()
            .filter_map(|call| call.time.as_ref())
            .map(|time| time.timed)
            .sum();
        let in_flight_before = profile.in_flight_at_start.len() as u64;
        assert!(
            calls - timed <= in_flight_before,
            "{calls} calls, {timed} timed"
        );
        let sum = profile
            .slices
            .iter()
            .flat_map(|slice| &slice.calls)
            .map(|call| call.count);
        assert_eq!(sum.sum::<u64>(), calls);
        assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
        // Time inside calls is no more than there was.
        let threads = profile.processes[0].threads.unwrap();
        let inside: u64 = profile
            .calls
            .iter()
            .filter_map(|call| call.time.as_ref())
            .map(|time| time.ns_total)
            .sum();
        assert!(inside <= u64::from(threads) * profile.window.length_ns());
    }
}
