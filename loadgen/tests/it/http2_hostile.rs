//! HTTP/2 against servers that say goodbye, refuse, lie, flood, or never answer.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use loadgen::{Config, HttpVersion, LoadError};
use recording::{Failure, FailureClass, Load};

use crate::http2::http2;
use crate::peer2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, Peer, RST_STREAM, SETTINGS,
    Scripted, frame,
};
use crate::{failures, run_checked, run_refused, violations};

/// Three requests are answered on each connection, then the server says goodbye, and closes or not.
fn says_goodbye(closes: bool) -> Scripted {
    Scripted::start(move |stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        let mut last = 0;
        for _ in 0..3 {
            let Some(stream) = peer.request() else {
                return;
            };
            last = stream;
            peer.ok(stream);
        }
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend_from_slice(&[0; 4]);
        peer.send(GOAWAY, 0, 0, &payload);
        if !closes {
            // The client closes when nothing is left.
            peer.drain();
        }
    })
}

/// After GOAWAY everything else goes to a new connection, whether the old one is closed or kept.
#[test]
fn goaway_is_no_failure() {
    for closes in [true, false] {
        for streams in [1, 2] {
            let server = says_goodbye(closes);
            let load = run_checked(&http2(server.url(), 10, 1, streams));
            assert_eq!(
                (load.ledger.ok, failures(&load)),
                (10, vec![]),
                "{closes} {streams}"
            );
            assert_eq!(server.accepts.load(SeqCst), 4, "{closes} {streams}");
            assert!(load.http2.clone().unwrap().goaways >= 3);
        }
    }
}

/// A server that says goodbye to everything at once does not keep the load busy for ever.
#[test]
fn goaway_for_ever_is_a_failure() {
    let server = Scripted::start(|stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        if peer.request().is_some() {
            peer.send(GOAWAY, 0, 0, &[0; 8]);
            peer.drain();
        }
    });
    let load = run_checked(&http2(server.url(), 2, 1, 1));
    assert_eq!(
        failures(&load),
        [(FailureClass::StreamReset, "first_byte", 2)]
    );
    assert_eq!(load.http2.unwrap().goaway_retries, 30);
}

/// Refused streams are sent again and counted; with another code the server means it.
#[test]
fn refused_streams_are_sent_again() {
    let resets = |code: u32| {
        Scripted::start(move |stream, _| {
            let Some(mut peer) = Peer::greet(stream, &[]) else {
                return;
            };
            let mut count = 0;
            while let Some(stream) = peer.request() {
                count += 1;
                if count % 2 == 0 {
                    peer.send(RST_STREAM, 0, stream, &code.to_be_bytes());
                } else {
                    peer.ok(stream);
                }
            }
        })
    };
    let load = run_checked(&http2(resets(7).url(), 10, 1, 1));
    let report = load.http2.clone().unwrap();
    assert_eq!(
        (load.ledger.ok, report.refused_retries, load.ledger.replayed),
        (10, 9, 9)
    );
    let load = run_checked(&http2(resets(2).url(), 10, 1, 1));
    assert_eq!(load.ledger.ok, 5);
    assert_eq!(
        failures(&load),
        [(FailureClass::StreamReset, "first_byte", 5)]
    );
}

/// A server that refuses everything ends the patience of a request, not the run.
#[test]
fn refusals_have_an_end() {
    let server = Scripted::start(|stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            peer.send(RST_STREAM, 0, stream, &7_u32.to_be_bytes());
        }
    });
    let load = run_checked(&http2(server.url(), 3, 1, 2));
    assert_eq!(
        failures(&load),
        [(FailureClass::StreamReset, "first_byte", 3)]
    );
}

/// One response with everything that may come with it, byte by byte: interim responses, padding,
/// priority, continued fields, unknown frames and settings, pings, changes of settings.
#[test]
fn everything_that_may_come() {
    let server = Scripted::start(|stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[(0x99, 5), (3, 100)]) else {
            return;
        };
        while let Some(id) = peer.request() {
            let mut bytes = frame(HEADERS, END_HEADERS, id, b"\x08\x03103");
            bytes.extend(frame(0xfa, 0xff, 0, b"unknown"));
            bytes.extend(frame(PING, 0, 0, b"01234567"));
            bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100]));
            // Padding of two bytes, a priority, and the fields in three frames.
            bytes.extend(frame(
                HEADERS,
                0x8 | 0x20,
                id,
                b"\x02\0\0\0\0\x10\x88\x0f\0\0",
            ));
            bytes.extend(frame(CONTINUATION, 0, id, b""));
            bytes.extend(frame(CONTINUATION, END_HEADERS, id, b"\x0d\x0215"));
            bytes.extend(frame(DATA, 0x8, id, b"\x03hello\0\0\0"));
            bytes.extend(frame(DATA, 0, id, b""));
            bytes.extend(frame(DATA, 0, id, b"0123456789"));
            bytes.extend(frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                id,
                b"\x00\x01a\x01b",
            ));
            for byte in bytes {
                peer.raw(&[byte]);
            }
        }
    });
    let load = run_checked(&http2(server.url(), 4, 1, 1));
    let report = load.http2.clone().unwrap();
    assert_eq!((load.ledger.ok, failures(&load)), (4, vec![]));
    assert_eq!((load.interim_responses, load.traffic.body_bytes), (4, 60));
    assert_eq!(
        (report.pings, report.padding_bytes, report.header_blocks),
        (4, 20, 12)
    );
    assert_eq!(load.statuses.iter().collect::<Vec<_>>(), [(&200, &4)]);
}

/// A body that ends before its length is short, whatever its status was.
#[test]
fn short_bodies_are_failures() {
    let server = Scripted::start(|stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(id) = peer.request() {
            peer.send(HEADERS, END_HEADERS, id, b"\x88\x0f\x0d\x0210");
            peer.send(DATA, END_STREAM, id, b"12345");
        }
    });
    let load = run_checked(&http2(server.url(), 3, 1, 1));
    assert_eq!(failures(&load), [(FailureClass::ShortBody, "body", 3)]);
    assert!(load.statuses.is_empty());
}

/// A server that asks for answers and reads none is cut off, long before memory is a question.
#[test]
fn floods_are_cut_off() {
    let server = Scripted::start(|stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        if peer.request().is_some() {
            let pings = frame(PING, 0, 0, b"01234567").repeat(1000);
            while peer.stream.write_all(&pings).is_ok() {}
        }
    });
    let load = run_checked(&http2(server.url(), 1, 1, 1));
    assert_eq!(failures(&load), [(FailureClass::Protocol, "protocol", 1)]);
}

/// One stream that never ends is cancelled; the others go on.
#[test]
fn late_streams_are_cancelled() {
    let cancelled = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&cancelled);
    let server = Scripted::start(move |stream, number| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        while let Some(frame) = peer.read() {
            let is_first = number == 0 && frame.stream == 1;
            match frame.kind {
                HEADERS if !is_first => peer.ok(frame.stream),
                RST_STREAM if is_first => {
                    assert_eq!(frame.payload, [0, 0, 0, 8]);
                    count.fetch_add(1, SeqCst);
                }
                _ => {}
            }
        }
    });
    let mut config = http2(server.url(), 50, 1, 2);
    // sleeps: a response that never comes is the test.
    config.timeout = PATIENCE;
    let load = run_checked(&config);
    drop(server);
    assert_eq!(cancelled.load(SeqCst), 1);
    assert_all_late(&load);
    assert!(load.ledger.ok > 0, "{:?}", load.ledger);
}

/// Whether requests failed, and all of them because they took too long. (On a machine that stands
/// still more of them do than the server holds back.)
fn assert_all_late(load: &Load) {
    let is_late = |failure: &Failure| failure.class == FailureClass::Timeout;
    assert!(load.ledger.failed_total() > 0, "{:?}", load.ledger);
    assert!(load.ledger.failed.iter().all(is_late), "{:?}", load.ledger);
}

/// A connection on which nothing comes any more is given up with its streams.
#[test]
fn dead_connections_are_given_up() {
    let server = Scripted::start(|stream, _| {
        if let Some(mut peer) = Peer::greet(stream, &[]) {
            peer.drain();
        }
    });
    let mut config = http2(server.url(), 6, 1, 3);
    // sleeps: nothing ever comes.
    config.timeout = PATIENCE;
    let load = run_checked(&config);
    assert_eq!(load.ledger.failed_total(), 6, "{:?}", load.ledger);
    assert_all_late(&load);
    assert!(server.accepts.load(SeqCst) >= 2);
}

/// A server that allows no stream lets the run end.
#[test]
fn no_streams_at_all_end() {
    let server = Scripted::start(|stream, _| {
        if let Some(mut peer) = Peer::greet(stream, &[(3, 0)]) {
            peer.drain();
        }
    });
    let mut config = http2(server.url(), 3, 1, 3);
    // sleeps: the server never allows anything.
    config.timeout = PATIENCE;
    let load = run_checked(&config);
    // Where the limit is not known yet, one request is sent in vain.
    assert_eq!(load.ledger.failed_total(), 3, "{:?}", load.ledger);
    assert_all_late(&load);
}

/// What is in flight when a server breaks off goes to a new connection, if the old one has worked.
#[test]
fn broken_connections_are_replaced() {
    let server = Scripted::start(|stream, _| {
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        for _ in 0..3 {
            let Some(stream) = peer.request() else {
                return;
            };
            peer.ok(stream);
        }
        // The fourth request has arrived, and nobody answers it.
        let _fourth = peer.request();
    });
    let load = run_checked(&http2(server.url(), 9, 1, 1));
    assert_eq!((load.ledger.ok, failures(&load)), (9, vec![]));
    assert_eq!(load.ledger.replayed, 2);
    assert_eq!(server.accepts.load(SeqCst), 3);
}

/// A server of HTTP/1.1 is told from one of HTTP/2 before the load begins.
#[test]
fn other_servers_are_recognised() {
    let server = Scripted::start(|mut stream, _| {
        let _preface = stream.read(&mut [0; 4096]);
        let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let error = run_refused(&http2(server.url(), 1, 1, 1));
    assert!(matches!(error, LoadError::Handshake { .. }), "{error}");
    assert!(
        error.to_string().contains("does not speak HTTP/2"),
        "{error}"
    );
}

fn upgrade(url: String, requests: u64) -> Config {
    let mut config = http2(url, requests, 1, 4);
    config.http = HttpVersion::Http2Upgrade;
    config
}

/// The first request asks for HTTP/2 and is answered on stream 1; the others follow on their own.
#[test]
fn upgrade_is_asked_for() {
    let server = Scripted::start(|mut stream, _| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(
            head.starts_with("GET /path?secret=value HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nUpgrade: h2c\r\n"), "{head}");
        assert!(head.contains("\r\nHTTP2-Settings: "), "{head}");
        stream
            .write_all(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n")
            .unwrap();
        let Some(mut peer) = Peer::greet(stream, &[]) else {
            return;
        };
        peer.ok(1);
        while let Some(stream) = peer.request() {
            peer.ok(stream);
        }
    });
    let load = run_checked(&upgrade(server.url(), 50));
    assert_eq!((load.ledger.ok, failures(&load)), (50, vec![]));
    assert_eq!(
        (load.interim_responses, server.accepts.load(SeqCst)),
        (1, 1)
    );
}

/// A server that answers in HTTP/1.1 has declined, and its answer is not counted as one of HTTP/2.
#[test]
fn declined_upgrades_are_failures() {
    let server = Scripted::start(|mut stream, _| {
        let _request = stream.read(&mut [0; 4096]);
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let load = run_checked(&upgrade(server.url(), 2));
    let declined = "the server declined the upgrade to HTTP/2";
    assert_eq!(violations(&load), [(declined, "HTTP/1.1 200 OK", 2)]);
    assert_eq!(failures(&load), [(FailureClass::Protocol, "protocol", 2)]);
}

/// Long enough that a busy machine answers in time, and short enough to wait for.
const PATIENCE: Duration = Duration::from_millis(500);
