//! Calls told apart by what they are done to: by kind of descriptor, however its number came about,
//! and by futex operation.

use std::collections::BTreeMap;

use profiler::{Config, Target};
use recording::{Detail, Profile};

use crate::workload_process::{Workload, attach, await_until, errors, labels, profile, row};

/// What the rows of these calls come to.
fn labels_of(profile: &Profile, names: &[&str]) -> BTreeMap<String, u64> {
    let wanted = |label: &String| {
        let name = label.split('(').next().unwrap();
        names.contains(&name)
    };
    let all = labels(profile).into_iter();
    all.filter(|(label, _)| wanted(label)).collect()
}

fn expected(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let rows = rows.iter();
    rows.map(|&(label, count)| (label.to_owned(), count))
        .collect()
}

/// The same calls on every kind of descriptor, made and closed under our eyes, at every detail.
#[test]
fn every_kind() {
    for detail in DETAILS {
        let profile = profile(&["kinds", "50"], detail);
        let found = labels_of(
            &profile,
            &[
                "read",
                "write",
                "close",
                "fcntl",
                "fstat",
                "newfstatat",
                "lseek",
            ],
        );
        let mut rows = Vec::new();
        for call in ["fcntl", "fstat", "lseek", "read"] {
            for kind in ["eventfd", "file", "other", "pipe", "socket"] {
                // The one that starts the workload.
                let start = u64::from((call, kind) == ("read", "pipe"));
                rows.push((format!("{call}({kind})"), 50 + start));
            }
        }
        for kind in ["eventfd", "file", "other", "pipe", "socket"] {
            let end = u64::from(kind == "pipe");
            rows.push((format!("write({kind})"), 100 + end));
        }
        for (kind, count) in [
            ("eventfd", 50),
            ("file", 50),
            ("other", 100),
            ("pipe", 100),
            ("socket", 100),
        ] {
            rows.push((format!("close({kind})"), count));
        }
        assert_eq!(found, rows.into_iter().collect(), "{detail:?}");
        assert_eq!(row(&profile, "write(socket)").bytes, Some(800));
        assert_eq!(row(&profile, "lseek(pipe)").errors["ESPIPE"], 50);
        assert_eq!(row(&profile, "lseek(socket)").errors["ESPIPE"], 50);
    }
}

/// A number that means another kind after `dup2`, `close` and `dup`, `open`, `close_range`, another
/// thread's doing, and in a child: each call is of the kind that it was done to.
#[test]
fn numbers_are_used_again() {
    for detail in DETAILS {
        let profile = profile(&["reuse"], detail);
        let found = labels_of(&profile, &["write"]);
        let rows = [
            ("write(eventfd)", 3),
            ("write(file)", 4),
            ("write(other)", 2),
            // Of them, one says that the workload is done.
            ("write(pipe)", 7),
            ("write(socket)", 5),
        ];
        assert_eq!(found, expected(&rows), "{detail:?}");
    }
}

/// Descriptors of two processes that meet in the table of remembered ones are told apart all the same.
#[test]
fn numbers_that_meet_in_the_table() {
    for detail in DETAILS {
        let profile = profile(&["meeting-descriptors", "100"], detail);
        let found = labels_of(&profile, &["write"]);
        // A turn of each is passed on, the first one and its number are given, and the end is told.
        let rows = [
            ("write(file)", 100),
            ("write(other)", 100),
            ("write(pipe)", 203),
        ];
        assert_eq!(found, expected(&rows), "{detail:?}");
    }
}

/// What a process knew of its descriptors is not taken for another process that gets its id.
#[test]
fn process_ids_are_used_again() {
    for detail in DETAILS {
        let profile = profile(&["same-pid"], detail);
        let found = labels_of(&profile, &["read"]);
        let rows = [("read(file)", 1), ("read(pipe)", 2)];
        assert_eq!(found, expected(&rows), "{detail:?}");
    }
}

/// A number that exec closed and the new program opens again.
#[test]
fn exec_closes() {
    for detail in DETAILS {
        let mut workload = Workload::start(&["close-on-exec"]);
        workload.await_blocked(1);
        let mut session = attach(Config::new([Target::Pid(workload.pid())], detail));
        session.open(true).unwrap();
        workload.go();
        workload.await_end();
        await_until("the target to end", || session.target_ended());
        let profile = session.close(false).unwrap();
        let found = labels_of(&profile, &["read"]);
        // The one that starts it and that of the pipe; the shell's own, and its libraries.
        assert_eq!(found["read(pipe)"], 2, "{detail:?}: {found:?}");
        assert_eq!(found["read(other)"], 1, "{detail:?}: {found:?}");
        assert!(found.keys().all(|label| label.ends_with(')')), "{found:?}");
    }
}

/// Futex calls that wait, that wake, and others.
#[test]
fn futex_operations() {
    for detail in DETAILS {
        let profile = profile(&["futexes"], detail);
        let rows = [("futex(other)", 1), ("futex(wait)", 2), ("futex(wake)", 3)];
        assert_eq!(
            labels_of(&profile, &["futex"]),
            expected(&rows),
            "{detail:?}"
        );
        assert_eq!(errors(&profile)[&("futex", "EAGAIN")], 2);
        assert_eq!(row(&profile, "futex(wait)").errors["EAGAIN"], 2);
    }
}

/// `accept` where nobody is.
#[test]
fn accepts_in_vain() {
    for detail in DETAILS {
        let profile = profile(&["accepts", "20"], detail);
        let accept = row(&profile, "accept4");
        assert_eq!((accept.count, accept.errors["EAGAIN"]), (21, 20));
        assert_eq!(accept.on, None);
    }
}

/// Waits that return nothing, something and as much as there was room for; and those with a timeout
/// of zero, where the call says so.
#[test]
fn waits_of_every_kind() {
    for detail in DETAILS {
        let profile = profile(&["poll-family"], detail);
        let waits = profile.waits.iter().map(|wait| {
            let figures = [wait.wakes, wait.events, wait.timeouts, wait.interrupted];
            (wait.name.as_str(), (figures, wait.polls, wait.truncated))
        });
        let expected = BTreeMap::from([
            ("epoll_pwait2", ([1, 2, 1, 0], None, Some(1))),
            ("epoll_wait", ([3, 8, 4, 0], Some(3), Some(2))),
            ("poll", ([1, 1, 3, 0], Some(1), None)),
            ("ppoll", ([1, 1, 1, 0], None, None)),
            ("pselect6", ([1, 1, 1, 0], None, None)),
            ("select", ([1, 1, 1, 0], None, None)),
        ]);
        assert_eq!(waits.collect::<BTreeMap<_, _>>(), expected, "{detail:?}");
        let epoll = profile
            .waits
            .iter()
            .find(|wait| wait.name == "epoll_wait")
            .unwrap();
        // Two of 2 to 3 events, which is bucket 2, and one of 3 as well.
        assert_eq!(epoll.events_per_wake.buckets(), [0, 0, 3]);
    }
}

/// Waits that a signal ends are neither wakes nor timeouts.
#[test]
fn interrupted_waits() {
    for detail in DETAILS {
        let profile = profile(&["interrupted-waits"], detail);
        let mut names = Vec::new();
        for wait in &profile.waits {
            assert_eq!(
                (wait.wakes, wait.timeouts, wait.interrupted),
                (0, 0, 1),
                "{wait:?}"
            );
            names.push(wait.name.as_str());
        }
        names.sort_unstable();
        assert_eq!(names, ["epoll_wait", "poll"]);
    }
}

/// A server that arms and disarms its descriptor for each request: four calls of `epoll_ctl` each.
#[test]
fn calls_that_change_epoll() {
    let profile = profile(&["arm-and-disarm", "500"], Detail::Counts);
    for (label, per_request) in [
        ("epoll_ctl", 4),
        ("epoll_wait", 1),
        ("read(socket)", 1),
        ("write(socket)", 1),
    ] {
        assert_eq!(row(&profile, label).count, 500 * per_request, "{label}");
    }
}

const DETAILS: [Detail; 3] = [Detail::Counts, Detail::Times, Detail::Sched];
