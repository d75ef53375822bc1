//! From a connected socket to an open connection: the TLS handshake, and which protocol follows.

use recording::FailureClass;
use rustix::io::Errno;

use crate::error::{HandshakeError, OpenFailure};
use crate::tally::{FailurePhase, class_of};
use crate::tls::Session;

use super::{Stage, Worker};

impl Worker {
    /// A socket is connected: the handshake begins, or the connection is open.
    pub(super) fn connected(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.connected_ns = self.now_ns;
        let Some(connector) = &mut self.connector else {
            return self.open(index);
        };
        slot.stage = Stage::Securing;
        let due_ns = self.now_ns + self.plan.timeout_ns;
        match connector.begin() {
            Ok(session) => {
                slot.secure(session);
                self.set_timer(due_ns);
                self.send_early(index);
                self.flush(index);
            }
            Err(error) => self.handshake_failed(index, HandshakeError::Tls(error)),
        }
    }

    /// Where the session takes it, what waits for the connection goes with the first bytes of the
    /// handshake. It stays in the queue until that has ended well.
    fn send_early(&mut self, index: usize) {
        let requests = self.requests_of_connection(index);
        let slot = &mut self.slots[index];
        let Some(transport) = &mut slot.transport else {
            return;
        };
        let may = transport.session().is_some_and(Session::takes_early_data);
        let Some(exchange) = slot.queue.front_mut().filter(|_| may) else {
            return;
        };
        if !self.plan.request_of(exchange).is_safe {
            return;
        }
        if exchange.started_ns == 0 {
            exchange.started_ns = self.now_ns;
        }
        slot.protocol.begin(&self.plan, requests, self.now_ns);
        slot.protocol.submit(&self.plan, *exchange);
        let taken = transport.send_early_data(slot.protocol.unsent(&self.plan));
        if taken == 0 {
            return slot.protocol.reset();
        }
        slot.protocol.sent(&self.plan, taken);
        slot.is_early = true;
        self.tally.clear.sent_bytes += taken as u64;
    }

    /// The handshake of a connection has ended well.
    pub(super) fn secured(&mut self, index: usize) {
        let slot = &self.slots[index];
        let Some(session) = slot
            .transport
            .as_ref()
            .and_then(|transport| transport.session())
        else {
            return;
        };
        self.tls.add(session, self.now_ns - slot.connected_ns);
        let found = session.alpn();
        let wanted = self.plan.alpn();
        // A server without ALPN can only mean HTTP/1.1.
        let is_fine = found == Some(wanted) || (found.is_none() && wanted == b"http/1.1");
        if is_fine {
            self.open(index);
        } else {
            let error = HandshakeError::Alpn {
                wanted: String::from_utf8_lossy(wanted).into_owned(),
                found: found.map(|found| String::from_utf8_lossy(found).into_owned()),
            };
            self.handshake_failed(index, error);
        }
    }

    /// The handshake of a connection failed.
    pub(super) fn handshake_failed(&mut self, index: usize, error: HandshakeError) {
        if self.slots[index].stage == Stage::Securing {
            self.tls.add_failure();
        }
        let class = match &error {
            HandshakeError::Os(Errno::TIMEDOUT) => FailureClass::Timeout,
            HandshakeError::Os(errno) => class_of(*errno),
            HandshakeError::NotHttp2 => FailureClass::Protocol,
            HandshakeError::Alpn { .. } | HandshakeError::Closed | HandshakeError::Tls(_) => {
                FailureClass::Tls
            }
        };
        let phase = match class {
            FailureClass::Protocol => FailurePhase::Protocol,
            _ => FailurePhase::Tls,
        };
        self.tally.connections.closed_by_failure += 1;
        self.open_failed(index, OpenFailure::Handshake(error), class, phase);
    }

    /// A connection is there. Before the first request of a run the server has to show that it
    /// speaks the protocol; later ones do not wait for that.
    fn open(&mut self, index: usize) {
        let requests = self.requests_of_connection(index);
        let slot = &mut self.slots[index];
        if std::mem::take(&mut slot.is_early) {
            slot.queue.pop_front();
        } else {
            slot.protocol.begin(&self.plan, requests, self.now_ns);
        }
        if self.opening > 0 && slot.protocol.awaits_greeting(&self.plan) {
            slot.stage = Stage::Greeting;
            self.flush(index);
        } else {
            self.opened_well(index);
        }
    }

    /// So many requests are made on the present connection of a slot.
    fn requests_of_connection(&self, index: usize) -> u64 {
        let number = (index as u64) << 32 | self.slots[index].dialled as u64;
        self.plan.requests_of_connection(self.thread, number)
    }

    /// The server may have said what was waited for.
    pub(super) fn greet(&mut self, index: usize) {
        if self.slots[index].protocol.awaits_greeting(&self.plan) {
            self.flush(index);
        } else {
            self.opened_well(index);
        }
    }

    fn opened_well(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.stage = Stage::Open;
        slot.opened_ns = self.now_ns;
        let connect_ns = slot.connected_ns - slot.since_ns;
        let open_ns = self.now_ns - slot.since_ns;
        self.observer.opened(self.now_ns, connect_ns, open_ns);
        self.outage.failures = 0;
        self.opened(None);
        self.set_timer(self.now_ns.saturating_add(self.plan.connection_lifetime_ns));
        self.refill(index);
    }
}
