//! `whyfast compare` on the built-in server.

use std::process::{Command, Stdio};

use recording::{GateStatus, Probes, VerdictWord};

use crate::{Mortal, assert_valid, run, said, whyfast};

const SHORT: [&str; 7] = [
    "compare",
    "--pairs",
    "2",
    "--duration",
    "200ms",
    "--warmup",
    "50ms",
];

/// Without arms two styles of the built-in server are compared, and nothing else is needed.
#[test]
fn no_arms_compares_the_built_in_server() {
    let output = run(&[&SHORT[..], &["--format", "json"]].concat());
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "{}",
        said(&output)
    );
    let recording = assert_valid(&output.stdout);
    assert_eq!(recording.arms.len(), 2);
    let verdict = recording.verdict.as_ref().unwrap();
    assert_ne!(verdict.word, VerdictWord::NotComparable);
    let off = recording
        .rounds
        .iter()
        .filter(|round| round.probes == Probes::Off);
    assert_eq!(off.count(), 4);
    for round in &recording.rounds {
        assert_eq!(round.failed, None);
        let load = round.load.as_ref().unwrap();
        assert!(load.ledger.balances());
        assert_eq!(load.ledger.failed_total(), 0);
        assert!(round.server_cpu.is_some());
    }
    // Without root the reason is stored, with root there is a profile.
    let profiled = recording.rounds.iter().any(|round| round.profile.is_some());
    assert_ne!(
        profiled,
        recording
            .not_measured
            .iter()
            .any(|reason| reason.why.contains("root"))
    );
}

/// Servers that answer differently are refused before anything is measured.
#[test]
fn unequal_answers_are_refused() {
    let other = format!(
        "other=cmd:{} testserver --listen 127.0.0.1:{{port}} --style sendfile",
        env!("CARGO_BIN_EXE_whyfast")
    );
    let output = run(&[&SHORT[..], &["testserver", &other, "--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let recording = assert_valid(&output.stdout);
    let gate = recording.gates.iter().find(|gate| gate.id == "G1").unwrap();
    assert_eq!(gate.status, GateStatus::Refuse);
    assert!(gate.value.contains("404"), "{}", gate.value);
    assert!(recording.rounds.is_empty());
}

/// A server that does not start fails with its last words.
#[test]
fn server_that_does_not_start_is_explained() {
    let broken = "broken=cmd:echo last words >&2; exit 7 # {port}";
    let output = run(&[&SHORT[..], &["testserver", broken]].concat());
    assert_eq!(output.status.code(), Some(1));
    for wanted in ["broken", "status 7", "last words"] {
        assert!(said(&output).contains(wanted), "{}", said(&output));
    }
}

/// Ctrl-C ends with the rounds so far, marked as partial, and nothing is left behind.
#[test]
fn interrupt_keeps_the_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let child = whyfast()
        .args([
            "compare",
            "--pairs",
            "100",
            "--duration",
            "100ms",
            "--warmup",
            "10ms",
            "--format",
            "json",
        ])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    let mut stderr = std::io::BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    // The first line with figures ends the first block of rounds.
    while !line.contains("req/s") {
        line.clear();
        assert_ne!(
            std::io::BufRead::read_line(&mut stderr, &mut line).unwrap(),
            0
        );
    }
    Command::new("kill")
        .args(["-INT", &child.0.id().to_string()])
        .status()
        .unwrap();
    let mut json = Vec::new();
    std::io::Read::read_to_end(child.0.stdout.as_mut().unwrap(), &mut json).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let recording = assert_valid(&json);
    assert_eq!(recording.partial.unwrap().why, "interrupted");
    assert!(recording.rounds.len() >= 2);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
