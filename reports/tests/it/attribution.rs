//! Attribution against servers whose costs are known: what was put in has to come out, in its own
//! bar and in no other.

use recording::{Attribution, Bar, BarKind, CallObject, Detail, IdleCause, IdleLabel, Recording};
use reports::attribution::{against, attribute};

use crate::fixture::{comparison, h2o, nginx};
use crate::truth::{COST, TrueCall, Truth, known, plain, true_call};

/// The attribution of `changed` against the plain server.
fn explained(changed: Truth) -> Attribution {
    attribute(&known(&[plain("a"), changed], 8), "a", "b").unwrap()
}

fn bar<'a>(attribution: &'a Attribution, cause: &str) -> Option<&'a Bar> {
    attribution.bars.iter().find(|bar| bar.cause == cause)
}

/// CPU time per request that a cause adds to `b`, ns.
fn demand(attribution: &Attribution, cause: &str) -> f64 {
    let Some(bar) = bar(attribution, cause) else {
        return 0.0;
    };
    bar.evidence.demand_b_ns.unwrap() - bar.evidence.demand_a_ns.unwrap()
}

/// The bars add up, and those not named are smaller than 1 % of the time per request of `a`.
fn only(attribution: &Attribution, causes: &[&str]) {
    assert!(
        attribution.receipt.sum_error.abs() < 1e-9,
        "{attribution:?}"
    );
    assert!(attribution.receipt.log_sum_error.abs() < 1e-9);
    for bar in &attribution.bars {
        if !causes.contains(&bar.cause.as_str()) {
            let share = bar.delta_ns.unwrap() / attribution.a_ns;
            assert!(share.abs() < 0.01, "{}: {share}", bar.cause);
        }
    }
}

/// Equal servers have no bar to speak of, and no share is given.
#[test]
fn equal_servers_have_no_cause() {
    let attribution = explained(plain("b"));
    only(&attribution, &[]);
    assert!(!attribution.established);
    assert!(attribution.bars.iter().all(|bar| bar.log_share.is_none()));
}

/// 5 us of user code are 5 us of user code.
#[test]
fn spinning_is_user_code() {
    let attribution = explained(Truth {
        user_ns: 10_000.0,
        ..plain("b")
    });
    only(&attribution, &["user"]);
    assert!((demand(&attribution, "user") / 5_000.0 - 1.0).abs() < 0.01);
    let bar = bar(&attribution, "user").unwrap();
    assert!((bar.demand_delta_ns.unwrap() - demand(&attribution, "user")).abs() < 1e-6);
    let (low, high) = bar.demand_interval_ns.unwrap();
    assert!(low <= bar.demand_delta_ns.unwrap() && bar.demand_delta_ns.unwrap() <= high);
    assert!(high - low < 100.0, "{low} {high}");
    assert_eq!(bar.distinguishable, Some(true));
    assert!(attribution.established && bar.log_share.unwrap() > 0.97);
}

/// Ten more calls are a count, and entering the kernel ten times more; together what the calls cost
/// without probes. User code, where the probes' time is measured, is unchanged.
#[test]
fn more_calls_are_a_count_and_entries() {
    let mut busy = plain("b");
    busy.calls.push(true_call("getppid", None, 10.0, 60.0));
    let attribution = explained(busy);
    only(&attribution, &["other.count", "entry_exit"]);
    assert!((demand(&attribution, "other.count") - 600.0).abs() < 6.0);
    let entries = 10.0 * COST.entry_exit_ns;
    assert!((demand(&attribution, "entry_exit") - entries).abs() < 12.0);
    assert!(demand(&attribution, "user").abs() < 50.0);
    let evidence = &bar(&attribution, "other.count").unwrap().evidence;
    assert!((evidence.n_b.unwrap() - 10.0).abs() < 0.03 && evidence.n_a == Some(0.0));
    assert_eq!(evidence.calls, ["getppid"]);
}

/// Opening a file per request: three new groups, all of them count.
#[test]
fn opening_a_file_per_request_is_count() {
    let mut opening = plain("b");
    let file = Some(CallObject::File);
    for (name, on, ns) in [
        ("openat", None, 1_400.0),
        ("fstat", None, 300.0),
        ("close", file, 400.0),
    ] {
        opening.calls.push(true_call(name, on, 1.0, ns));
    }
    let attribution = explained(opening);
    let causes = ["open.count", "stat.count", "close_file.count", "entry_exit"];
    only(&attribution, &causes);
    for (cause, ns) in causes.into_iter().zip([1_400.0, 300.0, 400.0, 360.0]) {
        assert!(
            (demand(&attribution, cause) / ns - 1.0).abs() < 0.01,
            "{cause}"
        );
    }
}

/// Four writes in place of one, each cheaper: more count, less unit, and both add up to the time.
#[test]
fn split_writes_are_more_and_cheaper() {
    let mut split = plain("b");
    split.calls[2] = TrueCall {
        bytes: Some(59.5),
        ..true_call("write", Some(CallObject::Socket), 4.0, 1_200.0)
    };
    let attribution = explained(split);
    only(&attribution, &["send.count", "send.unit", "entry_exit"]);
    let (count, unit) = (
        bar(&attribution, "send.count").unwrap(),
        bar(&attribution, "send.unit").unwrap(),
    );
    assert!(count.delta_ns > Some(0.0) && unit.delta_ns < Some(0.0));
    // By hand: 3 more at (2000+1200)/2 are 4800, 800 less at 2.5 calls are -2000.
    let gain = count.delta_ns.unwrap() / 4_800.0;
    assert!((unit.delta_ns.unwrap() / gain + 2_000.0).abs() < 40.0);
    assert_eq!(count.kind, BarKind::SyscallCount);
    assert_eq!(unit.kind, BarKind::SyscallUnit);
}

/// A receive by another name is no cause.
#[test]
fn another_name_for_the_same_is_no_cause() {
    let mut other = plain("b");
    other.calls[1].name = "read";
    only(&explained(other), &[]);
}

/// A worker that sleeps in a call is idle, blocked, and names the call; its CPU time is unchanged.
#[test]
fn sleeping_is_idle_time() {
    let mut asleep = plain("b");
    asleep.calls.push(TrueCall {
        sleep_ns: 100_000.0,
        ..true_call("clock_nanosleep", None, 1.0, 900.0)
    });
    asleep.idle = vec![(IdleLabel::Blocked, 0.8), (IdleLabel::Waiting, 0.015)];
    let attribution = explained(asleep);
    only(&attribution, &["idle.blocked", "sleep.count", "entry_exit"]);
    let idle = bar(&attribution, "idle.blocked").unwrap();
    assert_eq!(idle.evidence.calls, ["clock_nanosleep"]);
    assert_eq!(idle.evidence.idle, Some(IdleCause::Blocked));
    assert!(idle.delta_ns.unwrap() / attribution.delta_ns > 0.9);
    assert!((demand(&attribution, "sleep.count") - 900.0).abs() < 9.0);
}

/// A quota is told from other waits for a CPU.
#[test]
fn a_quota_is_throttled() {
    let attribution = explained(Truth {
        idle: vec![(IdleLabel::RunnableElsewhere, 0.5)],
        throttled: 0.48,
        ..plain("b")
    });
    let throttled = bar(&attribution, "idle.throttled").unwrap();
    assert!((throttled.evidence.idle_b.unwrap() - 0.48).abs() < 0.005);
    only(
        &attribution,
        &["idle.throttled", "idle.runnable_elsewhere", "idle.waiting"],
    );
}

/// What the kernel charges a thread with between its wake-up and its CPU is a bar of its own, and does not
/// make the two accounts of CPU time disagree.
#[test]
fn charges_at_switches_have_their_bar() {
    let attribution = explained(Truth {
        at_switches_ns: 3_000.0,
        ..plain("b")
    });
    only(&attribution, &["switches"]);
    let switches = bar(&attribution, "switches").unwrap();
    assert_eq!(switches.kind, BarKind::Switches);
    assert!((demand(&attribution, "switches") / 3_000.0 - 1.0).abs() < 0.01);
    assert!(attribution.receipt.unexplained_share.unwrap() < 0.02);
    assert!(attribution.receipt.cpu_disagreement.unwrap().abs() < 0.02);
}

/// CPU time that no probe saw is drawn as such, also where it is the whole difference.
#[test]
fn what_was_not_seen_is_unexplained() {
    let attribution = explained(Truth {
        unseen_ns: 2_120.0,
        ..plain("b")
    });
    only(&attribution, &["unexplained"]);
    assert!((demand(&attribution, "unexplained") / 2_000.0 - 1.0).abs() < 0.01);
    assert!(attribution.receipt.unexplained_share.unwrap() > 0.1);
}

/// The cost of the probes is in the receipt, and in no bar.
#[test]
fn the_probes_are_taken_out() {
    let mut busy = plain("b");
    busy.calls[1].count = 3.0;
    let attribution = explained(busy);
    let expected = 4.1 * COST.probe_ns_per_call;
    assert!((attribution.receipt.probes_b_ns.unwrap() / expected - 1.0).abs() < 0.01);
    let probes = bar(&attribution, "probes").unwrap();
    assert!(probes.delta_ns.unwrap().abs() < 0.002 * attribution.a_ns);
}

/// Half the quota of a past recording: the bars of an arm against its own past add up, and the seed
/// makes them repeatable.
#[test]
fn an_arm_against_its_past() {
    let past = known(&[plain("a")], 7);
    let now = known(
        &[Truth {
            user_ns: 7_000.0,
            ..plain("a")
        }],
        9,
    );
    let attribution = against(&now, "a", &past, "a").unwrap();
    assert!(!attribution.paired && attribution.pairs == 7);
    assert_eq!(attribution.baseline_unix_ns, Some(past.created_unix_ns));
    only(&attribution, &["user"]);
    assert!((demand(&attribution, "user") / 2_000.0 - 1.0).abs() < 0.01);
    assert_eq!(
        bar(&attribution, "user").unwrap().distinguishable,
        Some(true)
    );
    assert_eq!(against(&now, "a", &past, "a"), Some(attribution));
}

/// Without times only CPU time and idle time can be told apart, with calls as counts; at `times` calls
/// that sleep have no time. What is missing is said.
#[test]
fn lesser_details_give_what_they_can() {
    let mut counted = known(&[plain("a"), plain("b")], 8);
    let each = |recording: &mut Recording, change: fn(&mut recording::Profile)| {
        let rounds = recording.rounds.iter_mut();
        rounds.filter_map(|r| r.profile.as_mut()).for_each(change);
    };
    each(&mut counted, |profile| profile.detail = Detail::Counts);
    let attribution = attribute(&counted, "a", "b").unwrap();
    let whole = bar(&attribution, "receive.count").unwrap();
    assert_eq!((whole.delta_ns, whole.distinguishable), (None, None));
    assert!(bar(&attribution, "demand").is_some() && bar(&attribution, "user").is_none());
    assert!(attribution.not_measured[0].why.contains("not timed"));

    let mut timed = known(&[plain("a"), plain("b")], 8);
    each(&mut timed, |profile| profile.detail = Detail::Times);
    let attribution = attribute(&timed, "a", "b").unwrap();
    only(&attribution, &["poll.count"]);
    let outside = bar(&attribution, "outside_calls").unwrap();
    assert!(outside.evidence.demand_a_ns > Some(5_000.0));
    assert_eq!(bar(&attribution, "poll.count").unwrap().delta_ns, None);

    let mut blind = comparison(&[nginx(), h2o()], 8);
    blind.rounds.retain(|round| round.profile.is_none());
    let attribution = attribute(&blind, "nginx", "h2o").unwrap();
    assert!(attribution.receipt.sum_error.abs() < 1e-9);
    assert_eq!(
        attribution.not_measured[0].remedy.as_deref(),
        Some("run as root (sudo)")
    );
}

/// With fewer than six pairs there are bars, and no intervals.
#[test]
fn few_pairs_have_no_intervals() {
    let recording = known(&[plain("a"), plain("b")], 3);
    let attribution = attribute(&recording, "a", "b").unwrap();
    let all = |check: fn(&Bar) -> bool| attribution.bars.iter().all(check);
    assert!(all(
        |bar| bar.interval_ns.is_none() && bar.distinguishable.is_none()
    ));
    let missing = attribution.not_measured.last().unwrap();
    assert_eq!(missing.what, "intervals of the bars");
    assert_eq!(attribute(&known(&[plain("a")], 0), "a", "a"), None);
}
