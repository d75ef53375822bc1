//! Exact counts against a lock file: what breaks it, what does not, and how it is written.

use std::collections::BTreeMap;

use LimitStatus::{Broken, Kept, Rejected, Warned};
use proptest::prelude::*;
use recording::{BudgetOutcome, CallObject, LimitStatus, LostClass, Recording, exit_code};
use reports::budget::{CallKey, Figures, Fixed, Key, Lock, LockError, Section, bless, check};
use reports::{Style, markdown, text};

use crate::fixture::{empty, lock_step};
use crate::server::{Server, call, h2o, nginx};

/// What one case changes.
type Change = fn(&mut Server);
type Damage = fn(&mut Recording);

/// A server with whole counts, in two repeats of 1000 requests.
fn counted(server: &Server) -> Recording {
    let mut recording = lock_step(std::slice::from_ref(server), 1000);
    let mut second = recording.rounds[0].clone();
    (second.order, second.pair) = (1, 1);
    recording.rounds.push(second);
    recording
}

/// nginx with one wake-up per request.
fn steady() -> Server {
    let mut server = nginx();
    server.calls[0].per_request = 1.0;
    server
}

fn locked(recording: &Recording) -> Lock {
    let (lock, found) = bless(&Lock::default(), std::slice::from_ref(recording));
    assert_eq!(found.outcome, BudgetOutcome::Unchanged);
    lock
}

fn outcome(lock: &Lock, recording: &Recording) -> BudgetOutcome {
    check(lock, std::slice::from_ref(recording)).outcome
}

/// The file is sorted, has four decimals, and names errors and bytes.
#[test]
fn lock_is_text_to_review() {
    let mut recording = counted(&steady());
    for round in &mut recording.rounds {
        let profile = round.profile.as_mut().unwrap();
        profile.calls[2].on = Some(CallObject::Socket);
    }
    insta::assert_snapshot!(locked(&recording).to_string(), @r"
    # syscalls.lock: system calls per request, exact, from `whyfast compare --lock-step`. Review it like
    # code; `whyfast gate --bless` takes over what was measured and keeps comments and limits.

    [nginx static-1b x86_64]  # 1.0
    epoll_wait                         1.0000  errors 0  bytes -
    recvfrom                           2.0000  errors EAGAIN=1.0000  bytes 94
    sendfile                           1.0000  errors 0  bytes 1
    setsockopt                         2.0000  errors 0  bytes -
    writev                 socket      1.0000  errors 0  bytes 238
    ");
}

/// A call more, a call fewer, a call less often, other bytes and other errors each break the lock; the
/// same counts do not, nor does another order of calls.
#[test]
fn every_change_breaks_it() {
    let lock = locked(&counted(&steady()));
    assert_eq!(
        outcome(&lock, &counted(&steady())),
        BudgetOutcome::Unchanged
    );
    let mut turned = steady();
    turned.calls.reverse();
    assert_eq!(outcome(&lock, &counted(&turned)), BudgetOutcome::Unchanged);
    let changes: [(&str, Change); 5] = [
        ("fstat", |s| {
            s.calls.push(call("fstat", 1.0, 0.0, None, 300));
        }),
        ("setsockopt", |s| s.calls.truncate(4)),
        ("epoll_wait", |s| s.calls[0].per_request = 2.0),
        ("writev", |s| s.calls[2].bytes = Some(239)),
        ("recvfrom", |s| s.calls[1].eagain = 2.0),
    ];
    for (name, change) in changes {
        let mut server = steady();
        change(&mut server);
        let found = check(&lock, &[counted(&server)]);
        assert_eq!(found.outcome, BudgetOutcome::Broken, "{name}");
        assert_eq!(found.outcome.exit_code(), exit_code::LIMIT_BROKEN);
        let broken: Vec<&str> = found.sections[0]
            .changes
            .iter()
            .filter(|change| change.breaks)
            .map(|change| change.call.as_str())
            .collect();
        assert_eq!(broken, [name]);
    }
}

/// A timer that fires in one window, and a call that one of two repeats makes, break nothing; the latter
/// is told.
#[test]
fn what_does_not_recur_breaks_nothing() {
    let lock = locked(&counted(&steady()));
    let mut recording = counted(&steady());
    let add = |recording: &mut Recording, round: usize, count: u64| {
        let profile = recording.rounds[round].profile.as_mut().unwrap();
        let mut row = profile.calls[4].clone();
        "getpid".clone_into(&mut row.name);
        (row.count, row.nr) = (count, 39);
        profile.calls.push(row);
    };
    add(&mut recording, 0, 1);
    let found = check(&lock, std::slice::from_ref(&recording));
    assert_eq!(found.outcome, BudgetOutcome::Unchanged);
    assert_eq!(found.sections[0].changes, []);
    assert_eq!(locked(&recording), lock, "a timer is not locked");
    let mut once = counted(&steady());
    add(&mut once, 0, 1000);
    // Both repeats differ from what is locked by no more than repeats differ from each other.
    assert_eq!(outcome(&lock, &once), BudgetOutcome::Unchanged);
    add(&mut once, 1, 1000);
    assert_eq!(outcome(&lock, &once), BudgetOutcome::Broken);
}

/// Limits: a hard one holds whatever is locked, a soft one loosens its call, times only warn, and what
/// is finer than the counts can tell is rejected with the floor.
#[test]
fn limits_are_kept_broken_or_rejected() {
    let recording = counted(&steady());
    let with = |limit: &str| {
        let text = locked(&recording).to_string();
        let text = text.replace("# 1.0\n", &format!("# 1.0\n{limit}\n"));
        Lock::parse(&text).unwrap()
    };
    for (limit, status) in [
        ("hard openat <= 0", Kept),
        ("hard setsockopt <= 2", Kept),
        ("hard setsockopt <= 1.5", Broken),
        ("hard syscalls <= 7", Kept),
        ("hard syscalls <= 6", Broken),
        ("hard errors <= 0.5", Broken),
        ("hard openat <= 0.0001", Rejected),
        ("hard openat <= 0.001", Kept),
        ("soft writev 2%", Kept),
        ("soft writev 0.05%", Rejected),
        ("hard server_cpu_us <= 0.5", Warned),
        ("hard server_cpu_us <= 100000", Kept),
    ] {
        let lock = with(limit);
        assert_eq!(Lock::parse(&lock.to_string()).as_ref(), Ok(&lock));
        let found = check(&lock, std::slice::from_ref(&recording));
        let of_limit = &found.sections[0].limits[0];
        assert_eq!(of_limit.status, status, "{limit}: {of_limit:?}");
        let expected = match status {
            Broken => BudgetOutcome::Broken,
            Rejected => BudgetOutcome::LimitRejected,
            _ => BudgetOutcome::Unchanged,
        };
        assert_eq!(found.outcome, expected, "{limit}");
        // Taking counts over lifts no limit.
        assert_eq!(
            bless(&lock, std::slice::from_ref(&recording)).1.outcome,
            expected
        );
    }
    let found = check(
        &with("hard openat <= 0.0001"),
        std::slice::from_ref(&recording),
    );
    assert_eq!(found.sections[0].limits[0].floor, Some(0.001));
    let mut more = steady();
    more.calls[2].per_request = 1.015;
    assert_eq!(
        outcome(&with("soft writev 5%"), &counted(&more)),
        BudgetOutcome::Unchanged
    );
    more.calls[2].per_request = 1.1;
    assert_eq!(
        outcome(&with("soft writev 5%"), &counted(&more)),
        BudgetOutcome::Broken
    );
    assert_eq!(
        outcome(&with("soft writev 20%"), &counted(&more)),
        BudgetOutcome::Unchanged
    );
}

/// Counts that are not exact, a server that was not measured, another architecture and an empty lock are
/// each told apart, and never pass.
#[test]
fn what_cannot_be_compared_does_not_pass() {
    let lock = locked(&counted(&steady()));
    let cases: [(&str, BudgetOutcome, Damage); 9] = [
        ("one at a time", BudgetOutcome::NotComparable, |r| {
            r.scenario.as_mut().unwrap().lock_step_requests = None;
        }),
        ("events were lost", BudgetOutcome::NotComparable, |r| {
            let profile = r.rounds[0].profile.as_mut().unwrap();
            profile.lost.add(LostClass::RecursionMisses, 1);
        }),
        ("no whole number", BudgetOutcome::NotComparable, |r| {
            r.rounds[0].profile_requests = Some(0.0);
        }),
        (
            "nothing measured on riscv64",
            BudgetOutcome::NotComparable,
            |r| {
                "riscv64".clone_into(&mut r.host.arch);
            },
        ),
        ("is in the lock", BudgetOutcome::NotComparable, |r| {
            *r = counted(&h2o());
            r.scenario.as_mut().unwrap().lock_step_requests = Some(1000);
        }),
        ("no server", BudgetOutcome::NotComparable, |r| {
            r.arms.clear();
        }),
        ("crashed", BudgetOutcome::Failed, |r| {
            for round in &mut r.rounds {
                round.failed = Some("it crashed".to_owned());
            }
        }),
        ("needs root", BudgetOutcome::CannotMeasure, |r| {
            r.rounds.clear();
            r.not_measured = vec![recording::NotMeasured {
                what: "calls".to_owned(),
                why: "needs root".to_owned(),
                remedy: None,
            }];
        }),
        ("cannot stand", BudgetOutcome::Failed, |r| {
            "a] x".clone_into(&mut r.arms[0].name);
        }),
    ];
    for (word, expected, damage) in cases {
        let mut recording = counted(&steady());
        damage(&mut recording);
        let found = check(&lock, std::slice::from_ref(&recording));
        let told: Vec<&str> = found
            .sections
            .iter()
            .filter_map(|s| s.why.as_deref())
            .collect();
        assert!(
            told.iter().any(|why| why.contains(word)),
            "{word}: {told:?}"
        );
        let worst = found.sections.iter().map(|section| section.outcome).max();
        assert!(
            worst >= Some(expected) && found.outcome != BudgetOutcome::Unchanged,
            "{word}"
        );
    }
    assert_eq!(
        outcome(&Lock::default(), &counted(&steady())),
        BudgetOutcome::Broken
    );
    let nothing = empty(recording::RecordingKind::Profile);
    assert_eq!(outcome(&lock, &nothing), BudgetOutcome::NotComparable);
}

/// Taking over one server leaves the others, comments and limits alone.
#[test]
fn blessing_keeps_what_is_not_its_own() {
    let mut lock = locked(&counted(&h2o_whole()));
    lock.preface.push("ours".to_owned());
    let key = Key::new("nginx", "static-1b", "x86_64").unwrap();
    let section = Section {
        notes: vec!["why it corks".to_owned()],
        ..Section::default()
    };
    lock.sections.insert(key.clone(), section);
    let (blessed, found) = bless(&lock, &[counted(&steady())]);
    assert_eq!(found.outcome, BudgetOutcome::Unchanged);
    assert_eq!(blessed.preface, ["ours"]);
    assert_eq!(blessed.sections[&key].notes, ["why it corks"]);
    assert_eq!(blessed.sections[&key].calls.len(), 5);
    assert_eq!(blessed.sections.len(), 2);
}

fn h2o_whole() -> Server {
    let mut server = h2o();
    server.calls[0].per_request = 1.0;
    server
}

/// The comment stands alone in its first line, names the call, and says how to accept it.
#[test]
fn comment_names_the_call() {
    let lock = locked(&counted(&steady()));
    let mut server = steady();
    server.calls.push(call("fstat", 1.0, 0.0, None, 300));
    let found = check(&lock, &[counted(&server)]);
    let accept = "whyfast gate --bless syscalls.lock new.json";
    insta::assert_snapshot!(markdown::budget(&found, accept), @r"
    ### syscall budget changed\: nginx\: fstat 0 -&gt; 1.0000 per request (new)

    kernel 6.18.0 x86\_64  2 CPUs, Example CPU  kvm  1000 requests one at a time, 2 repeats

    | server | per request | locked | now | what | seen in |
    | --- | --- | ---: | ---: | --- | --- |
    | nginx static-1b x86\_64 | fstat | - | 1.0000 | new | 2 of 2 |

    - **accept**: where it is meant\: whyfast gate --bless syscalls.lock new.json

    ");
    let text = text::budget(&found, accept, &Style::default());
    assert!(
        text.starts_with("syscall budget  changed: nginx: fstat 0 -> 1.0000"),
        "{text}"
    );
}

/// A line that is none is named with its number and with what would be right.
#[test]
fn wrong_lines_are_named() {
    for (text, line, word) in [
        ("read 1.0 errors 0 bytes -", 1, "above the first section"),
        ("[a b]\n", 1, "[arm scenario arch]"),
        ("[a b c]\n[a b c]\n", 2, "twice"),
        (
            "[a b c]\nread 1 errors 0 bytes -\nread 1 errors 0 bytes -\n",
            3,
            "twice",
        ),
        ("[a b c]\nread many errors 0 bytes -\n", 2, "four decimals"),
        ("[a b c]\nhard read < 1\n", 2, "hard METRIC <="),
        ("[a b c]\nsoft read 1\n", 2, "percentage"),
        ("[a b c]\nsoft server_cpu_us 1%\n", 2, "no locked value"),
        (
            "{\"schema\": \"whyfast/1.0\"}",
            1,
            "above the first section",
        ),
        ("[a b c]\n\u{1b}[2J", 2, "a call reads"),
    ] {
        let Err(LockError::Line {
            line: found,
            what,
            found: quoted,
        }) = Lock::parse(text)
        else {
            panic!("{text} was read");
        };
        assert_eq!(found, line, "{text}");
        assert!(what.contains(word), "{text}: {what}");
        assert!(!quoted.contains('\u{1b}'));
    }
}

fn words() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_-]{0,8}".prop_filter("a limit", |word| word != "hard" && word != "soft")
}

fn figures() -> impl Strategy<Value = Figures> {
    let number = || (0.0..1e6_f64).prop_map(Fixed::of);
    let errors = proptest::collection::btree_map("E[A-Z]{2,5}", number(), 0..3);
    (number(), errors, proptest::option::of(number())).prop_map(|(count, errors, bytes)| Figures {
        count,
        errors,
        bytes,
    })
}

fn locks() -> impl Strategy<Value = Lock> {
    let key = (words(), words(), words())
        .prop_map(|(arm, scenario, arch)| Key::new(&arm, &scenario, &arch).unwrap());
    let calls = proptest::collection::btree_map(
        (words(), proptest::option::of(words()))
            .prop_map(|(name, on)| CallKey::new(&name, on.as_deref()).unwrap()),
        figures(),
        0..4,
    );
    let section =
        (proptest::option::of("[a-z]{1,5}( [0-9.]{1,5})?"), calls).prop_map(|(version, calls)| {
            Section {
                version: version.map(|version| version.trim().to_owned()),
                calls,
                ..Section::default()
            }
        });
    proptest::collection::btree_map(key, section, 0..4).prop_map(|sections: BTreeMap<_, _>| Lock {
        preface: Vec::new(),
        sections,
    })
}

proptest! {
    /// What is written reads as what it was.
    #[test]
    fn locks_round_trip(lock in locks()) {
        prop_assert_eq!(Lock::parse(&lock.to_string()), Ok(lock));
    }

    /// Counts that were taken over are unchanged, whatever they are; one call more is not.
    #[test]
    fn blessed_counts_pass(counts in proptest::collection::vec(1_u32..9, 5)) {
        let mut server = steady();
        for (call, count) in server.calls.iter_mut().zip(&counts) {
            call.per_request = f64::from(*count);
            call.eagain = call.eagain.min(f64::from(*count));
        }
        let lock = locked(&counted(&server));
        prop_assert_eq!(outcome(&lock, &counted(&server)), BudgetOutcome::Unchanged);
        server.calls[0].per_request += 1.0;
        prop_assert_eq!(outcome(&lock, &counted(&server)), BudgetOutcome::Broken);
    }
}
