//! One of the connections that are kept alive, and the request that it carries.

use std::os::fd::OwnedFd;

use crate::http1::{Event, HeadCache, ProtocolViolation, ResponseParser};
use crate::tally::{FailurePhase, Tally};

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
    /// It is being opened.
    Connecting,
    /// It is open and nothing is in flight.
    Idle,
    /// It carries a request.
    Busy,
}

/// A place for one connection at a time.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: Option<OwnedFd>,
    pub(super) stage: Stage,
    /// Counts connections, so that an event of an old one is not taken for one of a new one.
    pub(super) generation: u32,
    /// Start of what the timeout limits: connecting, or the request.
    pub(super) since_ns: u64,
    /// Whether a request belongs to this slot, on its way or waiting for the connection.
    pub(super) has_request: bool,
    /// First write of the request; kept when it is replayed. Zero before.
    pub(super) started_ns: u64,
    /// Bytes of the request that were written on this connection.
    pub(super) written: usize,
    /// Status of the final head.
    pub(super) status: u16,
    /// Responses completed on this connection.
    pub(super) served: u64,
    /// Attempts in a row that led to no response.
    pub(super) failures: u32,
    /// Addresses tried since the last connection.
    pub(super) tried: usize,
    pub(super) parser: ResponseParser,
}

impl Slot {
    /// A place without a connection.
    pub(super) fn new() -> Self {
        Self {
            socket: None,
            stage: Stage::Closed,
            generation: 0,
            since_ns: 0,
            has_request: false,
            started_ns: 0,
            written: 0,
            status: 0,
            served: 0,
            failures: 0,
            tried: 0,
            parser: ResponseParser::new(),
        }
    }

    /// Closes the connection.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.stage = Stage::Closed;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Whether a connection is established.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Busy)
    }

    /// Reads bytes of a response; `Some(reusable)` when it is complete.
    #[inline]
    pub(super) fn read(
        &mut self,
        cache: &mut HeadCache,
        tally: &mut Tally,
        mut input: &[u8],
    ) -> Result<Option<bool>, ProtocolViolation> {
        let mut complete = None;
        while let Some(event) = self.parser.next(cache, &mut input)? {
            let traffic = &mut tally.traffic;
            match event {
                Event::Interim { raw, .. } => {
                    tally.interim += 1;
                    traffic.head_bytes += raw.len() as u64;
                }
                Event::Head { head, raw } => {
                    self.status = head.status;
                    traffic.head_bytes += raw.len() as u64;
                }
                Event::Body(data) => traffic.body_bytes += data.len() as u64,
                Event::Complete {
                    reusable,
                    trailer_bytes,
                } => {
                    traffic.head_bytes += trailer_bytes;
                    complete = Some(reusable);
                }
            }
        }
        Ok(complete)
    }

    /// Where a request is that fails now.
    pub(super) fn failure_phase(&self, request_bytes: usize) -> FailurePhase {
        if self.stage == Stage::Connecting {
            FailurePhase::Connect
        } else if self.parser.is_in_body() {
            FailurePhase::Body
        } else if self.parser.is_touched() {
            FailurePhase::Head
        } else if self.written < request_bytes {
            FailurePhase::Write
        } else {
            FailurePhase::FirstByte
        }
    }
}
