//! The seam between connections and protocols.
//!
//! A [`Protocol`] has no socket and no clock. Requests are handed to it as [`Exchange`]s, bytes of
//! the peer go in, bytes to write and [`Ended`] exchanges come out. Whoever owns the socket decides
//! when to read and when to write, so that a protocol over datagrams fits as well as one over a
//! stream, in clear or not.

use rustix::io::Errno;

use recording::{FailureClass, HttpVersion};

use crate::http1::{HeadCache, Http1};
use crate::http2::Http2;
use crate::plan::Plan;
use crate::tally::{FailurePhase, Tally};

/// A request and what is known of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// When it was first handed to a connection, ns; kept when it is sent again. Zero before.
    pub(crate) started_ns: u64,
    /// When the first byte of its final response was read, ns. Zero before.
    pub(crate) first_byte_ns: u64,
    /// When it was due, ns; zero in a closed loop, where nothing is.
    pub(crate) due_ns: u64,
    /// Its number in its phase, from which everything that varies in its bytes follows.
    pub(crate) number: u64,
    /// Which of the requests of the plan it is.
    pub(crate) class: u16,
    /// How often a server has turned it away.
    pub(crate) refusals: u8,
}

/// An exchange that a connection is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) exchange: Exchange,
    pub(crate) fate: Fate,
}

/// How an exchange ended on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its response is complete.
    Answered {
        /// Status of the final head, 100..=999.
        status: u16,
        /// Whether its body is the expected one, as far as the plan says.
        content_ok: bool,
    },
    /// It failed.
    Failed {
        class: FailureClass,
        phase: FailurePhase,
    },
    /// It was not answered and may be sent again, because the server cannot have acted on it, or
    /// because acting twice is the same as acting once.
    Unanswered,
}

impl Fate {
    /// Its response broke the protocol.
    pub(crate) const VIOLATED: Self = Self::Failed {
        class: FailureClass::Protocol,
        phase: FailurePhase::Protocol,
    };
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer sends no more.
    Eof,
    /// The socket failed.
    Error(Errno),
    /// The session of TLS failed.
    Session,
}

/// Why a connection is closed, in the words of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// By the server, as it announced.
    Announced,
    /// By a failure.
    Failure,
    /// By the server, between two requests.
    Idle,
    /// By the client: it has made its requests.
    Plan,
}

/// What a protocol works with while it reads.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) cache: &'a mut HeadCache,
    pub(crate) tally: &'a mut Tally,
    pub(crate) ended: &'a mut Vec<Ended>,
    /// When the bytes were read, ns.
    pub(crate) now_ns: u64,
}

/// The protocol of one connection.
#[derive(Debug)]
pub(crate) enum Protocol {
    Http1(Http1),
    /// Boxed because it is large, and most loads have none.
    Http2(Box<Http2>),
}

impl Protocol {
    /// A protocol without a connection.
    pub(crate) fn new(plan: &Plan) -> Self {
        match plan.http {
            HttpVersion::Http1 => Self::Http1(Http1::new()),
            HttpVersion::Http2 | HttpVersion::Http2Upgrade => {
                Self::Http2(Box::new(Http2::new(&plan.http2)))
            }
        }
    }

    /// The connection is there, for so many requests: says what comes first.
    pub(crate) fn begin(&mut self, plan: &Plan, requests: u64, now_ns: u64) {
        match self {
            Self::Http1(http1) => http1.begin_connection(requests),
            Self::Http2(http2) => http2.begin(plan, requests, now_ns),
        }
    }

    /// Whether the server still has to show that it speaks this protocol, before it is asked.
    pub(crate) fn awaits_greeting(&self, plan: &Plan) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(http2) => plan.http == HttpVersion::Http2 && !http2.is_greeted(),
        }
    }

    /// Whether the server takes nothing at all, for now.
    pub(crate) fn is_barred(&self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(http2) => http2.is_barred(),
        }
    }

    /// Whether it pays to gather what is to be written until all connections were read: a read
    /// brings many responses, whose successors leave together.
    #[inline]
    pub(crate) fn gathers(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Forgets the connection before, and begins a new one.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Http1(http1) => http1.reset(),
            Self::Http2(http2) => http2.reset(),
        }
    }

    /// The connection takes no more exchanges: it ends when what is in flight has ended.
    pub(crate) fn retire(&mut self) {
        match self {
            Self::Http1(http1) => http1.retire(),
            Self::Http2(http2) => http2.retire(),
        }
    }

    /// How many more exchanges the connection takes now.
    #[inline]
    pub(crate) fn room(&self, plan: &Plan) -> u32 {
        match self {
            Self::Http1(http1) => http1.room(plan),
            Self::Http2(http2) => http2.room(plan),
        }
    }

    /// Takes an exchange, for which there has to be room.
    #[inline]
    pub(crate) fn submit(&mut self, plan: &Plan, exchange: Exchange) {
        match self {
            Self::Http1(http1) => http1.submit(plan, exchange),
            Self::Http2(http2) => http2.submit(plan, exchange),
        }
    }

    /// The next bytes to write; empty when there are none.
    #[inline]
    pub(crate) fn unsent<'a>(&'a self, plan: &'a Plan) -> &'a [u8] {
        match self {
            Self::Http1(http1) => http1.unsent(plan),
            Self::Http2(http2) => http2.unsent(),
        }
    }

    /// A connection that nothing is in flight on is about to be closed as planned.
    pub(crate) fn take_leave(&mut self) {
        match self {
            Self::Http1(_) => {}
            Self::Http2(http2) => http2.take_leave(),
        }
    }

    /// What a connection that is about to be closed still has to say.
    pub(crate) fn last_words(&self) -> &[u8] {
        match self {
            Self::Http1(_) => &[],
            Self::Http2(http2) => http2.unsent(),
        }
    }

    /// So many of the bytes to write were written.
    #[inline]
    pub(crate) fn sent(&mut self, plan: &Plan, count: usize) {
        match self {
            Self::Http1(http1) => http1.sent(plan, count),
            Self::Http2(http2) => http2.sent(plan, count),
        }
    }

    /// Takes bytes of the peer. `Some` says that the connection has to be closed; what is still in
    /// flight then has ended too.
    #[inline]
    pub(crate) fn receive(&mut self, reading: &mut Reading<'_>, input: &[u8]) -> Option<Close> {
        match self {
            Self::Http1(http1) => http1.receive(reading, input),
            Self::Http2(http2) => http2.receive(reading, input),
        }
    }

    /// The connection has ended: so has all that was in flight.
    pub(crate) fn lost(&mut self, plan: &Plan, end: End, ended: &mut Vec<Ended>) -> Close {
        match self {
            Self::Http1(http1) => http1.lost(plan, end, ended),
            Self::Http2(http2) => http2.lost(plan, end, ended),
        }
    }

    /// Ends the exchanges that began at `oldest_ns` or before.
    pub(crate) fn expire(
        &mut self,
        plan: &Plan,
        oldest_ns: u64,
        ended: &mut Vec<Ended>,
    ) -> Option<Close> {
        match self {
            Self::Http1(http1) => http1.expire(plan, oldest_ns, ended),
            Self::Http2(http2) => http2.expire(plan, oldest_ns, ended),
        }
    }

    /// When each exchange in flight was started, ns.
    pub(crate) fn each_started_ns(&self, see: &mut dyn FnMut(u64)) {
        match self {
            Self::Http1(http1) => http1.each_started_ns(see),
            Self::Http2(http2) => http2.each_started_ns(see),
        }
    }

    /// When the oldest exchange in flight was started, ns.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        match self {
            Self::Http1(http1) => http1.oldest_ns(),
            Self::Http2(http2) => http2.oldest_ns(),
        }
    }

    /// Whether a part of what is in flight has been written on this connection.
    pub(crate) fn has_written(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.has_written(),
            Self::Http2(http2) => http2.has_written(),
        }
    }

    /// Responses completed on this connection.
    pub(crate) fn served(&self) -> u64 {
        match self {
            Self::Http1(http1) => http1.served(),
            Self::Http2(http2) => http2.served(),
        }
    }
}
