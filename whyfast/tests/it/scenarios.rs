//! Scenarios over HTTP/2 and TLS on a real server: nginx, twice, started as commands.

use std::process::Command;

use recording::{GateStatus, Probes, Protocol, Recording};

use crate::{assert_valid, run, said, skip};

/// nginx as an arm, with these words after the port of `listen` and these directives.
fn nginx(name: &str, listen: &str, directives: &str) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {{dir}}/{what}; "))
        .concat();
    format!(
        "{name}=cmd:echo \"daemon off; worker_processes 1; pid {{dir}}/pid; events {{ }} http {{ \
         access_log off; keepalive_requests 1000000; gzip on; default_type text/html; {temporary} \
         server {{ listen 127.0.0.1:{{port}} {listen}; root {{root}}; ssl_certificate {{cert}}; \
         ssl_certificate_key {{key}}; ssl_protocols TLSv1.2 TLSv1.3; {directives} }} }}\" \
         > {{dir}}/nginx.conf; PATH=$PATH:/usr/sbin exec nginx -p {{dir}} -e {{dir}}/error.log \
         -c {{dir}}/nginx.conf"
    )
}

/// Compares two of them; `None`, said aloud, where there is no nginx.
fn compare(test: &str, arms: [&str; 2], options: &[&str]) -> Option<(Recording, Option<i32>)> {
    let found = Command::new("sh")
        .args(["-c", "PATH=$PATH:/usr/sbin command -v nginx"])
        .output();
    if !found.is_ok_and(|output| output.status.success()) {
        skip(test, "nginx is not installed");
        return None;
    }
    let short = [
        "--pairs",
        "1",
        // Whatever else profiles on this machine is not what is tested.
        "--allow-mismatch",
        "G13",
        "--format",
        "json",
    ];
    let words = [&["compare"], &arms[..], options, &short].concat();
    let output = run(&words);
    assert!(!output.stdout.is_empty(), "{}", said(&output));
    let recording = assert_valid(&output.stdout);
    for round in &recording.rounds {
        assert_eq!(round.failed, None);
        let load = round.load.as_ref().unwrap();
        assert!(load.ledger.balances());
        assert_eq!(load.ledger.failed_total(), 0);
    }
    Some((recording, output.status.code()))
}

fn status(recording: &Recording, id: &str) -> GateStatus {
    let gate = recording.gates.iter().find(|gate| gate.id == id).unwrap();
    gate.status
}

/// A page over HTTP/2 and TLS 1.3: compressed, on the pinned cipher suite and the key of the scenario,
/// exactly as many requests as were asked for, with and without probes.
#[test]
fn a_page_over_http2() {
    let arms = [
        nginx("a", "ssl http2", ""),
        nginx("b", "ssl http2", "ssl_prefer_server_ciphers on;"),
    ];
    let options = [
        "--scenario",
        "h2-tls13-page",
        "-n",
        "300",
        "-c",
        "5",
        "-m",
        "3",
    ];
    let Some((recording, code)) = compare(
        "scenarios::a_page_over_http2",
        [&arms[0], &arms[1]],
        &options,
    ) else {
        return;
    };
    assert!(matches!(code, Some(0 | 4)), "{code:?}");
    let scenario = recording.scenario.as_ref().unwrap();
    assert_eq!(
        (scenario.protocol, scenario.streams),
        (Protocol::Http2, Some(3))
    );
    assert_eq!(scenario.requests, Some(300));
    for arm in &recording.arms {
        let response = arm.response.as_ref().unwrap();
        assert_eq!(response.content_encoding.as_deref(), Some("gzip"));
        assert_eq!(response.framing, "end-stream");
        // What gzip leaves of the 6,552 bytes of the page.
        assert!(
            (1886..=2306).contains(&response.body_bytes),
            "{}",
            response.body_bytes
        );
        let tls = response.tls.as_ref().unwrap();
        assert_eq!(
            (&*tls.version, &*tls.cipher, tls.group.as_deref()),
            ("TLSv1.3", "TLS_AES_128_GCM_SHA256", Some("X25519"))
        );
        assert_eq!(
            (&*tls.certificate_key, tls.alpn.as_deref()),
            ("RSA 2048", Some("h2"))
        );
    }
    assert!(
        recording
            .rounds
            .iter()
            .any(|round| round.probes == Probes::Off)
    );
    for round in &recording.rounds {
        let load = round.load.as_ref().unwrap();
        assert_eq!(load.ledger.ok, 300);
        assert_eq!(load.tls.as_ref().unwrap().full_handshakes, 5);
        // A second stream begins when the first response of a connection is there.
        assert_eq!(load.http2.as_ref().unwrap().streams_max, 3);
        assert!(
            round
                .profile_requests
                .is_none_or(|requests| (requests - 300.0).abs() < 1e-9)
        );
    }
    assert_eq!(status(&recording, "G2"), GateStatus::Ok);
    assert_eq!(status(&recording, "G3"), GateStatus::Ok);
}

/// A new connection with a full handshake for each request, on a key of another kind.
#[test]
fn new_connections() {
    let arms = [nginx("a", "ssl", ""), nginx("b", "ssl", "sendfile on;")];
    let options = [
        "--scenario",
        "tls-new-connections",
        "--tls-key",
        "p-256",
        "-n",
        "40",
    ];
    let Some((recording, code)) =
        compare("scenarios::new_connections", [&arms[0], &arms[1]], &options)
    else {
        return;
    };
    assert!(matches!(code, Some(0 | 4)), "{code:?}");
    for round in &recording.rounds {
        let load = round.load.as_ref().unwrap();
        let tls = load.tls.as_ref().unwrap();
        assert_eq!((load.ledger.ok, tls.resumed_handshakes), (40, 0));
        // Those of the warm-up, a tenth, are not in the window and are in the account of handshakes.
        assert!(tls.full_handshakes >= 44, "{}", tls.full_handshakes);
        let [kind] = &tls.negotiated[..] else {
            panic!("{:?}", tls.negotiated)
        };
        assert_eq!(kind.certificate_key, "ECDSA P-256");
        assert_eq!(load.traffic.body_bytes, 40 * 18_605);
    }
    assert_eq!(status(&recording, "G4"), GateStatus::Ok);
}

/// Servers that choose other versions of TLS are refused before anything is measured; as published they
/// are compared all the same, and the reason is named.
#[test]
fn other_sessions_are_refused_unless_published() {
    let arms = [
        nginx("a", "ssl", ""),
        nginx("b", "ssl", "ssl_conf_command MaxProtocol TLSv1.2;"),
    ];
    let arms = [&*arms[0], &arms[1]];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let scenario = "summary = \"s\"\nbody_bytes = 10\nconnections = 2\nrequests = 20\n[tls]\n\
                [[as_published.unfair]]\ngate = \"G2\"\nwhat = \"each had a version of its own\"";
    std::fs::write(&path, scenario).unwrap();
    let mine = path.to_str().unwrap();
    let test = "scenarios::other_sessions_are_refused_unless_published";
    let Some((recording, code)) = compare(test, arms, &["--scenario", mine]) else {
        return;
    };
    assert_eq!((code, recording.rounds.len()), (Some(5), 0));
    assert_eq!(status(&recording, "G2"), GateStatus::Refuse);
    let options = ["--scenario", mine, "--as-published"];
    let (recording, code) = compare(test, arms, &options).unwrap();
    assert!(matches!(code, Some(0 | 4)), "{code:?}");
    let gate = recording.gates.iter().find(|gate| gate.id == "G2").unwrap();
    assert_eq!(gate.status, GateStatus::Allowed);
    assert_eq!(gate.fix, "as published: each had a version of its own");
}

/// The built-in server speaks what a scenario speaks, and refuses what its spec cannot have there.
#[test]
fn the_built_in_server_speaks_the_scenario() {
    for scenario in ["h2-tls13-page", "tls-terminator-keepalive"] {
        let output = run(&[
            "compare",
            "testserver:memory",
            "testserver:pread",
            "--scenario",
            scenario,
            "--requests",
            "400",
            "--pairs",
            "1",
            "--connections",
            "4",
            "--no-probes",
            "--format",
            "json",
        ]);
        let recording = Recording::parse(&output.stdout).expect("a recording");
        assert_eq!(status(&recording, "G2"), GateStatus::Ok, "{scenario}");
        let rounds = &recording.rounds;
        assert!(
            rounds.iter().all(|round| round.failed.is_none()),
            "{scenario}"
        );
        assert!(
            rounds
                .iter()
                .filter_map(|round| round.load.as_ref())
                .count()
                >= 2
        );
    }
    for (arm, options, said_then) in [
        (
            "testserver:sendfile",
            &["--tls-key", "p-256"][..],
            "tls is not possible here",
        ),
        ("testserver:memory,h2=1", &[], "h2 is not possible here"),
    ] {
        let output = run(&[&["compare", arm, "testserver:memory"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(said_then), "{}", said(&output));
    }
}

/// A server that takes nothing of what is offered is told what that is, over both versions of HTTP.
#[test]
fn what_is_offered_is_said_where_a_handshake_fails() {
    let old = "ssl_protocols TLSv1.2;";
    let offered = "TLS 1.3, TLS_AES_128_GCM_SHA256, X25519";
    for (scenario, listen) in [
        ("h2-tls13-page", "ssl http2"),
        ("tls-terminator-keepalive", "ssl"),
    ] {
        let arms = ["a", "b"]
            .map(|name| nginx(name, listen, "").replace("ssl_protocols TLSv1.2 TLSv1.3;", old));
        let output = run(&["compare", &arms[0], &arms[1], "--scenario", scenario]);
        if said(&output).contains("nginx: not found") {
            return skip("scenarios::what_is_offered", "nginx is not installed");
        }
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(offered), "{}", said(&output));
        assert!(said(&output).contains("ssl_protocols"), "{}", said(&output));
    }
}
