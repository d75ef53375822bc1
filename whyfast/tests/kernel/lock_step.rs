//! Exact counts: requests one at a time, every system call of the server accounted for.

use std::collections::BTreeMap;

use recording::{Probes, Recording, Round};
use testserver::{CallCount, Config, Style};

use crate::missing;
use crate::strace::{Rows, rows};
use crate::whyfast::recording;

/// Ways to wait and to read, and costs that are added; the styles by themselves come on top.
const SPECS: &[&str] = &[
    "memory,poller=epoll-edge",
    "memory,poller=io-uring",
    "memory,poller=poll,read=eagain",
    "memory,poller=select",
    "memory,max-events=1,spin-us=5",
    "memory,getppid=10,fstat=2",
    "sendfile,open=1",
    "sendfile,split=4",
    "memory,sleep-us=1",
    "memory,lock-us=1,workers=4,accept=exclusive",
];

/// Requests of a window.
const REQUESTS: u64 = 10_000;

/// 10,000 requests to each style of the built-in server, in each way to wait and to read, and with
/// each cost that it can add, give exactly the documented calls.
#[test]
fn built_in_server_makes_the_documented_calls() {
    let specs: Vec<String> = SPECS
        .iter()
        .map(|&spec| spec.to_owned())
        .chain(Style::ALL.map(|style| style.name().to_owned()))
        .collect();
    let arms: Vec<String> = specs
        .iter()
        .map(|spec| format!("testserver:{spec}"))
        .collect();
    let mut arguments = vec!["compare", "--lock-step", "10000"];
    arguments.extend(arms.iter().map(String::as_str));
    let (recording, output) = recording(&arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for spec in &specs {
        assert_eq!(
            counts(round_of(&recording, spec)),
            documented(spec),
            "{spec}"
        );
    }
}

/// Over TLS, and over HTTP/2 on top, requests to the built-in server give exactly the documented
/// calls; so they do over HTTP/2 in clear, but for the reads that find the end of a buffer.
#[test]
fn built_in_server_makes_the_documented_calls_over_tls_and_http2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tls = "[tls]\nkey = \"p-256\"\n";
    let styles = ["memory", "open-read", "pread"];
    let http1 = [
        "write-parts,split=2",
        "memory,poller=io-uring,read=eagain",
        "pread,poller=poll,getppid=3",
    ];
    let all = [&styles[..], &http1].concat();
    for (http2, encrypted, styles) in [
        (false, true, &all[..]),
        (true, true, &styles),
        (true, false, &styles),
    ] {
        let protocol = if http2 { "http2" } else { "http1" };
        let encryption = if encrypted { tls } else { "" };
        let scenario = folder.path().join("scenario.toml");
        let text = format!(
            "summary = \"one byte\"\nprotocol = \"{protocol}\"\nbody_bytes = 1\nconnections = 1\n{encryption}"
        );
        std::fs::write(&scenario, text).expect("a private folder");
        let scenario = scenario.display().to_string();
        let arms: Vec<String> = styles
            .iter()
            .map(|style| format!("testserver:{style}"))
            .collect();
        let mut arguments = vec!["compare", "--lock-step", "10000", "--scenario", &scenario];
        arguments.extend(arms.iter().map(String::as_str));
        let (recording, output) = recording(&arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for style in styles {
            let (tls, h2) = (u8::from(encrypted), u8::from(http2));
            let spec = format!("{style},tls={tls},h2={h2}");
            let mut counted = counts(round_of(&recording, style));
            if !encrypted && let Some((receives, _)) = counted.get_mut("recvfrom") {
                // h2 has room for kibibytes, and a request takes 14 bytes of it.
                assert!((REQUESTS..REQUESTS + REQUESTS / 100).contains(receives));
                *receives = REQUESTS;
            }
            assert_eq!(counted, documented(&spec), "{spec}");
        }
    }
}

/// The calls and failed calls of all requests, by the table of the built-in server.
fn documented(spec: &str) -> Rows {
    let config = Config::parse(spec).expect("a valid spec");
    let calls = config.calls_per_request();
    let row = |call: &CallCount| {
        let [count, failing] = [call.per_request, call.failing].map(|n| u64::from(n) * REQUESTS);
        (call.name.to_owned(), (count, failing))
    };
    calls.iter().map(row).collect()
}

/// nginx and h2o, as in the published comparison, make exactly the calls that strace shows.
#[test]
fn nginx_and_h2o_make_the_known_calls() {
    if missing("nginx_and_h2o_make_the_known_calls", &["nginx", "h2o"]) {
        return;
    }
    let (recording, output) = recording(&["compare", "nginx", "h2o", "--lock-step", "10000"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let check = |arm: &str, wanted: &[(&str, u64)]| {
        let wanted: BTreeMap<String, (u64, u64)> = wanted
            .iter()
            .map(|&(name, per_request)| (name.to_owned(), (per_request * REQUESTS, 0)))
            .collect();
        let counts = counts(round_of(&recording, arm));
        // A timer may fire inside the window; what is not per request is not of the requests.
        let per_request: BTreeMap<_, _> = counts
            .into_iter()
            .filter(|(_, (count, _))| *count >= REQUESTS / 100)
            .collect();
        assert_eq!(per_request, wanted, "{arm}");
    };
    check(
        "nginx",
        &[
            ("epoll_wait", 1),
            ("recvfrom", 1),
            ("sendfile", 1),
            ("setsockopt", 2),
            ("writev", 1),
        ],
    );
    check(
        "h2o",
        &[
            ("close", 1),
            ("epoll_wait", 1),
            ("newfstatat", 1),
            ("openat", 1),
            ("pread64", 1),
            ("read", 1),
            ("writev", 1),
        ],
    );
}

/// nginx over HTTP/2 and TLS, a page that it compresses: exactly the calls that `strace -c` shows for a
/// request, of which the second read of its turn finds nothing.
#[test]
fn a_compressed_page_over_http2_makes_the_known_calls() {
    if missing(
        "a_compressed_page_over_http2_makes_the_known_calls",
        &["nginx"],
    ) {
        return;
    }
    let nginx = "nginx=cmd:echo \"daemon off; worker_processes 1; pid {dir}/pid; events { } http { \
                 access_log off; keepalive_requests 1000000; gzip on; default_type text/html; \
                 client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; \
                 uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e; server { listen 127.0.0.1:{port} ssl \
                 http2; ssl_protocols TLSv1.3; root {root}; ssl_certificate {cert}; ssl_certificate_key {key}; } }\" \
                 > {dir}/nginx.conf; PATH=$PATH:/usr/sbin exec nginx -p {dir} -e {dir}/error.log \
                 -c {dir}/nginx.conf";
    let requests = REQUESTS.to_string();
    let (recording, output) = recording(&[
        "compare",
        nginx,
        "--scenario",
        "h2-tls13-page",
        "--lock-step",
        &requests,
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let per_request: BTreeMap<_, _> = counts(round_of(&recording, "nginx"))
        .into_iter()
        .filter(|(_, (count, _))| *count >= REQUESTS / 100)
        .collect();
    let calls = [
        "close",
        "epoll_wait",
        "newfstatat",
        "openat",
        "pread64",
        "write",
    ];
    let mut wanted: BTreeMap<String, (u64, u64)> = calls
        .iter()
        .map(|&name| (name.to_owned(), (REQUESTS, 0)))
        .collect();
    wanted.insert("read".to_owned(), (2 * REQUESTS, REQUESTS));
    assert_eq!(per_request, wanted);
}

fn round_of<'a>(recording: &'a Recording, arm: &str) -> &'a Round {
    let round = recording
        .rounds
        .iter()
        .find(|round| round.arm == arm)
        .expect("the arm has a round");
    assert_eq!(round.failed, None);
    assert_eq!(round.probes, Probes::On);
    assert_eq!(round.profile_requests, Some(REQUESTS as f64));
    let profile = round.profile.as_ref().expect("the round is profiled");
    assert_eq!(profile.lost.of_calls(), 0);
    round
}

fn counts(round: &Round) -> Rows {
    rows(round.profile.as_ref().expect("the round is profiled"))
}
