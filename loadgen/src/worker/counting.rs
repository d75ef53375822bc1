//! The account: what becomes of exchanges that have ended.

use recording::FailureClass;

use crate::clock;
use crate::error::HandshakeError;
use crate::protocol::{Close, End, Ended, Exchange, Fate};
use crate::tally::{self, FailurePhase};

use super::connecting::BACKOFF_MAX_DOUBLINGS;
use super::transport::Broken;
use super::{Stage, Worker};

impl Worker {
    /// Counts what has ended on a connection and gives it something new to do.
    #[inline]
    pub(super) fn settle(&mut self, index: usize) {
        if self.count_ended(index) {
            self.rest(index);
        }
        self.refill(index);
    }

    /// The socket or the session of a connection failed.
    pub(super) fn connection_broken(&mut self, index: usize, broken: Broken) {
        match broken {
            Broken::Socket(errno) => self.connection_lost(index, End::Error(errno)),
            Broken::Session(error) if self.slots[index].stage == Stage::Securing => {
                self.handshake_failed(index, HandshakeError::Tls(error));
            }
            Broken::Session(_) => self.connection_lost(index, End::Session),
        }
    }

    /// The peer has ended the connection, or it failed.
    pub(super) fn connection_lost(&mut self, index: usize, end: End) {
        let slot = &mut self.slots[index];
        if slot.stage == Stage::Greeting {
            return self.handshake_failed(index, HandshakeError::NotHttp2);
        }
        if slot.stage == Stage::Securing {
            let error = match end {
                End::Error(errno) => HandshakeError::Os(errno),
                End::Eof | End::Session => HandshakeError::Closed,
            };
            return self.handshake_failed(index, error);
        }
        let close = slot.protocol.lost(&self.plan, end, &mut self.ended);
        self.close(index, close);
    }

    /// Counts what has ended on a connection, closes it, and opens the next one if that has
    /// something to do.
    pub(super) fn close(&mut self, index: usize, close: Close) {
        if self.slots[index].stage == Stage::Greeting {
            return self.handshake_failed(index, HandshakeError::NotHttp2);
        }
        match close {
            Close::Failure => self.say_last_words(index),
            Close::Plan => self.take_leave(index),
            Close::Announced | Close::Idle => {}
        }
        let has_ended = self.count_ended(index);
        if has_ended {
            self.rest(index);
        }
        let connections = &mut self.tally.connections;
        match close {
            Close::Announced => connections.closed_by_server += 1,
            Close::Failure => connections.closed_by_failure += 1,
            Close::Idle => connections.closed_idle += 1,
            Close::Plan => connections.closed_by_plan += 1,
        }
        let has_served = self.slots[index].protocol.served() > 0;
        if close == Close::Failure && !has_served {
            // It may be like this for every connection, so do not hammer the server.
            self.close_and_wait(index, 0);
        } else if has_ended || has_served || self.pacing.is_none() {
            self.shut(index);
            if has_ended {
                self.refill(index);
            } else {
                self.keep_alive(index);
            }
        } else {
            // A server that closes what it has just accepted is not asked without a pause.
            self.close_and_wait(index, BACKOFF_MAX_DOUBLINGS);
        }
    }

    /// The peer is told that the connection ends here, so that it need not guess.
    pub(super) fn take_leave(&mut self, index: usize) {
        self.slots[index].protocol.take_leave();
        self.say_last_words(index);
        if let Some(transport) = &mut self.slots[index].transport
            && let Ok(wire) = transport.close_notify()
        {
            self.tally.traffic.sent_bytes += wire as u64;
        }
    }

    /// The run is over: what is open and idle ends in order.
    pub(super) fn take_leave_of_all(&mut self) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.is_open() && slot.oldest_ns().is_none() {
                self.take_leave(index);
            }
        }
    }

    /// A server that broke the protocol may learn of it, if its socket has room.
    fn say_last_words(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let words = slot.protocol.last_words();
        if let Some(transport) = slot.transport.as_mut().filter(|_| !words.is_empty())
            && let Ok(written) = transport.write(words)
        {
            self.tally.traffic.sent_bytes += written.wire as u64;
            self.tally.clear.sent_bytes += written.taken as u64;
        }
    }

    /// Closes a connection, if there is one, and takes note of it.
    pub(super) fn shut(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.is_open() {
            let lived_ns = self.now_ns.saturating_sub(slot.since_ns);
            let lived_ns = (slot.protocol.served() > 0).then_some(lived_ns);
            self.observer.closed(self.now_ns, lived_ns);
        }
        slot.close();
    }

    /// Counts what has ended on a connection; `false` if nothing has. What ends without a leg has
    /// been counted as unfinished: it is about to be taken back, or was waited for.
    #[inline]
    fn count_ended(&mut self, index: usize) -> bool {
        if self.ended.is_empty() {
            return false;
        }
        for place in 0..self.ended.len() {
            let ended = self.ended[place];
            if self.leg.is_some() {
                self.count(index, ended);
            } else {
                self.count_drained(ended);
            }
        }
        self.ended.clear();
        true
    }

    /// Counts an exchange that has ended, or puts it back into the queue of its slot.
    #[inline]
    fn count(&mut self, index: usize, ended: Ended) {
        let Ended { exchange, fate } = ended;
        match fate {
            Fate::Answered { status, content_ok } => {
                let slot = &mut self.slots[index];
                slot.failures = 0;
                slot.responses += 1;
                if !slot.is_greeted {
                    slot.is_greeted = true;
                    // Without the time that the open connection waited for its first request.
                    let open_ns = slot.opened_ns.saturating_sub(slot.since_ns);
                    let wait_ns = exchange.first_byte_ns.saturating_sub(exchange.started_ns);
                    self.observer.first_byte(open_ns + wait_ns);
                }
                self.count_response(&exchange, status, content_ok);
            }
            Fate::Failed { class, phase } => self.count_failure(&exchange, class, phase),
            Fate::Unanswered => {
                self.tally.ledger.replayed += 1;
                self.slots[index].queue.push_back(exchange);
            }
        }
    }

    /// Counts an exchange that will not be tried again.
    pub(super) fn give_up(&mut self, exchange: Exchange, fate: Fate) {
        match fate {
            Fate::Failed { class, phase } if self.leg.is_some() => {
                self.count_failure(&exchange, class, phase);
            }
            _ => self.count_drained(Ended { exchange, fate }),
        }
    }

    /// Counts what became of an exchange that the window left behind.
    #[cold]
    fn count_drained(&mut self, ended: Ended) {
        let Some(drain) = &mut self.drain else {
            return;
        };
        self.in_flight -= 1;
        let is_ok = match ended.fate {
            Fate::Answered { status, content_ok } => {
                content_ok && self.plan.is_expected(&ended.exchange, status)
            }
            Fate::Failed { .. } | Fate::Unanswered => false,
        };
        if is_ok {
            drain.ok += 1;
        } else {
            drain.failed += 1;
        }
    }

    /// Counts a complete response.
    #[inline]
    fn count_response(&mut self, exchange: &Exchange, status: u16, content_ok: bool) {
        self.tally.add_status(status);
        if let Some(bins) = &mut self.bins {
            bins.add(self.now_ns);
        }
        let service_ns = self.now_ns - exchange.started_ns;
        self.pauses.add(service_ns);
        let failed = if !self.plan.is_expected(exchange, status) {
            Some((FailureClass::Status, FailurePhase::Check))
        } else if service_ns > self.plan.timeout_ns {
            Some((FailureClass::Timeout, FailurePhase::Body))
        } else if !content_ok {
            Some((FailureClass::Content, FailurePhase::Check))
        } else {
            None
        };
        if let Some((class, phase)) = failed {
            self.count_failure(exchange, class, phase);
            return;
        }
        self.in_flight -= 1;
        self.tally.ledger.ok += 1;
        let mut latency_ns = service_ns;
        if exchange.due_ns > 0 {
            latency_ns = self.now_ns - exchange.due_ns;
            tally::record(&mut self.tally.service, service_ns);
            let lag_ns = exchange.started_ns - exchange.due_ns;
            tally::record(&mut self.tally.lag, lag_ns);
        }
        if exchange.first_byte_ns != self.now_ns {
            let first_byte_ns = exchange.first_byte_ns - exchange.started_ns;
            self.tally.add_split(service_ns, first_byte_ns);
        }
        if let Some(class) = self.tally.classes.get_mut(usize::from(exchange.class)) {
            class.ledger.ok += 1;
            tally::record(&mut class.latency, latency_ns);
        }
        if let Some(running) = &mut self.leg {
            running.last_ns = self.now_ns;
            running.slice.ok += 1;
            tally::record(&mut running.slice.latency, latency_ns);
        }
    }

    /// Counts a failed exchange.
    pub(super) fn count_failure(
        &mut self,
        exchange: &Exchange,
        class: FailureClass,
        phase: FailurePhase,
    ) {
        self.in_flight -= 1;
        self.tally.fail(exchange, class, phase);
        if let Some(running) = &mut self.leg {
            running.last_ns = self.now_ns;
            running.slice.failed += 1;
        }
    }

    /// Reads the clock, and ends what has ended by now; `false` when no leg is left.
    #[inline]
    pub(super) fn stamp(&mut self) -> bool {
        self.now_ns = clock::now_ns();
        if self.now_ns >= self.next_boundary_ns {
            self.cross_boundaries();
        }
        self.leg.is_some()
    }
}
