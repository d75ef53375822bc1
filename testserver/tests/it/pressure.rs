//! Many connections, slow readers, large bodies, and the end of a server.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;

use testserver::{Body, Config, ServeError, Server, Style};

use crate::client::{GET, Running, every_way};

/// More than any socket buffer takes, so that writes block.
const LARGE: u64 = 24 << 20;

/// A file of that length in a folder of its own, in which no two places are alike.
fn large_body() -> (tempfile::TempDir, Body, Vec<u8>) {
    let contents: Vec<u8> = (0..LARGE / 8).flat_map(u64::to_le_bytes).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("large");
    std::fs::write(&path, &contents).expect("the folder is writable");
    (folder, Body::File(path), contents)
}

/// A large body reaches a client that reads only after the server had to stop writing, unharmed, and
/// so do the pipelined requests behind it.
#[test]
fn large_bodies_reach_slow_readers() {
    let (_folder, body, contents) = large_body();
    for config in every_way() {
        let spec = config.spec();
        let running = Running::start(Config {
            body: body.clone(),
            ..config
        });
        let mut slow = running.connect();
        slow.send(&[GET, GET, "GET /missing HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        // A second connection gets all of its response while the first one reads nothing: so the
        // first one is blocked and does not hold up the loop.
        let mut other = running.connect();
        other.send(GET);
        let expected = other.response();
        assert!(expected.body == contents, "{spec}: the body differs");
        for _response in 0..2 {
            assert!(slow.response() == expected, "{spec}: the bodies differ");
        }
        assert_eq!(slow.response().status, 404);
    }
}

/// A client that goes away in the middle of a large body leaves the server serving.
#[test]
fn survives_clients_that_go_away() {
    let (_folder, body, _contents) = large_body();
    for config in every_way() {
        let running = Running::start(Config {
            body: body.clone(),
            ..config
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

/// A hundred connections at once, however workers wait and take them: every request is answered.
#[test]
fn serves_a_hundred_connections() {
    for spec in [
        "open-read",
        "sendfile",
        "sendfile,workers=2",
        "sendfile,workers=2,accept=shared",
        "sendfile,workers=2,accept=exclusive",
        "memory,workers=2,accept=shared,poller=io-uring",
        "memory,workers=2,accept=shared,poller=poll",
        "memory,workers=2,accept=shared,poller=select",
        "memory,workers=4,lock-us=1",
        "ring,workers=2,accept=shared",
    ] {
        let running = Running::start(Config::parse(spec).expect("a valid spec"));
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
    let spec = "sendfile,spin-us=20,getppid=5,open=2,sleep-us=1,lock-us=1,split=64";
    let costly = Running::start(Config::parse(spec).expect("a valid spec"));
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
    for config in every_way() {
        let spec = config.spec();
        let running = Running::start(config);
        let mut client = running.connect();
        client.send("\u{1}\r\n\r\n");
        assert_eq!(client.response().status, 400);
        let chunk = [b'x'; 4096];
        let refused = (0..10_000).any(|_chunk| client.stream.write_all(&chunk).is_err());
        assert!(refused, "{spec}: the server read 40 MB after refusing");
    }
}

/// Stopping ends connections in good order, on every worker.
#[test]
fn stops_cleanly() {
    let running = Running::start(Config {
        workers: NonZeroU32::new(3),
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

/// One request of so many fails, with its own status, and the connection goes on.
#[test]
fn fails_as_often_as_it_is_told() {
    let running = Running::start(Config::parse("memory,error-every=3").expect("a valid spec"));
    let mut client = running.connect();
    let statuses = [(); 7].map(|()| {
        client.send(GET);
        client.response().status
    });
    assert_eq!(statuses, [200, 200, 500, 200, 200, 500, 200]);
}

/// A compressed body says so, and is another one; a padded head has the length that was asked for.
#[test]
fn compresses_and_pads() {
    for style in Style::ALL {
        let spec = format!("{style},gzip=1,head-bytes=300");
        let running = Running::start(Config {
            body: Body::Generated(4096),
            ..Config::parse(&spec).expect("a valid spec")
        });
        let mut client = running.connect();
        client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.response();
        assert_eq!(response.status, 200, "{style}");
        assert_eq!(response.head.len(), 300, "{style}");
        assert!(response.head.contains("\r\nContent-Encoding: gzip\r\n"));
        // The magic number of gzip (RFC 1952).
        assert_eq!(response.body[..2], [0x1f, 0x8b], "{style}");
        assert!(response.body.len() < 4096, "{style}");
    }
}

/// More CPUs than there are is an error that says how many there are.
#[test]
fn too_many_cpus_are_refused() {
    let error = Server::bind(Config::parse("memory,cpus=1024").expect("a valid spec"))
        .expect_err("no machine of tests has that many");
    assert!(matches!(error, ServeError::Cpus { wanted: 1024, allowed } if allowed < 1024));
}

/// The injections of requests are timed where that is asked for, each kind on its own: a sleep takes
/// at least its time.
#[test]
fn times_injections_while_it_serves() {
    for timed in [true, false] {
        let running = Running::start(Config {
            time_injections: timed,
            // Each request sleeps for more than a slice, so that the one after it has a slice.
            ..Config::parse("memory,sleep-us=11000").expect("a valid spec")
        });
        let mut client = running.connect();
        for _request in 0..4 {
            client.send(GET);
            assert_eq!(client.response().status, 200);
        }
        let slices = running.stop().expect("a clean end");
        assert_eq!(slices.is_empty(), !timed);
        for slice in slices {
            assert_eq!(slice.requests, 1);
            let of = |wanted: &str| {
                let mut means = slice.mean_ns.iter();
                means.find(|(knob, _)| *knob == wanted).map(|(_, ns)| *ns)
            };
            // What reading the clock takes is taken out, a microsecond at most on any machine.
            assert!(of("sleep-us") > Some(10_999_000.0), "{slice:?}");
            assert!(of("getppid") < of("sleep-us"), "{slice:?}");
        }
    }
}
