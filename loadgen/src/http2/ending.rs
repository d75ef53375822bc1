//! What becomes of exchanges that end without a response.

use recording::FailureClass;

use crate::plan::Plan;
use crate::protocol::{Close, End, Ended, Fate, Reading};
use crate::tally::class_of;

use super::{Http2, Stage, Violation, frame};

impl Http2 {
    /// See [`crate::protocol::Protocol::lost`].
    pub(crate) fn lost(&mut self, plan: &Plan, end: End, ended: &mut Vec<Ended>) -> Close {
        if self.streams.count() == 0 {
            return if self.goaway.is_some() {
                Close::Announced
            } else {
                Close::Idle
            };
        }
        let class = match end {
            End::Eof => FailureClass::Closed,
            End::Error(errno) => class_of(errno),
            End::Session => FailureClass::Tls,
        };
        let failed = self.end_all(plan, class, ended);
        match self.goaway {
            _ if failed => Close::Failure,
            Some(_) => Close::Announced,
            None => Close::Idle,
        }
    }

    /// Gives late streams up. Where the server has said nothing at all for as long, it is the
    /// connection that is given up.
    pub(crate) fn expire(
        &mut self,
        plan: &Plan,
        oldest_ns: u64,
        ended: &mut Vec<Ended>,
    ) -> Option<Close> {
        let is_dead = self.received_ns <= oldest_ns || self.stage == Stage::Upgrading;
        let mut after = 0;
        while let Some(id) = self.streams.next_after(after) {
            after = id;
            let stream = self.streams.get(id)?;
            if stream.exchange.started_ns > oldest_ns {
                continue;
            }
            let fate = Fate::Failed {
                class: FailureClass::Timeout,
                phase: stream.phase(),
            };
            self.cancel(id, frame::CANCEL);
            self.end(id, fate, ended);
        }
        is_dead.then(|| {
            self.end_all(plan, FailureClass::Closed, ended);
            Close::Failure
        })
    }

    /// A stream is reset by us.
    pub(super) fn cancel(&mut self, id: u32, code: u32) {
        frame::write(&mut self.out, frame::RST_STREAM, 0, id, &code.to_be_bytes());
    }

    /// An exchange has ended on this connection.
    #[inline]
    pub(super) fn end(&mut self, id: u32, fate: Fate, ended: &mut Vec<Ended>) {
        if let Some(exchange) = self.streams.close(id) {
            ended.push(Ended { exchange, fate });
        }
    }

    /// An exchange was turned away before it was looked at: it may be sent again, but not for ever.
    pub(super) fn turn_away(&mut self, id: u32, ended: &mut Vec<Ended>) -> bool {
        let Some(stream) = self.streams.get(id) else {
            return false;
        };
        let phase = stream.phase();
        stream.exchange.refusals += 1;
        let again = stream.exchange.refusals < REFUSALS_MAX;
        let class = FailureClass::StreamReset;
        let fate = if again {
            Fate::Unanswered
        } else {
            Fate::Failed { class, phase }
        };
        self.end(id, fate, ended);
        again
    }

    /// Ends everything in flight; says whether any of it has failed. What no byte of an answer came
    /// to may be sent again, if that is harmless and the connection has worked before.
    fn end_all(&mut self, plan: &Plan, class: FailureClass, ended: &mut Vec<Ended>) -> bool {
        let mut failed = false;
        while let Some(id) = self.streams.next_after(0) {
            let served = self.served;
            let Some(stream) = self.streams.get(id) else {
                break;
            };
            let is_idempotent = plan.request_of(&stream.exchange).is_idempotent;
            let fate = if is_idempotent && served > 0 && stream.status == 0 {
                Fate::Unanswered
            } else {
                failed = true;
                let phase = stream.phase();
                Fate::Failed { class, phase }
            };
            self.end(id, fate, ended);
        }
        failed
    }

    /// The server broke the protocol: it is told so, and the oldest exchange pays for it.
    #[cold]
    pub(super) fn violated(
        &mut self,
        reading: &mut Reading<'_>,
        violation: Violation,
        input: &[u8],
    ) -> Close {
        let found = || self.evidence(input);
        reading.tally.violations.add(violation, found);
        if let Some(id) = self.streams.next_after(0) {
            self.end(id, Fate::VIOLATED, reading.ended);
        }
        self.end_all(reading.plan, FailureClass::Closed, reading.ended);
        if self.stage == Stage::Running && violation != Violation::Preface {
            let mut payload = [0; 8];
            payload[4..].copy_from_slice(&violation.code().to_be_bytes());
            frame::write(&mut self.out, frame::GOAWAY, 0, 0, &payload);
        }
        Close::Failure
    }
}

/// A request that was turned away so often in a row has failed.
const REFUSALS_MAX: u8 = 16;
