//! `whyfast compare` on the built-in server.

use std::process::{Command, Stdio};

use recording::{GateStatus, Probes, Round, RoundRole, VerdictWord};

use crate::{Mortal, assert_valid, run, said, whyfast};

const SHORT: [&str; 9] = [
    "compare",
    // Whatever else profiles on this machine is not what is tested.
    "--allow-mismatch",
    "G13",
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
        .filter(|round| round.probes == Probes::Off && round.role == RoundRole::Main);
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

/// The protocol of a published claim: beside the rounds of the pair a second copy of the first arm,
/// both arms with more connections and at each equal rate, and the client against a minimal responder
/// that answers with as many bytes.
#[test]
fn published_claims_have_their_control_rounds() {
    let published = [
        "compare",
        "--publish",
        "--no-probes",
        "--pairs",
        "1",
        "--duration",
        "100ms",
        "--warmup",
        "20ms",
        "--format",
        "json",
    ];
    let output = run(&published);
    let recording = assert_valid(&output.stdout);
    let rounds = |role: fn(&RoundRole) -> bool| -> Vec<&Round> {
        let rounds = recording.rounds.iter();
        rounds.filter(|round| role(&round.role)).collect()
    };
    let names = |rounds: &[&Round]| -> Vec<String> {
        let names = rounds.iter().map(|round| round.arm.clone());
        names.collect()
    };
    let main = rounds(|role| *role == RoundRole::Main);
    assert_eq!(names(&main), ["sendfile", "open-read"]);
    assert_eq!(names(&rounds(|role| *role == RoundRole::Aa)), ["sendfile"]);
    let more = rounds(|role| *role == RoundRole::MoreConnections { connections: 96 });
    assert_eq!(names(&more), ["sendfile", "open-read"]);
    let equal = rounds(|role| matches!(role, RoundRole::EqualRate { .. }));
    assert_eq!(equal.len(), 6);
    for pair in equal.chunks(2) {
        assert_eq!(pair[0].role, pair[1].role);
        assert_ne!(pair[0].arm, pair[1].arm);
    }
    let null = rounds(|role| *role == RoundRole::NullServer);
    assert_eq!(names(&null), [""]);
    let bytes_per_response = |round: &Round| {
        let load = round.load.as_ref().unwrap();
        load.traffic.received_bytes / load.ledger.ok.max(1)
    };
    let (null, first) = (bytes_per_response(null[0]), bytes_per_response(main[0]));
    assert!(null.abs_diff(first) <= 1, "{null} {first}");
    for round in &recording.rounds {
        assert_eq!(round.failed, None);
        assert!(round.profile.is_none());
        assert!(round.machine_cpu.is_some());
    }
}
