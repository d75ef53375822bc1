//! Responses that end in every way that the protocol allows, and in some that it does not.

use recording::FailureClass;

use crate::server::{OK, Server, Then};
use crate::{by_count, failures, run_checked, violations};

/// A server that gives the same bytes to every request.
fn always(bytes: &'static [u8], then: Then) -> Server {
    Server::start(move |exchange| {
        exchange.send(bytes);
        then
    })
}

/// Interim responses are no responses.
#[test]
fn interim_responses_are_counted_apart() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        exchange.send(OK);
        Then::Keep
    });
    let load = run_checked(&by_count(&server, 10, 2));
    assert_eq!((load.ledger.ok, load.interim_responses), (10, 10));
    assert_eq!(load.statuses.iter().collect::<Vec<_>>(), [(&200, &10)]);
    assert_eq!(server.requests(), 10);
}

/// HEAD does not wait for the body that its length announces.
#[test]
fn head_does_not_wait() {
    let server = always(
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
        Then::Keep,
    );
    let mut config = by_count(&server, 5, 1);
    config.method = "HEAD".into();
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, server.accepts()), (5, 1));
}

/// A body without length ends with its connection, and that is a success.
#[test]
fn body_until_close_is_ok() {
    let server = always(b"HTTP/1.1 200 OK\r\n\r\nhello", Then::Close);
    let load = run_checked(&by_count(&server, 6, 2));
    assert_eq!((load.ledger.ok, failures(&load)), (6, vec![]));
    assert_eq!(
        (load.connections.closed_by_server, load.traffic.body_bytes),
        (6, 30)
    );
    assert_eq!(server.accepts(), 6);
}

/// HTTP/1.0 closes unless it says otherwise.
#[test]
fn http_1_0_closes() {
    let server = always(
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        Then::Close,
    );
    let load = run_checked(&by_count(&server, 4, 1));
    assert_eq!((load.ledger.ok, load.connections.closed_by_server), (4, 4));
    let keep = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
    let server = always(keep, Then::Keep);
    let load = run_checked(&by_count(&server, 4, 1));
    assert_eq!((load.ledger.ok, server.accepts()), (4, 1));
}

/// A body that is shorter than declared is a failure of its own, and no status of it is counted.
#[test]
fn short_body_is_a_failure() {
    let server = always(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        Then::Close,
    );
    let load = run_checked(&by_count(&server, 5, 1));
    assert_eq!(failures(&load), [(FailureClass::ShortBody, "body", 5)]);
    assert_eq!((load.ledger.ok, load.statuses.len()), (0, 0));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let server = always(chunked, Then::Close);
    let load = run_checked(&by_count(&server, 5, 1));
    assert_eq!(failures(&load), [(FailureClass::ShortBody, "body", 5)]);
}

/// A connection that ends inside a head, or is reset inside a body, says so.
#[test]
fn ends_are_told_apart() {
    let server = always(b"HTTP/1.1 200 OK\r\nContent-Le", Then::Close);
    let load = run_checked(&by_count(&server, 3, 1));
    assert_eq!(failures(&load), [(FailureClass::Closed, "head", 3)]);
    let server = always(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        Then::Reset,
    );
    let load = run_checked(&by_count(&server, 3, 1));
    let [(class, "body", 3)] = failures(&load)[..] else {
        panic!("{:?}", load.ledger);
    };
    assert_eq!(class, FailureClass::Reset);
}

/// Chunks, extensions and trailers, one byte at a time.
#[test]
fn trickled_chunks_are_read() {
    let server = Server::start(|exchange| {
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n\
                     2;a=b\r\nok\r\n1\r\n!\r\n0\r\nX-A: 1\r\n\r\n";
        for byte in text {
            exchange.send(&[*byte]);
        }
        Then::Keep
    });
    let load = run_checked(&by_count(&server, 5, 2));
    assert_eq!((load.ledger.ok, failures(&load)), (5, vec![]));
    assert_eq!(load.traffic.body_bytes, 15);
    let head =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\nX-A: 1\r\n\r\n";
    assert_eq!(load.traffic.head_bytes, 5 * head.len() as u64);
    assert_eq!(server.accepts(), 2);
}

/// Ambiguous lengths are refused, the connection is given up, and what was ambiguous is shown.
#[test]
fn ambiguous_lengths_are_refused() {
    let repeated = "content-length is repeated";
    let both = "content-length and transfer-encoding in one response";
    let number = "content-length is not a number";
    let encoding = "transfer-encoding cannot be understood";
    for (fields, what) in [
        ("Content-Length: 2\r\nContent-Length: 2", repeated),
        ("Content-Length: 2\r\nX: y\r\ncontent-length: 3", repeated),
        ("Content-Length: 2\r\nTransfer-Encoding: chunked", both),
        ("Content-Length: +2", number),
        ("Content-Length: -2", number),
        ("Content-Length: 2, 2", number),
        ("Content-Length: 99999999999999999999", number),
        ("Transfer-Encoding: chunked, chunked", encoding),
    ] {
        let server = Server::start(move |exchange| {
            exchange.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok").as_bytes());
            Then::Keep
        });
        let load = run_checked(&by_count(&server, 3, 1));
        assert_eq!(
            failures(&load),
            [(FailureClass::Protocol, "protocol", 3)],
            "{fields}"
        );
        let found = fields.replace("\r\nX: y", "").replace("\r\n", "; ");
        assert_eq!(violations(&load), [(what, found.as_str(), 3)]);
        assert_eq!(
            (load.connections.closed_by_failure, server.accepts()),
            (3, 3)
        );
        assert_eq!(server.stop(), [1, 1, 1]);
    }
}

/// Each other way to break the protocol is named, with what was found: also where the head comes in
/// pieces, and without a byte that a terminal would act on.
#[test]
fn violations_are_named() {
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(70_000));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (answer, what, found) in [
        (
            "\x1b[2J\r\n".to_owned(),
            "malformed response head: invalid HTTP version",
            "\\x1b[2J",
        ),
        (
            "HTTP/1.1 099 Low\r\n\r\n".to_owned(),
            "status code is below 100",
            "HTTP/1.1 099 Low",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
            "the server switched protocols without being asked to",
            "HTTP/1.1 101 Switching Protocols",
        ),
        (
            "HTTP/1.1 200 OK\r\nBad name: x\r\n\r\n".to_owned(),
            "malformed response head: invalid header name",
            "HTTP/1.1 200 OK",
        ),
        (
            huge,
            "response head is larger than 65536 bytes",
            "HTTP/1.1 200 OK",
        ),
        (format!("{chunked}zz\r\n"), "malformed chunk framing", "zz"),
        (
            "HTTP/1.1 204 No Content\r\n\r\nbody".to_owned(),
            "bytes after the end of the response",
            "body",
        ),
    ] {
        let sent = answer.clone();
        let server = Server::start(move |exchange| {
            exchange.send(sent.as_bytes());
            Then::Keep
        });
        let load = run_checked(&by_count(&server, 2, 1));
        assert_eq!(failures(&load), [(FailureClass::Protocol, "protocol", 2)]);
        assert_eq!(violations(&load), [(what, found, 2)]);
    }
}

/// Bytes that nobody asked for never become the next response.
#[test]
fn surplus_bytes_are_refused() {
    let server = always(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
        Then::Keep,
    );
    let load = run_checked(&by_count(&server, 3, 1));
    assert_eq!(failures(&load), [(FailureClass::Protocol, "protocol", 3)]);
    let server = always(b"220 ready\r\n", Then::Keep);
    let load = run_checked(&by_count(&server, 3, 1));
    assert_eq!(failures(&load), [(FailureClass::Protocol, "protocol", 3)]);
}

/// An endless head ends the connection, not the memory.
#[test]
fn endless_head_is_refused() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\n");
        for _ in 0..2000 {
            exchange.send(b"X-Filler: 0123456789012345678901234567890123456789\r\n");
        }
        Then::Close
    });
    let load = run_checked(&by_count(&server, 2, 1));
    assert_eq!(failures(&load), [(FailureClass::Protocol, "protocol", 2)]);
}

/// Large bodies are read to their last byte, several connections in turn.
#[test]
fn large_bodies_are_read() {
    let server = Server::start(|exchange| {
        exchange.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 8 << 20).as_bytes());
        exchange.send(&vec![b'x'; 8 << 20]);
        Then::Keep
    });
    let load = run_checked(&by_count(&server, 6, 3));
    assert_eq!((load.ledger.ok, failures(&load)), (6, vec![]));
    assert_eq!(load.traffic.body_bytes, 6 * (8 << 20));
    assert_eq!(server.accepts(), 3);
}

/// The end of a large body is seen also when the connection ends with it.
#[test]
fn large_body_until_close_is_read() {
    let server = Server::start(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\n\r\n");
        exchange.send(&vec![b'x'; 8 << 20]);
        Then::Close
    });
    let load = run_checked(&by_count(&server, 4, 2));
    assert_eq!((load.ledger.ok, failures(&load)), (4, vec![]));
    assert_eq!(load.traffic.body_bytes, 4 * (8 << 20));
}

/// A server that answers before it has read the request is heard.
#[test]
fn early_answer_is_heard() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut some = [0; 1000];
            let read = stream.read(&mut some).unwrap();
            assert!(read > 0);
            let answer =
                b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // Reads on until the client has closed, so that its answer is not lost to a reset.
            while stream.read(&mut some).is_ok_and(|count| count > 0) {}
        }
    });
    let mut config = loadgen::Config::new(format!("http://127.0.0.1:{port}/"));
    config.stop = loadgen::Stop::Requests(3);
    config.method = "POST".into();
    config.body = Some(vec![b'x'; 16 << 20]);
    config.expected_statuses = vec![413..=413];
    let load = run_checked(&config);
    assert_eq!((load.ledger.ok, failures(&load)), (3, vec![]));
    server.join().unwrap();
}
