//! One client connection of HTTP/1.1: requests go out in order, as many at once as the plan says,
//! and responses are matched to them in the same order.

use std::collections::VecDeque;

use recording::FailureClass;

use crate::check::BodyCheck;
use crate::plan::Plan;
use crate::protocol::{Close, End, Ended, Exchange, Fate, Reading};
use crate::tally::FailurePhase;

use super::{EndOfInput, Event, ProtocolViolation, ResponseParser};

/// A connection that speaks HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Http1 {
    /// What waits for its response, oldest first.
    flight: VecDeque<Exchange>,
    /// Of those, how many at the end are not completely written.
    unwritten: usize,
    /// Bytes that were written of the first of them.
    written: usize,
    parser: ResponseParser,
    /// Status of the final head of the oldest.
    status: u16,
    submitted: u64,
    /// Requests that the connection is for.
    requests: u64,
    served: u64,
    body: BodyCheck,
    /// The bytes of what is not completely written, where requests differ.
    out: Vec<u8>,
    /// Of those, how many were written.
    out_written: usize,
}

impl Http1 {
    /// A connection with nothing in flight.
    pub(crate) fn new() -> Self {
        Self {
            flight: VecDeque::new(),
            unwritten: 0,
            written: 0,
            parser: ResponseParser::new(),
            status: 0,
            submitted: 0,
            requests: 0,
            served: 0,
            body: BodyCheck::default(),
            out: Vec::new(),
            out_written: 0,
        }
    }

    /// See [`crate::protocol::Protocol::reset`].
    pub(crate) fn reset(&mut self) {
        self.flight.clear();
        self.unwritten = 0;
        self.written = 0;
        self.submitted = 0;
        self.served = 0;
        self.out.clear();
        self.out_written = 0;
    }

    /// See [`crate::protocol::Protocol::begin`].
    pub(crate) fn begin_connection(&mut self, requests: u64) {
        self.requests = requests;
    }

    /// See [`crate::protocol::Protocol::retire`].
    pub(crate) fn retire(&mut self) {
        self.requests = self.submitted;
    }

    /// Exchanges that may be added.
    #[inline]
    pub(crate) fn room(&self, plan: &Plan) -> u32 {
        let in_flight = u32::try_from(self.flight.len()).unwrap_or(u32::MAX);
        let left = self.requests - self.submitted;
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        plan.depth.saturating_sub(in_flight).min(left)
    }

    /// Adds an exchange behind the others.
    #[inline]
    pub(crate) fn submit(&mut self, plan: &Plan, exchange: Exchange) {
        if self.flight.is_empty() {
            self.begin(plan, &exchange);
        }
        if !plan.is_uniform() {
            let request = plan.request_of(&exchange);
            request.write(exchange.number, plan.shape.seed, &mut self.out);
        }
        self.flight.push_back(exchange);
        self.unwritten += 1;
        self.submitted += 1;
    }

    /// The bytes of as many requests as one write can carry.
    #[inline]
    pub(crate) fn unsent<'a>(&'a self, plan: &'a Plan) -> &'a [u8] {
        if self.unwritten == 0 {
            return &[];
        }
        if !plan.is_uniform() {
            return &self.out[self.out_written..];
        }
        let request = &plan.request;
        let end = (self.unwritten * request.length).min(request.bytes.len());
        &request.bytes[self.written..end]
    }

    /// So many of those bytes were written.
    #[inline]
    pub(crate) fn sent(&mut self, plan: &Plan, count: usize) {
        self.written += count;
        while self.unwritten > 0 {
            let length = match &plan.mix {
                None => plan.request.length,
                Some(mix) => {
                    let first = &self.flight[self.flight.len() - self.unwritten];
                    mix.request(first.class).length
                }
            };
            if self.written < length {
                break;
            }
            self.written -= length;
            self.unwritten -= 1;
        }
        if !plan.is_uniform() {
            self.out_written += count;
            if self.out_written == self.out.len() {
                self.out.clear();
                self.out_written = 0;
            }
        }
    }

    /// Reads responses.
    #[inline]
    pub(crate) fn receive(&mut self, reading: &mut Reading<'_>, mut input: &[u8]) -> Option<Close> {
        loop {
            let unread = input;
            let event = match self.parser.next(reading.cache, &mut input) {
                Ok(Some(event)) => event,
                Ok(None) => return None,
                Err(violation) => return Some(self.violated(reading, violation, unread)),
            };
            let traffic = &mut reading.tally.traffic;
            match event {
                Event::Interim { raw, .. } => {
                    reading.tally.interim += 1;
                    traffic.head_bytes += raw.len() as u64;
                }
                Event::Head { head, raw } => {
                    self.status = head.status;
                    traffic.head_bytes += raw.len() as u64;
                    reading.tally.header_field_bytes += u64::from(head.field_bytes);
                    if let Some(exchange) = self.flight.front_mut() {
                        exchange.first_byte_ns = reading.now_ns;
                    }
                }
                Event::Body(data) => {
                    traffic.body_bytes += data.len() as u64;
                    self.body.add(data);
                }
                Event::Complete {
                    reusable,
                    trailer_bytes,
                } => {
                    traffic.head_bytes += trailer_bytes;
                    if self.flight.len() == 1 && !input.is_empty() {
                        // The response cannot be told from what follows it.
                        return Some(self.violated(reading, ProtocolViolation::Unasked, input));
                    }
                    if let Some(close) = self.complete(reading, reusable) {
                        return Some(close);
                    }
                }
            }
        }
    }

    /// See [`crate::protocol::Protocol::lost`].
    pub(crate) fn lost(&mut self, plan: &Plan, end: End, ended: &mut Vec<Ended>) -> Close {
        if self.flight.is_empty() {
            return Close::Idle;
        }
        let at = self.parser.finish();
        if end == End::Eof && at == EndOfInput::Complete {
            let (fate, _was_hashed) = self.answered(plan);
            self.end_front(fate, ended);
            self.served += 1;
            self.hand_back(plan, ended);
            return Close::Announced;
        }
        // A server may close an idle connection at any time, also while a request is on its way
        // to it. That a connection which never answered dies is a failure.
        let was_idle = at == EndOfInput::BeforeHead && self.served > 0;
        if was_idle && self.may_repeat(plan) {
            self.hand_back(plan, ended);
            return Close::Idle;
        }
        let class = match end {
            End::Eof if at == EndOfInput::InBody => FailureClass::ShortBody,
            End::Eof => FailureClass::Closed,
            End::Error(errno) => crate::tally::class_of(errno),
            End::Session => FailureClass::Tls,
        };
        let phase = self.phase();
        self.fail(plan, Fate::Failed { class, phase }, ended);
        Close::Failure
    }

    /// Responses come in order, so a late one holds back all behind it: the connection is given up.
    pub(crate) fn expire(
        &mut self,
        plan: &Plan,
        oldest_ns: u64,
        ended: &mut Vec<Ended>,
    ) -> Option<Close> {
        let late = |exchange: &Exchange| exchange.started_ns <= oldest_ns;
        let mut any = false;
        while self.flight.front().is_some_and(late) {
            let phase = if any {
                FailurePhase::FirstByte
            } else {
                self.phase()
            };
            let class = FailureClass::Timeout;
            self.end_front(Fate::Failed { class, phase }, ended);
            any = true;
        }
        any.then(|| {
            self.hand_back(plan, ended);
            Close::Failure
        })
    }

    /// When each exchange was started.
    pub(crate) fn each_started_ns(&self, see: &mut dyn FnMut(u64)) {
        for exchange in &self.flight {
            see(exchange.started_ns);
        }
    }

    /// When the oldest exchange was started.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.flight.iter().map(|exchange| exchange.started_ns).min()
    }

    /// Whether a byte of what is in flight was written.
    pub(crate) fn has_written(&self) -> bool {
        self.written > 0 || self.flight.len() > self.unwritten
    }

    /// Responses completed.
    pub(crate) fn served(&self) -> u64 {
        self.served
    }

    /// The response to an exchange is the next one that comes.
    #[inline]
    fn begin(&mut self, plan: &Plan, exchange: &Exchange) {
        self.parser.begin(plan.request_of(exchange).is_head);
        self.body.begin(plan, exchange);
    }

    /// What the complete response to the oldest exchange is, and whether its body was hashed.
    #[inline]
    fn answered(&mut self, plan: &Plan) -> (Fate, bool) {
        let status = self.status;
        let (content_ok, was_hashed) = match self.flight.front() {
            Some(exchange) => self.body.end(plan, exchange),
            None => (true, false),
        };
        (Fate::Answered { status, content_ok }, was_hashed)
    }

    /// The oldest exchange has its response.
    #[inline]
    fn complete(&mut self, reading: &mut Reading<'_>, reusable: bool) -> Option<Close> {
        let was_written = self.flight.len() > self.unwritten;
        let (fate, was_hashed) = self.answered(reading.plan);
        reading.tally.hashed_bodies += u64::from(was_hashed);
        self.end_front(fate, reading.ended);
        self.served += 1;
        if !reusable || !was_written {
            self.hand_back(reading.plan, reading.ended);
            Some(Close::Announced)
        } else if self.flight.is_empty() && self.submitted >= self.requests {
            Some(Close::Plan)
        } else {
            if let Some(next) = self.flight.front().copied() {
                self.begin(reading.plan, &next);
            }
            None
        }
    }

    /// The server broke the protocol with what stands at the front of `input`.
    #[cold]
    fn violated(
        &mut self,
        reading: &mut Reading<'_>,
        violation: ProtocolViolation,
        input: &[u8],
    ) -> Close {
        if self.flight.is_empty() {
            // Servers say 408 before they close an idle connection.
            return Close::Idle;
        }
        let parser = &self.parser;
        let found = || parser.evidence(violation, input);
        reading.tally.violations.add(violation, found);
        self.fail(reading.plan, Fate::VIOLATED, reading.ended);
        Close::Failure
    }

    /// The oldest exchange failed, and took the connection with it.
    fn fail(&mut self, plan: &Plan, fate: Fate, ended: &mut Vec<Ended>) {
        self.end_front(fate, ended);
        self.hand_back(plan, ended);
    }

    #[inline]
    fn end_front(&mut self, fate: Fate, ended: &mut Vec<Ended>) {
        if let Some(exchange) = self.flight.pop_front() {
            if self.unwritten > self.flight.len() {
                self.unwritten = self.flight.len();
                self.written = 0;
            }
            ended.push(Ended { exchange, fate });
        }
    }

    /// Gives back what nobody will answer on this connection.
    fn hand_back(&mut self, plan: &Plan, ended: &mut Vec<Ended>) {
        while !self.flight.is_empty() {
            let fate = if self.may_repeat(plan) {
                Fate::Unanswered
            } else {
                Fate::Failed {
                    class: FailureClass::Closed,
                    phase: FailurePhase::FirstByte,
                }
            };
            self.end_front(fate, ended);
        }
    }

    /// Whether the oldest exchange may be sent once more.
    fn may_repeat(&self, plan: &Plan) -> bool {
        let is_untouched = self.flight.len() == self.unwritten && self.written == 0;
        let is_idempotent = self
            .flight
            .front()
            .is_some_and(|exchange| plan.request_of(exchange).is_idempotent);
        is_idempotent || is_untouched
    }

    /// Where the oldest exchange is, if it fails now.
    fn phase(&self) -> FailurePhase {
        if self.parser.is_in_body() {
            FailurePhase::Body
        } else if self.parser.is_touched() {
            FailurePhase::Head
        } else if self.unwritten == self.flight.len() {
            FailurePhase::Write
        } else {
            FailurePhase::FirstByte
        }
    }
}
