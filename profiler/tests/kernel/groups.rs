//! Calls by process, thread and name.

use std::collections::BTreeMap;

use profiler::{Config, Target};
use recording::{CallTime, Detail, Group, GroupBy, Profile};

use crate::workload_process::{Workload, attach, counts, labels, profile_with, row};

fn by(group_by: GroupBy, detail: Detail) -> impl Fn(u32) -> Config {
    move |pid| Config {
        group_by: Some(group_by),
        ..Config::new([Target::Pid(pid)], detail)
    }
}

/// Profiles a workload that tells numbers before it waits.
fn profile_told(args: &[&str], config: impl Fn(u32) -> Config) -> (Profile, Vec<u64>, u32) {
    let mut workload = Workload::start(args);
    let told = workload.await_numbers();
    let mut session = attach(config(workload.pid()));
    session.open(true).unwrap();
    workload.go();
    workload.await_byte();
    (session.close(true).unwrap(), told, workload.pid())
}

fn count(group: &Group, name: &str) -> u64 {
    let calls = group.calls.iter().filter(|call| call.name == name);
    calls.map(|call| call.count).sum()
}

/// The sum over all groups is the whole: calls, errors and bytes of each row.
fn assert_sums(profile: &Profile) {
    let mut sums: BTreeMap<(String, Option<_>), [u64; 3]> = BTreeMap::new();
    for call in profile.groups.iter().flat_map(|group| &group.calls) {
        let sum = sums.entry((call.name.clone(), call.on)).or_default();
        sum[0] += call.count;
        sum[1] += call.errors;
        sum[2] += call.bytes.unwrap_or(0);
    }
    sums.retain(|_, sum| sum[0] > 0);
    let rows = profile.calls.iter().filter(|row| row.count > 0);
    let whole = rows.map(|row| {
        let figures = [row.count, row.error_count(), row.bytes.unwrap_or(0)];
        ((row.name.clone(), row.on), figures)
    });
    assert_eq!(sums, whole.collect());
    let own = std::process::id();
    assert!(profile.groups.iter().all(|group| group.pid != Some(own)));
    assert!(profile.processes.iter().all(|process| process.pid != own));
}

/// The sum over all groups is the whole: each term of the time.
fn assert_times_sum(profile: &Profile) {
    let threads = profile.threads.as_ref().unwrap();
    let groups = || profile.groups.iter();
    let inside = |term: fn(&CallTime) -> u64| -> u64 {
        let calls = groups().flat_map(|group| &group.calls);
        calls.filter_map(|call| call.split.as_ref()).map(term).sum()
    };
    let outside = |term: fn(&CallTime) -> u64| -> u64 {
        groups()
            .filter_map(|group| group.outside.as_ref())
            .map(term)
            .sum()
    };
    let on = |split: &CallTime| split.on_cpu_ns;
    let off = |split: &CallTime| split.off_cpu_ns;
    let waiting = |split: &CallTime| split.run_queue_ns;
    for (what, sum, whole) in [
        ("user", outside(on), threads.user_ns),
        ("kernel", inside(on), threads.kernel_ns),
        (
            "asleep",
            inside(off) + outside(off),
            threads.off_cpu_in_calls_ns + threads.off_cpu_outside_ns,
        ),
        (
            "run queue",
            inside(waiting) + outside(waiting),
            threads.run_queue_ns,
        ),
    ] {
        // Both are copied while threads may run.
        let allowed = threads.lifetime_ns / 100;
        assert!(
            sum.abs_diff(whole) <= allowed,
            "{what}: groups {sum} ns, all {whole} ns"
        );
    }
}

/// Four workers that were there before, each with calls of its own number.
#[test]
fn prefork_workers() {
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let (profile, pids, parent) = profile_told(&["prefork", "4"], by(GroupBy::Process, detail));
        assert_sums(&profile);
        for (index, &pid) in (1..).zip(&pids) {
            let is_it = |group: &&Group| group.id.map(u64::from) == Some(pid);
            let group = profile.groups.iter().find(is_it).unwrap();
            assert_eq!(count(group, "getppid"), 10 * index);
            assert_eq!(group.comm.as_deref(), Some("kernel-workload"));
            assert_eq!(group.pid.map(u64::from), Some(pid));
        }
        assert_eq!(profile.groups.len(), 5);
        assert!(profile.groups.iter().any(|group| group.id == Some(parent)));
        assert_eq!(profile.grouped_by, Some(GroupBy::Process));
        if detail == Detail::Sched {
            assert_times_sum(&profile);
        } else {
            assert!(profile.groups.iter().all(|group| group.outside.is_none()));
        }
    }
}

/// A thousand threads, each with a number of calls that no other has.
#[test]
fn a_thousand_threads() {
    let (profile, told, pid) = profile_told(
        &["thread-each", "1000"],
        by(GroupBy::Thread, Detail::Counts),
    );
    assert_sums(&profile);
    assert_eq!(told.len(), 2000);
    let groups = profile.groups.iter();
    let groups: BTreeMap<u64, &Group> = groups
        .map(|group| (group.id.unwrap().into(), group))
        .collect();
    for pair in told.chunks(2) {
        let group = groups[&pair[1]];
        assert_eq!(count(group, "getppid"), pair[0]);
        assert_eq!(group.pid, Some(pid));
    }
    assert_eq!(row(&profile, "getppid").count, 500_500);
    assert_eq!(profile.lost.of_calls(), 0);
}

/// Threads by name, and a forked helper apart from them.
#[test]
fn threads_and_a_helper() {
    let profile = profile_with(&["names"], by(GroupBy::Comm, Detail::Times));
    assert_sums(&profile);
    let made: BTreeMap<&str, u64> = profile
        .groups
        .iter()
        .filter(|group| count(group, "getppid") > 0)
        .map(|group| (group.comm.as_deref().unwrap(), count(group, "getppid")))
        .collect();
    assert_eq!(
        made,
        BTreeMap::from([("helper", 7), ("reader", 20), ("writer", 5)])
    );
    assert!(profile.groups.iter().all(|group| group.id.is_none()));

    // The same by process: the threads are one, the helper is another.
    let profile = profile_with(&["names"], by(GroupBy::Process, Detail::Times));
    let mut made: Vec<u64> = profile
        .groups
        .iter()
        .map(|group| count(group, "getppid"))
        .collect();
    made.sort_unstable();
    assert_eq!(made, [7, 25]);
    // And without following children the helper is in no group and in no sum.
    let profile = profile_with(&["names"], |pid| Config {
        follow: false,
        ..by(GroupBy::Process, Detail::Times)(pid)
    });
    assert_sums(&profile);
    assert_eq!(row(&profile, "getppid").count, 25);
}

/// Threads that slept before the window and end in it: their time before it is in no group, and
/// their calls are.
#[test]
fn threads_that_end() {
    for group_by in [GroupBy::Process, GroupBy::Thread, GroupBy::Comm] {
        let mut workload = Workload::start(&["sleepers-that-end", "40"]);
        workload.await_blocked(41);
        let mut session = attach(by(group_by, Detail::Sched)(workload.pid()));
        // sleeps: time before the window, which must not be in it.
        std::thread::sleep(std::time::Duration::from_millis(100));
        session.open(true).unwrap();
        workload.go();
        workload.await_byte();
        let profile = session.close(true).unwrap();
        assert_sums(&profile);
        assert_times_sum(&profile);
        crate::sched::assert_adds_up(&profile);
        assert_eq!(counts(&profile)["read"], 41, "{:?}", labels(&profile));
        let nameless = profile.groups.iter().filter(|group| group.comm.is_none());
        assert_eq!(nameless.count(), 0, "{group_by:?}");
    }
}

/// Eight workers on one listener: who was woken in vain shows in the workers' own rows.
#[test]
fn a_herd() {
    let (profile, pids, _parent) =
        profile_told(&["herd", "8", "50"], by(GroupBy::Process, Detail::Counts));
    assert_sums(&profile);
    let accept = row(&profile, "accept4");
    assert_eq!(
        accept.count - accept.errors.get("EAGAIN").copied().unwrap_or(0),
        50
    );
    let mut accepted = 0;
    for &pid in &pids {
        let is_it = |group: &&Group| group.id.map(u64::from) == Some(pid);
        // One that never was woken has no call.
        let Some(group) = profile.groups.iter().find(is_it) else {
            continue;
        };
        let accepts = group.calls.iter().find(|call| call.name == "accept4");
        let (tried, in_vain) = accepts.map_or((0, 0), |call| (call.count, call.errors));
        assert!(count(group, "epoll_wait") >= tried.saturating_sub(1));
        accepted += tried - in_vain;
    }
    assert_eq!(accepted, 50);
    let [wait] = profile.waits.as_slice() else {
        panic!("one waiting call: {:?}", profile.waits);
    };
    // Each wake has one event, the listener, and is followed by one accept.
    assert_eq!((wait.events, wait.timeouts), (wait.wakes, 0));
    assert!(wait.wakes.abs_diff(accept.count) <= 8);
}
