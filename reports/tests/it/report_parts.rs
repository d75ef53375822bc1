//! Parts of a comparison's report that the plain recordings of other tests do not have: rounds at equal
//! rates, the control, rounds left out, the fingerprint.

use recording::{
    Fact, FactWeight, Fingerprint, LoadMeasures, Probes, Recording, Round, RoundRole, ScheduleKept,
    ServerFingerprint,
};
use reports::{Footer, Style, analyse, markdown, text};

use crate::fixture::{blank_measures, comparison, h2o, nginx};

fn both(recording: &mut Recording) -> (String, String) {
    analyse(recording);
    let end = Footer::default();
    (
        text::compare(recording, &Style::default(), &end),
        markdown::compare(recording, &end),
    )
}

/// Copies of the rounds without probes in another role.
fn copies(recording: &Recording, arm: Option<&str>, role: RoundRole) -> Vec<Round> {
    let rounds = recording.rounds.iter();
    let rounds = rounds.filter(|round| round.probes == Probes::Off);
    let rounds = rounds.filter(|round| arm.is_none_or(|arm| arm == round.arm));
    let copy = |round: &Round| Round {
        role,
        ..round.clone()
    };
    rounds.map(copy).collect()
}

/// What was measured at equal rates is told: the 99th percentile on the screen, all in Markdown.
#[test]
fn equal_rates_are_told() {
    let mut recording = comparison(&[nginx(), h2o()], 4);
    let role = RoundRole::EqualRate { rate_rps: 30_000.0 };
    let at_rate = copies(&recording, None, role);
    recording.rounds.extend(at_rate);
    let (text, markdown) = both(&mut recording);
    let row = text
        .lines()
        .find(|line| line.starts_with(" p99 at 30,000/s each"));
    let main = text.lines().find(|line| line.starts_with(" p99 latency"));
    let figures = |line: &str| {
        line.split_whitespace()
            .rev()
            .take(5)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(figures(row.unwrap()), figures(main.unwrap()), "{text}");
    for metric in ["p50 latency", "p99 latency", "server CPU us/req"] {
        assert!(
            markdown.contains(&format!("| 30,000 req/s | {metric} |")),
            "{markdown}"
        );
    }
}

/// Rounds that did not keep the rate say nothing about it, and that is told.
#[test]
fn rates_that_were_not_kept_are_told() {
    let mut recording = comparison(&[nginx(), h2o()], 4);
    let role = RoundRole::EqualRate { rate_rps: 30_000.0 };
    let mut at_rate = copies(&recording, None, role);
    for round in at_rate.iter_mut().filter(|round| round.arm == "h2o") {
        let load = round.load.as_mut().unwrap();
        load.measures = Some(Box::new(LoadMeasures {
            schedule: Some(ScheduleKept {
                due: 60_000,
                dropped: 2_000,
                lag: None,
                asked_rps: 30_000.0,
                achieved_rps: 29_000.0,
            }),
            ..blank_measures()
        }));
    }
    recording.rounds.extend(at_rate);
    let (text, _) = both(&mut recording);
    assert!(!text.contains("p99 at 30,000/s"), "{text}");
    assert!(
        text.contains("latency at some of the equal rates"),
        "{text}"
    );
}

/// The control of the harness stands beside the verdict.
#[test]
fn the_control_is_told() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    let copies = copies(&recording, Some("nginx"), RoundRole::Aa);
    recording.rounds.extend(copies);
    let (text, _) = both(&mut recording);
    assert!(text.contains("A/A 1.000 [1.000, 1.000]"), "{text}");
    assert!(!text.contains("indicative"), "{text}");
}

/// A round that was left out is named with the reason, as one that failed is.
#[test]
fn rounds_left_out_are_named() {
    let mut recording = comparison(&[nginx(), h2o()], 4);
    recording.rounds[1].excluded = Some("disturbed: others had 8%".to_owned());
    recording.rounds[4].failed = Some("no answer".to_owned());
    let (text, markdown) = both(&mut recording);
    let left_out =
        "round 2 of h2o (pair 1, probes off): disturbed: others had 8%; its pair is not used";
    assert!(text.contains(&format!("left out {left_out}")), "{text}");
    assert!(text.contains("failed   round 5 of nginx"), "{text}");
    assert!(markdown.contains("**left out**") && markdown.contains("**failed**"));
}

/// The facts that matter most are on the screen, all in Markdown with the reason for what is not known, and
/// what a kernel or a server says cannot do harm.
#[test]
fn the_fingerprint_is_told() {
    let mut recording = comparison(&[nginx(), h2o()], 3);
    let hard = FactWeight::Hard;
    let machine = vec![
        Fact::known("clock.source", hard, "tsc\u{1b}[31m"),
        Fact::known("mitigation.meltdown", hard, "Mitigation: PTI"),
        Fact::known("mitigation.mds", hard, "Vulnerable"),
        Fact::known("mitigation.l1tf", hard, "Not affected"),
        Fact::unknown("cpu.governor", hard, "there is no cpufreq here"),
    ];
    let server = ServerFingerprint {
        arm: "nginx".to_owned(),
        facts: vec![Fact::known("library.libc.so.6", hard, "build id <b>")],
    };
    let fingerprint = Fingerprint::new(machine, vec![server]);
    let short = fingerprint.hash[..12].to_owned();
    recording.fingerprint = Some(fingerprint);
    let (text, markdown) = both(&mut recording);
    assert!(!text.contains('\u{1b}') && !markdown.contains("<b>"));
    let line = text
        .lines()
        .find(|line| line.contains("fingerprint"))
        .unwrap();
    assert!(line.contains("clock tsc"), "{line}");
    assert!(line.contains("1 mitigation, 1 fault open"), "{line}");
    assert!(line.ends_with(&short), "{line}");
    for wanted in ["there is no cpufreq here", "library.libc.so.6"] {
        assert!(markdown.contains(wanted), "{wanted}: {markdown}");
    }
}
