//! Why, as it is printed: the waterfall, its receipt, findings and predictions.

use recording::{CallObject, Fact, FactWeight, Fingerprint, Recording, ServerFingerprint};
use reports::attribution::add_past;
use reports::predict::{PredictError, without};
use reports::{Footer, Style, analyse, markdown, text};

use crate::truth::{COST, Truth, known, plain, true_call};

/// A server that opens the file for each request, and one that does not.
fn opening(pairs: u32) -> Recording {
    let mut opening = Truth {
        user_ns: 6_000.0,
        ..plain("h2o")
    };
    let file = Some(CallObject::File);
    opening.calls.extend([
        true_call("openat", None, 1.0, 1_400.0),
        true_call("newfstatat", None, 1.0, 300.0),
        true_call("close", file, 1.0, 400.0),
    ]);
    let mut recording = known(&[plain("nginx"), opening], pairs);
    analyse(&mut recording);
    recording
}

fn rendered(recording: &Recording) -> String {
    let text = text::compare(recording, &Style::default(), &Footer::default());
    assert!(
        text.lines().all(|line| line.chars().count() <= 110),
        "{text}"
    );
    text
}

/// The part of a report between two lines.
fn between<'a>(text: &'a str, first: &str, last: &str) -> &'a str {
    let from = text.find(first).unwrap();
    let to = text[from..].find(last).unwrap();
    &text[from..from + to]
}

/// The waterfall: causes with their bars, then what is unexplained, the receipt and the findings.
#[test]
fn waterfall_layout() {
    let text = rendered(&opening(8));
    insta::assert_snapshot!(between(&text, "WHY", "SYSCALLS"), @r"
    WHY  +3.52 us per request from nginx (9.63) to h2o (13.2)
     cause                                          us/req            95% CI  share  figures
     open: calls                   +==============   +1.43    [+1.42, +1.43]  40.5%  0.000 -> 1.000 per request,…
     user code                     +==========       +1.02    [+1.02, +1.03]  29.0%  5.02 -> 6.02 us of CPU
     close files: calls            +====            +0.408  [+0.407, +0.408]  11.6%  0.000 -> 1.000 per request,…
     entry and exit of the kernel  +====            +0.365  [+0.365, +0.365]  10.4%  0.252 -> 0.612 us of CPU
     stat: calls                   +===             +0.306  [+0.305, +0.306]   8.7%  0.000 -> 1.000 per request,…
     others (2)                                     -0.003                 -  -0.1%  effect of probes beyond the…
     not distinguishable (6)                         0.000                 -   0.0%  idle: waiting for requests,…
     unexplained                                     0.000    [0.000, 0.000]   0.0%  0.120 -> 0.120 us of CPU
    receipt  8 pairs, bars add up within 2e-16; probes saw 98.8% of the kernel's CPU time; unexplained 1.2% of CPU
             time; probes cost 0.630|1.53 us/req, taken out; lost 0
    finding  h2o: 1.000 opens of a file per request, 3.000 calls with stat and close  2.47 us/req (19% of its CPU
             time), sure: no setting is known that keeps files open between requests; serve small files from
             memory (a mruby handler), or from a cache in front
    ");
}

/// Bars are drawn from the largest on; what is printed adds up to what is explained.
#[test]
fn printed_bars_add_up() {
    let text = rendered(&opening(8));
    let table = between(&text, "WHY", "receipt");
    let sum: f64 = table
        .lines()
        .skip(2)
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            words.find(|word| {
                word.starts_with(['+', '-']) && word[1..].starts_with(|c: char| c.is_ascii_digit())
                    || *word == "0.000"
            })
        })
        .map(|word| word.parse::<f64>().unwrap())
        .sum();
    let total = opening(8).attributions[0].delta_ns / 1e3;
    assert!((sum - total).abs() < 0.03, "{sum} {total} {table}");
}

/// A difference that is not established has times and no shares; lost events hide all.
#[test]
fn no_shares_without_a_difference() {
    let mut equal = known(&[plain("a"), plain("b")], 8);
    analyse(&mut equal);
    let text = rendered(&equal);
    assert!(text.contains("not established, so no shares"));
    let table = between(&text, "WHY", "receipt").replacen("95% CI", "", 1);
    let shares = table.replace("% of the CPUs", "").replace("% ->", "");
    assert!(!shares.contains('%'), "{text}");
    for profile in equal.rounds.iter_mut().filter_map(|r| r.profile.as_mut()) {
        profile
            .lost
            .add(recording::LostClass::RecursionMisses, 10_000);
    }
    analyse(&mut equal);
    assert!(!rendered(&equal).contains("WHY"));
}

/// An arm against its past has the day of that run, and what else has changed is a warning.
#[test]
fn the_past_is_dated() {
    let mut past = known(&[plain("nginx")], 8);
    past.created_unix_ns -= 86_400_000_000_000;
    past.host.kernel = "6.12.0".to_owned();
    let mut recording = opening(8);
    assert_eq!(add_past(&mut recording, &past), 1);
    let text = rendered(&recording);
    assert!(text.contains("from nginx of 2023-11-13 ("), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(
        words.join(" ").contains("kernel (6.12.0, 6.18.0)"),
        "{text}"
    );
    assert_eq!(add_past(&mut recording, &known(&[plain("other")], 8)), 0);
}

/// Where both runs have a fingerprint, what differs in it is told, of the machine and of the server, but for notes;
/// what the hosts say is not repeated.
#[test]
fn the_past_differs_in_its_fingerprint() {
    let of = |governor: &str, version: &str, group: &str| {
        let server = ServerFingerprint {
            arm: "nginx".to_owned(),
            facts: vec![
                Fact::known("program.version", FactWeight::Hard, version),
                Fact::known("control_group", FactWeight::Note, group),
            ],
        };
        let machine = vec![Fact::known("cpu.governor", FactWeight::Hard, governor)];
        Some(Fingerprint::new(machine, vec![server]))
    };
    let mut past = known(&[plain("nginx")], 8);
    past.host.kernel = "6.12.0".to_owned();
    past.fingerprint = of("powersave", "1.22", "a");
    let mut recording = opening(8);
    recording.fingerprint = of("performance", "1.26", "b");
    assert_eq!(add_past(&mut recording, &past), 1);
    let warning = &recording.warnings.last().unwrap().text;
    let told =
        "(then, now): cpu.governor (powersave, performance), program.version of nginx (1.22, 1.26)";
    assert!(warning.ends_with(told), "{warning}");
    recording.warnings.clear();
    past.fingerprint.clone_from(&recording.fingerprint);
    assert_eq!(add_past(&mut recording, &past), 1);
    assert!(recording.warnings.is_empty(), "{:?}", recording.warnings);
}

/// Much that was not seen is said in words.
#[test]
fn much_unexplained_is_a_caution() {
    let unseen = |unseen_ns| {
        let truth = Truth {
            unseen_ns,
            ..plain("b")
        };
        let mut recording = known(&[plain("a"), truth], 8);
        analyse(&mut recording);
        rendered(&recording).contains("the probes and the kernel's clock disagree")
    };
    assert!(unseen(3_000.0) && !unseen(200.0));
}

/// A refusal explains nothing.
#[test]
fn nothing_is_explained_where_a_gate_refuses() {
    let mut recording = opening(8);
    recording.arms[1]
        .response
        .as_mut()
        .unwrap()
        .content_encoding = Some("gzip".to_owned());
    analyse(&mut recording);
    assert_eq!(recording.attributions, []);
    assert!(!rendered(&recording).contains("WHY"));
}

/// Markdown has every finding with its cause and its doubt.
#[test]
fn markdown_has_the_findings() {
    let text = markdown::compare(&opening(8), &Footer::default());
    assert!(text.contains("file-opened-per-request") && text.contains("no cache of open files"));
    assert!(text.contains("WHY"), "{text}");
}

/// Removing a cause by the identity gives what the server without it reaches: user code, a group of
/// calls, a finding, and idle time.
#[test]
fn predictions_meet_the_server_without_the_cause() {
    let recording = opening(8);
    let measured = |truth: &Truth| {
        let recording = known(std::slice::from_ref(truth), 8);
        let predictions = without(&recording, "probes").unwrap();
        predictions[0].throughput_rps
    };
    let mut kept = plain("h2o");
    kept.user_ns = 6_000.0;
    let found = without(&recording, "file-opened-per-request").unwrap();
    assert_eq!(found.len(), 1);
    let expected = 3.0 * COST.entry_exit_ns + 2_100.0;
    assert!((found[0].removed_ns.unwrap() / expected - 1.0).abs() < 0.01);
    assert!((found[0].predicted_rps / measured(&kept) - 1.0).abs() < 0.01);

    let asleep = Truth {
        idle: vec![(recording::IdleLabel::Blocked, 0.4)],
        ..plain("a")
    };
    let mut recording = known(&[asleep], 8);
    analyse(&mut recording);
    let found = without(&recording, "idle.blocked").unwrap();
    let busy = measured(&Truth {
        idle: Vec::new(),
        ..plain("a")
    });
    assert!((found[0].predicted_rps / busy - 1.0).abs() < 0.01);
    assert_eq!(found[0].removed_ns, None);
}

/// What is not there cannot be removed, and the error names what is.
#[test]
fn unknown_causes_are_refused() {
    let error = without(&opening(8), "magic").unwrap_err();
    let PredictError::Unknown { known, .. } = error else {
        panic!("{error}");
    };
    assert!(known.contains("user") && known.contains("idle.waiting"));
    assert!(known.contains("file-opened-per-request"), "{known}");
    let calls = without(&opening(8), "open.count").unwrap();
    assert_eq!(calls.len(), 1, "only one of the arms opens files");
}

/// Predictions are printed with what they rest on.
#[test]
fn predictions_are_printed() {
    let mut recording = opening(8);
    recording.predictions = without(&recording, "user").unwrap();
    let text = rendered(&recording);
    let line = text
        .lines()
        .find(|line| line.starts_with("without"))
        .unwrap();
    assert!(line.contains("nginx without user (5."), "{line}");
}

/// Escape sequences in a recording never reach a terminal.
#[test]
fn a_hostile_label_is_cleaned() {
    let mut recording = opening(8);
    for bar in &mut recording.attributions[0].bars {
        bar.title = "\x1b[31mred".to_owned();
        bar.evidence.calls = vec!["\x1b]0;owned\x07".to_owned()];
    }
    for finding in &mut recording.findings {
        finding.title = "\x1b[2J".to_owned();
    }
    let footer = Footer::default();
    for text in [rendered(&recording), markdown::compare(&recording, &footer)] {
        assert!(!text.contains('\x1b') && !text.contains('\x07'));
    }
}
