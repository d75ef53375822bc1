//! Several requests in flight on one connection of HTTP/1.1.

use std::time::Duration;

use recording::FailureClass;

use crate::server::{OK, Server, Then};
use crate::{by_count, failures, run_checked};

fn pipelined(server: &Server, requests: u64, connections: u32, depth: u32) -> loadgen::Config {
    let mut config = by_count(server, requests, connections);
    config.depth = depth;
    config
}

fn always_ok() -> Server {
    Server::start(|exchange| {
        exchange.send(OK);
        Then::Keep
    })
}

/// Exactly the asked requests, whether the depth divides them or not.
#[test]
fn counts_are_exact() {
    for (requests, connections, depth) in [(7, 1, 4), (10, 3, 4), (2, 5, 8), (1000, 2, 16)] {
        let server = always_ok();
        let load = run_checked(&pipelined(&server, requests, connections, depth));
        assert_eq!((load.ledger.ok, server.requests()), (requests, requests));
        assert_eq!(server.accepts(), u64::from(connections));
    }
}

/// What was in flight behind a reply that closes the connection goes to a new one.
#[test]
fn requests_behind_a_close_are_sent_again() {
    let server = Server::start(|exchange| {
        if exchange.nth == 3 {
            exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            return Then::Close;
        }
        exchange.send(OK);
        Then::Keep
    });
    let load = run_checked(&pipelined(&server, 12, 1, 4));
    assert_eq!((load.ledger.ok, failures(&load)), (12, vec![]));
    assert_eq!(
        (server.requests(), load.connections.closed_by_server),
        (12, 4)
    );
    assert!(load.ledger.replayed > 0);
}

/// The latency of what is sent again begins when it was sent first.
#[test]
fn waiting_behind_a_close_is_latency() {
    let server = Server::start(|exchange| {
        if exchange.total == 1 {
            // sleeps: the time that requests wait behind a reply is what is measured
            std::thread::sleep(Duration::from_millis(30));
            exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            return Then::Close;
        }
        exchange.send(OK);
        Then::Keep
    });
    let load = run_checked(&pipelined(&server, 4, 1, 4));
    assert_eq!((load.ledger.ok, load.ledger.replayed), (4, 3));
    // Histograms round down by a thousandth.
    assert!(load.latency.unwrap().min_ns >= 29_900_000);
}

/// A silent close between replies is no failure, and nothing is lost or doubled.
#[test]
fn silent_closes_are_no_failures() {
    let server = Server::start(|exchange| {
        exchange.send(OK);
        if exchange.nth == 3 {
            Then::Close
        } else {
            Then::Keep
        }
    });
    let load = run_checked(&pipelined(&server, 30, 2, 4));
    assert_eq!((load.ledger.ok, failures(&load)), (30, vec![]));
    assert_eq!(server.requests(), 30);
}

/// As many requests per connection as the plan says, however many are in flight.
#[test]
fn connections_end_as_planned() {
    let server = always_ok();
    let mut config = pipelined(&server, 100, 1, 8);
    config.requests_per_connection = Some(10);
    let load = run_checked(&config);
    assert_eq!(load.ledger.ok, 100);
    assert_eq!(load.connections.closed_by_plan, 10);
    let mut counts = server.stop();
    counts.retain(|count| *count > 0);
    assert_eq!(counts, [10; 10]);
}

/// A body without a length ends with its connection, and everything behind it is sent again.
#[test]
fn bodies_until_close_end_a_connection() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\n\r\nhello");
        Then::Close
    });
    let load = run_checked(&pipelined(&server, 5, 1, 3));
    assert_eq!((load.ledger.ok, load.traffic.body_bytes), (5, 25));
}

/// What may not be sent twice is not: the requests behind a close fail.
#[test]
fn posts_are_not_sent_twice() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        Then::Close
    });
    let mut config = pipelined(&server, 4, 1, 4);
    config.method = "POST".into();
    config.body = Some(b"x".to_vec());
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, load.ledger.replayed), (1, 0));
    assert_eq!(failures(&load), [(FailureClass::Closed, "first_byte", 3)]);
}

/// A response more than was asked for spoils the last one that was.
#[test]
fn surplus_responses_are_violations() {
    let server = Server::start(|exchange| {
        let count = if exchange.nth == 2 { 2 } else { 1 };
        exchange.send(&OK.repeat(count));
        Then::Keep
    });
    let load = run_checked(&pipelined(&server, 2, 1, 2));
    assert_eq!(load.ledger.ok, 1);
    assert_eq!(failures(&load), [(FailureClass::Protocol, "protocol", 1)]);
}

/// Each pipelined request has a latency of its own, from its own first byte: no one is faster than
/// the server, and those behind others take longer.
#[test]
fn latencies_are_of_requests() {
    let server = Server::start(|exchange| {
        // sleeps: the time that the server takes is what is measured
        std::thread::sleep(Duration::from_millis(5));
        exchange.send(OK);
        Then::Keep
    });
    let load = run_checked(&pipelined(&server, 16, 1, 4));
    let latency = load.latency.unwrap();
    assert_eq!(latency.count, 16);
    assert!(latency.min_ns >= 5_000_000, "{latency:?}");
    // The fourth of the first four has waited for three others.
    assert!(latency.max_ns >= 20_000_000, "{latency:?}");
}
