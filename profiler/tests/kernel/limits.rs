//! Tables that are too small lose events, and each class says how many.

use profiler::{Config, Limits, ProfilerError, Session, Target};
use recording::{Detail, LostClass};

use crate::workload_process::{Workload, counts, profile_with, row};

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
