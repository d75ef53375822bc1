//! Requests and responses: handing exchanges to connections, writing, and reading.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::protocol::{End, Exchange, Reading};

use super::transport::{Broken, Decoded};
use super::{READS_MAX, Stage, Worker};

impl Worker {
    /// Takes an event of the kernel.
    #[inline]
    pub(super) fn on_event(&mut self, token: u64, flags: EventFlags) {
        let index = index_of(token);
        let slot = &self.slots[index];
        if u64::from(slot.generation) != token >> 32 {
            return;
        }
        match slot.stage {
            Stage::Connecting => self.on_connecting(index, flags),
            Stage::Open | Stage::Securing | Stage::Greeting if flags.contains(EventFlags::OUT) => {
                self.flush(index);
            }
            _ => {}
        }
        // The event that opens a connection can also bring its first bytes, or its end.
        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let is_same = u64::from(self.slots[index].generation) == token >> 32;
        if is_same && flags.intersects(EventFlags::IN | ends) && self.slots[index].is_connected() {
            self.read(index, flags.intersects(ends));
        }
    }

    /// Gives every connection what it has room for, as long as there is anything to send.
    pub(super) fn pump_all(&mut self) {
        self.pump = false;
        for index in 0..self.slots.len() {
            if self.stamp() {
                self.refill(index);
            }
        }
    }

    /// Hands a connection as many exchanges as it has room for, and writes them. Where there is no
    /// connection, one exchange opens it; without one it stays as it is.
    #[inline]
    pub(super) fn refill(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.rests_until_ns > self.now_ns && slot.queue.is_empty() {
            return;
        }
        match slot.stage {
            Stage::Open => self.submit(index),
            Stage::Waiting { retry_ns } if retry_ns > self.now_ns => {}
            Stage::Closed | Stage::Waiting { .. } => {
                if slot.queue.is_empty() {
                    let Some(exchange) = self.claim() else {
                        self.slots[index].stage = Stage::Closed;
                        return self.keep_alive(index);
                    };
                    self.slots[index].queue.push_back(exchange);
                }
                self.connect(index);
            }
            Stage::Securing => self.flush(index),
            Stage::Greeting => self.greet(index),
            Stage::Resolving | Stage::Connecting => {}
        }
    }

    /// Hands exchanges to an open connection.
    #[inline]
    fn submit(&mut self, index: usize) {
        let mut room = self.slots[index].protocol.room(&self.plan);
        while room > 0 {
            let Some(mut exchange) = self.slots[index].queue.pop_front().or_else(|| self.claim())
            else {
                break;
            };
            if exchange.started_ns == 0 {
                exchange.started_ns = self.now_ns;
            }
            self.slots[index].protocol.submit(&self.plan, exchange);
            room -= 1;
            // What is due is spread over the connections that wait, not heaped on one.
            if exchange.due_ns > 0 {
                break;
            }
        }
        if room > 0 {
            self.wait_for_due(index);
        }
        if self.slots[index].protocol.gathers() {
            self.gather(index);
        } else {
            self.flush(index);
        }
    }

    /// Writes when all connections were read.
    fn gather(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if !slot.is_gathering {
            slot.is_gathering = true;
            self.gathered.push(index);
        }
    }

    /// Writes what was gathered.
    pub(super) fn flush_gathered(&mut self) {
        while let Some(index) = self.gathered.pop() {
            self.slots[index].is_gathering = false;
            self.flush(index);
        }
    }

    /// Takes a new exchange from the schedule.
    #[inline]
    pub(super) fn claim(&mut self) -> Option<Exchange> {
        let running = self.leg.as_mut()?;
        let mut due_ns = 0;
        let number = match &mut self.pacing {
            None => running.claims.take()?,
            Some(pacing) => {
                if !pacing.admits(self.now_ns, self.in_flight) {
                    return None;
                }
                let number = running.claims.take()?;
                due_ns = pacing.take_due_ns();
                number
            }
        };
        self.tally.ledger.sent += 1;
        self.in_flight += 1;
        let class = match &self.plan.mix {
            None => 0,
            Some(mix) => {
                let class = mix.class_of(number);
                self.tally.classes[usize::from(class)].ledger.sent += 1;
                class
            }
        };
        Some(Exchange {
            due_ns,
            number,
            class,
            ..Exchange::default()
        })
    }

    /// Writes what a connection has to write. Where that blocks, the event that the connection was
    /// registered for from the start says when to go on.
    #[inline]
    pub(super) fn flush(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(transport) = &mut slot.transport else {
            return;
        };
        while matches!(slot.stage, Stage::Open | Stage::Greeting) {
            let bytes = slot.protocol.unsent(&self.plan);
            if bytes.is_empty() {
                break;
            }
            match transport.write(bytes) {
                Ok(written) => {
                    self.tally.traffic.sent_bytes += written.wire as u64;
                    self.tally.clear.sent_bytes += written.taken as u64;
                    if written.taken == 0 {
                        return;
                    }
                    slot.protocol.sent(&self.plan, written.taken);
                }
                Err(broken) => return self.write_failed(index, broken),
            }
        }
        match transport.write_pending() {
            Ok(wire) => self.tally.traffic.sent_bytes += wire as u64,
            Err(broken) => self.write_failed(index, broken),
        }
    }

    /// A server that refuses a request may answer and close before it has read all of it: what it
    /// said is worth more than the error.
    fn write_failed(&mut self, index: usize, broken: Broken) {
        let generation = self.slots[index].generation;
        if self.slots[index].protocol.has_written() {
            self.read(index, true);
        }
        let slot = &self.slots[index];
        if slot.generation == generation && slot.is_connected() {
            self.connection_broken(index, broken);
        }
    }

    /// Goes on with connections that had more to read than one turn gives them.
    pub(super) fn read_on(&mut self) {
        for _ in 0..self.unread.len() {
            match self.unread.pop_front() {
                Some((index, to_the_end)) if self.slots[index].is_connected() => {
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
        for _ in 0..READS_MAX {
            let Some(transport) = &mut self.slots[index].transport else {
                return;
            };
            let (end, count) = match transport.receive(&mut self.buffer) {
                Ok((_, 0)) => return self.connection_lost(index, End::Eof),
                Ok(received) => received,
                Err(Errno::AGAIN) => return self.settle(index),
                Err(errno) => return self.connection_lost(index, End::Error(errno)),
            };
            self.tally.traffic.received_bytes += count as u64;
            // What is read now belongs to now, and not to a leg that ends while it is parsed.
            self.stamp();
            if !self.decode(index, end) {
                return;
            }
            if end < self.buffer.len() && !to_the_end {
                self.settle(index);
                if let Some(transport) = &mut self.slots[index].transport {
                    transport.let_go();
                }
                return;
            }
        }
        self.unread.push_back((index, to_the_end));
        self.settle(index);
    }

    /// Hands what is in the buffer up to `end` to the protocol; `false` when the connection is gone.
    #[inline]
    fn decode(&mut self, index: usize, end: usize) -> bool {
        let mut from = 0;
        loop {
            let slot = &mut self.slots[index];
            let Some(transport) = &mut slot.transport else {
                return false;
            };
            let mut reading = Reading {
                plan: &self.plan,
                cache: &mut self.cache,
                tally: &mut self.tally,
                ended: &mut self.ended,
                now_ns: self.now_ns,
            };
            let protocol = &mut slot.protocol;
            let decoded = transport.decode(&mut self.buffer[from..end], |bytes| {
                reading.tally.clear.received_bytes += bytes.len() as u64;
                protocol.receive(&mut reading, bytes)
            });
            match decoded {
                Decoded::All => return true,
                Decoded::Close(close) => self.close(index, close),
                Decoded::Closed => self.connection_lost(index, End::Eof),
                Decoded::Broken(error) => self.connection_broken(index, Broken::Session(error)),
                Decoded::Secured(used) => {
                    from += used;
                    let generation = slot.generation;
                    self.secured(index);
                    let slot = &self.slots[index];
                    // Servers may speak before the handshake has ended: what came with its end is
                    // read at once, whatever the connection waits for now.
                    if slot.generation == generation && slot.is_connected() {
                        continue;
                    }
                }
            }
            return false;
        }
    }
}

/// The slot in a token: its lower half.
fn index_of(token: u64) -> usize {
    (token & u64::from(u32::MAX))
        .try_into()
        .unwrap_or(usize::MAX)
}
