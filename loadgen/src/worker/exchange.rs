//! Requests and responses: writing one, reading the other, and counting both.

use recording::FailureClass;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::clock;
use crate::http1::ProtocolViolation;
use crate::tally::{self, FailurePhase};

use super::connecting::End;
use super::{READS_MAX, Stage, Worker};

impl Worker {
    /// Takes an event of the kernel.
    #[inline]
    pub(super) fn on_event(&mut self, token: u64, flags: EventFlags) {
        let index = index_of(token);
        let slot = &self.slots[index];
        let is_stale = u64::from(slot.generation) != token >> 32;
        let is_over = slot.has_request && self.leg.is_none();
        if is_stale || is_over {
            return;
        }
        match slot.stage {
            Stage::Connecting => self.on_connecting(index, flags),
            Stage::Busy if slot.written < self.plan.request.bytes.len() => self.write_on(index),
            _ => {}
        }
        // The event that opens a connection can also bring its first bytes, or its end.
        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let is_same = u64::from(self.slots[index].generation) == token >> 32;
        if is_same && flags.intersects(EventFlags::IN | ends) && self.slots[index].is_open() {
            self.read(index, flags.intersects(ends));
        }
    }

    /// Gives every slot without a request one, as long as there are any.
    pub(super) fn pump_all(&mut self) {
        self.pump = false;
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let may_start = match slot.stage {
                Stage::Closed | Stage::Idle => true,
                Stage::Waiting { retry_ns } => retry_ns <= self.now_ns,
                Stage::Connecting | Stage::Busy => false,
            };
            if may_start && !slot.has_request && self.stamp() {
                self.start_next(index);
            }
        }
    }

    /// Sends the next request on a connection, which is opened first where there is none; without a
    /// next request the connection stays as it is.
    #[inline]
    pub(super) fn start_next(&mut self, index: usize) {
        let Some(running) = &mut self.leg else {
            return;
        };
        if !running.claims.take() {
            return;
        }
        self.tally.ledger.sent += 1;
        self.in_flight += 1;
        let slot = &mut self.slots[index];
        slot.has_request = true;
        slot.started_ns = 0;
        if slot.stage == Stage::Idle {
            self.write_request(index);
        } else {
            self.connect(index);
        }
    }

    /// Writes a request from its first byte.
    #[inline]
    pub(super) fn write_request(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.parser.begin(self.plan.request.is_head);
        slot.written = 0;
        slot.stage = Stage::Busy;
        if slot.started_ns == 0 {
            slot.started_ns = self.now_ns;
        }
        slot.since_ns = slot.started_ns;
        self.write_on(index);
    }

    /// Writes what is left of a request. Where that blocks, the event that the connection was
    /// registered for from the start says when to go on.
    #[inline]
    fn write_on(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let bytes = &self.plan.request.bytes;
        while slot.written < bytes.len() {
            let Some(socket) = &slot.socket else {
                return;
            };
            match send(socket, &bytes[slot.written..], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    slot.written += count;
                    self.tally.traffic.sent_bytes += count as u64;
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    self.write_failed(index, errno);
                    return;
                }
            }
        }
    }

    /// A server that refuses a request may answer and close before it has read all of it: what it
    /// said is worth more than the error.
    fn write_failed(&mut self, index: usize, errno: Errno) {
        if self.slots[index].written == 0 {
            self.connection_lost(index, End::Error(errno));
        } else {
            self.read(index, true);
            let slot = &self.slots[index];
            if slot.stage == Stage::Busy && slot.written < self.plan.request.bytes.len() {
                self.connection_lost(index, End::Error(errno));
            }
        }
    }

    /// Goes on with connections that had more to read than one turn gives them.
    pub(super) fn read_on(&mut self) {
        for _ in 0..self.unread.len() {
            match self.unread.pop_front() {
                Some((index, to_the_end)) if self.slots[index].is_open() => {
                    self.read(index, to_the_end);
                }
                _ => {}
            }
        }
    }

    /// Reads what is there. `to_the_end` says that the peer has closed, or that the socket failed,
    /// so that a short read is not the last one.
    #[inline]
    fn read(&mut self, index: usize, to_the_end: bool) {
        let mut complete = None;
        for _ in 0..READS_MAX {
            let slot = &mut self.slots[index];
            let Some(socket) = &slot.socket else {
                return;
            };
            let count = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return self.read_end(index, complete, End::Eof),
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return self.after_read(index, complete),
                Err(Errno::INTR) => continue,
                Err(errno) => return self.read_end(index, complete, End::Error(errno)),
            };
            self.tally.traffic.received_bytes += count as u64;
            match slot.read(&mut self.cache, &mut self.tally, &self.buffer[..count]) {
                Ok(Some(reusable)) => complete = Some(reusable),
                Ok(None) => {}
                Err(violation) => return self.violated(index, violation),
            }
            if count < self.buffer.len() && !to_the_end {
                return self.after_read(index, complete);
            }
        }
        match complete {
            Some(_) => self.after_read(index, complete),
            None => self.unread.push_back((index, to_the_end)),
        }
    }

    #[inline]
    fn after_read(&mut self, index: usize, complete: Option<bool>) {
        if let Some(reusable) = complete {
            self.complete(index, reusable, false);
        }
    }

    fn read_end(&mut self, index: usize, complete: Option<bool>, end: End) {
        match complete {
            Some(reusable) => self.complete(index, reusable, true),
            None => self.connection_lost(index, end),
        }
    }

    fn violated(&mut self, index: usize, violation: ProtocolViolation) {
        let slot = &mut self.slots[index];
        if !slot.has_request {
            // Servers say 408 before they close an idle connection.
            self.tally.connections.closed_idle += 1;
            slot.close();
            return;
        }
        let phase = if violation.is_in_body() {
            FailurePhase::Body
        } else {
            FailurePhase::Head
        };
        self.fail_and_reconnect(index, FailureClass::Protocol, phase);
    }

    /// A response is complete. `closed` says that the peer has closed the connection after it.
    #[inline]
    pub(super) fn complete(&mut self, index: usize, reusable: bool, closed: bool) {
        if !self.stamp() {
            return;
        }
        let slot = &mut self.slots[index];
        let latency_ns = self.now_ns - slot.started_ns;
        let status = slot.status;
        let written = slot.written == self.plan.request.bytes.len();
        slot.has_request = false;
        slot.stage = Stage::Idle;
        slot.served += 1;
        slot.failures = 0;
        let connections = &mut self.tally.connections;
        if !reusable || !written {
            connections.closed_by_server += 1;
            slot.close();
        } else if closed {
            connections.closed_idle += 1;
            slot.close();
        } else if slot.served >= self.plan.requests_per_connection {
            connections.closed_by_plan += 1;
            slot.close();
        }
        self.count(status, latency_ns);
        self.start_next(index);
    }

    /// Counts a complete response.
    #[inline]
    fn count(&mut self, status: u16, latency_ns: u64) {
        self.in_flight -= 1;
        self.tally.add_status(status);
        if let Some(bins) = &mut self.bins {
            bins.add(self.now_ns);
        }
        let Some(running) = &mut self.leg else {
            return;
        };
        running.last_ns = self.now_ns;
        let failed = if !self.plan.expected[usize::from(status)] {
            Some((FailureClass::Status, FailurePhase::Check))
        } else if latency_ns > self.plan.timeout_ns {
            Some((FailureClass::Timeout, FailurePhase::Body))
        } else {
            None
        };
        if let Some((class, phase)) = failed {
            running.slice.failed += 1;
            self.tally.fail(class, phase);
        } else {
            running.slice.ok += 1;
            self.tally.ledger.ok += 1;
            tally::record(&mut running.slice.latency, latency_ns);
        }
    }

    /// Counts the failure of a request; `false` when its leg has ended before that, and with it the
    /// request.
    pub(super) fn fail(&mut self, index: usize, class: FailureClass, phase: FailurePhase) -> bool {
        if !self.stamp() {
            return false;
        }
        self.slots[index].has_request = false;
        self.in_flight -= 1;
        self.tally.fail(class, phase);
        if let Some(running) = &mut self.leg {
            running.last_ns = self.now_ns;
            running.slice.failed += 1;
        }
        true
    }

    /// Reads the clock, and ends what has ended by now; `false` when no leg is left.
    #[inline]
    fn stamp(&mut self) -> bool {
        self.now_ns = clock::now_ns();
        if self.now_ns >= self.next_boundary_ns {
            self.cross_boundaries();
        }
        self.leg.is_some()
    }
}

/// The slot in a token: its lower half.
fn index_of(token: u64) -> usize {
    (token & u64::from(u32::MAX))
        .try_into()
        .unwrap_or(usize::MAX)
}
