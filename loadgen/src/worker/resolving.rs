//! Names that are resolved for every connection: asking, and what the answer means.

use std::sync::Arc;

use recording::FailureClass;

use crate::error::OpenFailure;
use crate::resolver::{Answer, Question};
use crate::tally::FailurePhase;

use super::{Stage, Worker};

impl Worker {
    /// Asks for the addresses of a connection that is to be opened, or opens it at once where they
    /// are known: once for all, or from just before the start.
    pub(super) fn look_up(&mut self, index: usize) {
        let Some(resolver) = self.resolver.as_ref().filter(|_| self.opening == 0) else {
            return self.dial(index);
        };
        let slot = &mut self.slots[index];
        slot.stage = Stage::Resolving;
        slot.since_ns = self.now_ns;
        let due_ns = slot.since_ns + self.plan.timeout_ns;
        resolver.ask(Question {
            slot: index,
            generation: slot.generation,
        });
        self.set_timer(due_ns);
    }

    /// The resolver has answered.
    pub(super) fn resolved(&mut self, answer: Answer) {
        let Question { slot, generation } = answer.question;
        let waiting = &self.slots[slot];
        if waiting.stage != Stage::Resolving || waiting.generation != generation {
            return;
        }
        match answer.addresses {
            Ok(addresses) => {
                if addresses != self.addresses {
                    self.addresses = addresses;
                    self.address = 0;
                }
                self.dial(slot);
            }
            Err(why) => self.resolve_failed(slot, why, FailureClass::Unresolved),
        }
    }

    /// The resolver has not answered in time.
    pub(super) fn resolve_timed_out(&mut self, index: usize) {
        let why = Arc::from("the resolver has not answered in time");
        self.resolve_failed(index, why, FailureClass::Timeout);
    }

    fn resolve_failed(&mut self, index: usize, why: Arc<str>, class: FailureClass) {
        let failure = OpenFailure::Resolve(why);
        self.open_failed(index, failure, class, FailurePhase::Resolve);
    }
}
