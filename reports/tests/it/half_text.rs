//! The reports of one half, a load or a profile, on a terminal.

use recording::{FailureClass, Partial};
use reports::{Footer, Style, text};

use crate::fixture::{busy_nginx, load_recording, profile, profile_recording};

/// A load: the ledger adds up and each failure has its class.
#[test]
fn load_layout() {
    let mut recording = load_recording();
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.ledger.fail(FailureClass::Timeout, "head", 3);
    load.ledger.sent += 3;
    recording.partial = Some(Partial {
        why: "interrupted".to_owned(),
    });
    let text = text::load(&recording, &Style::default(), &Footer::default());
    insta::assert_snapshot!(text, @r"
    load GET http://127.0.0.1:8080/file  64 connections, 1 thread, 2.00s
    PARTIAL  the run ended early: interrupted; figures cover what was done
    requests 138,800 ok, 69,400 req/s over 2.000 s; 3 failed (0.0022%)
    ledger   138,803 sent + 64 carried in = 138,800 ok + 3 failed + 64 unfinished
    failed   timeout in head 3
    latency  p50 900us  p75 1.08ms  p90 1.21ms  p99 2.43ms  max 3.02ms  mean 943us  (first byte written to last
             byte read); p99.9 needs 10,000 values, has 2,000
    statuses 200 138,800
    conns    64 asked, 64 open at start, 0 established; closed: none
    traffic  13.0 MB sent, 33.2 MB received (33.0 MB heads, 139 kB bodies), 16.6 MB/s
    client   busiest thread 58% busy, 10.8 us CPU per request (4.10 user, 6.70 kernel)
    slices   2: 69,400 to 69,400 req/s, p99 1.80ms to 1.80ms
    ");
}

/// The table of rates follows the order of the first one and says what it leaves out.
#[test]
fn rates_say_what_is_left_out() {
    let busy = busy_nginx();
    let mut profile = profile(&busy, 1000.0);
    profile.processes[0].container = Some("web.slice".to_owned());
    let recording = profile_recording(profile);
    let text = text::profile(&recording, &Style::default(), &Footer::default());
    assert!(text.contains("\n (3 more calls)"), "{text}");
    assert!(
        text.contains("nginx 4242 in control group web.slice\n"),
        "{text}"
    );
    let first = |table: &str| -> Vec<String> {
        let from = table
            .lines()
            .skip_while(|line| !line.ends_with("epoll_wait"));
        let names = from.filter_map(|line| line.split_ascii_whitespace().last());
        names.take(5).map(str::to_owned).collect()
    };
    let second = text
        .lines()
        .skip_while(|line| !line.starts_with(" epoll_wait "))
        .filter_map(|line| line.split_ascii_whitespace().next());
    assert_eq!(first(&text), second.take(5).collect::<Vec<_>>(), "{text}");
}

/// What a quantile needs is a number of values.
#[test]
fn few_values_have_no_median() {
    let mut recording = load_recording();
    let mut recorder = recording::LatencyHistogram::recorder();
    recorder.record(1000).unwrap();
    recording.rounds[0].load.as_mut().unwrap().latency =
        recording::LatencyHistogram::from_hdr(&recorder);
    let text = text::load(&recording, &Style::default(), &Footer::default());
    assert!(text.contains("p50 needs 20 values, has 1\n"), "{text}");
}
