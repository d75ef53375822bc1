//! One request and its whole response, for checking what a server answers. It blocks, and it reads
//! with the parser of the load, so that both see the same; HTTP/2 with another one (`http2`).

mod http2;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use recording::{HttpVersion, TlsNegotiated};
use rustls::{ClientConnection, StreamOwned};

use crate::config::{Config, ConfigError};
use crate::error::list;
use crate::http1::{EndOfInput, Event, Framing, HeadCache, ProtocolViolation, ResponseParser};
use crate::plan::alpn;
use crate::target::Target;
use crate::tls::{Settings, TlsError, negotiated};

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Final status code.
    pub status: u16,
    /// Header lines in order, as they came; bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// The head as it came: status line, header lines and the empty line.
    pub raw_head: Vec<u8>,
    /// What came after the head, chunk framing and trailers included.
    pub wire_body: Vec<u8>,
    /// The body without chunk framing; a Content-Encoding is not undone.
    pub body: Vec<u8>,
    /// How the end of the body was known.
    pub framing: Framing,
    /// Interim (1xx) responses before it.
    pub interim_responses: u32,
    /// Whether another request could have followed on the connection.
    pub reusable: bool,
    /// What was negotiated, where the connection is encrypted.
    pub tls: Option<TlsNegotiated>,
}

impl Fetched {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Value of Content-Encoding.
    pub fn content_encoding(&self) -> Option<&str> {
        self.header("content-encoding")
    }
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The response does not end.
    #[error("the response is larger than {BODY_BYTES_MAX} bytes")]
    BodyTooLarge,
    /// The connection ended before the response.
    #[error("the server closed the connection {0}")]
    Closed(&'static str),
    /// No address took the connection.
    #[error("cannot connect to {}: {reason}", list(addresses))]
    Connect {
        /// Every address that was tried.
        addresses: Vec<SocketAddr>,
        /// The last answer.
        reason: std::io::Error,
    },
    /// What was asked makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Reading or writing failed.
    #[error("{what} failed: {reason}")]
    Io {
        /// Which of them.
        what: &'static str,
        /// The kernel's answer.
        reason: std::io::Error,
    },
    /// A session that cannot even begin.
    #[error("TLS cannot begin: {0}")]
    Handshake(rustls::Error),
    /// HTTP/2 came to no good end.
    #[error("HTTP/2 failed: {0}")]
    Http2(h2::Error),
    /// The server chose another protocol than HTTP/2.
    #[error(
        "the server does not speak HTTP/2: offered h2 by ALPN, it chose {chosen} (nginx: `listen PORT ssl http2`)"
    )]
    NotHttp2 {
        /// What it chose.
        chosen: String,
    },
    /// The response breaks the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] ProtocolViolation),
    /// A request that HTTP/2 cannot carry.
    #[error("the request cannot be sent: {0}")]
    Request(http::Error),
    /// The name has no address.
    #[error("cannot resolve {host:?}: {reason}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's answer.
        reason: std::io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No complete response in time.
    #[error("no complete response within {} s", TIMEOUT.as_secs())]
    Timeout,
}

/// Requests `url` with GET and the given extra headers, on a connection of its own, with the bytes
/// that a load would send. Gives up after ten seconds.
pub fn fetch(url: &str, headers: &[(String, String)]) -> Result<Fetched, FetchError> {
    let mut config = Config::new(url);
    config.headers = headers.to_vec();
    fetch_with(&config)
}

/// Makes one request of a load, as [`fetch`] does, over the version of HTTP that the load speaks (HTTP/1.1
/// where that asks to be upgraded).
pub fn fetch_with(config: &Config) -> Result<Fetched, FetchError> {
    let (target, request) = config.checked()?;
    let addresses = target.resolve().map_err(|reason| FetchError::Resolve {
        host: target.host.clone(),
        reason,
    })?;
    let deadline = Instant::now() + TIMEOUT;
    let socket = connect(&addresses, deadline)?;
    if config.http == HttpVersion::Http2 {
        return http2::fetch(socket, config, &target);
    }
    let mut stream = Wire::new(socket, config, &target)?;
    stream
        .socket()
        .set_write_timeout(Some(TIMEOUT))
        .and_then(|()| stream.write_all(&request.bytes[..request.length]))
        .map_err(|reason| FetchError::Io {
            what: "writing the request",
            reason,
        })?;
    let mut response = Response::new();
    response.parser.begin(request.is_head);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = read(&mut stream, &mut buffer, deadline)?;
        let done = if count == 0 {
            response.end()?
        } else {
            response.add(&buffer[..count])?
        };
        if done {
            return Ok(Fetched {
                tls: stream.negotiated(),
                ..response.fetched
            });
        }
    }
}

fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, FetchError> {
    let mut reason = ErrorKind::NotFound.into();
    for address in addresses {
        match TcpStream::connect_timeout(address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => reason = error,
        }
    }
    Err(FetchError::Connect {
        addresses: addresses.to_vec(),
        reason,
    })
}

fn read(stream: &mut Wire, buffer: &mut [u8], deadline: Instant) -> Result<usize, FetchError> {
    loop {
        let result = stream
            .socket()
            .set_read_timeout(Some(left(deadline)?))
            .and_then(|()| stream.read(buffer));
        match result {
            Ok(count) => return Ok(count),
            Err(error) => match error.kind() {
                // The deadline decides what it was.
                ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::WouldBlock => {}
                _ => {
                    return Err(FetchError::Io {
                        what: "reading the response",
                        reason: error,
                    });
                }
            },
        }
    }
}

fn left(deadline: Instant) -> Result<Duration, FetchError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(FetchError::Timeout)
    } else {
        Ok(left)
    }
}

/// What carries the request: a socket, in clear or under TLS.
enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    fn new(socket: TcpStream, config: &Config, target: &Target) -> Result<Self, FetchError> {
        if !target.is_tls {
            return Ok(Self::Plain(socket));
        }
        let settings = Settings::new(&config.tls, &target.host, alpn(HttpVersion::Http1))?;
        let connection = settings.connection().map_err(FetchError::Handshake)?;
        let mut stream = StreamOwned::new(connection, socket);
        let handshake = |reason| FetchError::Io {
            what: "the TLS handshake",
            reason,
        };
        stream
            .sock
            .set_read_timeout(Some(TIMEOUT))
            .and_then(|()| stream.sock.set_write_timeout(Some(TIMEOUT)))
            .and_then(|()| stream.conn.complete_io(&mut stream.sock))
            .map_err(handshake)?;
        Ok(Self::Tls(Box::new(stream)))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// What the handshake agreed on.
    fn negotiated(&self) -> Option<TlsNegotiated> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(negotiated(&stream.conn)),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => match stream.read(buffer) {
                // Most servers do not say goodbye; the length of the body tells whether it is whole.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                result => result,
            },
        }
    }
}

/// A response on its way.
struct Response {
    parser: ResponseParser,
    cache: HeadCache,
    fetched: Fetched,
    has_head: bool,
}

impl Response {
    fn new() -> Self {
        Self {
            parser: ResponseParser::new(),
            cache: HeadCache::default(),
            fetched: Fetched {
                status: 0,
                headers: Vec::new(),
                raw_head: Vec::new(),
                wire_body: Vec::new(),
                body: Vec::new(),
                framing: Framing::None,
                interim_responses: 0,
                reusable: false,
                tls: None,
            },
            has_head: false,
        }
    }

    /// Adds bytes; `true` when the response is complete.
    fn add(&mut self, mut input: &[u8]) -> Result<bool, FetchError> {
        let mut complete = false;
        loop {
            let before = input;
            let Some(event) = self.parser.next(&mut self.cache, &mut input)? else {
                break;
            };
            match event {
                Event::Interim { .. } => self.fetched.interim_responses += 1,
                Event::Head { head, raw } => {
                    self.fetched.status = head.status;
                    self.fetched.framing = head.framing_for(false);
                    self.fetched.raw_head = raw.to_vec();
                    self.fetched.headers = header_lines(raw)?;
                    self.has_head = true;
                    continue;
                }
                Event::Body(data) => self.fetched.body.extend_from_slice(data),
                Event::Complete { reusable, .. } => {
                    self.fetched.reusable = reusable;
                    complete = true;
                }
            }
            self.keep_wire(before, input)?;
        }
        Ok(complete)
    }

    /// The peer sends no more.
    fn end(&self) -> Result<bool, FetchError> {
        match self.parser.finish() {
            EndOfInput::Complete => Ok(true),
            EndOfInput::BeforeHead => Err(FetchError::Closed("before it answered")),
            EndOfInput::InHead => Err(FetchError::Closed("inside the response head")),
            EndOfInput::InBody => Err(FetchError::Closed("before the end of the body")),
        }
    }

    /// Keeps what an event took from the wire.
    fn keep_wire(&mut self, before: &[u8], after: &[u8]) -> Result<(), FetchError> {
        if self.has_head {
            self.fetched
                .wire_body
                .extend_from_slice(&before[..before.len() - after.len()]);
        }
        if self.fetched.wire_body.len() > BODY_BYTES_MAX {
            return Err(FetchError::BodyTooLarge);
        }
        Ok(())
    }
}

fn header_lines(raw: &[u8]) -> Result<Vec<(String, String)>, ProtocolViolation> {
    let mut fields = vec![httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(raw).map_err(ProtocolViolation::Head)?;
    let lines = response.headers.iter().map(|field| {
        (
            field.name.to_owned(),
            String::from_utf8_lossy(field.value).into_owned(),
        )
    });
    Ok(lines.collect())
}

const TIMEOUT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 * 1024;
/// A check needs the whole body in memory.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// As many as the parser accepts.
const FIELDS_MAX: usize = 256;
