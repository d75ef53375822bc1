//! HTTP/2 against a server that keeps the protocol and judges whether we do.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::server;
use http::{HeaderMap, HeaderValue};
use loadgen::{Config, Framing, HttpVersion, Stop, fetch_with};

use crate::peer2::{Answer, Frame, GOAWAY, Judge, Peer, RST_STREAM, Scripted};
use crate::{failures, run_checked};

/// A load of exactly `requests` over HTTP/2.
pub(crate) fn http2(url: String, requests: u64, connections: u32, streams: u32) -> Config {
    let mut config = Config::new(url);
    config.http = HttpVersion::Http2;
    config.stop = Stop::Requests(requests);
    config.connections = connections;
    config.depth = streams;
    config
}

fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in pairs {
        fields.append(*name, HeaderValue::from_static(value));
    }
    fields
}

/// Every request arrives once, and the table of the server saves bytes of header fields.
#[test]
fn requests_are_counted_exactly() {
    let answer = Answer {
        fields: fields(&[
            ("server", "judge"),
            ("x-long", "a value that is worth a place in the table"),
        ]),
        body: Bytes::from_static(b"hello"),
        trailers: None,
    };
    let judge = Judge::start(&server::Builder::new(), answer);
    let load = run_checked(&http2(judge.url(), 301, 3, 8));
    assert_eq!((load.ledger.ok, failures(&load)), (301, vec![]));
    assert_eq!(judge.seen.requests.load(SeqCst), 301);
    assert_eq!(
        (
            judge.seen.accepts.load(SeqCst),
            judge.seen.errors.load(SeqCst)
        ),
        (3, 0)
    );
    assert_eq!(load.traffic.body_bytes, 301 * 5);
    let report = load.http2.unwrap();
    assert_eq!(
        (report.header_blocks, report.resets, report.goaways),
        (301, 0, 0)
    );
    assert!(
        report.header_bytes * 5 < report.header_decoded_bytes,
        "{report:?}"
    );
    assert_eq!(report.streams_max, 8);
}

/// The server's limit on streams is kept from the first flight on.
#[test]
fn stream_limit_is_kept() {
    let judge = Judge::start(
        server::Builder::new().max_concurrent_streams(2),
        Answer::default(),
    );
    let mut config = http2(judge.url(), 100, 2, 10);
    let load = run_checked(&config);
    let report = load.http2.clone().unwrap();
    assert_eq!((load.ledger.ok, report.refused_retries), (100, 0));
    assert_eq!((report.streams_max, report.stream_limit), (2, Some(2)));
    // Connections of the window do not know the limit when they send first.
    config.requests_per_connection = Some(5);
    let load = run_checked(&config);
    let report = load.http2.clone().unwrap();
    assert_eq!(
        (load.ledger.ok, report.refused_retries, report.resets),
        (100, 0, 0)
    );
    assert!(
        load.connections.closed_by_plan >= 18,
        "{:?}",
        load.connections
    );
    assert_eq!(judge.seen.errors.load(SeqCst), 0);
}

/// Bodies of requests obey the windows of the server, and arrive whole; waiting is counted.
#[test]
fn bodies_obey_the_windows() {
    let mut builder = server::Builder::new();
    builder
        .initial_window_size(1000)
        .initial_connection_window_size(70_000);
    let judge = Judge::start(&builder, Answer::default());
    let mut config = http2(judge.url(), 20, 2, 4);
    config.method = "POST".into();
    config.body = Some(vec![7; 100_000]);
    let load = run_checked(&config);
    assert_eq!(load.ledger.ok, 20);
    assert_eq!(judge.seen.body_bytes.load(SeqCst), 20 * 100_000);
    assert_eq!(judge.seen.errors.load(SeqCst), 0);
    assert!(load.http2.unwrap().stream_stalled_ns > 0);
}

/// Windows of ours that are smaller than a body hold the server back and let it go on.
#[test]
fn small_windows_are_opened_again() {
    let answer = Answer {
        body: Bytes::from(vec![1; 300_000]),
        ..Answer::default()
    };
    let judge = Judge::start(&server::Builder::new(), answer);
    let mut config = http2(judge.url(), 12, 2, 3);
    config.http2.stream_window = 1000;
    config.http2.connection_window = 65_535;
    let load = run_checked(&config);
    assert_eq!(
        (load.ledger.ok, load.traffic.body_bytes),
        (12, 12 * 300_000)
    );
    assert_eq!(judge.seen.errors.load(SeqCst), 0);
}

/// Trailers, HEAD with a length, and a response without a body.
#[test]
fn responses_end_in_every_way() {
    let answer = Answer {
        fields: fields(&[("content-length", "4")]),
        body: Bytes::from_static(b"body"),
        trailers: Some(fields(&[("x-check", "1")])),
    };
    let judge = Judge::start(&server::Builder::new(), answer.clone());
    let load = run_checked(&http2(judge.url(), 5, 1, 2));
    assert_eq!((load.ledger.ok, load.traffic.body_bytes), (5, 20));
    let answer = Answer {
        trailers: None,
        ..answer
    };
    let judge = Judge::start(&server::Builder::new(), answer);
    let mut config = http2(judge.url(), 5, 1, 2);
    config.method = "HEAD".into();
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, load.traffic.body_bytes), (5, 0));
}

/// A server with a small table, or none, is told that its table is not used.
#[test]
fn small_tables_are_respected() {
    for table_bytes in [0, 100, 4096, 100_000] {
        let mut builder = server::Builder::new();
        builder.header_table_size(table_bytes);
        let judge = Judge::start(&builder, Answer::default());
        let mut config = http2(judge.url(), 40, 2, 3);
        config.headers = vec![
            ("X-Long".into(), "a".repeat(200)),
            ("Cookie".into(), "c=1".into()),
        ];
        config.http2.header_table = 0;
        let load = run_checked(&config);
        assert_eq!(
            (load.ledger.ok, judge.seen.errors.load(SeqCst)),
            (40, 0),
            "{table_bytes}"
        );
    }
}

/// Large header fields go out in more than one frame.
#[test]
fn large_headers_are_continued() {
    let judge = Judge::start(&server::Builder::new(), Answer::default());
    let mut config = http2(judge.url(), 4, 1, 2);
    config.headers = vec![("x-large".into(), "b".repeat(40_000))];
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, judge.seen.errors.load(SeqCst)), (4, 0));
}

/// Headers of HTTP/1.1 alone, and Upgrade over TLS, are refused before anything is sent.
#[test]
fn what_http2_has_not_is_refused() {
    let check = |change: fn(&mut Config), wanted: &str| {
        let mut config = http2("https://localhost/".into(), 1, 1, 1);
        change(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    check(
        |c| c.headers = vec![("Connection".into(), "close".into())],
        "\"connection\"",
    );
    check(|c| c.http = HttpVersion::Http2Upgrade, "ALPN");
    check(|c| c.http2.connection_window = 1, "65535");
    check(|c| c.http2.stream_window = 0, "window of a stream");
}

/// A connection that ends as planned says so, with a code that says that all was well; refused
/// streams count for the plan, and do not keep the connection from its end.
#[test]
fn planned_ends_are_announced() {
    let last_words = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&last_words);
    let server = Scripted::start(move |stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        for nth in 0..3 {
            let Some(id) = peer.request() else {
                break;
            };
            if nth == 1 {
                peer.send(RST_STREAM, 0, id, &7_u32.to_be_bytes());
            } else {
                peer.ok(id);
            }
        }
        let mut frames: Vec<Frame> = peer.drain();
        heard.lock().unwrap().extend(frames.pop());
    });
    let mut config = http2(server.url(), 6, 1, 1);
    config.requests_per_connection = Some(3);
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, failures(&load)), (6, vec![]));
    assert_eq!((load.ledger.replayed, server.accepts.load(SeqCst)), (3, 3));
    drop(server);
    let last_words = last_words.lock().unwrap();
    assert_eq!(last_words.len(), 3);
    for frame in &*last_words {
        assert_eq!((frame.kind, &*frame.payload), (GOAWAY, &[0; 8][..]));
    }
}

/// One request over HTTP/2 keeps fields and body, and the head in the form of HTTP/1.1; where the body ends
/// is said by a length or by the stream.
#[test]
fn a_response_is_fetched() {
    for (length, framing) in [
        (Some(("content-length", "5")), Framing::ContentLength(5)),
        (None, Framing::EndStream),
    ] {
        let mut pairs = vec![("server", "judge"), ("content-encoding", "br")];
        pairs.extend(length);
        let answer = Answer {
            fields: fields(&pairs),
            body: Bytes::from_static(b"hello"),
            trailers: None,
        };
        let judge = Judge::start(&server::Builder::new(), answer);
        let mut config = http2(judge.url(), 1, 1, 1);
        config.headers = vec![("X-A".to_owned(), "1".to_owned())];
        let fetched = fetch_with(&config).unwrap();
        assert_eq!((fetched.status, fetched.framing), (200, framing));
        assert_eq!(fetched.content_encoding(), Some("br"));
        assert_eq!(
            (fetched.body.as_slice(), fetched.wire_body.as_slice()),
            (&b"hello"[..], &b"hello"[..])
        );
        let lines: Vec<String> = pairs.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
        let lines = lines.concat();
        let head = String::from_utf8(fetched.raw_head).unwrap();
        assert_eq!(head, format!("HTTP/2 200\r\n{lines}\r\n"));
        assert_eq!((fetched.tls, judge.seen.requests.load(SeqCst)), (None, 1));
    }
}

/// A stream that is reset leaves no response, and the reason of the server is told.
#[test]
fn a_reset_is_no_response() {
    let server = Scripted::start(|stream, _| {
        if let Some(mut peer) = Peer::greet(stream, &[])
            && let Some(id) = peer.request()
        {
            peer.send(RST_STREAM, 0, id, &7_u32.to_be_bytes());
            peer.drain();
        }
    });
    let error = fetch_with(&http2(server.url(), 1, 1, 1)).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}
