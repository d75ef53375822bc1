//! The publication that a comparison repeats: its figures beside ours, in every layout.

use recording::{GateStatus, Published, PublishedChange, PublishedFigure, Recording, Unfair};
use reports::{Footer, Style, analyse, html, is_published_metric, markdown, text};

use crate::fixture::{comparison, h2o, nginx};

fn figure(server: &str, arm: &str, metric: &str, values: &[f64], printed: &str) -> PublishedFigure {
    PublishedFigure {
        server: server.to_owned(),
        arm: Some(arm.to_owned()),
        metric: metric.to_owned(),
        variant: None,
        values: values.to_vec(),
        printed: printed.to_owned(),
    }
}

/// The published comparison of nginx and h2o, as far as it is needed here.
fn publication() -> Published {
    let nginx =
        |metric, value, printed| figure("nginx 1.6.2", "nginx:seed", metric, &[value], printed);
    let h2o = |metric, value, printed| figure("h2o d8a9010", "h2o", metric, &[value], printed);
    Published {
        title: "Nginx vs h2o (http/1.1)".to_owned(),
        source: "where it was published".to_owned(),
        date: "2014".to_owned(),
        machine: "AWS c3.xlarge".to_owned(),
        figures: vec![
            nginx("throughput_rps", 72_162.29, "Requests/sec:  72162.29"),
            h2o("throughput_rps", 9_075.48, "Requests/sec:   9075.48"),
            nginx("latency_mean_ns", 79_340_000.0, "Latency    79.34ms"),
            nginx("timeouts", 16_410.0, "timeout 16410"),
        ],
        changes: vec![PublishedChange {
            what: "poller".to_owned(),
            then: "select for h2o".to_owned(),
            now: None,
        }],
    }
}

/// nginx against h2o as fixture, analysed, with a publication.
fn repeated(published: Published, change: impl FnOnce(&mut Recording)) -> Recording {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    recording.scenario.as_mut().unwrap().published = Some(published);
    change(&mut recording);
    analyse(&mut recording);
    recording
}

fn all_formats(recording: &Recording) -> [String; 3] {
    let end = Footer::default();
    [
        text::compare(recording, &Style::default(), &end),
        markdown::compare(recording, &end),
        html::compare(recording, &end),
    ]
}

/// Every layout has the ratio then (72,162.29 / 9,075.48 = 7.951) beside that of the same arms now, and what
/// changed; the two that are read at leisure also what was printed, and why.
#[test]
fn figures_stand_beside_ours() {
    let recording = repeated(publication(), |_| {});
    let now = &recording.comparisons[0];
    assert_eq!(now.metric, "throughput_rps");
    for report in all_formats(&recording) {
        for words in ["7.951 then", "poller", &format!("{:.3} now", now.ratio)] {
            assert!(report.contains(words), "{words} is missing: {report}");
        }
    }
    let [_, markdown, html] = all_formats(&recording);
    for report in [markdown, html] {
        for words in [
            "16410",
            "select for h2o",
            "AWS c3.xlarge",
            "79.3ms",
            "outside of calls +4.29 us",
        ] {
            assert!(report.contains(words), "{words} is missing: {report}");
        }
    }
}

/// On a screen a publication takes six lines at most, however long its names are; a comparison without one
/// none.
#[test]
fn the_screen_has_few_lines_of_it() {
    let mut long = publication();
    for figure in &mut long.figures {
        figure.server = "a server of a very long name ".repeat(20);
    }
    long.changes = vec![long.changes[0].clone(); 30];
    let with = repeated(long, |_| {});
    let mut without = with.clone();
    without.scenario.as_mut().unwrap().published = None;
    let lines = |recording: &Recording| {
        let [text, ..] = all_formats(recording);
        assert!(
            text.lines().all(|line| line.chars().count() <= 110),
            "{text}"
        );
        text.lines().count()
    };
    let (with, bare) = (lines(&with), lines(&without));
    assert!(with <= 45 && with <= bare + 6, "{with} {bare}");
    assert!(!all_formats(&without).concat().contains("ublished"));
}

/// Figures of another setting than this run's (`K=5` is five requests on a connection), and of arms that are
/// not there, stand alone.
#[test]
fn other_settings_are_not_compared() {
    let mut published = publication();
    let mut more = Vec::new();
    for (setting, factor) in [("K=1", 0.5), ("K=5", 0.25)] {
        for figure in &published.figures[..2] {
            let mut figure = figure.clone();
            figure.variant = Some(setting.to_owned());
            figure.values[0] *= factor
                * if figure.server.starts_with("h2o") {
                    2.0
                } else {
                    1.0
                };
            more.push(figure);
        }
    }
    published.figures = more;
    let recording = repeated(published, |recording| {
        recording.scenario.as_mut().unwrap().requests_per_connection = Some(5);
    });
    let [text, markdown, _] = all_formats(&recording);
    let then = text.lines().find(|line| line.contains(" then")).unwrap();
    assert!(
        then.contains(" now ") && then.contains("3.976 then at K=5"),
        "{text}"
    );
    let other = markdown
        .lines()
        .find(|line| line.contains("at K=1"))
        .unwrap();
    assert!(
        other.contains("not repeated in this run") && !other.contains(" now "),
        "{other}"
    );

    let elsewhere = repeated(publication(), |recording| {
        for arm in &mut recording.arms {
            arm.spec = format!("cmd:{}", arm.name);
        }
        recording
            .scenario
            .as_mut()
            .unwrap()
            .published
            .as_mut()
            .unwrap()
            .figures[1]
            .arm = None;
    });
    assert!(
        all_formats(&elsewhere)
            .iter()
            .all(|text| !text.contains(" now ("))
    );
}

/// As published, what was unfair is said with its gate, and what the gate found here; a gate that nobody
/// foresaw is said as well. Made fair, a run says that it is.
#[test]
fn broken_gates_are_named() {
    let as_published = |recording: &mut Recording| {
        let scenario = recording.scenario.as_mut().unwrap();
        scenario.as_published = true;
        scenario.unfair = vec![
            Unfair {
                gate: Some("G1".to_owned()),
                what: "each server had a page of its own".to_owned(),
            },
            Unfair {
                gate: None,
                what: "nginx kept the file open".to_owned(),
            },
        ];
        recording.arms[1].response.as_mut().unwrap().body_sha256 = "ef".repeat(32);
    };
    let recording = repeated(publication(), as_published);
    let gate = recording.gates.iter().find(|gate| gate.id == "G1").unwrap();
    assert_eq!(gate.status, GateStatus::Allowed);
    let [text, markdown, html] = all_formats(&recording);
    assert!(text.contains("breaks G1"), "{text}");
    for report in [markdown, html] {
        for words in [
            "breaks G1",
            "(allowed)",
            "a page of its own",
            "kept the file open",
        ] {
            let plain = report.replace('\\', "");
            assert!(plain.contains(words), "{words}: {report}");
        }
    }
    let fair = repeated(publication(), |_| {});
    assert!(all_formats(&fair)[0].contains("no gate is broken"));
    let refused = repeated(publication(), |recording| {
        recording.arms[1].response.as_mut().unwrap().body_sha256 = "ef".repeat(32);
    });
    let [text, ..] = all_formats(&refused);
    assert!(
        text.contains("breaks G1") && text.contains("(refused)"),
        "{text}"
    );
}

/// Words of a publication are as hostile as any.
#[test]
fn hostile_words_are_cleaned() {
    let mut published = publication();
    let hostile = "\u{1b}[31m<script>alert(1)</script>|";
    published.title = hostile.to_owned();
    published.figures[0].server = hostile.to_owned();
    published.figures[2].metric = hostile.to_owned();
    published.changes[0].what = hostile.to_owned();
    let [text, markdown, html] = all_formats(&repeated(published, |_| {}));
    assert!(
        ![&text, &markdown, &html]
            .iter()
            .any(|report| report.contains('\u{1b}'))
    );
    assert!(
        ![markdown, html]
            .iter()
            .any(|report| report.contains("<script>alert"))
    );
}

/// Names of the data are known, others are not.
#[test]
fn metrics_are_known_by_name() {
    assert!(is_published_metric("throughput_rps") && is_published_metric("timeouts"));
    assert!(!is_published_metric("req/s") && !is_published_metric(""));
}
