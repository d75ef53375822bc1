//! `whyfast load` against the built-in server.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::{Mortal, assert_valid, run, said, server, whyfast};

/// Exactly as many requests as asked, all accounted for, in JSON that fits the schema.
#[test]
fn count_is_exact() {
    let (_server, url) = server("open-read");
    let arguments = [
        "load",
        &url,
        "-n",
        "1003",
        "-c",
        "7",
        "-t",
        "2",
        "--requests-per-connection",
        "10",
    ];
    let output = run(&[&arguments[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let recording = assert_valid(&output.stdout);
    let load = recording.rounds[0].load.as_ref().unwrap();
    assert_eq!((load.ledger.sent, load.ledger.ok), (1003, 1003));
    assert!(load.ledger.balances());
    assert_eq!(load.statuses.get(&200), Some(&1003));
    let connections = &load.connections;
    assert!(connections.open_at_start + connections.established >= 1003_u64.div_ceil(10));
    assert_eq!(load.latency.as_ref().unwrap().count, 1003);
    for format in ["text", "markdown"] {
        let text = run(&["load", &url, "-n", "10", "--format", format]).stdout;
        assert!(String::from_utf8_lossy(&text).contains("10"), "{format}");
    }
}

/// A server that refuses is named, with what to do.
#[test]
fn refused_says_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let output = run(&["load", &url, "-n", "10"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("start the server"),
        "{}",
        said(&output)
    );
}

/// Failed requests are no throughput: the limit is broken.
#[test]
fn errors_exit_with_3() {
    let (_server, url) = server("sendfile");
    let wrong = format!("{}nowhere", url.trim_end_matches("body"));
    let output = run(&["load", &wrong, "-n", "10", "--format", "json"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let recording = assert_valid(&output.stdout);
    let ledger = &recording.rounds[0].load.as_ref().unwrap().ledger;
    assert_eq!((ledger.ok, ledger.failed_total()), (0, 10));
    let allowed = run(&["load", &wrong, "-n", "10", "--max-errors", "100"]);
    assert_eq!(allowed.status.code(), Some(0));
}

/// Ctrl-C keeps the results so far, marked as partial.
#[test]
fn interrupt_keeps_the_results() {
    let (_server, url) = server("sendfile");
    let child = whyfast()
        .args([
            "load", &url, "-d", "1h", "-c", "4", "--format", "json", "-i", "50ms",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    until_loading(child.0.id());
    let kill = Command::new("kill")
        .args(["-INT", &child.0.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    let mut json = Vec::new();
    std::io::Read::read_to_end(child.0.stdout.as_mut().unwrap(), &mut json).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let recording = assert_valid(&json);
    assert_eq!(recording.partial.unwrap().why, "interrupted");
    let load = recording.rounds[0].load.as_ref().unwrap();
    assert!(load.ledger.balances());
}

/// Waits until the process has used some CPU time: it is past its start.
fn until_loading(pid: u32) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        if ticks >= 5 {
            return;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the load did not begin"
        );
        // Nothing unparks it; it only leaves the CPU to what is waited for.
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}

/// What authenticates is not stored.
#[test]
fn secrets_are_not_stored() {
    let (_server, url) = server("sendfile");
    let with_query = format!("{url}?token=SECRET");
    let output = run(&[
        "load",
        &with_query,
        "-n",
        "3",
        "-H",
        "Authorization: Bearer SECRET",
        "-H",
        "Cookie:SECRET",
        "--format",
        "json",
        "--max-errors",
        "100",
    ]);
    let json = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_valid(&output.stdout);
    assert!(!json.contains("SECRET"), "{json}");
    assert!(json.contains("sha256:"), "{json}");
}
