//! What a server is told to do.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::tls::CertificateFiles;
use crate::{Accepting, CallCount, Polling, Reading, SpecError, Style, calls, spec};

/// What a server is told to do.
#[expect(
    clippy::struct_excessive_bools,
    reason = "knobs that are on or off, each by itself"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where responses come from, and how they are sent.
    pub style: Style,
    /// What workers wait with.
    pub polling: Polling,
    /// When workers have read enough of a connection.
    pub reading: Reading,
    /// How several workers take connections.
    pub accepting: Accepting,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// Whether requests are HTTP/2, over TLS where ALPN says so and in clear by prior knowledge;
    /// else they are HTTP/1.1.
    pub http2: bool,
    /// The certificate of TLS; `None` makes one for `localhost` and 127.0.0.1 at the start.
    pub certificate: Option<CertificateFiles>,
    /// Costs that are added to each request.
    pub injections: Injections,
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Threads, each with its own poller; `None` is one.
    pub workers: Option<NonZeroU32>,
    /// Of the CPUs that the server may use, how many it uses; `None` is all.
    pub cpus: Option<NonZeroU32>,
    /// Events per wake-up; `None` is 512. Only where the kernel can be told: with epoll and
    /// `io_uring`.
    pub max_events: Option<NonZeroU32>,
    /// What is served.
    pub body: Body,
    /// Whether the body is compressed, once, whatever the client accepts.
    pub gzip: bool,
    /// Bytes that the head of a response is filled up to, with a header of no meaning; a head that
    /// is longer, or too near to that length for the header, stays as it is.
    pub head_bytes: u32,
    /// Whether the injections of each request are timed ([`crate::Server::run`] returns their means).
    /// That reads the clock six times per request, which is no system call on most machines.
    pub time_injections: bool,
}

/// What is served at `/` and at `/NAME`, where `NAME` is the file's name without its folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// An existing file.
    File(PathBuf),
    /// A file of so many bytes, generated in a private temporary folder that is removed with the
    /// server (before it serves, where the style keeps the file open). Its name is `body`.
    Generated(u64),
}

/// Costs that are added to each request, before its response, in the order of these fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injections {
    /// Microseconds of CPU time in user mode. The loop is calibrated when the server is bound and
    /// reads no clock afterwards, so it stays the same work when the thread is preempted.
    pub spin_us: u32,
    /// Calls of `getppid`.
    pub getppid: u32,
    /// Times that the file is opened, examined and closed.
    pub open: u32,
    /// Times that the open file is examined (`fstat`).
    pub fstat: u32,
    /// Microseconds of sleep (`clock_nanosleep`).
    pub sleep_us: u32,
    /// Microseconds of sleep while holding a mutex that all workers share. A worker that has to wait
    /// for it does so in `futex`; one request at a time never waits.
    pub lock_us: u32,
    /// Pieces that the first write of the response is cut into; 0 and 1 leave it whole.
    pub split: u32,
    /// Each worker answers one request of so many with status 500, from memory and with one
    /// `writev`; 0 is never. The table of calls is that of the other requests.
    pub error_every: u32,
}

impl Config {
    /// One worker on a free port of 127.0.0.1, serving one byte.
    pub fn new(style: Style) -> Self {
        Self {
            style,
            polling: style.polling(),
            reading: style.reading(),
            accepting: Accepting::default(),
            tls: false,
            http2: false,
            certificate: None,
            injections: Injections::default(),
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            workers: None,
            cpus: None,
            max_events: None,
            body: Body::Generated(1),
            gzip: false,
            head_bytes: 0,
            time_injections: false,
        }
    }

    /// Reads a spec (`open-read,spin-us=5`); all that it does not say is as in [`Config::new`].
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        spec::parse(text)
    }

    /// The spec of this configuration; what is as in [`Config::new`] is left out.
    pub fn spec(&self) -> String {
        spec::write(self)
    }

    /// The same server for clients that speak this. A spec that says more than they speak is refused.
    pub fn speaking(mut self, tls: bool, http2: bool) -> Result<Self, SpecError> {
        if (self.tls && !tls) || (self.http2 && !http2) {
            return Err(SpecError::Conflict {
                knob: if self.tls && !tls { "tls" } else { "h2" },
                why: "clients do not speak it; leave it out, or choose a scenario that does",
            });
        }
        (self.tls, self.http2) = (tls, http2);
        self.check()?;
        Ok(self)
    }

    /// Refuses what cannot be together.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        spec::check(self)
    }

    /// Every system call of one request in lock-step: those of the style, of the ways to wait and to
    /// read, and those that are injected, in the order in which they are made first.
    pub fn calls_per_request(&self) -> Vec<CallCount> {
        calls::per_request(self)
    }

    /// Events, or ended exchanges, per wake-up.
    pub(crate) fn max_events(&self) -> usize {
        self.max_events.map_or(MAX_EVENTS, |limit| {
            usize::try_from(limit.get()).unwrap_or(MAX_EVENTS)
        })
    }

    /// Whether requests open the file by its path.
    pub(crate) fn opens_path(&self) -> bool {
        self.style == Style::OpenRead || self.injections.open > 0
    }
}

impl fmt::Display for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Generated(bytes) => write!(formatter, "{bytes} generated bytes"),
        }
    }
}

/// Events per wake-up, as in nginx.
const MAX_EVENTS: usize = 512;
