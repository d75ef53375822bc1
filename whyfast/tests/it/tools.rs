//! `whyfast load --format h2load|httperf|wrk` beside the real tools, against the same server: what
//! does not depend on time is equal.

use std::process::Command;

use crate::{run, said, server, skip};

/// The lines of an output that begin with one of some texts.
pub(crate) fn lines<'a>(text: &'a str, starts: &[&str]) -> Vec<&'a str> {
    let begins = |line: &&str| starts.iter().any(|start| line.starts_with(start));
    text.lines().filter(begins).collect()
}

/// What a tool prints; `None`, said aloud, where it is not installed.
pub(crate) fn tool(name: &str, test: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(name).args(arguments).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            skip(test, &format!("{name}: {error}"));
            None
        }
    }
}

pub(crate) fn ours(arguments: &[&str]) -> String {
    let output = run(&[&["load"], arguments].concat());
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Counts and bytes are those of h2load, to the last byte.
#[test]
fn h2load_agrees() {
    let (_server, url) = server("open-read");
    let shape = ["-n", "1003", "-c", "7", "-t", "2"];
    let Some(theirs) = tool(
        "h2load",
        "h2load_agrees",
        &[&shape[..], &["--h1", &url]].concat(),
    ) else {
        return;
    };
    let ours = ours(&[&shape[..], &[&url, "--format", "h2load"]].concat());
    let exact = [
        "starting",
        "spawning",
        "Application",
        "progress",
        "requests:",
        "status codes:",
        "traffic:",
    ];
    assert_eq!(lines(&ours, &exact), lines(&theirs, &exact));
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

/// A server that says no is counted as h2load counts it.
#[test]
fn h2load_agrees_on_failures() {
    let (_server, url) = server("open-read");
    let url = format!("{}nowhere", url.trim_end_matches("body"));
    let shape = ["-n", "100", "-c", "3"];
    let test = "h2load_agrees_on_failures";
    let Some(theirs) = tool("h2load", test, &[&shape[..], &["--h1", &url]].concat()) else {
        return;
    };
    let arguments = ["load", &url, "--format", "h2load", "--max-errors", "100"];
    let output = run(&[&arguments[..], &shape].concat());
    let ours = String::from_utf8_lossy(&output.stdout).into_owned();
    let exact = ["requests:", "status codes:"];
    assert_eq!(lines(&ours, &exact), lines(&theirs, &exact));
}

/// Counts, sizes and errors are those of httperf.
#[test]
fn httperf_agrees() {
    let (_server, url) = server("open-read");
    let rest = url.strip_prefix("http://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let (host, port) = authority.split_once(':').unwrap();
    let path = format!("/{path}");
    let arguments = [
        "--server",
        host,
        "--port",
        port,
        "--uri",
        &path,
        "--num-conns",
        "10",
        "--num-calls",
        "20",
    ];
    let Some(theirs) = tool("httperf", "httperf_agrees", &arguments) else {
        return;
    };
    check_httperf(&theirs, &[&url]);
}

/// Compares what httperf printed of 10 connections with 20 calls each with a load of ours.
pub(crate) fn check_httperf(theirs: &str, target: &[&str]) {
    let shape = ["-n", "200", "-c", "10", "--requests-per-connection", "20"];
    let ours = ours(&[target, &shape, &["--format", "httperf"]].concat());
    let exact = ["Connection length", "Reply size", "Reply status", "Errors"];
    assert_eq!(lines(&ours, &exact), lines(theirs, &exact));
    let total = |text: &str| -> Vec<String> {
        let line = lines(text, &["Total:"])[0];
        line.split(' ').take(7).map(str::to_owned).collect()
    };
    assert_eq!(total(&ours), total(theirs));
}

/// What wrk, or we in its layout, say of requests and bytes.
pub(crate) struct Shown {
    requests: u64,
    /// Bytes as they were printed, with their unit.
    bytes: String,
    line: String,
}

impl Shown {
    /// Reads `N requests in T, AMOUNT read`.
    pub(crate) fn of_wrk(text: &str) -> Self {
        let line = text.lines().find(|line| line.contains(" requests in "));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        Self {
            requests: words[0].parse().unwrap(),
            bytes: words[4].to_owned(),
            line: line.to_owned(),
        }
    }

    /// The bytes of one response, head and body, to the last one.
    pub(crate) fn response_bytes(arguments: &[&str]) -> u64 {
        let json = ours(&[arguments, &["-n", "10", "--format", "json"]].concat());
        let recording = recording::Recording::parse(json.as_bytes()).unwrap();
        let load = recording.rounds[0].load.as_ref().unwrap();
        let received = match &load.tls {
            None => load.traffic.received_bytes,
            Some(tls) => tls.clear_received_bytes,
        };
        assert_eq!((load.ledger.ok, received % 10), (10, 0));
        received / 10
    }

    /// Every request has its response, and each connection can have one more under way at the end,
    /// of which some bytes were read: what was printed is one of those figures, rounded as wrk rounds.
    pub(crate) fn check(&self, response: u64, connections: u64) {
        let least = self.requests * response;
        let most = least + connections * response;
        let is_printed = (least..=most).any(|bytes| binary(bytes) == self.bytes);
        assert!(is_printed, "{} at {response} bytes each", self.line);
    }
}

/// Bytes as wrk prints them: the next unit from 0.85 of it on, with two decimals.
fn binary(bytes: u64) -> String {
    let mut amount = bytes as f64;
    let mut units = ["B", "KB", "MB", "GB"].into_iter();
    let mut unit = units.next().unwrap();
    for next in units {
        if amount < 1024.0 * 0.85 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    format!("{amount:.2}{unit}")
}

/// Requests and bytes are those of wrk, as exactly as it prints them.
#[test]
fn wrk_agrees() {
    let (_server, url) = server("open-read");
    let shape = ["-d", "1", "-c", "4", "-t", "2", &url];
    let Some(theirs) = tool("wrk", "wrk_agrees", &[&["--latency"], &shape[..]].concat()) else {
        return;
    };
    let ours = ours(&[&shape[..], &["--format", "wrk"]].concat());
    let response = Shown::response_bytes(&[&url]);
    for text in [&theirs, &ours] {
        Shown::of_wrk(text).check(response, 4);
    }
    let same = ["  2 threads", "  Thread Stats", "  Latency Distribution"];
    assert_eq!(lines(&ours, &same), lines(&theirs, &same));
    assert_eq!(
        lines(&ours, &["Running 1s"]),
        lines(&theirs, &["Running 1s"])
    );
}

/// A stored load is rendered later in each of the layouts, byte for byte the same every time; what
/// is no load is refused.
#[test]
fn stored_loads_are_rendered_later() {
    let (_server, url) = server("open-read");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("load.json");
    let path = path.to_str().unwrap();
    let load = [
        "load", &url, "-n", "120", "-c", "4", "--format", "json", "-o", path,
    ];
    assert!(run(&load).status.success());
    for (format, wanted) in [
        ("csv", ",120,0,"),
        (
            "h2load",
            "requests: 120 total, 120 started, 120 done, 120 succeeded, 0 failed",
        ),
        ("httperf", "requests 120 replies 120 "),
        ("wrk", "  120 requests in "),
        ("text", "120"),
    ] {
        let again = || run(&["report", path, "--format", format]);
        let output = again();
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(wanted), "{format}: {text}");
        assert_eq!(again().stdout, output.stdout);
    }
    let profile = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../reports/tests/fixtures/profile-sh-cat.json"
    );
    let refused = run(&["report", profile, "--format", "wrk"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("recordings of `whyfast load`"));
}
