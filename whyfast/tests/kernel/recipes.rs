//! Recipes on real servers: each answers with the right body over each transport that it speaks, and the
//! hops of a chain add up to the whole.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use recording::{GroupBy, Recording, Round, hex};
use sha2::{Digest as _, Sha256};

use crate::missing;
use crate::whyfast::recording;

/// Requests of a window.
const REQUESTS: u64 = 200;
/// What is served.
const BODY_BYTES: usize = 12;

/// What one scenario speaks, and the servers that do, with their programs.
struct Case {
    scenario: &'static str,
    arms: &'static [(&'static str, &'static str)],
}

/// HTTP/1.1 in clear, over TLS, and HTTP/2 over TLS.
const CASES: [Case; 3] = [
    Case {
        scenario: "",
        arms: &[
            ("nginx", "nginx"),
            ("nginx:default", "nginx"),
            ("h2o", "h2o"),
            ("caddy", "caddy"),
            ("haproxy", "haproxy"),
            ("lighttpd", "lighttpd"),
            ("node", "node"),
        ],
    },
    Case {
        scenario: "[tls]\nkey = \"rsa-2048\"\n",
        arms: &[
            ("nginx", "nginx"),
            ("h2o", "h2o"),
            ("caddy", "caddy"),
            ("haproxy", "haproxy"),
            ("lighttpd", "lighttpd"),
            ("node", "node"),
        ],
    },
    Case {
        scenario: "protocol = \"http2\"\n[tls]\nkey = \"p-256\"\n",
        arms: &[
            ("nginx", "nginx"),
            ("h2o", "h2o"),
            ("caddy", "caddy"),
            ("haproxy", "haproxy"),
            ("lighttpd", "lighttpd"),
            ("node", "node"),
        ],
    },
];

/// Every server that is installed answers with the file, over each transport.
#[test]
fn servers_answer_over_every_transport() {
    for case in CASES {
        let absent = |program: &str| crate::find(program).is_none();
        let (gone, here): (Vec<_>, Vec<_>) =
            case.arms.iter().partition(|(_, program)| absent(program));
        let gone: Vec<&str> = gone.iter().map(|(_, program)| *program).collect();
        missing("servers_answer_over_every_transport", &gone);
        let arms: Vec<&str> = here.iter().map(|(arm, _)| *arm).collect();
        if !arms.is_empty() {
            check(&lock_step(case.scenario, &arms), &arms);
        }
    }
}

/// The hops of every chain serve the file together, and their calls add up to those of the arm.
#[test]
fn chains_answer_and_add_up() {
    let name = "chains_answer_and_add_up";
    if missing(name, &["haproxy", "hitch", "nginx", "varnishd"]) {
        return;
    }
    let clear = ["nginx-nginx", "haproxy-nginx", "haproxy-nginx:cache"];
    let tls = [
        "hitch-haproxy-nginx",
        "hitch-varnish-nginx",
        "haproxy-nginx",
    ];
    let http2 = "protocol = \"http2\"\n[tls]\nkey = \"rsa-2048\"\n";
    for (scenario, arms) in [
        ("", clear),
        ("[tls]\nkey = \"rsa-2048\"\n", tls),
        (http2, tls),
    ] {
        let recording = lock_step(scenario, &arms);
        check(&recording, &arms);
        for arm in arms {
            check_hops(&recording, arm);
        }
    }
}

/// Counts requests one at a time. What heads look like and which suite is chosen is not what is tested.
fn lock_step(scenario: &str, arms: &[&str]) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.toml");
    // Top-level keys stand before tables.
    let (top, tables) = scenario.split_at(scenario.find('[').unwrap_or(scenario.len()));
    let text = format!(
        "summary = \"a short file\"\nbody_bytes = {BODY_BYTES}\nconnections = 1\n{top}{tables}"
    );
    fs::write(&file, text).unwrap();
    let requests = REQUESTS.to_string();
    let mut arguments = vec![
        "compare",
        "--scenario",
        path(&file),
        "--lock-step",
        &requests,
    ];
    for gate in ["G1", "G2", "G3", "G4", "G8", "G13"] {
        arguments.extend(["--allow-mismatch", gate]);
    }
    arguments.extend(arms);
    let (recording, output) = recording(&arguments);
    assert!(
        recording.rounds.len() >= arms.len(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    recording
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Every arm answered with the body, said its version, and none of its rounds failed.
fn check(recording: &Recording, arms: &[&str]) {
    let body = hex(&Sha256::digest(vec![b'x'; BODY_BYTES]));
    assert_eq!(recording.arms.len(), arms.len());
    for arm in &recording.arms {
        let response = arm.response.as_ref().expect("it was asked");
        let statuses: Vec<u16> = response.statuses.keys().copied().collect();
        assert_eq!(statuses, [200], "{}", arm.name);
        assert_eq!(response.body_sha256, body, "{}", arm.name);
        assert!(arm.version.is_some(), "{}", arm.name);
        let round = round_of(recording, &arm.name);
        assert_eq!(round.failed, None, "{}", arm.name);
        let load = round.load.as_ref().expect("it was loaded");
        assert_eq!(load.ledger.ok, REQUESTS, "{}", arm.name);
    }
}

/// Each process belongs to one hop, the calls of all hops are those of the arm, and so is their CPU
/// time. Between requests all is quiet, so that nothing is cut at the edges; what timers do meanwhile is
/// all that may be missing.
fn check_hops(recording: &Recording, arm: &str) {
    let described = recording.arms.iter().find(|a| a.name == arm).unwrap();
    let round = round_of(recording, arm);
    let names: Vec<&str> = described.hops.iter().map(|hop| hop.name.as_str()).collect();
    let hops: Vec<&str> = round.hops.iter().map(|hop| hop.hop.as_str()).collect();
    assert_eq!(names, hops, "{arm}");
    assert!(described.hops.iter().all(|hop| hop.version.is_some()));
    let pids: Vec<u32> = round.hops.iter().flat_map(|hop| hop.pids.clone()).collect();
    let distinct: BTreeSet<u32> = pids.iter().copied().collect();
    assert_eq!(distinct.len(), pids.len(), "{arm}");

    let profile = round.profile.as_ref().expect("it was profiled");
    assert_eq!(profile.grouped_by, Some(GroupBy::Process));
    let whole: u64 = profile.calls.iter().map(|row| row.count).sum();
    let groups = profile.groups.iter();
    let in_hops: u64 = groups
        .filter(|group| group.id.is_some_and(|pid| distinct.contains(&pid)))
        .flat_map(|group| group.calls.iter().map(|call| call.count))
        .sum();
    assert!(whole >= 4 * REQUESTS, "{arm}: {whole}");
    let rest = whole.abs_diff(in_hops);
    assert!(rest <= TIMERS, "{arm}: {whole} calls, {in_hops} of hops");

    let cpu = round.server_cpu.as_ref().expect("its clocks were read");
    let by_process = cpu.by_process.iter();
    let in_hops = by_process.filter(|process| distinct.contains(&process.pid));
    let in_hops: u64 = in_hops.map(|process| process.total_ns).sum();
    assert_eq!(in_hops, cpu.total_ns, "{arm}");
}

/// Calls of timers and of threads that look after others, which do not wait for requests.
const TIMERS: u64 = 60;

fn round_of<'a>(recording: &'a Recording, arm: &str) -> &'a Round {
    let mut rounds = recording.rounds.iter();
    rounds
        .find(|round| round.arm == arm)
        .expect("it has a round")
}
