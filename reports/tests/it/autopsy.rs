//! Other tools' output: real blocks, and what follows from published comparisons.

use recording::{Autopsy, StatementKind};
use reports::autopsy::{Source, examine};
use reports::{Style, markdown, text};

/// The published comparisons.
pub(crate) const ALL: [&str; 5] = [NGINX_H2O, CADDY, NODE, NUSTER, STUD];
const NGINX_H2O: &str = include_str!("../fixtures/autopsy/nginx-h2o-wrk-strace.txt");
const CADDY: &str = include_str!("../fixtures/autopsy/caddy-nginx-h2load.txt");
const NODE: &str = include_str!("../fixtures/autopsy/node-nginx-httperf.txt");
const NUSTER: &str = include_str!("../fixtures/autopsy/nuster-nginx-h2load.txt");
const STUD: &str = include_str!("../fixtures/autopsy/stud-haproxy-sslbench.txt");

pub(crate) fn examined(text: &str) -> Autopsy {
    let source = Source { name: "file", text };
    examine(&[source], &["nginx", "h2o"]).unwrap()
}

/// The texts of a rule about a server, joined.
pub(crate) fn said(autopsy: &Autopsy, rule: &str, server: &str) -> String {
    let texts = autopsy
        .statements
        .iter()
        .filter(|statement| statement.rule == rule)
        .filter(|statement| {
            server.is_empty() || statement.servers.iter().any(|name| name == server)
        })
        .map(|statement| statement.text.as_str());
    texts.collect::<Vec<_>>().join(" | ")
}

fn assert_said(autopsy: &Autopsy, rule: &str, server: &str, parts: &[&str]) {
    let text = said(autopsy, rule, server);
    for part in parts {
        assert!(
            text.contains(part),
            "{rule} of {server}: no {part:?} in {text:?}"
        );
    }
}

/// The nine conclusions from a published comparison of nginx and h2o, whose arithmetic was done by
/// hand.
#[test]
fn conclusions_of_nginx_against_h2o() {
    let autopsy = examined(NGINX_H2O);
    let names: Vec<&str> = autopsy
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(names, ["Nginx", "h2o"]);
    let of = |rule, server, parts: &[&str]| assert_said(&autopsy, rule, server, parts);
    // 1, 6: a file cycle for each response, one write each.
    of(
        "file-cycle",
        "h2o",
        &[
            "fstat 91,971 = open 92,855 − 884 failures, exactly",
            "94,068 closes = 91,971 files + 2,097 sockets",
        ],
    );
    of(
        "requests",
        "h2o",
        &[
            "94,828",
            "92,855 responses (writev) + 1,973",
            "not multiplexed",
        ],
    );
    // 2: cork, and a cache of files that the other lacks.
    of(
        "requests",
        "Nginx",
        &["36,886 reads of sockets = 36,518 responses (writev) + 368"],
    );
    of("cork", "Nginx", &["73,036 is exactly 2"]);
    of("file-cache", "Nginx", &["open_file_cache"]);
    of("file-cache-parity", "", &["G14"]);
    // 3: a server behind its client.
    of("behind-client", "Nginx", &["26 %", "9,479 of 36,886"]);
    assert_eq!(said(&autopsy, "behind-client", "h2o"), "");
    of("batches", "Nginx", &["393 responses"]);
    of("batches", "h2o", &["163 responses"]);
    // 4: the clock in the kernel.
    of(
        "clock-in-kernel",
        "Nginx",
        &["94 calls of gettimeofday, one for each wake-up"],
    );
    // 5: an old build.
    of("poller", "", &["epoll", "select", "1.4.0"]);
    // 7: errors on both sides, and replies that came too late.
    of(
        "failed-opens",
        "h2o",
        &["884 of 92,855", "0.95 %", "874 read errors", "dropped"],
    );
    of("errors", "Nginx", &["timeout 16,410"]);
    of("errors", "h2o", &["timeout 31,151"]);
    of("late-replies", "h2o", &["8.21 s"]);
    // 8: keep-alive, similar and not equal.
    of("keep-alive", "Nginx", &["50 to 51", "1000000"]);
    of("keep-alive", "h2o", &["37 to 44"]);
    // 9: Little's law.
    of("little", "Nginx", &["5,725 in flight, of 10,000"]);
    of("little", "h2o", &["1,125 in flight", "1,024 descriptors"]);
}

/// What counts can explain at most, the suspicion about the trace, and the sentence at the end.
#[test]
fn bounds_and_suspicion_of_nginx_against_h2o() {
    let autopsy = examined(NGINX_H2O);
    let of = |rule, server, parts: &[&str]| assert_said(&autopsy, rule, server, parts);
    of(
        "counts-explain",
        "",
        &["2.073", "0.199", "9.59 %", "6.5 times"],
    );
    of(
        "file-calls-cost",
        "",
        &[
            "13.86 µs",
            "110.19 µs",
            "96.33 µs",
            "24.14 µs",
            "not supported",
        ],
    );
    of(
        "contamination",
        "h2o",
        &["10.23 s", "10.00 s", "13.55 µs", "3.39 s"],
    );
    of("other-window", "Nginx", &["506.05 ms"]);
    assert_eq!(said(&autopsy, "contamination", "Nginx"), "");
    for reason in [
        "tracing contamination suspected",
        "error rate 0.95 %",
        "file cache on one side only",
        "poller differs",
        "counts explain at most 9.59 % of the ratio",
    ] {
        assert!(
            autopsy.verdict.contains(reason),
            "{reason}: {}",
            autopsy.verdict
        );
    }
    assert!(autopsy.verdict.starts_with("not comparable"));
    assert_eq!(
        autopsy.command.as_deref(),
        Some("whyfast compare nginx h2o -c 10000 --publish")
    );
    let mut not: Vec<&str> = autopsy
        .statements
        .iter()
        .filter(|statement| statement.kind == StatementKind::DoesNotFollow)
        .map(|statement| statement.rule.as_str())
        .collect();
    not.sort_unstable();
    assert_eq!(
        not,
        [
            "calls-cause",
            "equal-responses",
            "equal-workers",
            "interval",
            "joined-windows",
            "latency",
            "slower-untraced",
            "time-per-call",
            "user-time",
        ]
    );
}

/// Averages over three runs, unequal ciphers and header bytes.
#[test]
fn conclusions_of_caddy_against_nginx() {
    let autopsy = examined(CADDY);
    assert_eq!(autopsy.servers.len(), 2);
    // (5299.41 + 5362.61 + 5223.73) / 3 and (1862.89 + 1721.05 + 1949.13) / 3.
    assert_said(
        &autopsy,
        "runs",
        "Centmin Mod Nginx 1.15.9 HTTP/2 HTTPS",
        &["3 runs (c=200)", "5295.2"],
    );
    assert_said(
        &autopsy,
        "runs",
        "Caddy 0.11.5 HTTP/2 HTTPS",
        &["3 runs", "1844.4"],
    );
    assert_said(
        &autopsy,
        "ciphers",
        "",
        &["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"],
    );
    // 5,175,000 / 25,000 bytes, and 207 / (1 - .2686) before compression.
    assert_said(
        &autopsy,
        "header-bytes",
        "",
        &["207.0", "283 before compression", "16.8"],
    );
    assert_eq!(said(&autopsy, "body-bytes", ""), "");
    assert!(
        autopsy
            .verdict
            .starts_with("not comparable: ciphers differ")
    );
    let ratio = &autopsy.ratios[0];
    assert_eq!((ratio.runs, autopsy.ratios.len()), (3, 1));
    assert!((ratio.ratio - 2.875).abs() < 0.001, "{ratio:?}");
    assert!(ratio.interval.is_some());
}

/// Connections one at a time, replies, and a client that spins.
#[test]
fn conclusions_of_node_against_nginx() {
    let autopsy = examined(NODE);
    assert_eq!(autopsy.servers.len(), 3);
    let node = "Node.js / node-spdy / Express.js";
    assert_said(
        &autopsy,
        "one-at-a-time",
        node,
        &["138.9/s", "7.20 ms", "5.80 ms (81 %)"],
    );
    assert_said(
        &autopsy,
        "one-at-a-time",
        "Nginx / SPDY Module",
        &["231.3/s", "4.00 ms"],
    );
    assert_said(&autopsy, "client-cpu", node, &["100 %", "spinning"]);
    assert_said(
        &autopsy,
        "header-bytes",
        "Nginx / SPDY Module",
        &["151.0", "240.0"],
    );
    assert_said(&autopsy, "unknown-ciphers", node, &["G2"]);
    let load = &autopsy.servers[0].loads[0];
    assert_eq!(
        (load.responses, load.body_bytes),
        (Some(10_000), Some(186_050_000))
    );
    assert!((load.latency_mean_s.unwrap() - 1.3e-3).abs() < 1e-9);
    assert!(!said(&autopsy, "capacity", "").is_empty());
}

/// Connections that were served very differently, and others that took twice as long to open.
#[test]
fn conclusions_of_nuster_against_nginx() {
    let autopsy = examined(NUSTER);
    assert_said(
        &autopsy,
        "unequal-connections",
        "nginx",
        &["110 to 5143", "378400/s", "110419/s"],
    );
    assert_eq!(said(&autopsy, "unequal-connections", "nuster"), "");
    assert_said(
        &autopsy,
        "connect-times",
        "",
        &["672.73 ms", "1.35 s", "2.0 times"],
    );
    assert_said(
        &autopsy,
        "little",
        "nginx",
        &["567,554 in flight, of 1,000,000"],
    );
    assert!(!said(&autopsy, "fair-share", "").is_empty());
}

/// The sweep over requests per connection, by who listens where.
#[test]
fn conclusions_of_stud_against_haproxy() {
    let autopsy = examined(STUD);
    let names: Vec<&str> = autopsy
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(names, ["stud (www01:8443)", "haproxy (www01:9443)"]);
    let ratios: Vec<String> = autopsy
        .ratios
        .iter()
        .map(|ratio| format!("{} {:.3}", ratio.load, ratio.ratio))
        .collect();
    // 1227.749 / 929.083, 2048.124 / 1750.121, 4297.895 / 3837.318, 6815.914 / 6149.510.
    assert_eq!(
        ratios,
        [
            "c=50 K=1 1.321",
            "c=50 K=2 1.170",
            "c=50 K=5 1.120",
            "c=50 K=10 1.108"
        ]
    );
    assert_said(
        &autopsy,
        "sweep",
        "",
        &["the gap closes", "1.321 at K=1", "1.108 at K=10"],
    );
}

/// Figures of every tool, from its real output.
#[test]
fn every_tool_is_read() {
    let load = |text: &str| {
        let autopsy = examined(text);
        let load = autopsy.servers[0].loads[0].clone();
        (load.tool, load.responses, load.rate_rps, load.body_bytes)
    };
    let file = |tool: &str, n, rate, body| (tool.to_owned(), Some(n), rate, body);
    for (text, expected) in [
        (
            include_str!("../fixtures/autopsy/ab-2.3.txt"),
            file("ab", 200, 1765.91, Some(20_000)),
        ),
        (
            include_str!("../fixtures/autopsy/hey-0.1.4.txt"),
            file("hey", 200, 92.2864, Some(20_000)),
        ),
        (
            include_str!("../fixtures/tools/h2load-1.52-n.txt"),
            file("h2load", 1000, 75_165.36, Some(612_000)),
        ),
        // 1000 replies in .034 s.
        (
            include_str!("../fixtures/tools/httperf-0.9.0.txt"),
            file("httperf", 1000, 1000.0 / 0.034, Some(612_000)),
        ),
        (
            include_str!("../fixtures/tools/wrk-4.1-latency.txt"),
            file("wrk", 108_363, 98_550.52, None),
        ),
    ] {
        assert_eq!(load(text), expected);
    }
    let perf = examined(include_str!("../fixtures/autopsy/perf-trace-6.1.txt"));
    let table = &perf.servers[0].calls[0];
    // Of `sh` and of `cat`, summed.
    assert_eq!(table.rows["openat"].calls, 38);
    assert_eq!(
        (table.rows["openat"].errors, table.rows["read"].calls),
        (17, 6)
    );
    let strace = examined(include_str!("../fixtures/strace-6.1-two-abis.txt"));
    assert_eq!(strace.servers[0].calls.len(), 2);
    for table in &strace.servers[0].calls {
        let summed: u64 = table.rows.values().map(|row| row.calls).sum();
        assert_eq!(Some(summed), table.total.map(|total| total.calls));
    }
}

/// h2load from 1.69 on, wrk2 and oha, as their sources lay them out.
#[test]
fn layouts_of_other_releases() {
    let newer = "finished in 2.00s, 500.00 req/s, 44.81KB/s\n\
        requests: 1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored, 0 timeout\n\
        traffic: 19.53KB (20000) total, 7.32KB (7500) headers (space savings 0.00%), 1000B (1000) data\n\
                     min    max    median    p95    p99    mean    sd    +/- sd\n\
        request      237us  55.33ms  600us  2.00ms  9.00ms  853us  2.87ms  96.80%\n\
        connect      2.88ms  2.88ms  2.88ms  2.88ms  2.88ms  2.90ms  0us  100.00%\n";
    let load = examined(newer).servers[0].loads[0].clone();
    assert_eq!(
        (load.latency_mean_s, load.latency_max_s),
        (Some(853e-6), Some(0.05533))
    );
    assert_eq!(load.connect_mean_s, Some(0.0029));
    let wrk2 = "Running 30s test @ http://127.0.0.1/\n  2 threads and 100 connections\n  \
        Thread calibration: mean lat.: 9747.027ms, rate sampling interval: 21ms\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
        Latency     6.46ms   1.93ms  12.34ms   67.66%\n  \
        60018 requests in 30.00s, 48.81MB read\nRequests/sec:   2000.15\nTransfer/sec:      1.63MB\n";
    let load = examined(wrk2).servers[0].loads[0].clone();
    assert_eq!((load.tool.as_str(), load.rate_rps), ("wrk2", 2000.15));
    assert_eq!(load.latency_mean_s, Some(0.00646));
    let oha = "Summary:\n  Success rate:\t80.00%\n  Total:\t2.0000 secs\n  Slowest:\t0.0032 secs\n  \
        Average:\t0.0005 secs\n  Requests/sec:\t100.0000\n\n  Total data:\t19.53 KiB\n\n\
        Status code distribution:\n  [200] 120 responses\n  [503] 40 responses\n";
    let load = examined(oha).servers[0].loads[0].clone();
    assert_eq!((load.tool.as_str(), load.responses), ("oha", Some(160)));
    // 160 of 200 ended, of which 40 were no success.
    assert_eq!((load.failures["failed"], load.failures["status"]), (40, 40));
}

/// Windows line ends, quotes and other prose change nothing but line numbers.
#[test]
fn decoration_changes_nothing() {
    for text in ALL {
        let plain = examined(text);
        let quoted: Vec<String> = text.lines().map(|line| format!("> {line}\r\n")).collect();
        assert_eq!(examined(&quoted.concat()), plain);
    }
}

/// What can be read in two ways is not read, and said; text without a block is none.
#[test]
fn what_cannot_be_read_is_said() {
    let comma =
        "finished in 4,72s, 5299,41 req/s, 11,73MB/s\nrequests: 25000 total, 25000 succeeded\n";
    let autopsy = examined(comma);
    assert!(autopsy.servers.is_empty());
    assert_eq!(
        (autopsy.unread[0].tool.as_str(), autopsy.unread[0].line),
        ("h2load", 1)
    );
    let prose = Source {
        name: "x",
        text: "nginx is faster.\nReally.",
    };
    assert_eq!(examine(&[prose], &[]), None);
    assert_eq!(examine(&[], &[]), None);
    // Cut in the middle: the rows that are there, and that it is cut.
    let cut = "% time     seconds  usecs/call     calls    errors syscall\n\
        ------ ----------- ----------- --------- --------- ----------------\n \
        60.00    0.003355           0       100           writev\n";
    assert!(!said(&examined(cut), "total", "").is_empty());
}

/// Files that name no server are named after themselves.
#[test]
fn files_name_servers() {
    let run = |rate: &str| {
        format!(
            "Running 1s test @ http://h/\n  100 requests in 1.00s, 1.00MB read\nRequests/sec: {rate}\n"
        )
    };
    let (old, new) = (run("100.00"), run("200.00"));
    let sources = [
        Source {
            name: "old",
            text: &old,
        },
        Source {
            name: "new",
            text: &new,
        },
    ];
    let both = examine(&sources, &[]).unwrap();
    let names: Vec<&str> = both
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    // The address is the same, so it tells them apart no more than nothing.
    assert_eq!(names, ["old", "new"]);
}

/// No escape sequence and no markup of the text gets out.
#[test]
fn hostile_text_is_cleaned() {
    let text = "nginx \u{1b}[31m<script>alert(1)</script>\nRunning 1s test @ http://\u{1b}[0m<b>x</b>/\n\
        100 requests in 1.00s, 1.00MB read\nRequests/sec: 100.00\n";
    let autopsy = examined(text);
    let shown = text::autopsy(&autopsy, &Style::default());
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let page = markdown::autopsy(&autopsy);
    assert!(
        !page.contains('\u{1b}') && !page.contains("<script>") && !page.contains("<b>"),
        "{page}"
    );
}

/// Every conclusion is in both renderings.
#[test]
fn renderings_are_whole() {
    let autopsy = examined(NGINX_H2O);
    let shown = text::autopsy(&autopsy, &Style::default());
    assert!(
        shown.lines().all(|line| line.chars().count() <= 110),
        "{shown}"
    );
    let page = markdown::autopsy(&autopsy);
    for heading in ["FOLLOWS", "AT MOST", "SUSPICIOUS", "DOES NOT FOLLOW"] {
        assert!(shown.contains(heading) && page.contains(heading));
    }
    assert!(page.starts_with("**not comparable"));
    let read: Autopsy = serde_json::from_str(&autopsy.to_json()).unwrap();
    assert_eq!(read, autopsy);
}
