//! Counting at a function of the kernel instead of at the tracepoints.

use std::collections::BTreeMap;

use profiler::{Config, Hook, ProfilerError, Session, Target};
use recording::{Abi, Detail, Profile};

use crate::workload_process::{Workload, counts, errors, profile, profile_with, row};

fn profile_at_function(args: &[&str]) -> Profile {
    profile_with(args, |pid| Config {
        hook: Hook::Function,
        ..Config::new([Target::Pid(pid)], Detail::Counts)
    })
}

/// Calls, errors and bytes that are known, without the read that the workload waited in at the
/// attach: a function that was entered before is left unseen.
#[test]
fn known_calls() {
    let profile = profile_at_function(&["calls", "1000"]);
    let expected = [
        ("getppid", 1000),
        ("openat", 1000),
        ("read", 1000),
        ("write", 1),
    ];
    assert_eq!(counts(&profile), BTreeMap::from(expected));
    assert_eq!(
        errors(&profile),
        BTreeMap::from([(("openat", "ENOENT"), 1000)])
    );
    let reads = profile.calls.iter().filter(|row| row.name == "read");
    assert_eq!(reads.filter_map(|row| row.bytes).sum::<u64>(), 1000);
    assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
}

/// Threads, children, signals and waits: the same rows as at the tracepoints, but for the read that
/// the workload waited in at the attach.
#[test]
fn same_rows_as_tracepoints() {
    for args in [
        &["again", "30"][..],
        &["bytes"],
        &["epoll"],
        &["forks", "3", "100"],
        &["signals", "70"],
        &["threads", "1", "1000"],
    ] {
        let function = profile_at_function(args);
        let mut tracepoint = profile(args, Detail::Counts);
        without_first_read(&mut tracepoint);
        assert_eq!(function.calls, tracepoint.calls, "{args:?}");
        assert_eq!(function.waits, tracepoint.waits, "{args:?}");
        assert_eq!(function.lost.of_calls(), 0, "{:?}", function.lost);
    }
}

fn without_first_read(profile: &mut Profile) {
    let mut rows = profile.calls.iter_mut();
    let read = rows.find(|row| row.name == "read").unwrap();
    read.count -= 1;
    read.bytes = read.bytes.map(|bytes| bytes - 1);
}

/// What the hook says that it does not see: refused calls, and those with 32-bit numbers or with
/// numbers that no call has.
#[test]
fn unseen_calls() {
    let refused = profile_at_function(&["seccomp"]);
    assert_eq!(row(&refused, "getppid").count, 3);
    assert!(errors(&refused).is_empty(), "{:?}", errors(&refused));
    let unknown = profile_at_function(&["unknown", "600", "2", "4"]);
    assert!(unknown.calls.iter().all(|row| row.nr < 600));
    let compat = profile_at_function(&["int80", "5"]);
    assert!(compat.calls.iter().all(|row| row.abi == Abi::X86_64));
}

/// The hook does not measure times, and says so before it counts anything.
#[test]
fn other_details_are_refused() {
    let workload = Workload::start(&["calls", "1"]);
    let error = Session::attach(Config {
        hook: Hook::Function,
        ..Config::new([Target::Pid(workload.pid())], Detail::Times)
    });
    assert!(
        matches!(
            error,
            Err(ProfilerError::HookForDetail {
                detail: Detail::Times
            })
        ),
        "{error:?}"
    );
}
