//! What a report says of TLS and HTTP/2.

use recording::{Http2Report, HttpVersion, TlsNegotiated, TlsPlan, TlsReport};
use reports::{Footer, Style, text};

use crate::fixture::load_recording;

/// What was negotiated, how handshakes went, and what HTTP/2 did; hostile names are made harmless.
#[test]
fn load_over_tls_and_http2() {
    let mut recording = load_recording();
    let load = recording.rounds[0].load.as_mut().unwrap();
    load.plan.depth = 32;
    load.plan.http = HttpVersion::Http2;
    load.plan.tls = Some(TlsPlan {
        verified: false,
        resumed_percent: 50,
    });
    load.tls = Some(TlsReport {
        full_handshakes: 40,
        resumed_handshakes: 24,
        retried_handshakes: 2,
        failed_handshakes: 1,
        early_data_handshakes: Some(20),
        early_data_refused: Some(4),
        handshake_time: load.latency.clone(),
        negotiated: vec![TlsNegotiated {
            version: "TLSv1.3".to_owned(),
            cipher: "TLS_AES_128_GCM_SHA256".to_owned(),
            group: Some("X25519".to_owned()),
            certificate_key: "ECDSA P-256".to_owned(),
            alpn: Some("h2\u{1b}[31m".to_owned()),
            count: 64,
        }],
        clear_sent_bytes: 1000,
        clear_received_bytes: 20_000,
    });
    load.http2 = Some(Http2Report {
        streams_max: 16,
        stream_limit: Some(16),
        header_bytes: 250,
        header_decoded_bytes: 1000,
        refused_retries: 3,
        goaways: 1,
        stream_stalled_ns: 5_000_000,
        ..Http2Report::default()
    });
    let text = text::load(&recording, &Style::default(), &Footer::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "64 connections with 32 streams of HTTP/2 each",
        "64 x TLSv1.3 TLS_AES_128_GCM_SHA256, X25519, ECDSA P-256 key, ALPN h2",
        "certificate not verified",
        "40 full, 24 resumed, 2 of them in two rounds",
        "20 with 0-RTT, 4 refused it",
        "1 FAILED",
        "whole run",
        "16 in flight at most, 32 asked, server allows 16",
        "3 sent again after a refusal; 1 GOAWAY",
        "stalled on the stream window for 5.00ms",
        "75% saved by HPACK",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
}
