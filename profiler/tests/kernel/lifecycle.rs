//! Who is counted: forks, execs, ends, targets by name and control group; and what is left behind.

use std::collections::BTreeMap;

use profiler::{Config, ProfilerError, Session, Target};
use recording::Detail;

use crate::kernel_state::{await_gone, programs_of};
use crate::workload_process::{
    Workload, attach, await_until, counts, profile, profile_to_end, profile_with, row,
};

/// A million calls of 16 children, all of them, and each fork once.
#[test]
fn children_are_followed() {
    let profile = profile(&["forks", "16", "62500"], Detail::Counts);
    assert_eq!(row(&profile, "getpid").count, 1_000_000);
    let forks = counts(&profile).get("clone").copied();
    assert_eq!(forks, Some(16), "{:?}", counts(&profile));
    assert_eq!(row(&profile, "wait4").count, 16);
    assert_eq!(row(&profile, "exit_group").no_return, 16);
    assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
    assert_eq!(profile.processes.len(), 17);
    assert_eq!(
        profile
            .processes
            .iter()
            .filter(|process| process.ended)
            .count(),
        16
    );
    // Their parent has waited for them: nobody can read their clocks any more, and that is said.
    assert_eq!(profile.cpu_ns, None);
    let mut missing = profile.not_measured.iter();
    assert!(missing.any(|missing| missing.what == "CPU time"));
}

/// Without following, children do not count and the parent does.
#[test]
fn children_are_not_followed() {
    let profile = profile_with(&["forks", "3", "100"], |pid| Config {
        follow: false,
        ..Config::new([Target::Pid(pid)], Detail::Counts)
    });
    assert!(!counts(&profile).contains_key("getpid"));
    assert_eq!(row(&profile, "clone").count, 3);
    assert_eq!(row(&profile, "wait4").count, 3);
    assert_eq!(profile.processes.len(), 1);
}

/// Children that exist at the attach are part of a followed target only.
#[test]
fn existing_children() {
    for follow in [true, false] {
        let profile = profile_with(&["fork-idle"], |pid| Config {
            follow,
            ..Config::new([Target::Pid(pid)], Detail::Counts)
        });
        let expected = if follow { 100 } else { 0 };
        let found = counts(&profile).get("getpid").copied().unwrap_or(0);
        assert_eq!(found, expected, "follow: {follow}");
    }
}

/// A loop of vfork and exec: each once, the programs' own calls included.
#[test]
fn vfork_and_exec() {
    let profile = profile(&["spawn", "20"], Detail::Times);
    let made = counts(&profile);
    let forks = made
        .get("vfork")
        .into_iter()
        .chain(made.get("clone3"))
        .chain(made.get("clone"));
    assert_eq!(forks.sum::<u64>(), 20, "{made:?}");
    assert_eq!(made["execve"], 20, "{made:?}");
    assert_eq!(row(&profile, "exit_group").no_return, 20);
    assert_eq!(profile.lost.of_calls(), 0);
}

/// A pending target counts from its execve on: that call, and nothing before it.
#[test]
fn pending_targets() {
    for detail in [Detail::Counts, Detail::Times] {
        let mut workload = Workload::start(&["exec"]);
        workload.await_blocked(1);
        let mut session = attach(Config::new([Target::Pending(workload.pid())], detail));
        session.open(true).unwrap();
        workload.go();
        workload.await_end();
        await_until("the target to end", || session.target_ended());
        let profile = session.close(false).unwrap();
        let execve = row(&profile, "execve");
        assert_eq!(execve.count, 1);
        assert_eq!(execve.time.as_ref().map_or(1, |time| time.timed), 1);
        assert_eq!(row(&profile, "exit_group").no_return, 1);
        // The read that it waited in began before and is not of the program.
        let strace = crate::strace::count(&["/bin/true"]);
        let expected: BTreeMap<&str, u64> = strace
            .iter()
            .map(|(name, call)| (name.as_str(), call.0))
            .collect();
        assert_eq!(counts(&profile), expected);
    }
}

/// A thread that is not the leader takes over its id at exec; the call is counted and timed.
#[test]
fn exec_of_another_thread() {
    let config = |pid| Config::new([Target::Pid(pid)], Detail::Times);
    let profile = profile_to_end(&["exec-from-thread"], 1, config);
    let execve = row(&profile, "execve");
    assert_eq!((execve.count, execve.time.as_ref().unwrap().timed), (1, 1));
    // The leader died waiting for the thread.
    let died: u64 = profile.calls.iter().map(|call| call.died_in_call).sum();
    assert_eq!(died, 1, "{:?}", counts(&profile));
}

/// All processes of a name, those that appear later too.
#[test]
fn targets_by_name() {
    // A name that nobody else has.
    let comm = format!("named-{}", std::process::id());
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(&comm);
    let mut first = Workload::start_as(&link, &["calls", "10"]);
    first.await_blocked(1);
    let mut session = attach(Config::new([Target::Comm(comm.clone())], Detail::Counts));
    session.open(true).unwrap();
    let mut second = Workload::start_as(&link, &["calls", "20"]);
    second.await_blocked(1);
    session.tick();
    for workload in [&mut first, &mut second] {
        workload.go();
        workload.await_byte();
    }
    let profile = session.close(true).unwrap();
    assert_eq!(row(&profile, "getppid").count, 30);
    assert_eq!(profile.processes.len(), 2);
    assert!(
        profile
            .processes
            .iter()
            .all(|process| process.comm.as_deref() == Some(&*comm))
    );
}

/// Several targets are counted together.
#[test]
fn several_targets() {
    let mut workloads = [
        Workload::start(&["calls", "10"]),
        Workload::start(&["calls", "7"]),
    ];
    let targets = workloads
        .each_ref()
        .map(|workload| Target::Pid(workload.pid()));
    let mut session = attach(Config::new(targets, Detail::Counts));
    session.open(true).unwrap();
    for workload in &mut workloads {
        workload.go();
        workload.await_byte();
    }
    let profile = session.close(true).unwrap();
    assert_eq!(row(&profile, "getppid").count, 17);
}

/// The owner of a port is found.
#[test]
fn targets_by_port() {
    let mut workload = Workload::start(&["listen"]);
    let port = workload.port();
    let session = attach(Config::new([Target::Port(port)], Detail::Counts));
    assert_eq!(
        session.pids().into_iter().collect::<Vec<_>>(),
        [workload.pid()]
    );
}

/// A floor attaches and counts nothing, and says so.
#[test]
fn floor_counts_nothing() {
    let profile = profile(&["calls", "10"], Detail::Floor);
    assert!(counts(&profile).is_empty());
    assert!(
        profile
            .not_measured
            .iter()
            .any(|missing| missing.what == "system calls")
    );
}

/// A machine that runs these tests can be measured at every detail.
#[test]
fn every_detail_loads() {
    for detail in [Detail::Floor, Detail::Counts, Detail::Times] {
        profiler::can_measure(detail).unwrap();
    }
}

/// Loading nothing into the kernel for a target that does not exist.
#[test]
fn no_such_target() {
    let mut workload = Workload::start(&["calls", "1"]);
    let pid = workload.pid();
    workload.kill();
    let error = Session::attach(Config::new([Target::Pid(pid)], Detail::Counts)).unwrap_err();
    assert!(
        matches!(error, ProfilerError::NoSuchProcess { .. }),
        "{error}"
    );
}

/// Nothing of ours is in the kernel after a session was dropped.
#[test]
fn dropping_detaches() {
    let workload = Workload::start(&["calls", "1"]);
    let session = attach(Config::new([Target::Pid(workload.pid())], Detail::Times));
    let programs = programs_of(std::process::id());
    assert_eq!(programs.len(), 11, "{programs:?}");
    drop(session);
    await_gone(&programs);
}

/// Nor after a profiler was killed.
#[test]
fn killing_detaches() {
    let workload = Workload::start(&["calls", "1"]);
    let mut holder = Workload::start(&["hold-session", &workload.pid().to_string()]);
    holder.await_byte();
    let programs = programs_of(holder.pid());
    assert_eq!(programs.len(), 11, "{programs:?}");
    holder.kill();
    await_gone(&programs);
}

/// A profiler without privileges goes on counting, and sees into processes of other users.
#[test]
fn counts_without_privileges() {
    // In a thread of its own: privileges belong to threads.
    let profile = std::thread::spawn(|| {
        let mut workload = Workload::start_as_nobody(&["calls", "50"]);
        let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Times));
        session
            .drop_privileges(rustix::thread::CapabilitySet::empty())
            .unwrap();
        session.open(true).unwrap();
        workload.go();
        workload.await_byte();
        workload.await_blocked(1);
        session.close(true).unwrap()
    })
    .join()
    .unwrap();
    assert_eq!(row(&profile, "getppid").count, 50);
    assert_eq!(profile.in_flight_at_start.len(), 1);
    assert_eq!(profile.in_flight_at_end.len(), 1);
    let mut missing = profile.not_measured.iter();
    // Not every machine has those.
    assert!(
        missing.all(|missing| missing.what.starts_with("hardware counter")),
        "{:?}",
        profile.not_measured
    );
}
