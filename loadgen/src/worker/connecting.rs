//! Connections: opening them, what it means when they end, and when to try again.

use std::net::{IpAddr, SocketAddr};

use recording::FailureClass;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use crate::clock;
use crate::http1::EndOfInput;
use crate::orders::Notice;
use crate::sys;
use crate::tally::{self, FailurePhase, class_of};

use super::{Stage, Worker};

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer sends no more.
    Eof,
    /// The socket failed.
    Error(Errno),
}

/// A time in which no connection could be opened.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: u32,
    since_ns: u64,
    reported: bool,
}

impl Outage {
    /// Counts a failure of an attempt that began at `since_ns`; says whether to give up.
    fn add(&mut self, since_ns: u64, now_ns: u64) -> bool {
        if self.failures == 0 {
            self.since_ns = since_ns;
        }
        self.failures += 1;
        let lasted_ns = now_ns.saturating_sub(self.since_ns);
        self.failures >= OUTAGE_FAILURES && lasted_ns >= OUTAGE_NS
    }
}

impl Worker {
    /// Opens every connection, and reports when each is open or has failed.
    pub(super) fn open_all(&mut self) {
        self.opening = self.slots.len();
        for index in 0..self.slots.len() {
            self.connect(index);
        }
    }

    /// Begins to open a connection.
    pub(super) fn connect(&mut self, index: usize) {
        self.now_ns = clock::now_ns();
        let slot = &mut self.slots[index];
        slot.close();
        slot.stage = Stage::Connecting;
        slot.since_ns = self.now_ns;
        slot.served = 0;
        let at = (self.address + slot.tried) % self.plan.addresses.len();
        let token = u64::from(slot.generation) << 32 | index as u64;
        let address = self.plan.addresses[at];
        let source = source(&self.plan.sources, address, index);
        match open(&self.epoll, address, source, token) {
            Ok(socket) => {
                slot.socket = Some(socket);
                let due_ns = slot.since_ns + self.plan.timeout_ns;
                self.set_timer(due_ns);
            }
            Err(errno) => self.connect_failed(index, errno),
        }
    }

    /// Takes an event of a connection that is being opened.
    pub(super) fn on_connecting(&mut self, index: usize, flags: EventFlags) {
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let slot = &mut self.slots[index];
        let Some(socket) = slot
            .socket
            .as_ref()
            .filter(|_| failed || flags.contains(EventFlags::OUT))
        else {
            return;
        };
        if failed && let Ok(Err(errno)) | Err(errno) = sockopt::socket_error(socket) {
            self.connect_failed(index, errno);
            return;
        }
        self.now_ns = clock::now_ns();
        self.address = (self.address + slot.tried) % self.plan.addresses.len();
        slot.tried = 0;
        slot.stage = Stage::Idle;
        self.outage.failures = 0;
        self.tally.connections.established += 1;
        tally::record(&mut self.tally.connect_time, self.now_ns - slot.since_ns);
        if slot.has_request {
            self.write_request(index);
        } else {
            self.opened(None);
        }
    }

    /// An address did not answer: tries the next one, or counts a failure.
    pub(super) fn connect_failed(&mut self, index: usize, errno: Errno) {
        let slot = &mut self.slots[index];
        slot.tried += 1;
        if slot.tried < self.plan.addresses.len() {
            self.connect(index);
            return;
        }
        slot.tried = 0;
        let had_request = slot.has_request;
        let since_ns = slot.since_ns;
        if had_request && !self.fail(index, class_of(errno), FailurePhase::Connect) {
            return;
        }
        self.close_and_wait(index, BACKOFF_MAX_DOUBLINGS);
        if self.outage.add(since_ns, self.now_ns) && had_request && !self.outage.reported {
            self.outage.reported = true;
            self.report(Notice::GaveUp {
                why: self.outage_text(errno),
            });
        }
        if !had_request {
            self.opened(Some(errno));
        }
    }

    /// The connection ended, by the peer or by an error.
    pub(super) fn connection_lost(&mut self, index: usize, end: End) {
        let slot = &mut self.slots[index];
        if !slot.has_request {
            self.tally.connections.closed_idle += 1;
            slot.close();
            return;
        }
        let ended = slot.parser.finish();
        if end == End::Eof && ended == EndOfInput::Complete {
            self.complete(index, false, true);
            return;
        }
        // A server may close an idle connection at any time, also while a request is on its way
        // to it. That a connection which never answered dies is a failure.
        let was_idle = ended == EndOfInput::BeforeHead && slot.served > 0;
        let may_repeat = self.plan.request.is_idempotent || slot.written == 0;
        if was_idle && may_repeat {
            self.tally.connections.closed_idle += 1;
            self.tally.ledger.replayed += 1;
            self.connect(index);
            return;
        }
        let phase = slot.failure_phase(self.plan.request.bytes.len());
        let class = match end {
            End::Eof if ended == EndOfInput::InBody => FailureClass::ShortBody,
            End::Eof => FailureClass::Closed,
            End::Error(errno) => class_of(errno),
        };
        self.fail_and_reconnect(index, class, phase);
    }

    /// No complete response came in time.
    pub(super) fn timed_out(&mut self, index: usize) {
        let phase = self.slots[index].failure_phase(self.plan.request.bytes.len());
        self.fail_and_reconnect(index, FailureClass::Timeout, phase);
    }

    /// A request failed and its connection cannot be used any more.
    pub(super) fn fail_and_reconnect(
        &mut self,
        index: usize,
        class: FailureClass,
        phase: FailurePhase,
    ) {
        if !self.fail(index, class, phase) {
            return;
        }
        self.tally.connections.closed_by_failure += 1;
        let slot = &mut self.slots[index];
        if slot.served == 0 {
            // It may be like this for every connection, so do not hammer the server.
            self.close_and_wait(index, 0);
        } else {
            slot.close();
            self.start_next(index);
        }
    }

    /// Closes the connection and lets some time pass before the next one, twice as long after every
    /// failure, up to `doublings` times.
    fn close_and_wait(&mut self, index: usize, doublings: u32) {
        let slot = &mut self.slots[index];
        slot.close();
        let retry_ns = self.now_ns + (BACKOFF_NS << slot.failures.min(doublings));
        slot.failures = slot.failures.saturating_add(1);
        slot.stage = Stage::Waiting { retry_ns };
        self.set_timer(retry_ns);
    }

    /// One more of the connections of the start is open or has failed.
    fn opened(&mut self, failed: Option<Errno>) {
        if self.opening == 0 {
            return;
        }
        self.open_failure = failed.or(self.open_failure);
        self.opening -= 1;
        if self.opening == 0 {
            let open = self.slots.iter().filter(|slot| slot.is_open()).count();
            self.report(Notice::Opened {
                open: u32::try_from(open).unwrap_or(u32::MAX),
                failed: self.open_failure,
            });
        }
    }

    fn outage_text(&self, errno: Errno) -> String {
        let address = self.plan.addresses[self.address];
        let seconds = (self.now_ns - self.outage.since_ns) as f64 / 1e9;
        let failures = self.outage.failures;
        format!(
            "connecting to {address} failed {failures} times in a row over {seconds:.1} s: {errno}"
        )
    }
}

/// The local address for a slot, of the family of `address`; the kernel's choice where there is none.
fn source(sources: &[IpAddr], address: SocketAddr, index: usize) -> Option<IpAddr> {
    let fitting = || {
        sources
            .iter()
            .filter(|source| source.is_ipv4() == address.is_ipv4())
    };
    let count = fitting().count();
    fitting().nth(index % count.max(1)).copied()
}

/// A socket on its way to `address`, registered for all that it will ever need.
fn open(
    epoll: &OwnedFd,
    address: SocketAddr,
    source: Option<IpAddr>,
    token: u64,
) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // The tail of a large request must not wait for an acknowledgement.
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = source {
        // The port is chosen by connect, which knows the other end: every address gets the whole
        // range once per destination, not once.
        sys::bind_address_no_port(&socket)?;
        bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, &socket, EventData::new_u64(token), interest)?;
    Ok(socket)
}

/// The first wait after a failed connection.
const BACKOFF_NS: u64 = 1_000_000;
/// 64 ms at most: a restarted server is found again at once, an absent one is asked 16 times a
/// second.
const BACKOFF_MAX_DOUBLINGS: u32 = 6;
/// So many failures in a row, over so long a time, end the run: longer than a restart takes.
const OUTAGE_FAILURES: u32 = 3;
const OUTAGE_NS: u64 = 1_000_000_000;
