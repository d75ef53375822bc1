//! A place for one of the connections that are kept alive, and the exchanges that belong to it.

use std::collections::VecDeque;

use crate::plan::Plan;
use crate::protocol::{Exchange, Protocol};
use crate::tls::Session;

use super::transport::Transport;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Closed,
    /// There is none, and none may be opened before an instant.
    Waiting {
        /// When it may be opened, ns.
        retry_ns: u64,
    },
    /// There is none, and its address is being asked for.
    Resolving,
    /// It is being opened.
    Connecting,
    /// It is connected, and the handshake of TLS is under way.
    Securing,
    /// The server still has to show that it speaks the protocol.
    Greeting,
    /// It is open.
    Open,
}

/// A place for one connection at a time.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
pub(super) struct Slot {
    pub(super) transport: Option<Transport>,
    pub(super) protocol: Protocol,
    /// What has no connection: it waits for this one to open, or is to be sent once more.
    pub(super) queue: VecDeque<Exchange>,
    pub(super) stage: Stage,
    /// Counts connections, so that an event of an old one is not taken for one of a new one.
    pub(super) generation: u32,
    /// When opening it began, ns.
    pub(super) since_ns: u64,
    /// When it was connected, and its handshake began, ns.
    pub(super) connected_ns: u64,
    /// Attempts in a row that led to no response.
    pub(super) failures: u32,
    /// Connections begun, in all.
    pub(super) dialled: usize,
    /// Addresses tried since the last connection.
    pub(super) tried: usize,
    /// Whether it waits for a request to become due.
    pub(super) is_ready: bool,
    /// When it may send again after a response, ns.
    pub(super) rests_until_ns: u64,
    /// Whether it may connect although connections are opened at a rate.
    pub(super) has_permit: bool,
    /// When requests could be sent on it, ns.
    pub(super) opened_ns: u64,
    /// Whether the present connection has brought a byte of a response.
    pub(super) is_greeted: bool,
    /// Whether it waits for its turn to write.
    pub(super) is_gathering: bool,
    /// Whether the first exchange of the queue went with the first bytes of the handshake.
    pub(super) is_early: bool,
    /// Responses in the present leg.
    pub(super) responses: u64,
}

impl Slot {
    /// A place without a connection.
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            transport: None,
            protocol: Protocol::new(plan),
            queue: VecDeque::new(),
            stage: Stage::Closed,
            generation: 0,
            since_ns: 0,
            connected_ns: 0,
            failures: 0,
            dialled: 0,
            tried: 0,
            is_ready: false,
            rests_until_ns: 0,
            has_permit: false,
            opened_ns: 0,
            is_greeted: false,
            is_gathering: false,
            is_early: false,
            responses: 0,
        }
    }

    /// Closes the connection; what is still in flight on it is forgotten.
    pub(super) fn close(&mut self) {
        self.transport = None;
        self.stage = Stage::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.protocol.reset();
        self.is_greeted = false;
        self.is_early = false;
    }

    /// Whether a connection is established.
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// When each exchange began to wait, ns.
    pub(super) fn each_started_ns(&self, see: &mut dyn FnMut(u64)) {
        for exchange in &self.queue {
            see(match exchange.started_ns {
                0 => self.since_ns,
                started_ns => started_ns,
            });
        }
        if !self.is_early {
            self.protocol.each_started_ns(see);
        }
    }

    /// Puts a session on top of the connected socket.
    pub(super) fn secure(&mut self, session: Session) {
        if let Some(transport) = self.transport.take() {
            self.transport = Some(transport.secured(session));
        }
    }

    /// Whether there is a socket that can be read.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Securing | Stage::Greeting | Stage::Open)
    }

    /// When the oldest exchange began to wait, ns.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        let queued = (!self.queue.is_empty()).then_some(self.since_ns);
        let in_flight = self.protocol.oldest_ns();
        queued.into_iter().chain(in_flight).min()
    }
}
