//! Requests and responses, one connection at a time, in every style and way.

use testserver::{Body, Config, Server, Style};

use crate::client::{Client, GET, Running, every_way};

fn in_every_way(body_bytes: u64, check: impl Fn(&mut Client)) {
    for config in every_way() {
        let running = Running::start(Config {
            body: Body::Generated(body_bytes),
            ..config
        });
        check(&mut running.connect());
        running.stop().expect("a clean end");
    }
}

/// One connection serves many requests, each with the same bytes.
#[test]
fn keeps_a_connection_alive() {
    in_every_way(20, |client| {
        client.send(GET);
        let first = client.response();
        assert_eq!(first.status, 200);
        assert_eq!(first.body, b"000000000000000\n0000");
        assert!(!first.head.contains("Connection:"), "{}", first.head);
        for _request in 0..100 {
            client.send("GET /body?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.response(), first);
        }
        client.stop_sending();
        client.expect_end();
    });
}

/// Nothing in a response depends on time or on the style, so styles can be compared.
#[test]
fn styles_answer_alike() {
    let mut responses = every_way().into_iter().map(|config| {
        let spec = config.spec();
        let running = Running::start(config);
        let mut client = running.connect();
        client.send(GET);
        (spec, client.response())
    });
    let (_, first) = responses.next().expect("there are styles");
    for (spec, response) in responses {
        assert_eq!(response, first, "{spec}");
    }
}

/// Requests that arrive together are answered in order, and bytes of the next one are kept.
#[test]
fn answers_pipelined_requests_in_order() {
    in_every_way(5, |client| {
        let missing = "GET /missing HTTP/1.1\r\nHost: a\r\n\r\n";
        client.send(&[GET, missing, GET, &GET[..10]].concat());
        assert_eq!(client.response().status, 200);
        assert_eq!(client.response().status, 404);
        assert_eq!(client.response().status, 200);
        client.send(&GET[10..]);
        assert_eq!(client.response().status, 200);
    });
}

/// A request may arrive byte by byte.
#[test]
fn reads_a_request_in_pieces() {
    in_every_way(1, |client| {
        client.stream.set_nodelay(true).expect("a TCP socket");
        for byte in GET.split_inclusive(|_| true) {
            client.send(byte);
        }
        assert_eq!(client.response().body, b"0");
    });
}

/// HEAD has the head of GET and no body; the connection goes on.
#[test]
fn answers_head_without_body() {
    in_every_way(3, |client| {
        client.send(GET);
        let get = client.response();
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        let (status, head, length) = client.head();
        assert_eq!((status, length), (200, 3));
        assert_eq!(head, get.head);
        client.send(GET);
        assert_eq!(client.response(), get);
    });
}

/// `Connection: close` and HTTP/1.0 end the connection after the response, and it is announced.
#[test]
fn closes_when_asked() {
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
    ] {
        in_every_way(1, |client| {
            client.send(request);
            let response = client.response();
            assert!(response.head.contains("\r\nConnection: close\r\n"));
            client.expect_end();
        });
    }
}

/// HTTP/1.0 with keep-alive goes on, and it is announced.
#[test]
fn keeps_an_old_connection_alive_when_asked() {
    in_every_way(1, |client| {
        for _request in 0..2 {
            client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            let response = client.response();
            assert!(response.head.contains("\r\nConnection: keep-alive\r\n"));
        }
    });
}

/// What is not a request gets its status and an orderly end, whatever follows it.
#[test]
fn refuses_and_closes() {
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(9000));
    for (request, status) in [
        ("\u{1}\u{2}\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
            413,
        ),
        (long.as_str(), 431),
    ] {
        in_every_way(1, |client| {
            client.send(&[GET, request, GET].concat());
            assert_eq!(client.response().status, 200);
            let refusal = client.response();
            assert_eq!(refusal.status, status, "{request:?}");
            assert!(refusal.head.contains("\r\nConnection: close\r\n"));
            client.expect_end();
        });
    }
}

/// Other methods and paths are refused without ending the connection.
#[test]
fn refuses_and_goes_on() {
    in_every_way(1, |client| {
        client.send("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.response();
        assert_eq!(response.status, 405);
        assert!(response.head.contains("\r\nAllow: GET, HEAD\r\n"));
        client.send("GET /../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().status, 404);
        client.send(GET);
        assert_eq!(client.response().status, 200);
    });
}

/// An empty file is a response without a body.
#[test]
fn serves_an_empty_file() {
    in_every_way(0, |client| {
        for _request in 0..2 {
            client.send(GET);
            let response = client.response();
            assert_eq!((response.status, response.body.len()), (200, 0));
        }
    });
}

/// A given file is served at `/` and at its name, and is left alone.
#[test]
fn serves_a_given_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a b.txt");
    std::fs::write(&path, "content").expect("the folder is writable");
    for style in Style::ALL {
        let server = Server::bind(Config {
            body: Body::File(path.clone()),
            ..Config::new(style)
        })
        .expect("a free port");
        assert_eq!(server.url_path(), "/a%20b.txt");
        drop(server);
        let running = Running::start(Config {
            body: Body::File(path.clone()),
            ..Config::new(style)
        });
        let mut client = running.connect();
        client.send("GET /a%20b.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().body, b"content");
    }
    assert!(path.exists());
}

/// `open-read` sees that the file has changed or gone; `sendfile` keeps the one it opened.
#[test]
fn open_read_looks_at_the_file_each_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file");
    std::fs::write(&path, "first").expect("the folder is writable");
    let start = |style| {
        Running::start(Config {
            body: Body::File(path.clone()),
            ..Config::new(style)
        })
    };
    let (open_read, sendfile) = (start(Style::OpenRead), start(Style::Sendfile));
    let replacement = folder.path().join("other");
    std::fs::write(&replacement, "second one").expect("the folder is writable");
    std::fs::rename(&replacement, &path).expect("the same folder");
    let mut client = open_read.connect();
    client.send(GET);
    assert_eq!(client.response().body, b"second one");
    let mut cached = sendfile.connect();
    cached.send(GET);
    assert_eq!(cached.response().body, b"first");
    std::fs::remove_file(&path).expect("it exists");
    client.send(GET);
    assert_eq!(client.response().status, 500);
    client.expect_end();
}
