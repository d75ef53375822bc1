//! The life of connections: who closes them, when, and what that costs nobody.

use std::net::{Ipv6Addr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadgen::Stop;
use recording::FailureClass;

use crate::server::{OK, Server, Then};
use crate::{by_count, failures, run_checked, run_refused};

fn closes_silently_after_3() -> Server {
    Server::start(|exchange| {
        exchange.send(OK);
        if exchange.nth == 3 {
            Then::Close
        } else {
            Then::Keep
        }
    })
}

/// A silent close between two requests is no failure: reconnected, counted apart, nothing lost.
#[test]
fn silent_close_is_no_failure() {
    let server = closes_silently_after_3();
    let load = run_checked(&by_count(&server, 9, 1));
    assert_eq!(
        (load.ledger.sent, load.ledger.ok, failures(&load)),
        (9, 9, vec![])
    );
    // The close after the ninth may be noticed before the run ends, or not.
    let connections = &load.connections;
    assert_eq!((connections.open_at_start, connections.established), (1, 2));
    assert!(
        (2..=3).contains(&connections.closed_idle),
        "{connections:?}"
    );
    assert_eq!(server.stop(), [3, 3, 3]);
}

/// By time, the connections stay alive for the whole run.
#[test]
fn silent_close_does_not_shrink_the_load() {
    let server = closes_silently_after_3();
    let mut config = by_count(&server, 1, 2);
    config.stop = Stop::Duration(Duration::from_millis(300));
    let load = run_checked(&config);
    assert_eq!(failures(&load), []);
    // More than the first connections could carry.
    assert!(load.ledger.ok > 6, "{:?}", load.ledger);
    let answered = load.ledger.ok + load.ledger.unfinished;
    assert!((load.ledger.ok..=answered).contains(&server.requests()));
    assert!(load.connections.established >= load.ledger.ok / 3 - 2);
}

/// An announced close is the server's business.
#[test]
fn announced_close_is_no_failure() {
    let server = Server::start(|exchange| {
        if exchange.nth < 3 {
            exchange.send(OK);
            return Then::Keep;
        }
        exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        Then::Close
    });
    let load = run_checked(&by_count(&server, 9, 1));
    assert_eq!((load.ledger.ok, failures(&load)), (9, vec![]));
    assert_eq!(
        (
            load.connections.closed_by_server,
            load.connections.closed_idle
        ),
        (3, 0)
    );
    assert_eq!(server.stop(), [3, 3, 3]);
}

/// An announced close is obeyed also when the server leaves the connection open.
#[test]
fn announced_close_is_obeyed() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        Then::Keep
    });
    run_checked(&by_count(&server, 4, 1));
    assert_eq!(server.stop(), [1, 1, 1, 1]);
}

/// A reset of an idle connection is a silent close, too.
#[test]
fn reset_while_idle_is_replayed() {
    let server = Server::start(|exchange| {
        // The third request of a connection dies without a byte of a reply.
        if exchange.nth == 3 {
            return Then::Reset;
        }
        exchange.send(OK);
        Then::Keep
    });
    let load = run_checked(&by_count(&server, 8, 1));
    assert_eq!(
        (load.ledger.sent, load.ledger.ok, failures(&load)),
        (8, 8, vec![])
    );
    assert_eq!((load.ledger.replayed, load.connections.closed_idle), (3, 3));
    assert_eq!(server.requests(), 8 + 3);
}

/// A request that may not be sent twice is not, unless nothing of it was sent.
#[test]
fn post_is_not_replayed() {
    let server = Server::start(|exchange| {
        if exchange.nth == 2 {
            return Then::Close;
        }
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 4, 1);
    config.method = "POST".into();
    config.body = Some(b"body".to_vec());
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Closed, "first_byte", 2)]);
    assert_eq!((load.ledger.ok, load.ledger.replayed), (2, 0));
    assert_eq!(server.stop(), [2, 2]);
}

/// A connection that never answered anything is a failure, and is not tried for ever.
#[test]
fn death_of_a_fresh_connection_is_a_failure() {
    let server = Server::start(|_| Then::Close);
    let load = run_checked(&by_count(&server, 5, 1));
    assert_eq!(failures(&load), [(FailureClass::Closed, "first_byte", 5)]);
    assert_eq!(
        (load.ledger.replayed, load.connections.closed_by_failure),
        (0, 5)
    );
    assert_eq!(server.requests(), 5);
}

/// The second death of a replayed request is a failure.
#[test]
fn replay_happens_once() {
    let server = Server::start(|exchange| {
        if exchange.total > 1 {
            return Then::Close;
        }
        exchange.send(OK);
        Then::Keep
    });
    let load = run_checked(&by_count(&server, 2, 1));
    assert_eq!(failures(&load), [(FailureClass::Closed, "first_byte", 1)]);
    assert_eq!((load.ledger.ok, load.ledger.replayed), (1, 1));
    assert_eq!(server.requests(), 3);
}

/// What a server says before it closes an idle connection is not the answer to anything.
#[test]
fn farewell_on_an_idle_connection_is_skipped() {
    let server = Server::start(|exchange| {
        exchange.send(OK);
        exchange.send(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n");
        Then::Close
    });
    let mut config = by_count(&server, 1, 1);
    config.barriers = true;
    let load = run_checked(&config);
    // It came with the answer, or after it.
    let seen = load.ledger.ok + load.ledger.failed_total();
    assert_eq!(seen, 1);
    assert_eq!(server.requests(), 1);
}

/// Exactly so many requests per connection, closed by the client.
#[test]
fn requests_per_connection_are_exact() {
    let server = Server::start(|exchange| {
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 100, 1);
    config.requests_per_connection = Some(10);
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, failures(&load)), (100, vec![]));
    assert_eq!(load.connections.closed_by_plan, 10);
    assert_eq!((server.accepts(), server.stop()), (10, vec![10; 10]));
}

/// Where that number varies, each connection keeps to one within the limits, not all to the same, and
/// with the same seed to the same ones.
#[test]
fn requests_per_connection_vary() {
    let of_connections = |seed| {
        let server = Server::start(|exchange| {
            exchange.send(OK);
            Then::Keep
        });
        let mut config = by_count(&server, 200, 1);
        config.requests_per_connection = Some(10);
        config.requests_jitter = 4;
        config.shape.seed = seed;
        let load = run_checked(&config);
        assert_eq!((load.ledger.ok, failures(&load)), (200, vec![]));
        assert_eq!(load.plan.requests_jitter, Some(4));
        let closed = &load.connections;
        assert_eq!((closed.closed_idle, closed.closed_by_failure), (0, 0));
        // In no order: the threads of the server end when they are let.
        let mut counts = server.stop();
        counts.sort_unstable();
        // Only the last connection may have had less to do.
        let beyond = counts.iter().filter(|count| !(6..=14).contains(*count));
        assert!(beyond.count() <= 1, "{counts:?}");
        assert!(counts.last().is_some_and(|most| *most <= 14), "{counts:?}");
        assert!(counts[1] < counts[counts.len() - 1], "{counts:?}");
        counts
    };
    assert_eq!(of_connections(7), of_connections(7));
    assert_ne!(of_connections(7), of_connections(8));
}

/// Connections end when they have lived as long as they may, with nothing in flight on them.
#[test]
fn connections_live_as_long_as_asked() {
    let server = Server::start(|exchange| {
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 0, 2);
    // sleeps: a lifetime is what is tested
    config.connection_lifetime = Some(Duration::from_millis(20));
    config.stop = Stop::Duration(Duration::from_millis(300));
    let load = run_checked(&config);
    assert_eq!((failures(&load), load.ledger.replayed), (vec![], 0));
    let closed = load.connections.closed_by_plan;
    // Each of two places has one connection after the other, none shorter than its lifetime.
    assert!((2..=30).contains(&closed), "{:?}", load.connections);
    assert_eq!(
        (
            load.connections.closed_idle,
            load.connections.closed_by_failure
        ),
        (0, 0)
    );
    assert_eq!(load.plan.connection_lifetime_ns, Some(20_000_000));
    assert_eq!(server.accepts(), 2 + load.connections.established);
}

/// Never fewer and never more connections than asked, however they fall on threads.
#[test]
fn connections_are_exact() {
    for (connections, threads) in [(1, 1), (3, 2), (5, 3), (8, 8)] {
        let server = Server::start(|exchange| {
            exchange.send(OK);
            Then::Keep
        });
        let mut config = by_count(&server, 50, connections);
        config.threads = threads;
        let load = run_checked(&config);
        assert_eq!(load.connections.open_at_start, u64::from(connections));
        assert_eq!((load.ledger.ok, server.requests()), (50, 50));
        assert_eq!(server.accepts(), u64::from(connections));
    }
}

/// IPv6 hosts are written in brackets, and every address of a name is tried.
#[test]
fn every_address_is_tried() {
    let server = Server::start_on((Ipv6Addr::LOCALHOST, 0).into(), |exchange| {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            exchange.head.len()
        );
        exchange.send(answer.as_bytes());
        exchange.send(exchange.head.as_bytes());
        Then::Keep
    });
    let port = server.port();
    let fetched = loadgen::fetch(&format!("http://[::1]:{port}/"), &[]).unwrap();
    let head = String::from_utf8(fetched.body).unwrap();
    assert!(
        head.contains(&format!("\r\nHost: [::1]:{port}\r\n")),
        "{head}"
    );

    let mut names = ("localhost", port).to_socket_addrs().unwrap();
    if !names.any(|address| address.is_ipv6()) {
        println!("skipped: localhost has no IPv6 address here");
        return;
    }
    let mut config = by_count(&server, 6, 2);
    config.url = format!("http://localhost:{port}/");
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, failures(&load)), (6, vec![]));
    assert_eq!((server.requests(), server.accepts()), (7, 3));
}

/// Connections come from the given source addresses in turn; one of the wrong kind is refused.
#[test]
fn source_addresses_take_turns() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let server = Server::start(move |exchange| {
        log.lock().unwrap().push(exchange.peer().to_string());
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 4, 4);
    config.barriers = true;
    config.requests_per_connection = Some(1);
    config.source_addresses = vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()];
    let load = run_checked(&config);
    assert_eq!(load.ledger.ok, 4);
    for peer in seen.lock().unwrap().iter() {
        assert!(peer == "127.0.0.2" || peer == "127.0.0.3", "{peer}");
    }
    config.source_addresses = vec!["::1".parse().unwrap()];
    let error = run_refused(&config);
    assert!(error.to_string().contains("do not mix"), "{error}");
}
