//! Exactly as many requests as asked, and the same number on both sides.

use std::sync::{Arc, Mutex};

use recording::FailureClass;

use crate::server::{OK, Server, Then};
use crate::{by_count, failures, run_checked};

/// Whatever divides into what, exactly so many requests are sent; surplus connections are idle.
#[test]
fn requests_are_exact() {
    for (requests, connections, threads) in [
        (10, 3, 1),
        (10, 3, 2),
        (2, 5, 2),
        (1, 4, 4),
        (7, 4, 3),
        (1000, 7, 2),
        (513, 2, 2),
    ] {
        let server = Server::start(|exchange| {
            exchange.send(OK);
            Then::Keep
        });
        let mut config = by_count(&server, requests, connections);
        config.threads = threads;
        let load = run_checked(&config);
        assert_eq!((load.ledger.sent, load.ledger.ok), (requests, requests));
        assert_eq!(
            (server.requests(), server.accepts()),
            (requests, u64::from(connections))
        );
        assert_eq!(
            u64::from(load.timeline.completed.iter().sum::<u32>()),
            requests
        );
    }
}

/// Bytes, statuses and latencies of a plain run.
#[test]
fn figures_agree() {
    let server = Server::start(|exchange| {
        exchange.send(OK);
        Then::Keep
    });
    let load = run_checked(&by_count(&server, 20, 2));
    assert_eq!(load.statuses.iter().collect::<Vec<_>>(), [(&200, &20)]);
    let traffic = &load.traffic;
    assert_eq!(traffic.received_bytes, 20 * OK.len() as u64);
    assert_eq!(
        (traffic.head_bytes, traffic.body_bytes),
        (20 * (OK.len() as u64 - 2), 40)
    );
    assert_eq!(traffic.sent_bytes % 20, 0);
    assert!(load.client_cpu.total_ns() > 0);
    let latency = load.latency.unwrap();
    assert!(latency.min_ns > 0 && latency.max_ns <= load.window.length_ns());
    assert!(
        load.url.starts_with(&server.url("/path?secret=sha256:")),
        "{}",
        load.url
    );
}

/// A response without body has a latency; every connection has a time to connect.
#[test]
fn bodyless_responses_have_latencies() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 204 No Content\r\n\r\n");
        Then::Keep
    });
    let mut config = by_count(&server, 6, 1);
    config.requests_per_connection = Some(2);
    let load = run_checked(&config);
    assert_eq!(load.latency.unwrap().count, 6);
    // The first connection was opened before the window.
    assert_eq!(load.connect_time.unwrap().count, 2);
    assert_eq!(load.traffic.body_bytes, 0);
}

/// An unexpected status is a failure, however fast and complete the response is.
#[test]
fn unexpected_status_is_a_failure() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\nno");
        Then::Keep
    });
    let mut config = by_count(&server, 12, 3);
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Status, "check", 12)]);
    assert_eq!((load.ledger.ok, load.latency.is_none()), (0, true));
    assert_eq!(load.statuses.iter().collect::<Vec<_>>(), [(&500, &12)]);
    // The connections are as good as before.
    assert_eq!(server.accepts(), 3);
    config.expected_statuses = vec![500..=500];
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, failures(&load)), (12, vec![]));
}

/// Headers and bodies arrive as they were given.
#[test]
fn requests_arrive_as_given() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let server = Server::start(move |exchange| {
        log.lock()
            .unwrap()
            .push((exchange.head.to_owned(), exchange.body.to_owned()));
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 3, 1);
    config.method = "PUT".into();
    config.body = Some(b"three".to_vec());
    config.headers = vec![
        ("X-A".into(), "1".into()),
        ("Host".into(), "example.org".into()),
        ("Cookie".into(), "id=7".into()),
    ];
    let load = run_checked(&config);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    for (head, body) in seen.iter() {
        assert!(
            head.starts_with("PUT /path?secret=value HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(
            head.contains("\r\nX-A: 1\r\nHost: example.org\r\nCookie: id=7\r\n"),
            "{head}"
        );
        assert_eq!(body, b"three");
    }
    assert!(load.plan.headers[2].1.starts_with("sha256:"));
}

/// Requests larger than a socket takes at once are written to their end.
#[test]
fn large_requests_are_written_to_their_end() {
    let server = Server::start(|exchange| {
        assert_eq!(exchange.body.len(), 8 << 20);
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 4, 2);
    config.method = "POST".into();
    config.body = Some(vec![b'x'; 8 << 20]);
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, failures(&load)), (4, vec![]));
    assert!(load.traffic.sent_bytes > 4 * (8 << 20));
}
