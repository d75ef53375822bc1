//! One request and its whole response.

use std::sync::Arc;

use loadgen::{FetchError, Framing, HttpVersion, fetch, fetch_with};

use crate::server::{Server, Then};
use crate::tls::{Authority, always_ok, trusting};

fn always(bytes: &[u8], then: Then) -> Server {
    let bytes: Arc<[u8]> = bytes.into();
    Server::start(move |exchange| {
        exchange.send(&bytes);
        then
    })
}

/// Status, header lines in order, body and framing of a plain response.
#[test]
fn plain_response() {
    let head =
        "HTTP/1.1 404 Not Found\r\nX-B: 1\r\nX-A:  two \r\nx-b: 3\r\nContent-Length: 5\r\n\r\n";
    let server = always(format!("{head}hello").as_bytes(), Then::Keep);
    let fetched = fetch(&server.url("/"), &[("X-C".into(), "4".into())]).unwrap();
    assert_eq!(
        (fetched.status, fetched.framing),
        (404, Framing::ContentLength(5))
    );
    let lines: Vec<_> = fetched
        .headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        lines,
        [
            ("X-B", "1"),
            ("X-A", "two"),
            ("x-b", "3"),
            ("Content-Length", "5")
        ]
    );
    assert_eq!(fetched.raw_head, head.as_bytes());
    assert_eq!(
        (fetched.body.as_slice(), fetched.wire_body.as_slice()),
        (&b"hello"[..], &b"hello"[..])
    );
    assert!(fetched.reusable);
    assert_eq!(fetched.content_encoding(), None);
}

/// Chunks are undone in the body and kept in what came over the wire; content codings are reported.
#[test]
fn chunked_response() {
    let wire = "2\r\nhe\r\n3;x\r\nllo\r\n0\r\nT: 1\r\n\r\n";
    let head = "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n";
    let server = always(format!("{head}{wire}").as_bytes(), Then::Keep);
    let fetched = fetch(&server.url("/"), &[]).unwrap();
    assert_eq!(
        (fetched.framing, fetched.framing.name()),
        (Framing::Chunked, "chunked")
    );
    assert_eq!(fetched.body, b"hello");
    assert_eq!(String::from_utf8(fetched.wire_body.clone()).unwrap(), wire);
    assert_eq!(fetched.content_encoding(), Some("br"));
    assert_eq!(fetched.interim_responses, 1);
    assert!(fetched.raw_head.starts_with(b"HTTP/1.1 200 OK"));
}

/// A body until the close, and none at all.
#[test]
fn other_framings() {
    let server = always(b"HTTP/1.1 200 OK\r\n\r\nhello", Then::Close);
    let fetched = fetch(&server.url("/"), &[]).unwrap();
    assert_eq!(
        (fetched.framing, fetched.body.as_slice()),
        (Framing::Close, &b"hello"[..])
    );
    assert!(!fetched.reusable);
    let server = always(b"HTTP/1.1 204 x\r\n\r\n", Then::Keep);
    let fetched = fetch(&server.url("/"), &[]).unwrap();
    assert_eq!((fetched.framing, fetched.body.len()), (Framing::None, 0));
}

/// What is no response is an error that says why.
#[test]
fn broken_responses() {
    let check = |bytes: &[u8], wanted: &str| {
        let server = always(bytes, Then::Close);
        let error = fetch(&server.url("/"), &[]).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    check(b"", "closed the connection before it answered");
    check(b"HTTP/1.1 20", "inside the response head");
    check(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "before the end of the body",
    );
    check(
        b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
        "content-length is not a number",
    );
    let error = fetch("gopher://localhost/", &[]).unwrap_err();
    assert!(matches!(error, FetchError::Config(_)), "{error}");
}

/// A request that is fetched tells what its connection negotiated; over HTTP/2 the server has to choose
/// that.
#[test]
fn fetching_tells_what_was_negotiated() {
    let authority = Authority::new();
    let server = authority.serve();
    let config = trusting(&authority, &server, 1, 1);
    let tls = fetch_with(&config).unwrap().tls.unwrap();
    assert_eq!(
        (&*tls.version, &*tls.certificate_key, tls.alpn.as_deref()),
        ("TLSv1.3", "ECDSA P-256", Some("http/1.1"))
    );
    let mut without = authority.server_config();
    without.alpn_protocols.clear();
    let server = always_ok(without, Then::Keep);
    let mut config = trusting(&authority, &server, 1, 1);
    config.http = HttpVersion::Http2;
    let error = fetch_with(&config).unwrap_err().to_string();
    assert!(error.contains("chose none"), "{error}");
}
