//! The difference between two profiles: what is told apart, what is folded, and what is refused.

use proptest::prelude::*;
use recording::{
    CallDiff, Denominator, DiffTimes, DiffWord, Fact, FactWeight, Fingerprint, LostClass, Probes,
    Recording, RequestCount, RequestSource, ServerFingerprint, SyscallDiff, exit_code,
};
use reports::diff::{DiffError, Operand, Options, diff};
use reports::{Style, html, markdown, text};

use crate::fixture::{comparison, load_recording, lock_step, profile, profile_recording};
use crate::server::{Server, call, h2o, nginx};

const LOCK_STEP: &str = include_str!("../fixtures/lock-step-nginx-h2o.json");

/// What one case changes.
type Damage = fn(&mut Recording);

fn side<'a>(recording: &'a Recording, arm: &'a str) -> Operand<'a> {
    Operand {
        recording,
        arm,
        source: "run.json",
    }
}

fn between(a: &Recording, b: &Recording) -> Result<SyscallDiff, DiffError> {
    diff(
        side(a, &a.arms[0].name),
        side(b, &b.arms[0].name),
        &Options::default(),
    )
}

/// The same of made-up counts, by which a server may have sent nothing at all (gate G8).
fn counted(a: &Recording, b: &Recording) -> SyscallDiff {
    let options = Options {
        allowed: vec!["G8".to_owned()],
        ..Options::default()
    };
    let (a, b) = (side(a, &a.arms[0].name), side(b, &b.arms[0].name));
    diff(a, b, &options).unwrap()
}

fn calls(diff: &SyscallDiff) -> impl Iterator<Item = &CallDiff> {
    diff.families.iter().flat_map(|family| &family.calls)
}

fn word(diff: &SyscallDiff, name: &str) -> DiffWord {
    calls(diff).find(|call| call.call == name).unwrap().change
}

/// Of live servers, requests that somebody else counted are the denominator, and he is named; where they were
/// counted on one side only, it is per second, and how to count them is said.
#[test]
fn live_servers_are_compared_per_request() {
    let live = |requests: f64, by: u64| {
        let mut profile = profile(&nginx(), requests);
        profile.requests = Some(RequestCount {
            source: RequestSource::Counter,
            origin: "http://127.0.0.1/status".to_owned(),
            requests: Some(by),
            window: None,
            uncertainty: None,
        });
        profile_recording(profile)
    };
    // Twice the load, the same server.
    let found = counted(&live(50_000.0, 50_000), &live(100_000.0, 100_000));
    assert_eq!(found.per, Denominator::Request);
    assert!(calls(&found).all(|call| call.change == DiffWord::NotDistinguishable));
    let said = "requests of run.json: its own counter (http://127.0.0.1/status)";
    assert!(
        found.notes.iter().any(|note| note == said),
        "{:?}",
        found.notes
    );
    let uncounted = profile_recording(profile(&nginx(), 50_000.0));
    let found = counted(&uncounted, &live(100_000.0, 100_000));
    assert_eq!(found.per, Denominator::Second);
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("--requests-from")),
        "{:?}",
        found.notes
    );
}

/// Two servers in lock-step: every call of the seed comparison, per request and exact.
#[test]
fn real_run_reads_like_a_diff() {
    let recording = Recording::parse(LOCK_STEP.as_bytes()).unwrap();
    let found = diff(
        side(&recording, "nginx"),
        side(&recording, "h2o"),
        &Options::default(),
    )
    .unwrap();
    assert!(found.exact && found.per == Denominator::Request);
    let text = text::diff(&found, &Style::default());
    insta::assert_snapshot!(text, @r"
    --- nginx  nginx/1.22.1  run.json  1 round, 2,000 requests
    +++ h2o  h2o version 2.2.5  run.json  1 round, 2,000 requests
    per request, exact; us inside calls, ours included; largest difference first
     call             n  err  B/call     us
    @@ send  2.0000 -> 1.0000 @@
    -writev      1.0000    -   242 B   1.70
    +writev      1.0000    -   247 B   14.9
    -sendfile    1.0000    -     1 B   2.02
    @@ control  2.0000 -> 0.0000 @@
    -setsockopt  2.0000    -       -   14.9
    @@ receive  1.0000 -> 2.0000 @@
    +read        1.0000    -    70 B   1.36
    -recvfrom    1.0000    -    70 B   1.23
    +pread64     1.0000    -     1 B  0.700
    @@ open  0.0000 -> 1.0000 @@
    +openat      1.0000    -       -   2.29
    @@ close  0.0000 -> 1.0000 @@
    +close       1.0000    -       -  0.869
    @@ stat  0.0000 -> 1.0000 @@
    +newfstatat  1.0000    -       -  0.587
    @@ all @@
    -all         6.0000    -       -   19.9
    +all         7.0000    -       -   20.7
    same     not distinguishable: 1 call: epoll_wait
    warning  G9 quiet machine: load average 5.58 at the start, 2 CPUs
    warning  G14 tuning parity: file cache on (open_file_cache)|off (opens the file for each request); sendfile
             on, with tcp_nopush|off
    note     one round on a side: no interval, so a difference in time may be noise
    ");
    let page = markdown::diff(&found);
    assert!(
        page.contains("| `setsockopt` | control | gone | 2.0000 | - |"),
        "{page}"
    );
}

/// With replicates a server against itself has no difference; calls that others make, and that cost
/// more, are told apart, and the rest is folded.
#[test]
fn replicates_tell_differences_from_noise() {
    let run = comparison(&[nginx(), h2o()], 6);
    let itself = diff(
        side(&run, "nginx"),
        side(&run, "nginx"),
        &Options::default(),
    )
    .unwrap();
    assert!(calls(&itself).all(|call| call.change == DiffWord::NotDistinguishable));
    let found = diff(side(&run, "nginx"), side(&run, "h2o"), &Options::default()).unwrap();
    assert_eq!(word(&found, "setsockopt"), DiffWord::Gone);
    assert_eq!(word(&found, "openat"), DiffWord::New);
    assert_eq!(word(&found, "writev"), DiffWord::Changed);
    // What one request costs in a call sorts the families: sending first.
    assert_eq!(found.times, DiffTimes::Inside);
    let mut slower = nginx();
    slower.calls[2].ns = 4_000;
    let run = comparison(&[slower], 6);
    let other = comparison(&[nginx()], 6);
    let found = between(&other, &run).unwrap();
    assert_eq!(word(&found, "writev"), DiffWord::Changed);
    assert_eq!(word(&found, "sendfile"), DiffWord::NotDistinguishable);
}

/// Live servers are compared per second, or per connection where some were accepted; the denominator is
/// named, and per request is refused with what would make it possible.
#[test]
fn denominators_are_named_and_refused() {
    let mut busy = nginx();
    busy.calls.push(call("accept4", 0.1, 0.0, None, 900));
    let live = |server: &Server| profile_recording(profile(server, 10_000.0));
    let (a, b) = (live(&busy), live(&busy));
    let per = |per| {
        diff(
            side(&a, "nginx"),
            side(&b, "nginx"),
            &Options {
                per,
                allowed: Vec::new(),
            },
        )
    };
    let seconds = per(None).unwrap();
    assert_eq!(seconds.per, Denominator::Second);
    assert!(text::diff(&seconds, &Style::default()).contains("per second"));
    let accepts = |diff: &SyscallDiff, expected: f64| {
        let mut calls = calls(diff).filter(|call| call.call == "accept4");
        let count = calls.next().unwrap().a.unwrap().count;
        assert!((count - expected).abs() < 1e-9, "{count}");
    };
    // 1000 in a window of two seconds.
    accepts(&seconds, 500.0);
    accepts(&per(Some(Denominator::Connection)).unwrap(), 1.0);
    let error = per(Some(Denominator::Request)).unwrap_err();
    assert_eq!(error.exit_code(), exit_code::NOT_COMPARABLE);
    assert!(error.to_string().contains("whyfast compare"), "{error}");
    let quiet = live(&nginx());
    let error = diff(
        side(&quiet, "nginx"),
        side(&quiet, "nginx"),
        &Options {
            per: Some(Denominator::Connection),
            allowed: Vec::new(),
        },
    );
    assert!(error.unwrap_err().to_string().contains("--per second"));
}

/// What cannot be compared is refused with the remedy; what is allowed is said.
#[test]
fn mismatches_are_refused() {
    let run = lock_step(&[nginx()], 1000);
    let cases: [(&str, u8, Damage); 7] = [
        ("one architecture", exit_code::NOT_COMPARABLE, |r| {
            "aarch64".clone_into(&mut r.host.arch);
        }),
        ("--lock-step 1000", exit_code::NOT_COMPARABLE, |r| {
            r.scenario.as_mut().unwrap().lock_step_requests = None;
        }),
        ("connections (1, 64)", exit_code::NOT_COMPARABLE, |r| {
            r.scenario.as_mut().unwrap().connections = 64;
        }),
        ("G1 response equality", exit_code::NOT_COMPARABLE, |r| {
            r.arms[0].response.as_mut().unwrap().body_bytes = 999;
        }),
        ("events were lost", exit_code::CANNOT_MEASURE, |r| {
            let profile = r.rounds[0].profile.as_mut().unwrap();
            profile.lost.add(LostClass::UnknownNumbers, 1000);
        }),
        ("it crashed", exit_code::CANNOT_MEASURE, |r| {
            r.rounds[0].failed = Some("it crashed".to_owned());
        }),
        ("as root", exit_code::CANNOT_MEASURE, |r| {
            r.rounds[0].probes = Probes::Off;
        }),
    ];
    for (remedy, code, damage) in cases {
        let mut other = run.clone();
        damage(&mut other);
        let error = between(&run, &other).unwrap_err();
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(error.to_string().contains(remedy), "{error}");
    }
    let error = between(&run, &load_recording()).unwrap_err();
    assert_eq!(error.exit_code(), exit_code::CANNOT_MEASURE, "{error}");
    let mut other = run.clone();
    other.scenario.as_mut().unwrap().connections = 64;
    other.arms[0].response.as_mut().unwrap().body_bytes = 999;
    let options = Options {
        per: None,
        allowed: vec!["scenario".to_owned(), "g1".to_owned()],
    };
    let found = diff(side(&run, "nginx"), side(&other, "nginx"), &options).unwrap();
    let text = text::diff(&found, &Style::default());
    assert!(text.contains("allowed  G1"), "{text}");
}

/// Times of one machine say nothing about another: counts are compared, and why times are not is said.
#[test]
fn machines_that_differ_keep_their_counts() {
    let run = lock_step(&[nginx()], 1000);
    let mut other = run.clone();
    other.host.cpu_model = Some("Another CPU".to_owned());
    let found = between(&run, &other).unwrap();
    assert_eq!(found.times, DiffTimes::None);
    assert!(calls(&found).all(|call| call.a.unwrap().inside_ns.is_none()));
    let text = text::diff(&found, &Style::default());
    assert!(text.contains("Another CPU"), "{text}");
}

/// Where both sides have a fingerprint it decides: a hard fact of the machine leaves times out, other differences are
/// notes in every format, and what only one side knows is said to be unknown.
#[test]
fn fingerprints_decide_whether_times_compare() {
    let with = |kernel: &str, load: &str, limit: Option<&str>| {
        let limit = limit.map_or_else(
            || Fact::unknown("limit.open_files", FactWeight::Hard, "needs root"),
            |limit| Fact::known("limit.open_files", FactWeight::Hard, limit),
        );
        let machine = vec![
            Fact::known("kernel.build_id", FactWeight::Hard, kernel),
            Fact::known("load", FactWeight::Soft, load),
        ];
        let server = ServerFingerprint {
            arm: "nginx".to_owned(),
            facts: vec![limit],
        };
        let mut run = lock_step(&[nginx()], 1000);
        run.fingerprint = Some(Fingerprint::new(machine, vec![server]));
        run
    };
    let same = between(&with("1f", "0.1", Some("1024")), &with("1f", "0.2", None)).unwrap();
    assert_eq!(same.times, DiffTimes::Inside);
    let told = "limit.open_files of nginx (1024, not known), load (0.1, 0.2)";
    for text in [
        text::diff(&same, &Style::default()).replace("\n        ", ""),
        markdown::diff(&same).replace('\\', ""),
        html::diff(&same, None),
    ] {
        assert!(text.contains(told), "{text}");
    }
    let other = between(&with("1f", "0.1", None), &with("2e", "0.1", None)).unwrap();
    assert_eq!(other.times, DiffTimes::None);
    let note = "times are left out, because the machines differ: kernel.build_id (1f, 2e)";
    assert_eq!(other.notes.last().unwrap(), note);
    let mut itself = with("1f", "0.1", None);
    itself.host.kernel = "another".to_owned();
    let found = between(&with("1f", "0.1", None), &itself).unwrap();
    assert_eq!(found.times, DiffTimes::Inside);
    assert!(found.notes.iter().all(|note| !note.contains("differ in")));
}

/// Names of others are shown as they are, in every format.
#[test]
fn hostile_names_stay_harmless() {
    let mut run = lock_step(&[nginx()], 1000);
    let hostile = "\u{1b}[2J<script>|`x`";
    run.rounds[0].profile.as_mut().unwrap().calls[0].name = hostile.to_owned();
    run.arms[0].version = Some(hostile.to_owned());
    let other = lock_step(&[h2o()], 1000);
    let found = between(&run, &other).unwrap();
    let text = text::diff(&found, &Style::default());
    assert!(
        !text.contains('\u{1b}') && text.contains("\\x1b[2J"),
        "{text}"
    );
    let page = markdown::diff(&found);
    assert!(
        !page.contains("<script>") && !page.contains('\u{1b}'),
        "{page}"
    );
}

proptest! {
    /// Turned around, what is new is gone, and every figure changes its side.
    #[test]
    fn turning_it_around_turns_every_figure(
        counts in proptest::collection::vec(0_u32..4, 5),
        others in proptest::collection::vec(0_u32..4, 5),
    ) {
        let server = |counts: &[u32]| {
            let mut server = nginx();
            for (call, count) in server.calls.iter_mut().zip(counts) {
                (call.per_request, call.eagain) = (f64::from(*count), 0.0);
            }
            lock_step(&[server], 1000)
        };
        let (a, b) = (server(&counts), server(&others));
        let (there, back) = (counted(&a, &b), counted(&b, &a));
        prop_assert_eq!(there.a.total, back.b.total);
        for call in calls(&there) {
            let turned = calls(&back).find(|other| other.call == call.call).unwrap();
            prop_assert_eq!((call.a, call.b), (turned.b, turned.a));
            let expected = match call.change {
                DiffWord::New => DiffWord::Gone,
                DiffWord::Gone => DiffWord::New,
                same => same,
            };
            prop_assert_eq!(turned.change, expected);
        }
        let sum: f64 = calls(&there).filter_map(|call| call.a).map(|f| f.count).sum();
        prop_assert!((sum - there.a.total.count).abs() < 1e-9);
    }

    /// A profile against itself has no difference.
    #[test]
    fn itself_is_the_same(counts in proptest::collection::vec(0_u32..4, 5)) {
        let mut server = nginx();
        for (call, count) in server.calls.iter_mut().zip(&counts) {
            (call.per_request, call.eagain) = (f64::from(*count), 0.0);
        }
        let run = lock_step(&[server], 1000);
        let found = counted(&run, &run);
        prop_assert!(calls(&found).all(|call| call.change == DiffWord::NotDistinguishable));
    }
}
