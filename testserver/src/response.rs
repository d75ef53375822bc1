//! Response heads as bytes. Nothing in them depends on time.

use std::io::Write as _;

/// The statuses that the server answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    ContentTooLarge,
    HeadTooLarge,
    InternalError,
    VersionNotSupported,
}

impl Status {
    /// Code and reason, as in the status line.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }

    /// The code alone.
    pub(crate) fn code(self) -> u16 {
        let code = self.line().split(' ').next();
        code.and_then(|code| code.parse().ok())
            .expect("a status line begins with its code")
    }

    /// The type of the body that goes with it.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Ok => "application/octet-stream",
            _ => "text/plain",
        }
    }
}

/// What the head says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce {
    /// It ends after this response.
    Close,
    /// It goes on, which has to be said to an HTTP/1.0 client.
    KeepAlive,
    /// It goes on, as in HTTP/1.1 by default.
    Nothing,
}

impl Announce {
    const ALL: [Self; 3] = [Self::Close, Self::KeepAlive, Self::Nothing];

    fn line(self) -> &'static str {
        match self {
            Self::Close => "Connection: close\r\n",
            Self::KeepAlive => "Connection: keep-alive\r\n",
            Self::Nothing => "",
        }
    }
}

/// The heads of successful responses with one body length, built once and built again only when the
/// length changes.
pub(crate) struct Heads {
    content_length: u64,
    dress: Dress,
    by_announce: [Vec<u8>; 3],
}

/// What the heads of successful responses have besides what they need.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dress {
    /// The body is compressed.
    pub(crate) gzip: bool,
    /// Bytes to fill the head up to.
    pub(crate) head_bytes: u32,
}

impl Heads {
    pub(crate) fn new(content_length: u64, dress: Dress) -> Self {
        Self {
            content_length,
            dress,
            by_announce: Announce::ALL.map(|announce| {
                let mut head = Vec::new();
                write_head(&mut head, Status::Ok, content_length, announce, dress);
                head
            }),
        }
    }

    /// The head of a response with a body of so many bytes.
    pub(crate) fn head(&mut self, content_length: u64, announce: Announce) -> &[u8] {
        if content_length != self.content_length {
            *self = Self::new(content_length, self.dress);
        }
        &self.by_announce[announce as usize]
    }
}

/// A whole response that says nothing but its status.
pub(crate) fn status_response(status: Status, announce: Announce, head_only: bool) -> Vec<u8> {
    let mut response = Vec::new();
    let text_bytes = status.line().len() as u64 + 1;
    write_head(
        &mut response,
        status,
        text_bytes,
        announce,
        Dress::default(),
    );
    if !head_only {
        response.extend_from_slice(status.line().as_bytes());
        response.push(b'\n');
    }
    response
}

fn write_head(
    buffer: &mut Vec<u8>,
    status: Status,
    content_length: u64,
    announce: Announce,
    dress: Dress,
) {
    let content_type = status.content_type();
    let allow = match status {
        Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    let encoding = if dress.gzip {
        "Content-Encoding: gzip\r\n"
    } else {
        ""
    };
    write!(
        buffer,
        "HTTP/1.1 {}\r\nServer: {SERVER}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {content_length}\r\n{allow}{encoding}{}",
        status.line(),
        announce.line(),
    )
    .expect("writing to memory does not fail");
    let wanted = usize::try_from(dress.head_bytes).unwrap_or(usize::MAX);
    let room = wanted.saturating_sub(buffer.len() + END.len());
    if let Some(value @ 1..) = room.checked_sub(PADDING.len() + END.len()) {
        buffer.extend_from_slice(PADDING);
        buffer.resize(buffer.len() + value, b'x');
        buffer.extend_from_slice(END);
    }
    buffer.extend_from_slice(END);
}

/// The `Server` header.
pub(crate) const SERVER: &str = "whyfast-testserver";
const END: &[u8] = b"\r\n";
const PADDING: &[u8] = b"X-Padding: ";

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a success, byte by byte, for each way to go on.
    #[test]
    fn heads_are_fixed() {
        let mut heads = Heads::new(7, Dress::default());
        let expected = |length: u64, connection: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nServer: whyfast-testserver\r\n\
                 Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n{connection}\r\n"
            )
        };
        for (length, announce, connection) in [
            (7, Announce::Nothing, ""),
            (7, Announce::Close, "Connection: close\r\n"),
            (7, Announce::KeepAlive, "Connection: keep-alive\r\n"),
            (12, Announce::Nothing, ""),
        ] {
            assert_eq!(
                String::from_utf8_lossy(heads.head(length, announce)),
                expected(length, connection)
            );
        }
    }

    /// A head is filled up to the length that is asked for, or stays as it is where that is too near.
    #[test]
    fn heads_are_filled_up() {
        let length = |head_bytes| {
            let dress = Dress {
                head_bytes,
                gzip: true,
            };
            let mut heads = Heads::new(7, dress);
            let head = heads.head(7, Announce::Nothing);
            assert!(head.ends_with(b"\r\n\r\n"));
            head.len()
        };
        let plain = length(0);
        assert_eq!(length(400), 400);
        assert_eq!(length(10), plain);
        // Name, colon, space, one byte of value and the line's end.
        let shortest = u32::try_from(plain).expect("a short head") + 14;
        assert_eq!(length(shortest), plain + 14);
        assert_eq!(length(shortest - 1), plain);
    }

    /// A response of a status alone, with and without its body.
    #[test]
    fn status_responses_say_their_length() {
        let response = status_response(Status::MethodNotAllowed, Announce::Close, false);
        assert_eq!(
            String::from_utf8_lossy(&response),
            "HTTP/1.1 405 Method Not Allowed\r\nServer: whyfast-testserver\r\n\
             Content-Type: text/plain\r\nContent-Length: 23\r\nAllow: GET, HEAD\r\n\
             Connection: close\r\n\r\n405 Method Not Allowed\n"
        );
        let head = status_response(Status::NotFound, Announce::Nothing, true);
        assert!(head.ends_with(b"Content-Length: 14\r\n\r\n"));
    }
}
