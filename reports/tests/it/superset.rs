//! JSON says all that any other format of a load says.

use recording::{
    FailureClass, Http2Report, HttpVersion, LatencyHistogram, Partial, Recording, Search, TlsPlan,
    TlsReport, Trial, Violation,
};
use reports::{Footer, Style, csv, hdr, markdown, text, tools};

use crate::tools::measured;

/// A load with something in every part that a format can show.
fn everything() -> Recording {
    let mut recording = measured();
    recording.partial = Some(Partial {
        why: "interrupted".to_owned(),
    });
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.ended_early = Some("interrupted".to_owned());
    load.ledger.fail(FailureClass::Timeout, "head", 3);
    load.ledger.fail(FailureClass::Protocol, "protocol", 2);
    load.ledger.sent += 5;
    load.interim_responses = 17;
    load.connect_time = load.latency.clone();
    load.violations = vec![Violation {
        what: "header compression that cannot be decoded".to_owned(),
        found: "HEADERS frame of 31 bytes on stream 7, flags 0x04".to_owned(),
        count: 2,
    }];
    load.plan.http = HttpVersion::Http2;
    load.plan.tls = Some(TlsPlan {
        verified: true,
        resumed_percent: 0,
    });
    load.tls = Some(TlsReport {
        full_handshakes: 64,
        resumed_handshakes: 0,
        retried_handshakes: 0,
        failed_handshakes: 0,
        early_data_handshakes: None,
        early_data_refused: None,
        handshake_time: load.latency.clone(),
        negotiated: Vec::new(),
        clear_sent_bytes: 1000,
        clear_received_bytes: 20_000,
    });
    load.http2 = Some(Http2Report {
        header_bytes: 107_000,
        header_decoded_bytes: 177_000,
        ..Http2Report::default()
    });
    load.measures.as_mut().unwrap().search = Some(Search {
        limit: "p99<5ms".to_owned(),
        highest_rps: Some(1200.0),
        lowest_broken_rps: None,
        trials: vec![Trial {
            rate_rps: 1200.0,
            figure_ns: Some(4_000_000),
            kept: true,
            why: None,
        }],
    });
    recording
}

/// Makes text of a load.
type Render = fn(&Recording) -> String;

/// What is read back from the JSON renders byte for byte as what was never stored, in every format.
#[test]
fn json_has_everything() {
    let before = everything();
    let after = Recording::parse(before.to_json().as_bytes()).unwrap();
    assert_eq!(after, before);
    let formats: [(&str, Render); 8] = [
        ("text", |of| {
            text::load(of, &Style::default(), &Footer::default())
        }),
        ("markdown", |of| markdown::load(of, &Footer::default())),
        ("csv", csv::load),
        ("h2load", tools::h2load),
        ("wrk", tools::wrk),
        ("httperf", tools::httperf),
        ("hdr", hdr::log),
        ("hgrm", hdr::percentiles),
    ];
    for (name, render) in formats {
        assert_eq!(render(&after), render(&before), "{name}");
    }
}

/// Each percentile of the text follows from the histogram in the JSON, by any reader of such
/// histograms.
#[test]
fn percentiles_follow_from_the_json() {
    let recording = everything();
    let json: serde_json::Value = serde_json::from_str(&recording.to_json()).unwrap();
    let stored = &json["rounds"][0]["load"]["latency"];
    let stored: LatencyHistogram = serde_json::from_value(stored.clone()).unwrap();
    let histogram = stored.to_hdr().unwrap();
    let text = text::load(&recording, &Style::default(), &Footer::default());
    let line = text.lines().find(|line| line.starts_with("latency "));
    let line = line.unwrap();
    for (title, quantile) in [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99)] {
        let ns = histogram.value_at_quantile(quantile) as f64;
        // Three digits, in the unit that suits.
        let shown = if ns < 1e6 {
            format!("{:.0}us", ns / 1e3)
        } else {
            format!("{:.2}ms", ns / 1e6)
        };
        assert!(
            line.contains(&format!("{title} {shown}")),
            "{line}: {shown}"
        );
    }
}

/// How the server broke the protocol stands in the text with what was found, and nothing of it
/// reaches the terminal as anything but text.
#[test]
fn violations_are_told() {
    let mut recording = everything();
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.violations.push(Violation {
        what: "a kind\u{1b}[2J".to_owned(),
        found: "a\u{7}b\u{202e}c".to_owned(),
        count: 1,
    });
    for text in [
        text::load(&recording, &Style::default(), &Footer::default()),
        markdown::load(&recording, &Footer::default()),
    ] {
        assert!(
            text.contains("header compression that cannot be decoded 2"),
            "{text}"
        );
        assert!(
            text.contains("HEADERS frame of 31 bytes on stream 7"),
            "{text}"
        );
        let is_harmful = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(is_harmful), "{text:?}");
    }
}
