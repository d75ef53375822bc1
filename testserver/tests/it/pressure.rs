//! Many connections, slow readers, large bodies, and the end of a server.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;

use testserver::{Body, Config, ServeError, Server, Style};

use crate::client::{GET, Running};

/// More than any socket buffer takes, so that writes block.
const LARGE: u64 = 24 << 20;

/// A large body reaches a client that reads only after the server had to stop writing, unharmed, and
/// so do the pipelined requests behind it.
#[test]
fn large_bodies_reach_slow_readers() {
    for style in Style::ALL {
        let running = Running::start(Config {
            body: Body::Generated(LARGE),
            ..Config::new(style)
        });
        let mut slow = running.connect();
        slow.send(&[GET, GET, "GET /missing HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        // A second connection gets all of its response while the first one reads nothing: so the
        // first one is blocked and does not hold up the loop.
        let mut other = running.connect();
        other.send(GET);
        let expected = other.response();
        assert_eq!(expected.body.len() as u64, LARGE);
        assert!(expected.body.ends_with(b"000000025165808\n"));
        for _response in 0..2 {
            assert!(slow.response() == expected, "{style}: the bodies differ");
        }
        assert_eq!(slow.response().status, 404);
    }
}

/// A client that goes away in the middle of a large body leaves the server serving.
#[test]
fn survives_clients_that_go_away() {
    for style in Style::ALL {
        let running = Running::start(Config {
            body: Body::Generated(LARGE),
            ..Config::new(style)
        });
        for _client in 0..5 {
            let mut client = running.connect();
            client.send(GET);
            let mut beginning = [0; 1000];
            client
                .stream
                .read_exact(&mut beginning)
                .expect("the beginning of the response");
        }
        let mut client = running.connect();
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().0, 200);
        running.stop().expect("a clean end");
    }
}

/// A hundred connections at once, on one worker and on two, every request answered.
#[test]
fn serves_a_hundred_connections() {
    for (style, workers) in [
        (Style::OpenRead, 1),
        (Style::Sendfile, 1),
        (Style::Sendfile, 2),
    ] {
        let running = Running::start(Config {
            workers: NonZeroU32::new(workers).expect("not zero"),
            ..Config::new(style)
        });
        let mut clients: Vec<_> = (0..100).map(|_client| running.connect()).collect();
        for _round in 0..5 {
            for client in &mut clients {
                client.send(GET);
            }
            for client in &mut clients {
                assert_eq!(client.response().body, b"0");
            }
        }
        running.stop().expect("a clean end");
    }
}

/// What is injected changes nothing in the response.
#[test]
fn injections_do_not_show_in_the_response() {
    let plain = Running::start(Config::parse("sendfile").expect("a valid spec"));
    let costly =
        Running::start(Config::parse("sendfile,spin-us=20,getppid=5").expect("a valid spec"));
    let [plain, costly] = [plain, costly].map(|running| {
        let mut client = running.connect();
        client.send(GET);
        client.response()
    });
    assert_eq!(plain, costly);
}

/// A client that sends on after a refusal is cut off in the end.
#[test]
fn endless_senders_are_cut_off() {
    for style in Style::ALL {
        let running = Running::start(Config::new(style));
        let mut client = running.connect();
        client.send("\u{1}\r\n\r\n");
        assert_eq!(client.response().status, 400);
        let chunk = [b'x'; 4096];
        let refused = (0..10_000).any(|_chunk| client.stream.write_all(&chunk).is_err());
        assert!(refused, "{style}: the server read 40 MB after refusing");
    }
}

/// Stopping ends connections in good order, on every worker.
#[test]
fn stops_cleanly() {
    let running = Running::start(Config {
        workers: NonZeroU32::new(3).expect("not zero"),
        ..Config::new(Style::Sendfile)
    });
    let mut idle: Vec<_> = (0..9).map(|_client| running.connect()).collect();
    for client in &mut idle {
        client.send(GET);
        assert_eq!(client.response().status, 200);
    }
    running.stop().expect("a clean end");
    for client in &mut idle {
        client.expect_end();
    }
}

/// A stop before the start ends the run at once.
#[test]
fn a_stop_is_not_lost() {
    let server = Server::bind(Config::new(Style::Sendfile)).expect("a free port");
    server.stop_handle().stop();
    server.run().expect("a clean end");
}

/// An address in use is an error that names it.
#[test]
fn an_address_in_use_is_named() {
    let first = Server::bind(Config::new(Style::Sendfile)).expect("a free port");
    let taken: SocketAddr = first.local_address();
    let error = Server::bind(Config {
        address: taken,
        ..Config::new(Style::Sendfile)
    })
    .expect_err("the port is taken");
    assert!(matches!(error, ServeError::Bind { address, .. } if address == taken));
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
}
