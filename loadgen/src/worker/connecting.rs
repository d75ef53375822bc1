//! Connections: opening them, what it means when they end, and when to try again.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use recording::FailureClass;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getpeername,
    getsockname, ipproto, send, socket_with, sockopt,
};

use crate::clock;
use crate::error::OpenFailure;
use crate::orders::Notice;
use crate::protocol::Fate;
use crate::proxy_protocol::{self, ProxyProtocol};
use crate::sys;
use crate::tally::{self, FailurePhase, class_of};
use crate::target::Address;

use super::socket::Socket;
use super::transport::Transport;
use super::{Stage, Worker};

/// A time in which no connection could be opened.
#[derive(Debug, Default)]
pub(super) struct Outage {
    pub(super) failures: u32,
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

    /// Begins to open a connection, or puts it off where connections are opened at a rate.
    pub(super) fn connect(&mut self, index: usize) {
        self.now_ns = clock::now_ns();
        self.shut(index);
        if let Some(retry_ns) = self.put_off(index) {
            self.slots[index].stage = Stage::Waiting { retry_ns };
            self.set_timer(retry_ns);
        } else {
            self.look_up(index);
        }
    }

    /// When a connection may be opened; `None` for now. The turn that it is given is its own.
    fn put_off(&mut self, index: usize) -> Option<u64> {
        let interval_ns = self.connect_interval_ns?;
        let slot = &mut self.slots[index];
        if std::mem::take(&mut slot.has_permit) {
            return None;
        }
        let at_ns = self.next_connect_ns.max(self.now_ns);
        self.next_connect_ns = at_ns.saturating_add(interval_ns);
        let late = at_ns > self.now_ns;
        slot.has_permit = late;
        self.observer.connects_delayed += u64::from(late);
        late.then_some(at_ns)
    }

    /// Opens a connection to the address whose turn it is.
    pub(super) fn dial(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.stage = Stage::Connecting;
        slot.since_ns = self.now_ns;
        let at = (self.address + slot.tried) % self.addresses.len();
        let token = u64::from(slot.generation) << 32 | index as u64;
        let address = &self.addresses[at];
        // Slots begin at different addresses, and go on to the next one with every connection.
        let turn = index.wrapping_add(slot.dialled);
        slot.dialled = slot.dialled.wrapping_add(1);
        let source = source(&self.plan.sources, address, turn);
        match open(&self.epoll, address, source, token) {
            Ok(socket) => {
                let is_answering =
                    self.plan.answers_at_once() && matches!(address, Address::Inet(_));
                let socket = Socket::new(socket, is_answering);
                slot.transport = Some(Transport::Plain(socket));
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
        let Some(transport) = slot
            .transport
            .as_ref()
            .filter(|_| failed || flags.contains(EventFlags::OUT))
        else {
            return;
        };
        if failed && let Ok(Err(errno)) | Err(errno) = sockopt::socket_error(transport.socket()) {
            self.connect_failed(index, errno);
            return;
        }
        let greeting = self
            .plan
            .proxy
            .map(|(version, claimed)| greet(transport.socket(), version, claimed));
        self.now_ns = clock::now_ns();
        match greeting {
            Some(Err(errno)) => return self.connect_failed(index, errno),
            Some(Ok(count)) => self.tally.traffic.sent_bytes += count as u64,
            None => {}
        }
        self.address = (self.address + slot.tried) % self.addresses.len();
        slot.tried = 0;
        self.tally.connections.established += 1;
        let took_ns = self.now_ns - slot.since_ns;
        tally::record(&mut self.tally.connect_time, took_ns);
        self.connected(index);
    }

    /// An address did not answer: tries the next one, or counts a failure.
    pub(super) fn connect_failed(&mut self, index: usize, errno: Errno) {
        let slot = &mut self.slots[index];
        slot.tried += 1;
        if slot.tried < self.addresses.len() {
            slot.close();
            self.now_ns = clock::now_ns();
            self.dial(index);
            return;
        }
        slot.tried = 0;
        let failure = OpenFailure::Connect(errno);
        self.open_failed(index, failure, class_of(errno), FailurePhase::Connect);
    }

    /// A connection could not be opened or secured, and everything that waited for it has failed.
    pub(super) fn open_failed(
        &mut self,
        index: usize,
        failure: OpenFailure,
        class: FailureClass,
        phase: FailurePhase,
    ) {
        let slot = &self.slots[index];
        let since_ns = slot.since_ns;
        let had_request = !slot.queue.is_empty();
        if had_request && !self.stamp() && self.drain.is_none() {
            return;
        }
        while let Some(exchange) = self.slots[index].queue.pop_front() {
            self.give_up(exchange, Fate::Failed { class, phase });
        }
        self.close_and_wait(index, BACKOFF_MAX_DOUBLINGS);
        if self.outage.add(since_ns, self.now_ns) && had_request && !self.outage.reported {
            self.outage.reported = true;
            self.report(Notice::GaveUp {
                why: self.outage_text(&failure),
            });
        }
        if !had_request {
            self.opened(Some(failure));
        }
    }

    /// Closes the connection and lets some time pass before the next one, twice as long after every
    /// failure, up to `doublings` times.
    pub(super) fn close_and_wait(&mut self, index: usize, doublings: u32) {
        self.shut(index);
        let slot = &mut self.slots[index];
        let retry_ns = self.now_ns + (BACKOFF_NS << slot.failures.min(doublings));
        slot.failures = slot.failures.saturating_add(1);
        slot.stage = Stage::Waiting { retry_ns };
        self.set_timer(retry_ns);
    }

    /// One more of the connections of the start is open or has failed.
    pub(super) fn opened(&mut self, failed: Option<OpenFailure>) {
        if self.opening == 0 {
            return;
        }
        if failed.is_some() {
            self.open_failure = failed;
        }
        self.opening -= 1;
        if self.opening == 0 {
            let open = self.slots.iter().filter(|slot| slot.is_open()).count();
            let failed = self.open_failure.take();
            self.report(Notice::Opened {
                open: u32::try_from(open).unwrap_or(u32::MAX),
                failed,
            });
        }
    }

    fn outage_text(&self, failure: &OpenFailure) -> String {
        let address = &self.addresses[self.address];
        let seconds = (self.now_ns - self.outage.since_ns) as f64 / 1e9;
        let failures = self.outage.failures;
        match failure {
            OpenFailure::Resolve(why) => {
                format!(
                    "the name was not resolved {failures} times in a row over {seconds:.1} s: {why}"
                )
            }
            OpenFailure::Connect(_) | OpenFailure::Handshake(_) => format!(
                "connecting to {address} failed {failures} times in a row over {seconds:.1} s: {failure}"
            ),
        }
    }
}

/// The local address whose turn it is, of the family of `address`; the kernel's choice where there is none.
fn source(sources: &[IpAddr], address: &Address, turn: usize) -> Option<IpAddr> {
    let Address::Inet(address) = address else {
        return None;
    };
    let fitting = || {
        sources
            .iter()
            .filter(|source| source.is_ipv4() == address.is_ipv4())
    };
    let count = fitting().count();
    fitting().nth(turn % count.max(1)).copied()
}

/// A socket on its way to `address`, registered for all that it will ever need.
fn open(
    epoll: &OwnedFd,
    address: &Address,
    source: Option<IpAddr>,
    token: u64,
) -> Result<OwnedFd, Errno> {
    let socket = match address {
        Address::Inet(address) => begin_tcp(*address, source)?,
        Address::Unix(path) => begin_unix(path)?,
    };
    let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, &socket, EventData::new_u64(token), interest)?;
    Ok(socket)
}

fn begin_tcp(address: SocketAddr, source: Option<IpAddr>) -> Result<OwnedFd, Errno> {
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
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// A Unix socket connects at once, or fails with `EAGAIN` when the server's queue is full.
fn begin_unix(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Sends the header of the PROXY protocol and returns its length. A new socket takes it whole.
fn greet(
    socket: &OwnedFd,
    version: ProxyProtocol,
    claimed: Option<SocketAddr>,
) -> Result<usize, Errno> {
    let own = || SocketAddr::try_from(getsockname(socket).ok()?).ok();
    let peer = || SocketAddr::try_from(getpeername(socket).ok()??).ok();
    let header = proxy_protocol::header(version, claimed.or_else(own).zip(peer()));
    match send(socket, &header, SendFlags::NOSIGNAL)? {
        count if count == header.len() => Ok(count),
        _ => Err(Errno::NOBUFS),
    }
}

/// The first wait after a failed connection.
const BACKOFF_NS: u64 = 1_000_000;
/// 64 ms at most: a restarted server is found again at once, an absent one is asked 16 times a
/// second.
pub(super) const BACKOFF_MAX_DOUBLINGS: u32 = 6;
/// So many failures in a row, over so long a time, end the run: longer than a restart takes.
const OUTAGE_FAILURES: u32 = 3;
const OUTAGE_NS: u64 = 1_000_000_000;
