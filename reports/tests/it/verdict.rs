//! Verdicts and exit codes.

use recording::{
    ArmLimit, FailureClass, IdleLabel, LatencyHistogram, LostClass, Partial, Probes, Recording,
    RecordingKind, Round, RoundRole, VerdictWord, exit_code as code,
};
use reports::{Limits, analyse, exit_code};

use crate::fixture::{Server, profile_recording, whole};
use crate::fixture::{comparison, empty, h2o, load_recording, lock_step, nginx, profile, unsteady};
use crate::truth::{Truth, known, plain};

fn analysed(servers: &[Server], pairs: u32) -> Recording {
    let mut recording = comparison(servers, pairs);
    analyse(&mut recording);
    recording
}

fn word(recording: &Recording) -> VerdictWord {
    recording.verdict.as_ref().unwrap().word
}

fn outcome(recording: &Recording) -> u8 {
    exit_code(recording, &Limits::default())
}

/// A clear difference names its winner, whichever arm comes first.
#[test]
fn faster_arm_wins_from_either_side() {
    for servers in [[nginx(), h2o()], [h2o(), nginx()]] {
        let recording = analysed(&servers, 8);
        let verdict = recording.verdict.as_ref().unwrap();
        assert_eq!(verdict.word, VerdictWord::Faster);
        assert_eq!(verdict.winner.as_deref(), Some("nginx"));
        assert!(
            verdict
                .text
                .starts_with("nginx 1.332 times as fast as h2o  ["),
            "{}",
            verdict.text
        );
        assert!(verdict.text.contains("99% CI, 8 pairs"), "{}", verdict.text);
        // The direction of the tables is said where it is not the winner's.
        assert_eq!(
            verdict.text.ends_with("(h2o/nginx 0.751)"),
            recording.arms[0].name == "h2o"
        );
        assert!(verdict.indicative, "no A/A control");
        assert_eq!(outcome(&recording), code::DONE);
    }
}

/// Equal servers are equivalent with enough pairs and inconclusive with too few.
#[test]
fn equal_arms_are_equivalent() {
    let twin = Server {
        name: "twin",
        ..nginx()
    };
    let many = analysed(&[nginx(), twin.clone()], 8);
    assert_eq!(
        (word(&many), outcome(&many)),
        (VerdictWord::Equivalent, code::DONE)
    );
    let few = analysed(&[nginx(), twin.clone()], 2);
    assert_eq!(
        (word(&few), outcome(&few)),
        (VerdictWord::Inconclusive, code::INCONCLUSIVE)
    );
    let text = &few.verdict.as_ref().unwrap().text;
    assert!(
        text.contains("more pairs needed") || text.contains("more pair needed"),
        "{text}"
    );
    assert!(
        text.ends_with("too few pairs for an interval (2 pairs)"),
        "{text}"
    );
    let one = analysed(&[nginx(), twin], 1);
    assert_eq!(one.comparisons[0].interval, None);
    assert!(one.verdict.unwrap().text.contains("more pairs needed"));
}

/// A failed round takes its pair out of the statistics and stays in the recording.
#[test]
fn failed_round_removes_its_pair() {
    let mut recording = comparison(&[nginx(), h2o()], 4);
    let rounds = recording.rounds.len();
    let bad = recording
        .rounds
        .iter_mut()
        .find(|r| r.pair == 2 && r.probes == Probes::Off)
        .unwrap();
    bad.failed = Some("nginx exited with status 1".to_owned());
    bad.load.as_mut().unwrap().ledger.ok = 1;
    analyse(&mut recording);
    assert_eq!(recording.comparisons[0].pairs, 3);
    assert_eq!(recording.rounds.len(), rounds);
    assert_eq!(word(&recording), VerdictWord::Faster);
}

/// With several arms each stands against the first; one doubt is a doubt about the whole.
#[test]
fn several_arms_stand_against_the_first() {
    let fast = Server {
        name: "fast",
        rps: 90_000.0,
        ..nginx()
    };
    let twin = Server {
        name: "twin",
        ..nginx()
    };
    let won = analysed(&[nginx(), h2o(), fast.clone()], 8);
    assert_eq!(
        won.verdict.as_ref().unwrap().winner.as_deref(),
        Some("fast")
    );
    let reference = analysed(&[fast.clone(), h2o(), nginx()], 8);
    assert_eq!(
        reference.verdict.as_ref().unwrap().winner.as_deref(),
        Some("fast")
    );
    let two_ahead = analysed(&[h2o(), nginx(), fast.clone()], 8);
    assert_eq!(two_ahead.verdict.as_ref().unwrap().winner, None);
    assert_eq!(word(&two_ahead), VerdictWord::Faster);
    let mixed = analysed(&[nginx(), twin, fast], 2);
    assert_eq!(word(&mixed), VerdictWord::Inconclusive);
}

/// Rounds by count give no verdict about speed and are done when every arm has one.
#[test]
fn lock_step_has_no_verdict() {
    let mut recording = lock_step(&[nginx(), h2o()], 1000);
    analyse(&mut recording);
    assert_eq!(
        (recording.verdict.as_ref(), outcome(&recording)),
        (None, code::DONE)
    );
    recording.rounds[1].failed = Some("no answer".to_owned());
    assert_eq!(outcome(&recording), code::FAILED);
}

/// What ended early is failed, or interrupted where that is why.
#[test]
fn partial_runs_have_their_own_codes() {
    let mut recording = analysed(&[nginx(), h2o()], 3);
    recording.partial = Some(Partial {
        why: "interrupted".to_owned(),
    });
    assert_eq!(outcome(&recording), code::INTERRUPTED);
    recording.partial = Some(Partial {
        why: "h2o exited with status 1".to_owned(),
    });
    assert_eq!(outcome(&recording), code::FAILED);
    assert_eq!(outcome(&empty(RecordingKind::Compare)), code::FAILED);
}

/// A load fails its limit only above it.
#[test]
fn load_has_an_error_limit() {
    let mut recording = load_recording();
    assert_eq!(outcome(&recording), code::DONE);
    let ledger = &mut recording.rounds[0].load.as_mut().unwrap().ledger;
    ledger.fail(FailureClass::Timeout, "head", ledger.ok / 100);
    assert_eq!(outcome(&recording), code::LIMIT_BROKEN);
    let lenient = Limits {
        max_errors: 0.02,
        ..Limits::default()
    };
    assert_eq!(exit_code(&recording, &lenient), code::DONE);
    let ledger = &mut recording.rounds[0].load.as_mut().unwrap().ledger;
    ledger.ok = 0;
    ledger.failed.clear();
    assert_eq!(outcome(&recording), code::FAILED, "nothing finished");
}

/// A profile that lost more than the limit says so in its exit code.
#[test]
fn profile_has_a_loss_limit() {
    let mut profile = profile(&nginx(), 100_000.0);
    assert_eq!(outcome(&profile_recording(profile.clone())), code::DONE);
    profile.lost.add(LostClass::UnknownNumbers, 1);
    assert_eq!(outcome(&profile_recording(profile.clone())), code::DONE);
    profile.lost.add(LostClass::UnknownNumbers, 100);
    assert_eq!(outcome(&profile_recording(profile)), code::LIMIT_BROKEN);
    assert_eq!(outcome(&empty(RecordingKind::Profile)), code::FAILED);
}

/// A spread that no sensible number of pairs would beat is a matter of the machine.
#[test]
fn hopeless_spread_asks_for_a_quiet_machine() {
    let twin = Server {
        name: "twin",
        ..nginx()
    };
    let text = |factor| {
        let mut recording = comparison(&[nginx(), twin.clone()], 8);
        unsteady(&mut recording, "twin", factor);
        analyse(&mut recording);
        recording.verdict.unwrap().text
    };
    let hopeless = text(1.3);
    assert!(
        hopeless
            .contains("inconclusive, more than 100 pairs needed, quiet the machine: nginx/twin"),
        "{hopeless}"
    );
    let hopeful = text(1.02);
    assert!(hopeful.contains("inconclusive, about "), "{hopeful}");
}

/// Where rounds failed, more pairs are no remedy.
#[test]
fn failed_rounds_are_the_reason_where_they_are() {
    let mut recording = comparison(&[nginx(), h2o()], 3);
    for round in recording.rounds.iter_mut().filter(|r| r.arm == "h2o") {
        round.failed = Some("h2o exited with status 1".to_owned());
    }
    analyse(&mut recording);
    assert_eq!(
        recording.verdict.as_ref().unwrap().text,
        "nginx against h2o: inconclusive, no pair of good rounds, because 3 rounds of h2o failed"
    );
    // One pair is left, which has no spread.
    for round in recording.rounds.iter_mut().filter(|r| r.pair == 0) {
        round.failed = None;
    }
    analyse(&mut recording);
    let text = recording.verdict.unwrap().text;
    assert!(
        text.contains("inconclusive, because 2 rounds of h2o failed: nginx/h2o"),
        "{text}"
    );
}

/// Servers that the client keeps waiting are judged by CPU time per request, and the metric is named.
#[test]
fn client_limited_arms_are_judged_by_cpu_time() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    for round in &mut recording.rounds {
        // Half the requests at the same cost each: the server is idle half of the time.
        let load = round.load.as_mut().unwrap();
        (load.ledger.ok, load.ledger.sent) = (load.ledger.ok / 2, load.ledger.sent / 2);
        load.busiest_thread_share = 0.99;
        round.server_cpu.as_mut().unwrap().total_ns /= 2;
    }
    analyse(&mut recording);
    let verdict = recording.verdict.as_ref().unwrap();
    assert_eq!(verdict.metric, "server_cpu_ns_per_request");
    assert_eq!(verdict.word, VerdictWord::Faster);
    assert_eq!(verdict.winner.as_deref(), Some("nginx"));
    let expected = "client-limited, so by CPU per request: h2o needs 1.3";
    assert!(verdict.text.starts_with(expected), "{}", verdict.text);
    let limits: Vec<ArmLimit> = recording.limiters.iter().map(|l| l.limit).collect();
    assert_eq!(limits, [ArmLimit::Client, ArmLimit::Client]);
    assert_eq!(outcome(&recording), code::DONE);
}

/// More connections that bring more show that the server waited for requests, where its threads did.
#[test]
fn a_starved_server_is_client_limited() {
    let waiting = |share| Truth {
        idle: vec![(IdleLabel::Waiting, share)],
        ..plain("a")
    };
    let limit = |truth: Truth, gain: f64| {
        let mut recording = known(&[truth, plain("b")], 8);
        let rounds = recording.rounds.iter();
        let more: Vec<Round> = rounds
            .filter(|round| round.probes == Probes::Off)
            .map(|round| {
                let mut more = round.clone();
                more.role = RoundRole::MoreConnections { connections: 96 };
                let load = more.load.as_mut().unwrap();
                load.ledger.ok = whole(load.ledger.ok as f64 * gain);
                more
            })
            .collect();
        recording.rounds.extend(more);
        analyse(&mut recording);
        recording.limiters[0].limit
    };
    assert_eq!(limit(waiting(0.3), 1.2), ArmLimit::Client);
    assert_eq!(limit(waiting(0.3), 1.0), ArmLimit::Unknown);
    assert_eq!(limit(waiting(0.01), 1.2), ArmLimit::ServerCpu);
}

/// Idle time has a reason: a quota, calls that sleep, locks, a CPU elsewhere.
#[test]
fn limiters_are_named() {
    let limit = |label, throttled| {
        let truth = Truth {
            idle: vec![(label, 0.4)],
            throttled,
            ..plain("a")
        };
        let mut recording = known(&[truth, plain("b")], 8);
        analyse(&mut recording);
        assert_eq!(recording.limiters[1].limit, ArmLimit::ServerCpu);
        recording.limiters[0].limit
    };
    assert_eq!(limit(IdleLabel::Blocked, 0.0), ArmLimit::Blocked);
    assert_eq!(limit(IdleLabel::Parked, 0.0), ArmLimit::Lock);
    assert_eq!(
        limit(IdleLabel::RunnableElsewhere, 0.0),
        ArmLimit::Placement
    );
    assert_eq!(
        limit(IdleLabel::RunnableElsewhere, 0.4),
        ArmLimit::Throttled
    );
    assert_eq!(limit(IdleLabel::Waiting, 0.0), ArmLimit::Unknown);
}

/// The faster server needs more CPU time, or has the longer latency at equal rate: no single winner.
#[test]
fn established_results_that_disagree_have_no_winner() {
    let thirsty = Server {
        cpu_ns: 20_000.0,
        ..nginx()
    };
    let by_cpu = analysed(&[thirsty, h2o()], 8);
    let verdict = by_cpu.verdict.as_ref().unwrap();
    assert_eq!((verdict.word, &verdict.winner), (VerdictWord::Mixed, &None));
    let both = "but nginx has 1.07";
    assert!(verdict.text.contains(both), "{}", verdict.text);
    assert_eq!(outcome(&by_cpu), code::DONE);

    let at_rate = |slower: &'static str| {
        let mut recording = comparison(&[nginx(), h2o()], 8);
        let rounds = recording.rounds.iter();
        let equal: Vec<Round> = rounds
            .filter(|round| round.probes == Probes::Off)
            .map(|round| {
                let mut equal = round.clone();
                equal.role = RoundRole::EqualRate { rate_rps: 20_000.0 };
                let ns = if round.arm == slower {
                    900_000
                } else {
                    300_000
                };
                let mut latency = LatencyHistogram::recorder();
                latency.record_n(ns + u64::from(round.pair), 2_000).unwrap();
                equal.load.as_mut().unwrap().latency = LatencyHistogram::from_hdr(&latency);
                equal.server_cpu = None;
                equal
            })
            .collect();
        recording.rounds.extend(equal);
        analyse(&mut recording);
        recording
    };
    assert_eq!(word(&at_rate("h2o")), VerdictWord::Faster);
    let mixed = at_rate("nginx");
    assert_eq!(word(&mixed), VerdictWord::Mixed);
    let text = &mixed.verdict.as_ref().unwrap().text;
    assert!(
        text.contains("p99 latency of h2o at 20,000 req/s each"),
        "{text}"
    );
    let row = mixed.comparisons.iter().find(|row| row.rate_rps.is_some());
    assert_eq!(row.unwrap().metric, "equal_rate_latency_p50_ns");
}

/// The ratio of a comparison comes by other methods too, and they agree where the data is tame.
#[test]
fn other_methods_agree() {
    let recording = analysed(&[nginx(), h2o()], 8);
    let row = &recording.comparisons[0];
    let methods: Vec<&str> = row
        .others
        .iter()
        .map(|other| other.method.as_str())
        .collect();
    assert_eq!(
        methods,
        [
            "fieller",
            "hodges-lehmann-wilcoxon",
            "hierarchical-bootstrap-median"
        ]
    );
    for other in &row.others {
        assert!((other.ratio / row.ratio - 1.0).abs() < 0.02, "{other:?}");
        let (low, high) = other.interval.unwrap();
        assert!(low <= row.ratio && row.ratio <= high, "{other:?}");
    }
    // Five pairs have no ranks that rare, and no resampling.
    let few = analysed(&[nginx(), h2o()], 5);
    assert_eq!(few.comparisons[0].others.len(), 1);
}
