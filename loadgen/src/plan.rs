//! What all client threads do: the part of a [`crate::Config`] that the loop needs, made ready.

use std::net::{IpAddr, SocketAddr};

use crate::request::Request;

/// What all client threads do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) request: Request,
    /// Requests in flight on one connection.
    pub(crate) depth: u32,
    pub(crate) addresses: Vec<SocketAddr>,
    /// Local addresses to connect from; empty leaves the choice to the kernel.
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) timeout_ns: u64,
    /// Requests after which a connection is closed; the largest number for never.
    pub(crate) requests_per_connection: u64,
    /// Whether a status is ok; one place for each of 0..=999.
    pub(crate) expected: Box<[bool]>,
}
