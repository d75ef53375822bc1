//! A client connection of HTTP/2 (RFC 9113), without input or output.
//!
//! Frames are read where they lie and only what a load generator has to know is kept of them. All
//! that a connection has to say gathers in one buffer, so that the requests of many streams leave
//! in one write and one TLS record. Memory is bounded, whatever the server sends.
//!
//! This file owns the connection and what leaves it; `incoming` reads frames and `data` bodies,
//! `bodies` sends the bodies of requests as far as the windows of the server allow, `ending` decides
//! what becomes of exchanges that have no response, `upgrade` begins in HTTP/1.1.

mod bodies;
mod data;
mod ending;
mod frame;
mod hpack;
mod huffman;
mod incoming;
mod peer;
mod request;
mod static_table;
mod streams;
mod upgrade;
mod violation;

#[cfg(test)]
mod tests;

use recording::HttpVersion;

use crate::plan::Plan;
use crate::protocol::{Close, Exchange, Reading};
use crate::tally::FailurePhase;

use frame::FrameHead;
use hpack::Decoder;
use peer::Peer;
pub(crate) use request::Http2Request;
use streams::{Stream, Streams};
pub(crate) use upgrade::headers as upgrade_headers;
use violation::{Malformed, Violation};

/// What is asked of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Config {
    /// Window of every stream, bytes: what the server may send ahead of what was read.
    pub stream_window: u32,
    /// Window of the connection, bytes, at least 65535.
    pub connection_window: u32,
    /// Table for the header fields of responses, bytes.
    pub header_table: u32,
}

impl Default for Http2Config {
    /// Windows that never hold a server back, as other load generators have them.
    fn default() -> Self {
        Self {
            stream_window: (1 << 30) - 1,
            connection_window: (1 << 30) - 1,
            header_table: 4096,
        }
    }
}

/// How the fields of requests use the table of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// Nothing is in it yet.
    Empty,
    /// The fields of the request are in it.
    Filled,
    /// The server wants it smaller than we might use it: it is not used. `announced` says whether
    /// the server was told so, as it has to be.
    Unused { announced: bool },
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It speaks HTTP/1.1 and has not asked to change yet.
    Fresh,
    /// It has asked.
    Upgrading,
    /// It speaks HTTP/2.
    Running,
}

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub(crate) struct Http2 {
    stage: Stage,
    /// What is to be written, from `out_sent` on.
    out: Vec<u8>,
    out_sent: usize,
    streams: Streams,
    peer: Peer,
    /// Whether the settings of the server have come.
    is_greeted: bool,
    /// The last stream that the server will answer, once it has said so.
    goaway: Option<u32>,
    decoder: Decoder,
    table: Table,
    /// The start of a frame whose end has not come, or of the answer to the upgrade.
    partial: Vec<u8>,
    data: Option<data::Data>,
    block: Option<incoming::Block>,
    /// What may be sent on the connection, bytes.
    send_window: i64,
    /// Since when it holds bodies back, ns; zero if it does not.
    stalled_ns: u64,
    /// What the server may still send on the connection, bytes.
    receive_window: i64,
    /// Streams whose requests have more body to send.
    bodies: Vec<u32>,
    /// The header block of a request that differs from others.
    scratch: Vec<u8>,
    submitted: u64,
    /// Requests that the connection is for.
    requests: u64,
    served: u64,
    /// When the server sent something last, ns.
    received_ns: u64,
    /// The frame that came last.
    last_frame: FrameHead,
}

impl Http2 {
    /// A connection that is not begun.
    pub(crate) fn new(config: &Http2Config) -> Self {
        Self {
            stage: Stage::Running,
            out: Vec::new(),
            out_sent: 0,
            streams: Streams::default(),
            peer: Peer::new(),
            is_greeted: false,
            goaway: None,
            decoder: Decoder::new(config.header_table),
            table: Table::Empty,
            partial: Vec::new(),
            data: None,
            block: None,
            send_window: CONNECTION_WINDOW,
            stalled_ns: 0,
            receive_window: CONNECTION_WINDOW,
            bodies: Vec::new(),
            scratch: Vec::new(),
            submitted: 0,
            requests: 0,
            served: 0,
            received_ns: 0,
            last_frame: FrameHead::NONE,
        }
    }

    /// Forgets the connection before.
    pub(crate) fn reset(&mut self) {
        self.out.clear();
        self.out_sent = 0;
        self.streams.clear();
        self.peer = Peer::new();
        self.is_greeted = false;
        self.goaway = None;
        self.decoder.reset();
        self.table = Table::Empty;
        self.partial.clear();
        self.data = None;
        self.block = None;
        self.send_window = CONNECTION_WINDOW;
        self.stalled_ns = 0;
        self.receive_window = CONNECTION_WINDOW;
        self.bodies.clear();
        self.submitted = 0;
        self.served = 0;
    }

    /// The connection is there, for so many requests: says what a client says first.
    pub(crate) fn begin(&mut self, plan: &Plan, requests: u64, now_ns: u64) {
        self.requests = requests;
        self.streams.make_room(plan.depth);
        self.received_ns = now_ns;
        if plan.http == HttpVersion::Http2Upgrade {
            self.stage = Stage::Fresh;
        } else {
            self.stage = Stage::Running;
            self.greet(&plan.http2);
        }
    }

    /// Whether the server has said what it allows.
    pub(crate) fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    /// Exchanges that may be added: as many as the server allows, and one before it has said that.
    #[inline]
    pub(crate) fn room(&self, plan: &Plan) -> u32 {
        if self.goaway.is_some() || !self.streams.has_ids() {
            return 0;
        }
        let allowed = if self.is_greeted {
            self.peer.streams_max.unwrap_or(u32::MAX).min(plan.depth)
        } else {
            1
        };
        let left = self.requests - self.submitted;
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        allowed.saturating_sub(self.streams.count()).min(left)
    }

    /// See [`crate::protocol::Protocol::retire`].
    pub(crate) fn retire(&mut self) {
        self.requests = self.submitted;
    }

    /// Tells the server that nothing more will come, and that all of it was well.
    pub(crate) fn take_leave(&mut self) {
        if self.stage == Stage::Running {
            frame::write(&mut self.out, frame::GOAWAY, 0, 0, &[0; 8]);
        }
    }

    /// Whether the server allows no stream at all.
    pub(crate) fn is_barred(&self) -> bool {
        self.is_greeted && self.peer.streams_max == Some(0) && self.streams.count() == 0
    }

    /// Adds an exchange on a new stream.
    #[inline]
    pub(crate) fn submit(&mut self, plan: &Plan, exchange: Exchange) {
        self.submitted += 1;
        if self.stage == Stage::Fresh {
            return self.submit_upgrade(plan, exchange);
        }
        let request = plan
            .request_of(&exchange)
            .http2
            .as_ref()
            .expect("a plan for HTTP/2 has requests for it");
        let stream = self.streams.open(exchange);
        let id = stream.id;
        stream.begin(plan, &self.peer);
        stream.send_bytes = request.body.len();
        if !request.body_patches.is_empty() {
            request.write_body(exchange.number, plan.shape.seed, &mut stream.own_body);
        }
        let has_body = !request.body.is_empty();
        let is_uniform = plan.is_uniform();
        if !is_uniform {
            request.write_block(exchange.number, plan.shape.seed, &mut self.scratch);
        }
        if is_uniform
            && self.table == Table::Empty
            && request.table_bytes > hpack::DEFAULT_TABLE_BYTES as usize
        {
            self.table = Table::Unused { announced: true };
        }
        let (announcement, block): (&[u8], &[u8]) = match &mut self.table {
            Table::Unused { announced } => {
                let was_announced = std::mem::replace(announced, true);
                let block = if is_uniform {
                    &request.plain
                } else {
                    &self.scratch
                };
                (if was_announced { &[] } else { EMPTY_TABLE }, block)
            }
            _ if !is_uniform => (&[], &self.scratch),
            Table::Filled => (&[], &request.next),
            table @ Table::Empty => {
                *table = Table::Filled;
                (&[], &request.first)
            }
        };
        let frame_bytes_max = self.peer.frame_bytes_max as usize;
        frame::write_headers(
            &mut self.out,
            id,
            &[announcement, block],
            !has_body,
            frame_bytes_max,
        );
        if has_body {
            self.bodies.push(id);
            self.send_bodies(plan);
        }
    }

    /// What is to be written.
    #[inline]
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.out[self.out_sent..]
    }

    /// So many of those bytes were written.
    #[inline]
    pub(crate) fn sent(&mut self, plan: &Plan, count: usize) {
        self.out_sent += count;
        if self.out_sent == self.out.len() {
            self.out.clear();
            self.out_sent = 0;
            if !self.bodies.is_empty() {
                self.send_bodies(plan);
            }
        }
    }

    /// Takes bytes of the server.
    #[inline]
    pub(crate) fn receive(&mut self, reading: &mut Reading<'_>, input: &[u8]) -> Option<Close> {
        self.received_ns = reading.now_ns;
        let streams = self.streams.count();
        let report = &mut reading.tally.http2;
        report.streams_max = report.streams_max.max(streams);
        // The settings came before the window, most of the time.
        if let Some(limit) = self.peer.streams_max {
            report.stream_limit = Some(report.stream_limit.map_or(limit, |known| known.min(limit)));
        }
        let result = if self.stage == Stage::Running {
            self.read(reading, input)
        } else {
            self.read_upgrade(reading, input)
        };
        if let Err(violation) = result {
            return Some(self.violated(reading, violation, input));
        }
        if self.streams.count() > 0 {
            None
        } else if self.goaway.is_some() || !self.streams.has_ids() {
            Some(Close::Announced)
        } else if self.submitted >= self.requests {
            Some(Close::Plan)
        } else {
            None
        }
    }

    /// When each exchange was started.
    pub(crate) fn each_started_ns(&self, see: &mut dyn FnMut(u64)) {
        for stream in self.streams.iter() {
            see(stream.exchange.started_ns);
        }
    }

    /// When the oldest exchange was started.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.streams
            .iter()
            .map(|stream| stream.exchange.started_ns)
            .min()
    }

    /// Whether something is in flight.
    pub(crate) fn has_written(&self) -> bool {
        self.streams.count() > 0
    }

    /// Responses completed.
    pub(crate) fn served(&self) -> u64 {
        self.served
    }

    /// The preface, our settings, and the window of the connection.
    fn greet(&mut self, config: &Http2Config) {
        self.out.extend_from_slice(frame::PREFACE);
        frame::write(&mut self.out, frame::SETTINGS, 0, 0, &settings(config));
        let window = i64::from(config.connection_window);
        if window > CONNECTION_WINDOW {
            let more = config.connection_window - 65_535;
            frame::write(
                &mut self.out,
                frame::WINDOW_UPDATE,
                0,
                0,
                &more.to_be_bytes(),
            );
        }
        self.receive_window = window.max(CONNECTION_WINDOW);
    }

    /// Bytes that wait to be written.
    fn backlog(&self) -> usize {
        self.out.len() - self.out_sent
    }
}

impl Stream {
    /// A new stream as the peers have agreed on it.
    #[inline]
    fn begin(&mut self, plan: &Plan, peer: &Peer) {
        let exchange = self.exchange;
        self.body.begin(plan, &exchange);
        self.receive_window = i64::from(plan.http2.stream_window);
        self.send_window = peer.window;
    }

    /// Where its exchange is, if it fails now.
    fn phase(&self) -> FailurePhase {
        if self.status != 0 {
            FailurePhase::Body
        } else if self.sent < self.send_bytes {
            FailurePhase::Write
        } else {
            FailurePhase::FirstByte
        }
    }
}

/// The payload of our SETTINGS: no pushed responses, and what was asked for.
///
/// A size of the table is sent only where it is not the default. A server need not act on it then,
/// and some act badly: Go's announces the size a second time, within the first header block, when
/// the setting comes while it writes that block, which is an error of compression (RFC 7541,
/// section 4.2).
fn settings(config: &Http2Config) -> Vec<u8> {
    let table =
        (config.header_table != hpack::DEFAULT_TABLE_BYTES).then_some((1_u16, config.header_table));
    let mut payload = Vec::new();
    for (name, value) in table.into_iter().chain([(2, 0), (4, config.stream_window)]) {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    payload
}

/// The window of a connection before anybody has changed it.
const CONNECTION_WINDOW: i64 = 65_535;
/// An update of the size of the table to zero (RFC 7541, section 6.3).
const EMPTY_TABLE: &[u8] = &[0x20];
