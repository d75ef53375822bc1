//! The account: what becomes of exchanges that have ended.

use recording::FailureClass;

use crate::clock;
use crate::protocol::{Close, End, Ended, Fate};
use crate::tally::{self, FailurePhase};

use super::Worker;

impl Worker {
    /// Counts what has ended on a connection and gives it something new to do.
    #[inline]
    pub(super) fn settle(&mut self, index: usize) {
        self.count_ended(index);
        self.refill(index);
    }

    /// The peer has ended the connection, or it failed.
    pub(super) fn connection_lost(&mut self, index: usize, end: End) {
        let slot = &mut self.slots[index];
        let close = slot.protocol.lost(&self.plan, end, &mut self.ended);
        self.close(index, close);
    }

    /// Counts what has ended on a connection, closes it, and opens the next one if that has
    /// something to do.
    pub(super) fn close(&mut self, index: usize, close: Close) {
        let has_ended = !self.ended.is_empty();
        self.count_ended(index);
        let connections = &mut self.tally.connections;
        match close {
            Close::Announced => connections.closed_by_server += 1,
            Close::Failure => connections.closed_by_failure += 1,
            Close::Idle => connections.closed_idle += 1,
            Close::Plan => connections.closed_by_plan += 1,
        }
        let slot = &mut self.slots[index];
        if close == Close::Failure && slot.protocol.served() == 0 {
            // It may be like this for every connection, so do not hammer the server.
            self.close_and_wait(index, 0);
        } else {
            slot.close();
            if has_ended {
                self.refill(index);
            }
        }
    }

    /// Counts what has ended on a connection. What ends without a leg has been counted as
    /// unfinished, and is about to be taken back.
    #[inline]
    fn count_ended(&mut self, index: usize) {
        if self.leg.is_some() {
            for place in 0..self.ended.len() {
                let ended = self.ended[place];
                self.count(index, ended);
            }
        }
        self.ended.clear();
    }

    /// Counts an exchange that has ended, or puts it back into the queue of its slot.
    #[inline]
    fn count(&mut self, index: usize, ended: Ended) {
        let Ended { exchange, fate } = ended;
        match fate {
            Fate::Answered { status } => {
                self.slots[index].failures = 0;
                self.count_response(status, self.now_ns - exchange.started_ns);
            }
            Fate::Failed { class, phase } => self.count_failure(class, phase),
            Fate::Unanswered => {
                self.tally.ledger.replayed += 1;
                self.slots[index].queue.push_back(exchange);
            }
        }
    }

    /// Counts a complete response.
    #[inline]
    fn count_response(&mut self, status: u16, latency_ns: u64) {
        self.tally.add_status(status);
        if let Some(bins) = &mut self.bins {
            bins.add(self.now_ns);
        }
        if !self.plan.expected[usize::from(status)] {
            self.count_failure(FailureClass::Status, FailurePhase::Check);
            return;
        }
        if latency_ns > self.plan.timeout_ns {
            self.count_failure(FailureClass::Timeout, FailurePhase::Body);
            return;
        }
        self.in_flight -= 1;
        self.tally.ledger.ok += 1;
        if let Some(running) = &mut self.leg {
            running.last_ns = self.now_ns;
            running.slice.ok += 1;
            tally::record(&mut running.slice.latency, latency_ns);
        }
    }

    /// Counts a failed exchange.
    pub(super) fn count_failure(&mut self, class: FailureClass, phase: FailurePhase) {
        self.in_flight -= 1;
        self.tally.fail(class, phase);
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
