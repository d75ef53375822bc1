//! What happens below the calls: operations of `io_uring`, and the network, of programs whose
//! operations and accidents are known.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use profiler::{Config, Target};
use recording::{Detail, ListenQueue, NetworkNamespace, Profile, UringOperation};

use crate::workload_process::{Workload, attach, await_until, counts, profile, row};

/// Every operation by name: submitted, completed, errors; at every detail.
#[test]
fn operations_are_counted() {
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let profile = profile(&["uring", "100"], detail);
        let expected = [
            ("nop", (100, 100, 0)),
            ("read", (202, 202, 2)),
            ("timeout", (3, 3, 3)),
            ("write", (100, 100, 0)),
        ];
        assert_eq!(operations(&profile), BTreeMap::from(expected));
        assert_eq!(profile.io_uring.as_ref().unwrap().overflows, 0);
        assert_eq!(profile.cost.uring_events, 2 * 405);
        // Their cost is in the estimate: as that of a call for as many runs as a call has.
        let per_call = profile.cost.calibration.unwrap().probe_ns_per_call;
        let runs_per_call = if detail == Detail::Counts { 1 } else { 2 };
        let calls: u64 = profile.calls.iter().map(|call| call.count).sum();
        let least = per_call * (calls + 2 * 405 / runs_per_call) as f64;
        let estimate = profile.cost.target_ns_estimate.unwrap() as f64;
        let is_exact = (estimate - least).abs() <= 0.5;
        assert!(is_exact || detail == Detail::Sched, "{estimate} {least}");
        assert!(estimate >= least - 0.5, "{estimate} {least}");
        assert_eq!(row(&profile, "io_uring_enter").count, 405);
        assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
        assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
    }
}

/// Each operation has a time where times are measured: a timeout its millisecond, none more than
/// the window.
#[test]
fn operations_are_timed() {
    for detail in [Detail::Times, Detail::Sched] {
        let profile = profile(&["uring", "100"], detail);
        for operation in &profile.io_uring.as_ref().unwrap().operations {
            let time = operation.time.as_ref().unwrap();
            assert_eq!(time.timed, operation.completed, "{}", operation.name);
            assert_eq!(time.histogram.count(), time.timed, "{}", operation.name);
            assert!(time.ns_max.unwrap() <= time.ns_total, "{}", operation.name);
            assert!(time.ns_total <= profile.window.length_ns());
        }
        let timeout = operation(&profile, "timeout");
        assert!(timeout.time.as_ref().unwrap().ns_total >= 3_000_000);
    }
    let profile = profile(&["uring", "10"], Detail::Counts);
    let operations = profile.io_uring.unwrap().operations;
    assert!(operations.iter().all(|operation| operation.time.is_none()));
}

/// Operations that a thread of the kernel takes from the queue are the target's.
#[test]
fn polled_queues() {
    let profile = profile(&["uring-polled", "500"], Detail::Times);
    assert_eq!(
        operations(&profile),
        BTreeMap::from([("nop", (500, 500, 0))])
    );
    let time = operation(&profile, "nop").time.as_ref().unwrap();
    assert_eq!(time.timed, 500);
}

/// A thread that the kernel made for a ring is in no call, though it looks as if it were in the one that
/// made it: neither in flight nor asleep in it.
#[test]
fn workers_of_rings_are_in_no_call() {
    for detail in [Detail::Counts, Detail::Sched] {
        let mut workload = Workload::start(&["uring", "1"]);
        workload.await_blocked(1);
        workload.go();
        workload.await_byte();
        // The read by a worker left it behind.
        workload.await_blocked(2);
        let mut session = attach(Config::new([Target::Pid(workload.pid())], detail));
        session.open(true).unwrap();
        let profile = session.close(true).unwrap();
        for calls in [&profile.in_flight_at_start, &profile.in_flight_at_end] {
            let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names, ["read"], "{detail:?}");
        }
        if let Some(threads) = &profile.threads {
            assert_eq!(threads.off_cpu_outside_ns * 2, threads.lifetime_ns);
            assert_eq!(threads.off_cpu_in_calls_ns * 2, threads.lifetime_ns);
        }
    }
}

/// A server that makes hardly any call: its operations are seen, each receive with its wait.
#[test]
fn servers_without_calls() {
    let profile = profile(&["uring-echo", "200"], Detail::Times);
    let expected = [("recv", (200, 200, 0)), ("send", (200, 200, 0))];
    assert_eq!(operations(&profile), BTreeMap::from(expected));
    for name in ["recv", "send"] {
        let time = operation(&profile, name).time.as_ref().unwrap();
        assert_eq!(time.timed, 200);
        assert!(time.ns_total > 0 && time.ns_total <= profile.window.length_ns());
    }
    // Those of the client.
    assert_eq!(counts(&profile)["recvfrom"], 200);
}

/// Completions beyond the room of their queue are told.
#[test]
fn full_completion_queues() {
    let profile = profile(&["uring-overflow", "8", "5"], Detail::Times);
    let nop = operation(&profile, "nop");
    assert_eq!(nop.submitted, 13);
    // Whether the others count as completed is up to the kernel.
    assert!([8, 13].contains(&nop.completed), "{nop:?}");
    assert_eq!(profile.io_uring.as_ref().unwrap().overflows, 5);
}

/// A request that accepts all connections completes once for each, and is not done.
#[test]
fn requests_that_go_on() {
    for detail in [Detail::Counts, Detail::Times] {
        let profile = profile(&["uring-accept", "20"], detail);
        let accept = operation(&profile, "accept");
        assert_eq!(
            (accept.submitted, accept.completed, accept.repeated),
            (1, 0, 20)
        );
        assert!(!counts(&profile).contains_key("accept4"));
    }
}

/// Programs without `io_uring` have no operation, and other programs' operations are not theirs.
#[test]
fn operations_of_others() {
    let mut other = Workload::start(&["uring", "100"]);
    let mut target = Workload::start(&["calls", "10"]);
    let mut session = attach(Config::new([Target::Pid(target.pid())], Detail::Times));
    session.open(true).unwrap();
    for workload in [&mut other, &mut target] {
        workload.go();
        workload.await_byte();
    }
    let profile = session.close(true).unwrap();
    assert_eq!(profile.io_uring.unwrap().operations, []);
}

/// Connections beyond the room of a listener: the namespace counts them, and the queue is seen full
/// with its limit.
#[test]
fn full_listen_queues() {
    let (queue, namespace) = full_queue("tcp-full-queue");
    // A kernel may lack inet_diag.
    assert!(queue.limit.is_none_or(|limit| limit == 1), "{queue:?}");
    assert_eq!(namespace.namespace, Some(own_namespace()));
}

/// The same in another network namespace, whose limits we cannot ask for.
#[test]
fn full_listen_queues_elsewhere() {
    let (queue, namespace) = full_queue("tcp-apart");
    assert_eq!(queue.limit, None);
    assert_eq!(queue.namespace, namespace.namespace);
    assert!(namespace.namespace.is_some_and(|id| id != own_namespace()));
}

/// Resets on the target's connections, each on its side.
#[test]
fn resets() {
    let profile = profile_of_listener(&["tcp-resets", "7", "4"]);
    let network = profile.network.unwrap();
    assert_eq!(network.resets_received, Some(7));
    assert_eq!(network.resets_sent, Some(4));
    assert_eq!(network.retransmits, Some(0));
}

/// A segment that the peer did not acknowledge is sent again, and counted.
#[test]
fn retransmits() {
    let profile = profile_of_listener(&["tcp-retransmit"]);
    let network = profile.network.unwrap();
    assert!(network.retransmits.unwrap() >= 1, "{network:?}");
    assert_eq!(network.resets_sent, Some(0));
}

/// Without hardware counters the reason is told; with them they have counted.
#[test]
fn hardware_counters() {
    let profile = profile(&["calls", "1000"], Detail::Times);
    if let Some(hardware) = &profile.hardware {
        let some = [hardware.cycles, hardware.instructions];
        assert!(some.iter().flatten().any(|count| count.counted > 0));
        assert_eq!(hardware.threads.len(), 1);
    } else {
        let mut reasons = profile.not_measured.iter();
        assert!(reasons.any(|reason| reason.what == "hardware counters"));
    }
}

/// Profiles five connections too many.
fn full_queue(workload: &str) -> (ListenQueue, NetworkNamespace) {
    let mut workload = Workload::start(&[workload, "5"]);
    workload.await_blocked(1);
    let pid = workload.pid();
    let before = listen_overflows(pid);
    let mut session = attach(Config::new([Target::Pid(pid)], Detail::Counts));
    session.open(true).unwrap();
    workload.go();
    workload.await_byte();
    await_until("five connections to be dropped", || {
        listen_overflows(pid) >= before + 5
    });
    let network = session.close(true).unwrap().network.unwrap();
    let [queue] = &network.listeners[..] else {
        panic!("{:?}", network.listeners);
    };
    assert_eq!((queue.sockets, queue.deepest), (1, 2));
    let [namespace] = network.namespaces[..] else {
        panic!("{:?}", network.namespaces);
    };
    assert!(namespace.listen_overflows >= 5 && namespace.listen_drops >= 5);
    (queue.clone(), namespace)
}

/// The network namespace of the tests.
fn own_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/net").unwrap().ino()
}

/// Profiles a workload that listens before it says so by blocking.
fn profile_of_listener(args: &[&str]) -> Profile {
    let mut workload = Workload::start(args);
    workload.await_blocked(1);
    let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Counts));
    session.open(true).unwrap();
    workload.go();
    workload.await_byte();
    session.close(true).unwrap()
}

/// Submitted, completed and errors, by name.
fn operations(profile: &Profile) -> BTreeMap<&str, (u64, u64, u64)> {
    let operations = profile.io_uring.as_ref().unwrap().operations.iter();
    let counts = operations.map(|operation| {
        let counts = (operation.submitted, operation.completed, operation.errors);
        (operation.name.as_str(), counts)
    });
    counts.collect()
}

fn operation<'a>(profile: &'a Profile, name: &str) -> &'a UringOperation {
    let mut operations = profile.io_uring.as_ref().unwrap().operations.iter();
    operations
        .find(|operation| operation.name == name)
        .unwrap_or_else(|| panic!("no {name} among {:?}", self::operations(profile)))
}

/// `ListenOverflows` of the network namespace of a process.
fn listen_overflows(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/netstat")).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let names = lines.next().unwrap().split_ascii_whitespace();
    let values = lines.next().unwrap().split_ascii_whitespace();
    let mut counters = names.zip(values);
    let (_, value) = counters
        .find(|(name, _)| *name == "ListenOverflows")
        .unwrap();
    value.parse().unwrap()
}
