//! What is sent and where it goes: mixes, placeholders, checks, Unix sockets, PROXY headers.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use loadgen::{Address, Check, Config, LoadError, ProxyProtocol, RequestSpec, Stage, Stop, run};
use recording::{Arrivals, FailureClass};
use sha2::{Digest as _, Sha256};

use crate::http2::http2;
use crate::peer2::{Answer, Judge};
use crate::server::{OK, Server, Then};
use crate::{by_count, check_account, failures, run_checked, run_refused};

type Seen = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A server that writes down what it is sent.
fn noting() -> (Server, Seen) {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let server = Server::start(move |exchange| {
        let request = (exchange.head.to_owned(), exchange.body.to_owned());
        log.lock().unwrap().push(request);
        exchange.send(OK);
        Then::Keep
    });
    (server, seen)
}

fn spec(name: &str, weight: u32, method: &str, path: &str) -> RequestSpec {
    RequestSpec {
        name: name.into(),
        weight,
        method: Some(method.into()),
        path: Some(path.into()),
        origin: format!("mix.toml:{weight}"),
        ..RequestSpec::default()
    }
}

/// Weights are exact over a whole number of cycles, on both sides, and each class has its results.
#[test]
fn weights_are_exact() {
    for depth in [1, 4] {
        let (server, seen) = noting();
        let mut config = by_count(&server, 200, 4);
        config.threads = 2;
        config.depth = depth;
        config.headers = vec![("X-All".into(), "1".into()), ("X-Own".into(), "a".into())];
        let mut post = spec("post", 10, "POST", "/post");
        post.body = Some(b"twelve bytes".to_vec());
        post.headers = vec![("x-own".into(), "b".into())];
        config.requests = vec![spec("read", 90, "GET", "/read"), post];
        let load = run_checked(&config);
        let mut counts = BTreeMap::new();
        for (head, body) in seen.lock().unwrap().iter() {
            let line = head.lines().next().unwrap().to_owned();
            assert!(head.contains("X-All: 1\r\n"), "{head}");
            let own = if line.starts_with("POST") {
                "x-own: b"
            } else {
                "X-Own: a"
            };
            assert!(head.contains(own) && head.to_lowercase().matches("x-own").count() == 1);
            assert_eq!(body.len(), if line.starts_with("POST") { 12 } else { 0 });
            *counts.entry(line).or_insert(0) += 1;
        }
        let wanted = [
            ("GET /read HTTP/1.1".to_owned(), 180),
            ("POST /post HTTP/1.1".to_owned(), 20),
        ];
        assert_eq!(counts, BTreeMap::from(wanted));
        let classes = &load.measures.as_ref().unwrap().classes;
        let found: Vec<_> = classes
            .iter()
            .map(|class| (class.name.as_str(), class.weight, class.ledger.ok))
            .collect();
        assert_eq!(found, [("read", 90, 180), ("post", 10, 20)]);
        for class in classes {
            assert!(class.ledger.balances());
            assert_eq!(class.latency.as_ref().unwrap().count, class.ledger.ok);
        }
    }
}

/// Failures belong to their class, by its own statuses.
#[test]
fn failures_belong_to_their_class() {
    let server = Server::start(|exchange| {
        if exchange.head.contains("/gone") {
            exchange.send(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
        } else {
            exchange.send(OK);
        }
        Then::Keep
    });
    let mut config = by_count(&server, 30, 3);
    let mut allowed = spec("allowed", 1, "GET", "/gone");
    allowed.expected_statuses = Some(vec![404..=404]);
    config.requests = vec![
        spec("good", 1, "GET", "/"),
        spec("gone", 1, "GET", "/gone"),
        allowed,
    ];
    let load = run_checked(&config);
    let classes = &load.measures.as_ref().unwrap().classes;
    let found: Vec<_> = classes
        .iter()
        .map(|class| (class.ledger.ok, class.ledger.failed_total()))
        .collect();
    assert_eq!(found, [(10, 0), (0, 10), (10, 0)]);
    assert_eq!(failures(&load), [(FailureClass::Status, "check", 10)]);
}

/// What is in flight over the end of a warm-up and over the deadline is carried by class.
#[test]
fn classes_balance_over_edges() {
    let server = Server::start(|exchange| {
        // sleeps: requests have to be in flight at the edges
        std::thread::sleep(std::time::Duration::from_millis(30));
        exchange.send(OK);
        Then::Keep
    });
    let mut config = by_count(&server, 1, 6);
    config.warmup = loadgen::Warmup::Time(std::time::Duration::from_millis(50));
    config.stop = Stop::Duration(std::time::Duration::from_millis(100));
    config.requests = vec![spec("a", 2, "GET", "/a"), spec("b", 1, "GET", "/b")];
    let load = run_checked(&config);
    let classes = &load.measures.as_ref().unwrap().classes;
    let sum = |part: fn(&recording::Ledger) -> u64| -> u64 {
        classes.iter().map(|class| part(&class.ledger)).sum()
    };
    assert_eq!(sum(|ledger| ledger.carried_in), load.ledger.carried_in);
    assert_eq!(sum(|ledger| ledger.unfinished), load.ledger.unfinished);
    assert!(classes.iter().all(|class| class.ledger.balances()));
}

/// Each number of a sequence is sent exactly once, whatever the threads; lengths stay.
#[test]
fn sequences_are_complete() {
    let (server, seen) = noting();
    let mut config = by_count(&server, 300, 6);
    config.threads = 3;
    config.depth = 2;
    config.url = server.url("/item/{seq:4}?r={random:6}");
    config.body = Some(b"id={seq:6}".to_vec());
    config.method = "PUT".into();
    config.placeholders = true;
    run_checked(&config);
    let mut numbers: Vec<u64> = Vec::new();
    for (head, body) in seen.lock().unwrap().iter() {
        let path = head.strip_prefix("PUT /item/").unwrap();
        let number: u64 = path[..4].parse().unwrap();
        assert_eq!(body, format!("id={number:06}").as_bytes());
        assert!(
            path[7..13].bytes().all(|digit| digit.is_ascii_digit()),
            "{path}"
        );
        numbers.push(number);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..300));
}

/// A request that is sent again is the same request, number included.
#[test]
fn replays_repeat_their_number() {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let server = Server::start(move |exchange| {
        log.lock()
            .unwrap()
            .push((exchange.head.to_owned(), Vec::new()));
        exchange.send(OK);
        if exchange.nth == 3 {
            Then::Close
        } else {
            Then::Keep
        }
    });
    let mut config = by_count(&server, 30, 2);
    config.url = server.url("/{seq:2}");
    config.placeholders = true;
    let load = run_checked(&config);
    assert_eq!(load.ledger.ok, 30);
    let seen = seen.lock().unwrap();
    let paths: std::collections::BTreeSet<_> = seen.iter().map(|(head, _)| &head[..7]).collect();
    assert_eq!(paths.len(), 30);
}

/// Without being asked for, braces are only braces.
#[test]
fn placeholders_are_opt_in() {
    let (server, seen) = noting();
    let mut config = by_count(&server, 1, 1);
    config.url = server.url("/{seq}");
    run_checked(&config);
    assert!(seen.lock().unwrap()[0].0.starts_with("GET /{seq} "));
}

/// A body of another length is a failure, and so is one of another hash, of all or of a sample.
#[test]
fn bodies_are_checked() {
    let server = Server::start(|exchange| {
        let body = if exchange.total.is_multiple_of(2) {
            "no"
        } else {
            "ok"
        };
        exchange.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").as_bytes());
        Then::Keep
    });
    let mut config = by_count(&server, 40, 1);
    config.check.length = Some(3);
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Content, "check", 40)]);
    config.check = Check {
        length: Some(2),
        sha256: Some(Sha256::digest(b"ok").into()),
    };
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Content, "check", 20)]);
    assert_eq!(load.measures.as_ref().unwrap().hashed_bodies, 40);
    // Every fourth: numbers 0, 4, 8, whose bodies are right.
    config.hash_every = 4;
    let load = run_checked(&config);
    assert_eq!((failures(&load), load.ledger.ok), (vec![], 40));
    assert_eq!(load.measures.as_ref().unwrap().hashed_bodies, 10);
}

/// Chunked bodies are checked without their framing, responses to HEAD not at all.
#[test]
fn checks_see_bodies_only() {
    let server = Server::start(|exchange| {
        if exchange.head.starts_with("HEAD") {
            exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        } else {
            exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n");
            exchange.send(b"1\r\nk\r\n0\r\n\r\n");
        }
        Then::Keep
    });
    let mut config = by_count(&server, 4, 1);
    config.check = Check {
        length: Some(2),
        sha256: Some(Sha256::digest(b"ok").into()),
    };
    assert_eq!(failures(&run_checked(&config)), []);
    config.method = "HEAD".into();
    assert_eq!(failures(&run_checked(&config)), []);
}

/// A request of a mix that makes no sense is named by its place.
#[test]
fn bad_requests_are_named_by_their_place() {
    let (server, _) = noting();
    let mut config = by_count(&server, 1, 1);
    config.requests = vec![spec("a", 7, "GE T", "/")];
    let error = run_refused(&config).to_string();
    assert!(error.starts_with("mix.toml:7: method"), "{error}");
    config.requests = vec![spec("a", 8, "GET", "/a b")];
    let error = run_refused(&config).to_string();
    assert!(error.starts_with("mix.toml:8: the path holds"), "{error}");
}

/// Another address gets the connections, the URL the Host line.
#[test]
fn connects_elsewhere() {
    let (server, seen) = noting();
    let mut config = by_count(&server, 2, 1);
    config.url = "http://example.org/a".into();
    config.connect_to = Some(format!("127.0.0.1:{}", server.port()));
    assert_eq!(run_checked(&config).ledger.ok, 2);
    assert!(
        seen.lock().unwrap()[0]
            .0
            .contains("\r\nHost: example.org\r\n")
    );
    config.connect_to = Some("127.0.0.1:x".into());
    assert!(run_refused(&config).to_string().contains("port \"x\""));
}

/// A source address that this machine does not have is refused before anything is sent.
#[test]
fn foreign_source_is_refused() {
    let (server, _) = noting();
    let mut config = by_count(&server, 1, 1);
    // TEST-NET-1 belongs to nobody.
    config.source_addresses = vec!["192.0.2.1".parse().unwrap()];
    let error = run_refused(&config);
    assert!(matches!(error, LoadError::Source { .. }), "{error}");
    assert!(error.to_string().contains("ip address"), "{error}");
    assert_eq!(server.accepts(), 0);
}

/// Requests over a Unix socket; a path without one is named with what to do.
#[test]
fn unix_sockets_carry_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let mut threads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            threads.push(std::thread::spawn(move || {
                let (mut count, mut buffer) = (0, [0; 4096]);
                // Requests come one at a time and are small: one read is one request.
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    count += 1;
                    stream.write_all(OK).unwrap();
                }
                count
            }));
        }
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        counts.sum::<u64>()
    });
    let mut config = Config::new("http://localhost/a");
    config.unix_socket = Some(path.clone());
    config.connections = 2;
    config.stop = Stop::Requests(50);
    let load = run(&config, &mut ()).unwrap();
    check_account(&load);
    assert_eq!((load.ledger.ok, server.join().unwrap()), (50, 50));
    std::fs::remove_file(&path).unwrap();
    let error = run_refused(&config);
    assert!(
        matches!(&error, LoadError::Unreachable { addresses, .. } if addresses == &[Address::Unix(path)]),
        "{error}"
    );
    assert!(error.to_string().contains("no such socket"), "{error}");
    config.connect_to = Some("127.0.0.1".into());
    assert!(
        run_refused(&config)
            .to_string()
            .contains("exclude each other")
    );
}

/// Takes one connection and returns what came before the first request, with both ends.
fn greeting(version: ProxyProtocol, claimed: Option<&str>) -> (Vec<u8>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = Config::new(format!("http://{}/", listener.local_addr().unwrap()));
    config.stop = Stop::Requests(1);
    config.proxy_protocol = Some(version);
    config.proxy_source = claimed.map(|claimed| claimed.parse().unwrap());
    let client = std::thread::spawn(move || run(&config, &mut ()).unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    let at = loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let is_whole = bytes.ends_with(b"\r\n\r\n");
        if let Some(at) = bytes.windows(4).position(|window| window == b"GET ")
            && is_whole
        {
            break at;
        }
        assert!(count > 0, "the connection ended before a request");
    };
    stream.write_all(OK).unwrap();
    let load = client.join().unwrap();
    assert_eq!(load.ledger.ok, 1);
    bytes.truncate(at);
    (bytes, stream)
}

/// A PROXY header of either version comes before everything else and names the real ends, or the
/// source that was asked for.
#[test]
fn proxy_headers_come_first() {
    let (found, stream) = greeting(ProxyProtocol::V1, None);
    let (peer, own) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
    let wanted = format!(
        "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
        peer.port(),
        own.port()
    );
    assert_eq!(String::from_utf8(found).unwrap(), wanted);
    let (found, stream) = greeting(ProxyProtocol::V1, Some("192.0.2.7:4711"));
    let port = stream.local_addr().unwrap().port();
    let wanted = format!("PROXY TCP4 192.0.2.7 127.0.0.1 4711 {port}\r\n");
    assert_eq!(String::from_utf8(found).unwrap(), wanted);
    let (found, stream) = greeting(ProxyProtocol::V2, None);
    assert_eq!(found.len(), 28);
    assert_eq!(
        found[24..26],
        stream.peer_addr().unwrap().port().to_be_bytes()
    );
}

/// Over HTTP/2 a mix with placeholders and checks at a rate is as exact: an independent server counts
/// the same requests and bytes.
#[test]
fn mixes_are_exact_over_http2() {
    let answer = Answer {
        body: Bytes::from_static(b"ok"),
        ..Answer::default()
    };
    let judge = Judge::start(&h2::server::Builder::new(), answer);
    let mut config = http2(judge.url(), 120, 3, 4);
    config.threads = 2;
    config.shape.arrivals = Arrivals::Poisson;
    config.shape.rates = vec![Stage::constant(2000.0)];
    config.placeholders = true;
    config.check = Check {
        length: Some(2),
        sha256: Some(Sha256::digest(b"ok").into()),
    };
    let mut post = spec("post", 1, "POST", "/post?{seq:5}");
    post.body = Some(b"id={random:9}".to_vec());
    config.requests = vec![spec("read", 3, "GET", "/read?{seq:5}"), post];
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, failures(&load)), (120, vec![]));
    let seen = &judge.seen;
    assert_eq!(
        (seen.requests.load(SeqCst), seen.errors.load(SeqCst)),
        (120, 0)
    );
    assert_eq!(seen.body_bytes.load(SeqCst), 30 * 12);
    let measures = load.measures.as_ref().unwrap();
    let ok: Vec<u64> = measures
        .classes
        .iter()
        .map(|class| class.ledger.ok)
        .collect();
    assert_eq!(ok, [90, 30]);
    assert_eq!(measures.hashed_bodies, 120);
    assert_eq!(measures.header_field_bytes, None);
    let schedule = measures.schedule.as_ref().unwrap();
    assert_eq!((schedule.due, schedule.dropped), (120, 0));
    assert_eq!(measures.phases.first_byte.as_ref().unwrap().count, 120);
}

/// A judge that answers something else is found out over HTTP/2, too.
#[test]
fn bodies_are_checked_over_http2() {
    let answer = Answer {
        body: Bytes::from_static(b"no"),
        ..Answer::default()
    };
    let judge = Judge::start(&h2::server::Builder::new(), answer);
    let mut config = http2(judge.url(), 20, 1, 4);
    config.check.sha256 = Some(Sha256::digest(b"ok").into());
    let load = run_checked(&config);
    assert_eq!(failures(&load), [(FailureClass::Content, "check", 20)]);
}
