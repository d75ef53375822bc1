//! Time in functions of a TLS library, of a program that has functions with such names in itself.

use profiler::{Config, Target};
use recording::{Detail, TlsFunction, TlsPurpose, TlsTime};

use crate::workload_process::profile_with;

const TURNS: u64 = 300;

/// Calls and completed handshakes are counted exactly, one inside another once, and the call that a
/// thread died in as lost; time on the CPU and in calls is part of the time.
#[test]
fn functions_are_counted() {
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let time = time_of(detail);
        let expected = [
            ("SSL_do_handshake", TlsPurpose::Handshake, Some(TURNS)),
            ("SSL_accept", TlsPurpose::Handshake, Some(TURNS - TURNS / 3)),
            ("SSL_read", TlsPurpose::Read, None),
            ("SSL_write", TlsPurpose::Write, None),
        ];
        let found: Vec<_> = time
            .functions
            .iter()
            .map(|row| (row.name.as_str(), row.purpose, row.handshakes))
            .collect();
        assert_eq!(found, expected);
        for row in &time.functions {
            assert_eq!(row.count, TURNS, "{}", row.name);
            check_time(row, detail);
        }
        assert_eq!(time.lost, 1);
    }
}

fn check_time(row: &TlsFunction, detail: Detail) {
    let time = &row.time;
    assert_eq!((time.timed, time.histogram.count()), (TURNS, TURNS));
    assert!(time.ns_min.is_some_and(|ns| ns > 0) && time.ns_max <= Some(time.ns_total));
    let cpu_ns = row.cpu_ns.expect("this kernel has the clocks");
    assert!(cpu_ns > 0 && cpu_ns <= time.ns_total, "{row:?}");
    assert_eq!(row.calls_ns.is_some(), detail >= Detail::Times);
    if let Some(calls_ns) = row.calls_ns {
        // Since Linux 6.11 the probe on a return is a system call: inside of this one there is one.
        if row.name != "SSL_accept" {
            assert_eq!(calls_ns > 0, row.name == "SSL_read", "{row:?}");
        }
        assert!(calls_ns < time.ns_total, "{row:?}");
    }
}

/// The program is named as where the library is, and who has it.
#[test]
fn the_library_is_named() {
    let time = time_of(Detail::Counts);
    let [library] = time.libraries.as_slice() else {
        panic!("one file has such functions: {:?}", time.libraries);
    };
    assert_eq!(library.file, "kernel-workload");
    assert_eq!((library.pids.len(), &library.not_probed), (1, &None));
}

/// Of a program without a TLS library that is said, and nothing is measured unless asked for.
#[test]
fn no_library() {
    let profile = profile_with(&["calls", "1"], |pid| {
        Config::new([Target::Pid(pid)], Detail::Counts)
    });
    assert_eq!(profile.tls_time, None);
    let mut sleep = std::process::Command::new("sh")
        .args(["-c", "read line"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut config = Config::new([Target::Pid(sleep.id())], Detail::Counts);
    config.tls = true;
    let mut session = crate::workload_process::attach(config);
    session.open(false).unwrap();
    let profile = session.close(false).unwrap();
    drop(sleep.stdin.take());
    sleep.wait().unwrap();
    assert_eq!(profile.tls_time.map(|time| time.libraries), Some(vec![]));
    let missing = &profile.not_measured;
    let missing = missing.iter().find(|missing| missing.what == "TLS time");
    assert!(missing.is_some_and(|missing| missing.why.starts_with("no TLS library")));
}

/// The probes are gone with the session.
#[test]
fn nothing_remains() {
    let _time = time_of(Detail::Counts);
    crate::workload_process::await_until("our programs to be freed", || {
        profiler::loaded_programs().unwrap() == 0
    });
}

fn time_of(detail: Detail) -> TlsTime {
    let profile = profile_with(&["shake-hands", &TURNS.to_string()], |pid| {
        let mut config = Config::new([Target::Pid(pid)], detail);
        config.tls = true;
        config
    });
    assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
    profile.tls_time.expect("it was asked for")
}
