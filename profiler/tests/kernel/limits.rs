//! Tables that are too small lose events, and each class says how many.

use profiler::{Config, Limits, ProfilerError, Session, Target};
use recording::{Detail, LostClass};

use crate::kernel_state::{await_gone, programs_of, skipped_runs_of};
use crate::workload_process::{Workload, attach, counts, profile_with, row};

fn with_limits(pid: u32, detail: Detail, limits: Limits) -> Config {
    Config {
        limits,
        ..Config::new([Target::Pid(pid)], detail)
    }
}

/// Numbers beyond the list are lost and told; those in the list are not.
#[test]
fn list_of_unknown_numbers() {
    for detail in [Detail::Counts, Detail::Times] {
        let profile = profile_with(&["unknown", "600", "5", "10"], |pid| {
            let unknown_numbers = Some(2);
            with_limits(
                pid,
                detail,
                Limits {
                    unknown_numbers,
                    ..Limits::default()
                },
            )
        });
        assert_eq!(row(&profile, "syscall_0x258").count, 10);
        assert_eq!(row(&profile, "syscall_0x259").count, 10);
        assert!(!counts(&profile).contains_key("syscall_0x25a"));
        assert_eq!(profile.lost.0.get(&LostClass::UnknownNumbers), Some(&30));
        assert_eq!(profile.lost.total(), 30);
    }
}

/// Each sub-window says what was lost in it, and nothing of another's.
#[test]
fn losses_of_slices() {
    let mut workload = Workload::start(&["unknown", "600", "5", "10"]);
    workload.await_blocked(1);
    let unknown_numbers = Some(2);
    let limits = Limits {
        unknown_numbers,
        ..Limits::default()
    };
    let mut session = attach(with_limits(workload.pid(), Detail::Counts, limits));
    session.open(true).unwrap();
    session.slice().unwrap();
    workload.go();
    workload.await_byte();
    workload.await_blocked(1);
    session.slice().unwrap();
    let profile = session.close(true).unwrap();
    let slices = profile.slices.iter();
    let lost: Vec<u64> = slices.map(|slice| slice.lost.total()).collect();
    assert_eq!(lost, [0, 30, 0]);
    let of_class = profile.slices[1].lost.0.get(&LostClass::UnknownNumbers);
    assert_eq!((of_class, profile.lost.total()), (Some(&30), 30));
}

/// The kernel counts the runs that it skips of every program of ours; that they are told is tested where
/// they can be made to happen, in `session.rs`.
#[test]
fn skipped_runs_are_counted() {
    let workload = Workload::start(&["calls", "1"]);
    for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
        let session = attach(Config::new([Target::Pid(workload.pid())], detail));
        let own = std::process::id();
        let skipped = skipped_runs_of(own);
        let programs: Vec<u32> = skipped.keys().copied().collect();
        assert_eq!(programs, programs_of(own));
        assert!(skipped.values().all(Option::is_some), "{skipped:?}");
        drop(session);
        await_gone(&programs);
    }
}

/// Threads outside of the table of start times are counted, and each missing time is told.
#[test]
fn table_of_start_times() {
    let profile = profile_with(&["calls", "10"], |pid| {
        let start_ids = Some(1);
        with_limits(
            pid,
            Detail::Times,
            Limits {
                start_ids,
                ..Limits::default()
            },
        )
    });
    let getppid = row(&profile, "getppid");
    assert_eq!(
        (getppid.count, getppid.time.as_ref().unwrap().timed),
        (10, 0)
    );
    assert_eq!(profile.lost.0.get(&LostClass::UntimedCalls), Some(&32));
}

/// Children outside of the table of targets are not counted, and each is told.
#[test]
fn table_of_targets() {
    let profile = profile_with(&["forks", "3", "10"], |pid| {
        // The target still fits, its children have higher ids (unless ids wrapped just now).
        let target_ids = Some(pid + 1);
        with_limits(
            pid,
            Detail::Counts,
            Limits {
                target_ids,
                ..Limits::default()
            },
        )
    });
    let untracked = profile.lost.0.get(&LostClass::UntrackedProcesses).copied();
    let counted = counts(&profile).get("getpid").copied().unwrap_or(0);
    // Eight ids share an entry: children that fall into the target's are still counted.
    assert_eq!(counted + untracked.unwrap_or(0) * 10, 30);
}

/// A target outside of the table is an error, not a profile of nothing.
#[test]
fn target_outside_of_the_table() {
    let workload = Workload::start(&["calls", "1"]);
    let target_ids = Some(1);
    let limits = Limits {
        target_ids,
        ..Limits::default()
    };
    let config = with_limits(workload.pid(), Detail::Counts, limits);
    let error = Session::attach(config).unwrap_err();
    assert!(
        matches!(error, ProfilerError::OutsideTable { limit: 8, .. }),
        "{error}"
    );
}
