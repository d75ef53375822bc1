//! What all client threads do: the part of a [`crate::Config`] that the loop needs, made ready.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use recording::HttpVersion;

use crate::http2::Http2Config;
use crate::mix::Mix;
use crate::protocol::Exchange;
use crate::proxy_protocol::ProxyProtocol;
use crate::random;
use crate::request::Request;
use crate::resolver::Name;
use crate::shape::Shape;
use crate::target::Address;
use crate::tls::Settings;

/// What all client threads do.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The request, or the first one of the mix.
    pub(crate) request: Request,
    /// All requests, where there is more than one.
    pub(crate) mix: Option<Mix>,
    /// Settings of TLS; none in clear.
    pub(crate) tls: Option<Settings>,
    pub(crate) http: HttpVersion,
    pub(crate) http2: Http2Config,
    /// Requests in flight on one connection.
    pub(crate) depth: u32,
    /// Where connections go, in the order in which they are tried.
    pub(crate) addresses: Arc<[Address]>,
    /// The name behind them, where it is resolved for every connection.
    pub(crate) name: Option<Name>,
    /// Local addresses to connect from; empty leaves the choice to the kernel.
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) timeout_ns: u64,
    /// Requests after which a connection is closed; the largest number for never.
    pub(crate) requests_per_connection: u64,
    /// Requests by which that varies, up and down.
    pub(crate) requests_jitter: u64,
    /// Time after which a connection is closed, ns; the largest number for never.
    pub(crate) connection_lifetime_ns: u64,
    /// Whether requests go with the first bytes of resumed sessions.
    pub(crate) early_data: bool,
    /// How long the resolver took, ns; none where there was no name to resolve.
    pub(crate) resolve_ns: Option<u64>,
    /// Whether a status is ok; one place for each of 0..=999.
    pub(crate) expected: Box<[bool]>,
    /// One body in so many is hashed, where a hash is expected.
    pub(crate) hash_every: u64,
    /// Header in front of everything else on a connection, and the address that it claims.
    pub(crate) proxy: Option<(ProxyProtocol, Option<SocketAddr>)>,
    pub(crate) threads: u32,
    pub(crate) shape: Shape,
}

impl Plan {
    /// The request of an exchange.
    #[inline]
    pub(crate) fn request_of(&self, exchange: &Exchange) -> &Request {
        match &self.mix {
            None => &self.request,
            Some(mix) => mix.request(exchange.class),
        }
    }

    /// Whether all requests have the same bytes, so that they can be written as they are.
    #[inline]
    pub(crate) fn is_uniform(&self) -> bool {
        self.mix.is_none() && self.request.patches.is_empty()
    }

    /// Requests on a connection, by its number in its thread and the number of that.
    pub(crate) fn requests_of_connection(&self, thread: u32, number: u64) -> u64 {
        let jitter = self.requests_jitter;
        if jitter == 0 {
            return self.requests_per_connection;
        }
        let seed = random::number_at(self.shape.seed, u64::from(thread));
        let above = random::number_at(seed, number) % (2 * jitter + 1);
        self.requests_per_connection - jitter + above
    }

    /// Whether a response is followed by the next request of its connection at once.
    #[inline]
    pub(crate) fn answers_at_once(&self) -> bool {
        let is_one_by_one = self.http == HttpVersion::Http1 && self.depth == 1;
        is_one_by_one && self.tls.is_none() && !self.shape.is_paced()
    }

    /// Time between two connections of one thread, where they are opened at a rate.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and rates are positive"
    )]
    pub(crate) fn connect_interval_ns(&self) -> Option<u64> {
        let rate = self.shape.connection_rate?;
        Some((f64::from(self.threads) * 1e9 / rate) as u64)
    }

    /// Whether a status is ok for an exchange.
    #[inline]
    pub(crate) fn is_expected(&self, exchange: &Exchange, status: u16) -> bool {
        let expected = match &self.request_of(exchange).expected {
            None => &self.expected,
            Some(expected) => expected,
        };
        expected[usize::from(status)]
    }

    /// The protocol to ask for over TLS.
    pub(crate) fn alpn(&self) -> &'static [u8] {
        alpn(self.http)
    }
}

/// The name of a version of HTTP in ALPN.
pub(crate) fn alpn(http: HttpVersion) -> &'static [u8] {
    match http {
        HttpVersion::Http1 => b"http/1.1",
        HttpVersion::Http2 | HttpVersion::Http2Upgrade => b"h2",
    }
}
