//! What can be wrong with a [`crate::Config`].

use std::time::Duration;

use crate::target::UrlError;

/// A load that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Barriers need counts.
    #[error("barriers need a number of requests, and a warm-up by requests or none")]
    BarriersByTime,
    /// A header of HTTP/1.1 that HTTP/2 does not have.
    #[error("HTTP/2 has no header {name:?}: leave it out, or ask for HTTP/1.1")]
    ConnectionHeader {
        /// Its name.
        name: String,
    },
    /// A window or a table that cannot be.
    #[error("{what} must be at least {min} and at most {max} bytes, not {found}")]
    Http2Size {
        /// Which one.
        what: &'static str,
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
        /// What was asked.
        found: u32,
    },
    /// Upgrade over TLS.
    #[error("over TLS the version is chosen by ALPN: ask for HTTP/2 without Upgrade")]
    UpgradeOverTls,
    /// A CPU number that no mask can hold.
    #[error("CPU {cpu} is out of range: CPUs are numbered from 0 to {max}")]
    Cpu {
        /// The number.
        cpu: usize,
        /// The largest one.
        max: usize,
    },
    /// A header that the body decides.
    #[error("header {name:?} follows from the body and cannot be set")]
    FramingHeader {
        /// Its name.
        name: String,
    },
    /// A header name that is no token.
    #[error("{name:?} is no header name: it may hold letters, digits and !#$%&'*+-.^_`|~")]
    HeaderName {
        /// The name.
        name: String,
    },
    /// Control characters would end the header.
    #[error("the value of header {name:?} holds control characters")]
    HeaderValue {
        /// Its name.
        name: String,
    },
    /// A method that is no token, or that turns the connection into something else.
    #[error("method {method:?} cannot be sent: it must be a token other than CONNECT")]
    Method {
        /// The method.
        method: String,
    },
    /// A request of several that makes no sense.
    #[error("{origin}: {reason}")]
    Request {
        /// Where it stands (`file:line`).
        origin: String,
        /// What is wrong with it.
        reason: Box<Self>,
    },
    /// Barriers wait for nothing in flight, which an open loop never does.
    #[error("barriers go with a plain closed loop, not with a rate")]
    BarriersByRate,
    /// Connections that might make no request at all.
    #[error("{requests} requests per connection cannot vary by {jitter}: that has to be less")]
    Jitter {
        /// By how many they should vary.
        jitter: u64,
        /// Requests per connection; 0 where nothing was asked for.
        requests: u64,
    },
    /// Rates for a closed loop, or none for an open one.
    #[error("an open loop needs a rate, and a closed loop has none")]
    Rate,
    /// A count that is never reached.
    #[error(
        "a count is never reached when the stage before it is 0: give -d instead of -n, or end (and begin, with a \
         warm-up by count) with another stage"
    )]
    NeverEnds,
    /// A rate of connections that is no rate.
    #[error("the connection rate must be more than 0, not {rate}")]
    ConnectionRate {
        /// What was asked.
        rate: String,
    },
    /// A rate at which the connections would never be there.
    #[error(
        "{connections} connections at {rate} per second take more than 30 days to open: give a higher rate"
    )]
    OpensTooSlowly {
        /// How many connections are asked for.
        connections: u32,
        /// The rate.
        rate: String,
    },
    /// Limits on requests in flight that let none through.
    #[error("with less than 1 request in flight nothing would be sent")]
    NoneInFlight,
    /// More requests than can be counted apart.
    #[error("{count} requests are too many: at most {max} can be counted apart")]
    TooManyRequests {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A Unix socket has no addresses.
    #[error("a Unix socket and {what} exclude each other")]
    UnixSocket {
        /// What else was asked.
        what: &'static str,
    },
    /// Weights whose proportions are too fine.
    #[error("the weights add up to {total} after reducing them: at most 10000 can be kept exactly")]
    Weights {
        /// Their sum.
        total: u64,
    },
    /// No status would be ok.
    #[error("no expected status: every response would be a failure")]
    NoExpectedStatus,
    /// A length of time outside of what can be measured.
    #[error("{what} must be at least {min:?} and at most {max:?}, not {found:?}")]
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
        /// What was asked.
        found: Duration,
    },
    /// More threads than connections would leave threads without work.
    #[error(
        "{threads} threads for {connections} connections: use at most one thread per connection"
    )]
    TooManyThreads {
        /// Threads.
        threads: u32,
        /// Connections.
        connections: u32,
    },
    /// Cannot be requested.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A number that must not be zero.
    #[error("{what} must be at least 1")]
    Zero {
        /// Which one.
        what: &'static str,
    },
}
