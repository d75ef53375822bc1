//! What is asked of a load, and whether it makes sense.

mod error;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use recording::HttpVersion;

use crate::check::Check;
use crate::http2::Http2Config;
use crate::mix::{Mix, RequestSpec};
use crate::proxy_protocol::ProxyProtocol;
use crate::request::Request;
use crate::shape::{Shape, Stage};
use crate::target::Target;
use crate::tls::TlsConfig;

pub use error::ConfigError;

/// A load to run. [`Config::new`] gives the defaults, [`Config::validate`] says what is wrong.
#[derive(Clone, Debug)]
pub struct Config {
    /// `http[s]://host[:port]/path?query`.
    pub url: String,
    /// Connections kept alive at the same time.
    pub connections: u32,
    /// Requests in flight at the same time on one connection: pipelined in HTTP/1.1.
    pub depth: u32,
    /// Version of HTTP; a server that speaks another one is an error.
    pub http: HttpVersion,
    /// What is asked of HTTP/2, where it is spoken.
    pub http2: Http2Config,
    /// What is asked of TLS, for `https` URLs.
    pub tls: TlsConfig,
    /// Client threads; connections are spread over them as evenly as they go.
    pub threads: u32,
    /// When the measured window ends.
    pub stop: Stop,
    /// What comes before the measured window.
    pub warmup: Warmup,
    /// Requests after which the client closes a connection and opens the next one.
    pub requests_per_connection: Option<u64>,
    /// By how many requests that number varies from connection to connection, up and down, evenly;
    /// which connection makes how many follows from the seed of the shape.
    pub requests_jitter: u64,
    /// Time after which the client closes a connection, when nothing is in flight on it, and opens
    /// the next one.
    pub connection_lifetime: Option<Duration>,
    /// Method.
    pub method: String,
    /// Extra header lines, sent in this order; Host and User-Agent replace the built-in ones.
    pub headers: Vec<(String, String)>,
    /// Body of every request.
    pub body: Option<Vec<u8>>,
    /// Statuses that make a response ok; all others are failures.
    pub expected_statuses: Vec<RangeInclusive<u16>>,
    /// Limit on connecting, and on one request from its first byte to the last one of its response.
    pub timeout: Duration,
    /// Length of the slices that the window is reported in; `None` makes it one slice.
    pub slice_interval: Option<Duration>,
    /// Local addresses to connect from, in turn, where one has too few ports; empty leaves the
    /// choice to the kernel.
    pub source_addresses: Vec<IpAddr>,
    /// CPUs for the client threads, one each in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
    /// Requests in the proportion of their weights; empty for the one above.
    pub requests: Vec<RequestSpec>,
    /// Whether `{seq}` and `{random}` in path, headers and bodies are replaced in every request.
    pub placeholders: bool,
    /// What the body of a response has to be.
    pub check: Check,
    /// One body in so many is hashed, where a hash is expected.
    pub hash_every: u64,
    /// Connect to this Unix socket instead of the host of the URL.
    pub unix_socket: Option<PathBuf>,
    /// Connect to this `HOST[:PORT]` instead of the host of the URL.
    pub connect_to: Option<String>,
    /// Resolve the host for every connection instead of once before the first one. Connections of
    /// the start share one answer.
    pub resolve_each: bool,
    /// Header of the PROXY protocol at the start of every connection.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Address that this header claims; `None` for the real one.
    pub proxy_source: Option<SocketAddr>,
    /// Open loop, think time and the like.
    pub shape: Shape,
    /// Lock-step: wait for permission between warm-up and window and after the window, with
    /// nothing in flight. Needs a window by count, and no warm-up by time.
    pub barriers: bool,
}

/// When the measured window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After exactly so many requests.
    Requests(u64),
    /// After a time; what is in flight then is counted as unfinished.
    Duration(Duration),
}

/// What comes before the measured window: requests that are sent and not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// Nothing.
    None,
    /// A time; what is in flight at its end is carried into the window.
    Time(Duration),
    /// Exactly so many requests, all of which end before the window begins.
    Requests(u64),
}

impl Config {
    /// One connection, one thread, GET, ten seconds, any status from 200 to 399.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 1,
            depth: 1,
            http: HttpVersion::Http1,
            http2: Http2Config::default(),
            tls: TlsConfig::default(),
            threads: 1,
            stop: Stop::Duration(Duration::from_secs(10)),
            warmup: Warmup::None,
            requests_per_connection: None,
            requests_jitter: 0,
            connection_lifetime: None,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: None,
            expected_statuses: vec![200..=399],
            timeout: Duration::from_secs(10),
            slice_interval: None,
            source_addresses: Vec::new(),
            cpus: Vec::new(),
            requests: Vec::new(),
            placeholders: false,
            check: Check::default(),
            hash_every: 1,
            unix_socket: None,
            connect_to: None,
            resolve_each: false,
            proxy_protocol: None,
            proxy_source: None,
            shape: Shape::default(),
            barriers: false,
        }
    }

    /// Whether each status is ok, by its number.
    pub(crate) fn expected_table(&self) -> Box<[bool]> {
        let is_expected = |status| {
            let mut ranges = self.expected_statuses.iter();
            ranges.any(|range| range.contains(&status))
        };
        (0..1000).map(is_expected).collect()
    }

    /// Says what is wrong, if anything is; [`crate::run`] asks too.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.checked().map(|_| ())
    }

    /// The parts that a run needs, checked.
    pub(crate) fn checked(&self) -> Result<(Target, Request), ConfigError> {
        self.check_counts()?;
        self.check_times()?;
        self.check_shape()?;
        if self.expected_statuses.iter().all(RangeInclusive::is_empty) {
            return Err(ConfigError::NoExpectedStatus);
        }
        let max = rustix::thread::CpuSet::MAX_CPU - 1;
        if let Some(&cpu) = self.cpus.iter().find(|&&cpu| cpu > max) {
            return Err(ConfigError::Cpu { cpu, max });
        }
        self.check_http2()?;
        let target = Target::parse(&self.url)?;
        if target.is_tls && self.http == HttpVersion::Http2Upgrade {
            return Err(ConfigError::UpgradeOverTls);
        }
        if let Some(to) = &self.connect_to {
            target.elsewhere(to)?;
        }
        let request = Request::build(self, &target)?;
        Mix::build(self, &target)?;
        Ok((target, request))
    }

    fn check_shape(&self) -> Result<(), ConfigError> {
        let shape = &self.shape;
        if shape.is_open_loop() == shape.rates.is_empty() {
            return Err(ConfigError::Rate);
        }
        if self.barriers && shape.is_paced() {
            return Err(ConfigError::BarriersByRate);
        }
        let never_ends = |stages: &[Stage]| {
            let by_count = matches!(self.stop, Stop::Requests(_));
            let warmed_by_count = matches!(self.warmup, Warmup::Requests(count) if count > 0);
            let first_is_nothing = stages.first().is_some_and(|stage| stage.from <= 0.0);
            let last_is_nothing = stages.last().is_some_and(|stage| stage.to <= 0.0);
            by_count && last_is_nothing || warmed_by_count && first_is_nothing
        };
        if never_ends(&shape.rates) || never_ends(&shape.concurrency) {
            return Err(ConfigError::NeverEnds);
        }
        if let Some(rate) = shape.connection_rate
            && !(rate > 0.0 && rate.is_finite())
        {
            return Err(ConfigError::ConnectionRate {
                rate: rate.to_string(),
            });
        }
        if let Some(rate) = shape.connection_rate
            && f64::from(self.connections) > rate * TIME_MAX.as_secs_f64()
        {
            return Err(ConfigError::OpensTooSlowly {
                connections: self.connections,
                rate: format!("{rate:e}"),
            });
        }
        let lets_none = |stage: &Stage| stage.from < 1.0 && stage.to < 1.0;
        if !shape.concurrency.is_empty() && shape.concurrency.iter().all(lets_none) {
            return Err(ConfigError::NoneInFlight);
        }
        if self.unix_socket.is_some() {
            let others = [
                (self.connect_to.is_some(), "another address to connect to"),
                (!self.source_addresses.is_empty(), "source addresses"),
                (self.resolve_each, "a name to resolve"),
            ];
            if let Some(&(_, what)) = others.iter().find(|(given, _)| *given) {
                return Err(ConfigError::UnixSocket { what });
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), ConfigError> {
        let counts = [
            ("the number of connections", u64::from(self.connections)),
            ("the number of requests in flight", u64::from(self.depth)),
            ("the number of threads", u64::from(self.threads)),
            (
                "the number of requests",
                match self.stop {
                    Stop::Requests(requests) => requests,
                    Stop::Duration(_) => 1,
                },
            ),
            (
                "the number of bodies of which one is hashed",
                self.hash_every,
            ),
            (
                "the number of requests per connection",
                self.requests_per_connection.unwrap_or(1),
            ),
        ];
        if let Some(&(what, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(ConfigError::Zero { what });
        }
        let most = self.requests_per_connection.unwrap_or(0);
        let jitter = self.requests_jitter;
        if jitter > 0 && (jitter >= most || most.checked_add(jitter).is_none()) {
            return Err(ConfigError::Jitter {
                jitter,
                requests: most,
            });
        }
        if self.threads > self.connections {
            return Err(ConfigError::TooManyThreads {
                threads: self.threads,
                connections: self.connections,
            });
        }
        let by_time =
            matches!(self.stop, Stop::Duration(_)) || matches!(self.warmup, Warmup::Time(_));
        if self.barriers && by_time {
            return Err(ConfigError::BarriersByTime);
        }
        Ok(())
    }

    fn check_http2(&self) -> Result<(), ConfigError> {
        let Http2Config {
            stream_window,
            connection_window,
            header_table,
        } = self.http2;
        for (what, found, min, max) in [
            ("the window of a stream", stream_window, 1, WINDOW_MAX),
            (
                "the window of a connection",
                connection_window,
                65_535,
                WINDOW_MAX,
            ),
            (
                "the table of header fields",
                header_table,
                0,
                TABLE_BYTES_MAX,
            ),
        ] {
            if !(min..=max).contains(&found) {
                return Err(ConfigError::Http2Size {
                    what,
                    min,
                    max,
                    found,
                });
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        let check = |what, found: Duration, min: Duration| {
            if (min..=TIME_MAX).contains(&found) {
                Ok(())
            } else {
                Err(ConfigError::OutOfRange {
                    what,
                    min,
                    max: TIME_MAX,
                    found,
                })
            }
        };
        check("the timeout", self.timeout, Duration::from_millis(1))?;
        if let Stop::Duration(duration) = self.stop {
            check("the duration", duration, Duration::from_millis(1))?;
        }
        if let Warmup::Time(warmup) = self.warmup {
            check("the warm-up", warmup, Duration::ZERO)?;
        }
        if let Some(lifetime) = self.connection_lifetime {
            let min = Duration::from_millis(1);
            check("the lifetime of a connection", lifetime, min)?;
        }
        if let Some(interval) = self.slice_interval {
            check("the slice interval", interval, SLICE_MIN)?;
        }
        Ok(())
    }
}

/// The largest one that HTTP/2 can say.
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// A table costs memory on every connection.
const TABLE_BYTES_MAX: u32 = 1024 * 1024;
/// Shorter slices would cost more than they show: each merges a histogram per thread.
const SLICE_MIN: Duration = Duration::from_millis(10);
/// Thirty days keep every sum of nanoseconds far from the end of 64 bits.
const TIME_MAX: Duration = Duration::from_hours(30 * 24);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Config), wanted: &str) {
        let mut config = Config::new("http://h/");
        config.validate().unwrap();
        change(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }

    /// Each nonsense is named.
    #[test]
    fn nonsense_is_named() {
        check(|c| c.connections = 0, "connections must be at least 1");
        check(|c| c.threads = 0, "threads must be at least 1");
        check(|c| c.threads = 2, "2 threads for 1 connections");
        check(
            |c| c.stop = Stop::Requests(0),
            "requests must be at least 1",
        );
        check(
            |c| c.requests_per_connection = Some(0),
            "per connection must be at least 1",
        );
        check(
            |c| c.stop = Stop::Duration(Duration::ZERO),
            "the duration must be",
        );
        check(|c| c.timeout = Duration::ZERO, "the timeout must be");
        check(
            |c| c.slice_interval = Some(Duration::ZERO),
            "the slice interval must be",
        );
        check(|c| c.barriers = true, "barriers need");
        let stages = |text| Stage::parse_all(text).unwrap();
        check(
            |c| {
                c.stop = Stop::Requests(1);
                c.shape.concurrency = stages("5:1s,0:1s");
            },
            "never reached",
        );
        check(
            |c| {
                c.warmup = Warmup::Requests(1);
                c.shape.concurrency = stages("0-5:1s");
            },
            "never reached",
        );
        check(|c| c.shape.rates = stages("5"), "an open loop needs a rate");
        check(
            |c| c.shape.connection_rate = Some(f64::NAN),
            "must be more than 0",
        );
        check(
            |c| {
                c.connections = 3;
                c.shape.connection_rate = Some(1e-6);
            },
            "more than 30 days",
        );
        check(
            |c| c.shape.concurrency = stages("0.5:1s,0.9"),
            "less than 1",
        );
        check(
            |c| c.requests = vec![RequestSpec::default(); 1001],
            "at most 1000",
        );
        check(|c| c.hash_every = 0, "is hashed must be at least 1");
        check(|c| c.cpus = vec![1 << 20], "out of range");
        check(|c| c.requests_jitter = 1, "cannot vary by 1");
        check(
            |c| {
                c.requests_per_connection = Some(u64::MAX);
                c.requests_jitter = 1;
            },
            "cannot vary by 1",
        );
        check(|c| c.expected_statuses.clear(), "no expected status");
        check(|c| c.url = "gopher://h/".into(), "is not supported");
    }
}
