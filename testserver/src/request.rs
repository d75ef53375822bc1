//! Reads requests from bytes. Pure: the same bytes give the same answer, however they arrived.

use httparse::{Error as ParseError, Header, Status as Progress};

use crate::response::Status;

/// What the bytes at hand amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// A request.
    Complete(Request),
    /// Not a request: answer with this and end the connection.
    Refused(Status),
}

/// A request that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Bytes that it takes.
    pub(crate) length: usize,
    /// What to answer.
    pub(crate) status: Status,
    /// `HEAD`: no body in the response.
    pub(crate) head_only: bool,
    /// Whether the connection goes on afterwards.
    pub(crate) keep_alive: bool,
    /// HTTP/1.0: a connection that goes on has to be announced.
    pub(crate) old_version: bool,
}

/// Reads the first request of the bytes; `name_path` is the path of the file besides `/`.
pub(crate) fn parse(bytes: &[u8], name_path: &str) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    // A longer head is refused whether or not its end is here already.
    let window = &bytes[..bytes.len().min(MAX_HEAD_BYTES)];
    let length = match request.parse(window) {
        Ok(Progress::Complete(length)) => length,
        Ok(Progress::Partial) if window.len() == MAX_HEAD_BYTES => {
            return Parsed::Refused(Status::HeadTooLarge);
        }
        Ok(Progress::Partial) => return Parsed::Incomplete,
        Err(ParseError::TooManyHeaders) => return Parsed::Refused(Status::HeadTooLarge),
        Err(ParseError::Version) => return Parsed::Refused(Status::VersionNotSupported),
        Err(_) => return Parsed::Refused(Status::BadRequest),
    };
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Parsed::Refused(Status::BadRequest);
    };
    if let Err(status) = check_framing(request.headers, version) {
        return Parsed::Refused(status);
    }
    let status = match method {
        "GET" | "HEAD" if is_served(target, name_path) => Status::Ok,
        "GET" | "HEAD" => Status::NotFound,
        _ => Status::MethodNotAllowed,
    };
    Parsed::Complete(Request {
        length,
        status,
        head_only: method == "HEAD",
        keep_alive: keeps_alive(request.headers, version),
        old_version: version == 0,
    })
}

/// Refuses what would leave the end of the request in doubt, and bodies.
fn check_framing(headers: &[Header<'_>], version: u8) -> Result<(), Status> {
    let mut hosts = 0;
    for header in headers {
        if header.name.eq_ignore_ascii_case("host") {
            hosts += 1;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Status::ContentTooLarge);
        } else if header.name.eq_ignore_ascii_case("content-length") {
            let digits = header.value.trim_ascii();
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(Status::BadRequest);
            }
            if digits.iter().any(|&digit| digit != b'0') {
                return Err(Status::ContentTooLarge);
            }
        }
    }
    // RFC 9112, section 3.2: exactly one Host in HTTP/1.1.
    if hosts > 1 || (hosts == 0 && version == 1) {
        return Err(Status::BadRequest);
    }
    Ok(())
}

fn keeps_alive(headers: &[Header<'_>], version: u8) -> bool {
    let mut keep_alive = version == 1;
    let connection = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("connection"));
    for option in connection.flat_map(|header| header.value.split(|&byte| byte == b',')) {
        let option = option.trim_ascii();
        if option.eq_ignore_ascii_case(b"close") {
            return false;
        }
        keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
    }
    keep_alive
}

/// Compares the path of a target, in origin or absolute form, its query aside.
pub(crate) fn is_served(target: &str, name_path: &str) -> bool {
    let absolute = target
        .strip_prefix("http://")
        .or_else(|| target.strip_prefix("https://"));
    let origin = match absolute {
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let path = origin.split('?').next().unwrap_or_default();
    path == "/" || path == name_path
}

/// Longest request head, and size of a connection's buffer: what nginx takes by default for one
/// line, and more than any load generator sends.
pub(crate) const MAX_HEAD_BYTES: usize = 8192;
/// More than any client sends on its own, little enough for the stack.
const MAX_HEADERS: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(bytes: &str, expected: Parsed) {
        assert_eq!(parse(bytes.as_bytes(), "/body"), expected, "{bytes:?}");
    }

    fn get(length: usize) -> Request {
        Request {
            length,
            status: Status::Ok,
            head_only: false,
            keep_alive: true,
            old_version: false,
        }
    }

    /// Paths, methods and the two versions.
    #[test]
    fn reads_what_is_asked() {
        let root = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        check(root, Parsed::Complete(get(root.len())));
        let query = "GET /body?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        check(query, Parsed::Complete(get(query.len())));
        let absolute = "GET http://a:80/body HTTP/1.1\r\nHost: a\r\n\r\n";
        check(absolute, Parsed::Complete(get(absolute.len())));
        let bare = "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n";
        check(bare, Parsed::Complete(get(bare.len())));
        let other = "GET /other HTTP/1.1\r\nHost: a\r\n\r\n";
        check(
            other,
            Parsed::Complete(Request {
                status: Status::NotFound,
                ..get(other.len())
            }),
        );
        let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
        check(
            head,
            Parsed::Complete(Request {
                head_only: true,
                ..get(head.len())
            }),
        );
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        check(
            post,
            Parsed::Complete(Request {
                status: Status::MethodNotAllowed,
                ..get(post.len())
            }),
        );
    }

    /// Keep-alive follows the version, then the Connection header, where close wins.
    #[test]
    fn keep_alive_by_version_and_header() {
        for (version, connection, keep_alive) in [
            ("1.1", "", true),
            ("1.1", "Connection: Close\r\n", false),
            ("1.1", "Connection: upgrade, close\r\n", false),
            (
                "1.1",
                "Connection: keep-alive\r\nConnection: close\r\n",
                false,
            ),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
        ] {
            let bytes = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
            check(
                &bytes,
                Parsed::Complete(Request {
                    keep_alive,
                    old_version: version == "1.0",
                    ..get(bytes.len())
                }),
            );
        }
    }

    /// What is not a request, or would leave its end in doubt, is refused with the right status.
    #[test]
    fn refuses_what_is_not_a_request() {
        for (bytes, status) in [
            ("\u{1}\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/1.1\r\n\r\n", Status::BadRequest),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                Status::BadRequest,
            ),
            ("GET / HTTP/2.0\r\n\r\n", Status::VersionNotSupported),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
                Status::BadRequest,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
                Status::ContentTooLarge,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                Status::ContentTooLarge,
            ),
        ] {
            check(bytes, Parsed::Refused(status));
        }
    }

    /// The limits on a head hold exactly, whether or not its end has arrived.
    #[test]
    fn limits_the_head() {
        let head = |length: usize| {
            let frame = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
            let filler = "x".repeat(length - frame);
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {filler}\r\n\r\n")
        };
        check(&head(MAX_HEAD_BYTES), Parsed::Complete(get(MAX_HEAD_BYTES)));
        let long = head(MAX_HEAD_BYTES + 1);
        check(&long, Parsed::Refused(Status::HeadTooLarge));
        check(
            &long[..MAX_HEAD_BYTES],
            Parsed::Refused(Status::HeadTooLarge),
        );
        check(&long[..MAX_HEAD_BYTES - 1], Parsed::Incomplete);
        let many = format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "X: y\r\n".repeat(MAX_HEADERS)
        );
        check(&many, Parsed::Refused(Status::HeadTooLarge));
    }

    /// Feeds bytes in pieces, as a connection does, and collects what comes of them.
    fn feed(pieces: &[&[u8]]) -> (Vec<Request>, Option<Status>) {
        let mut buffer = Vec::new();
        let mut requests = Vec::new();
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                match parse(&buffer, "/body") {
                    Parsed::Incomplete => break,
                    Parsed::Complete(request) => {
                        buffer.drain(..request.length);
                        requests.push(request);
                    }
                    Parsed::Refused(status) => return (requests, Some(status)),
                }
            }
        }
        (requests, None)
    }

    fn any_request() -> impl Strategy<Value = String> {
        prop_oneof![
            8 => ("(GET|HEAD|POST)", "/(body|x)?", "1\\.[01]", "(close|keep-alive|x)", "[a-z]{0,40}")
                .prop_map(|(method, path, version, connection, filler)| format!(
                    "{method} {path} HTTP/{version}\r\nHost: a\r\nConnection: {connection}\r\nX: {filler}\r\n\r\n"
                )),
            1 => "[ -~]{0,30}\r\n\r\n",
        ]
    }

    proptest! {
        /// However a stream of requests is cut, the same comes of it as in one piece.
        #[test]
        fn splits_do_not_matter(
            requests in proptest::collection::vec(any_request(), 1..6),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let stream = requests.concat().into_bytes();
            let mut cuts: Vec<usize> =
                cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&stream[from..cut]);
                from = cut;
            }
            pieces.push(&stream[from..]);
            prop_assert_eq!(feed(&pieces), feed(&[&stream]));
        }

        /// No bytes make the parser panic, and a request never takes more than there is.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Parsed::Complete(request) = parse(&bytes, "/body") {
                prop_assert!(request.length > 0 && request.length <= bytes.len());
            }
        }
    }
}
