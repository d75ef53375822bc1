//! What decides when requests are sent, apart from responses: due times of an open loop, limits on
//! requests in flight, think time. A plain closed loop has none of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::pacer::Pacer;
use crate::plan::Plan;
use crate::random::Random;
use crate::stages::Stages;

use super::{Stage, Worker};

/// The pacing of one thread.
#[derive(Debug)]
pub(super) struct Pacing {
    /// Due times; `None` where requests are due when there is room for them.
    pub(super) pacer: Option<Pacer>,
    concurrency: Option<Stages>,
    /// Requests in flight at most, now.
    limit: u32,
    /// When the limit is looked at again.
    next_limit_ns: u64,
    leg_start_ns: u64,
    /// Connections that had room and found nothing to send, those that wait longest first.
    ready: VecDeque<usize>,
    /// Connections that rest, and until when.
    rests: BinaryHeap<Reverse<(u64, usize)>>,
    catch_up_ns: u64,
    think_ns: u64,
    /// Makes think time vary.
    random: Option<Random>,
    /// The place of this thread among all.
    place: (u32, u32),
    /// Requests that were due and not sent.
    pub(super) dropped: u64,
}

impl Pacing {
    /// The pacing that a plan asks for; `None` for a plain closed loop.
    pub(super) fn new(plan: &Plan, thread: u32, slots: usize) -> Option<Self> {
        let shape = &plan.shape;
        if !shape.is_paced() {
            return None;
        }
        let think = shape.think;
        Some(Self {
            pacer: None,
            concurrency: (!shape.concurrency.is_empty()).then(|| Stages::new(&shape.concurrency)),
            limit: u32::MAX,
            next_limit_ns: u64::MAX,
            leg_start_ns: 0,
            ready: VecDeque::with_capacity(slots),
            rests: BinaryHeap::with_capacity(slots),
            catch_up_ns: shape
                .catch_up
                .map_or(plan.timeout_ns, |time| saturated(time.as_nanos())),
            think_ns: think.map_or(0, |think| saturated(think.mean.as_nanos())),
            random: think
                .filter(|think| think.random)
                .map(|_| Random::new(shape.seed, u64::from(thread) | THINK_STREAM)),
            place: (thread, plan.threads),
            dropped: 0,
        })
    }

    /// A leg begins. Rates and limits of a warm-up stay where the window begins.
    pub(super) fn begin_leg(&mut self, plan: &Plan, starts_ns: u64, measured: bool) {
        self.leg_start_ns = starts_ns;
        self.dropped = 0;
        let shape = &plan.shape;
        if shape.is_open_loop() {
            let stages = Stages::new(&shape.rates);
            let stages = if measured {
                stages
            } else {
                Stages::constant(stages.figure(0))
            };
            let seed = shape.seed ^ u64::from(measured);
            let pacer = Pacer::new(stages, shape.arrivals, starts_ns, self.place, seed);
            self.pacer = Some(pacer);
        }
        self.next_limit_ns = starts_ns;
        self.update_limit(starts_ns, measured);
    }

    /// Requests due in a leg that ends at `at_ns`. Those that nobody took are dropped with it, unless
    /// all that were asked for have been sent and nothing was due any more.
    pub(super) fn end_leg(&mut self, at_ns: u64, is_exhausted: bool) -> u64 {
        let Some(pacer) = &mut self.pacer else {
            return 0;
        };
        if !is_exhausted {
            self.dropped += pacer.drop_before(at_ns);
        }
        pacer.due
    }

    /// Whether a request may be sent now.
    #[inline]
    pub(super) fn admits(&mut self, now_ns: u64, in_flight: u32) -> bool {
        if in_flight >= self.limit {
            return false;
        }
        let Some(pacer) = &mut self.pacer else {
            return true;
        };
        if pacer.next_ns().saturating_add(self.catch_up_ns) < now_ns {
            self.dropped += pacer.drop_before(now_ns - self.catch_up_ns);
        }
        pacer.next_ns() <= now_ns
    }

    /// When the request that was admitted was due; zero where nothing is.
    #[inline]
    pub(super) fn take_due_ns(&mut self) -> u64 {
        self.pacer.as_mut().map_or(0, Pacer::take)
    }

    /// When there is something to do: a request becomes due for a connection that waits, a rest
    /// ends, the limit changes.
    fn next_ns(&self, in_flight: u32) -> u64 {
        let may_send = !self.ready.is_empty() && in_flight < self.limit;
        let due_ns = self
            .pacer
            .as_ref()
            .filter(|_| may_send)
            .map_or(u64::MAX, Pacer::next_ns);
        let rest_ns = self.rests.peek().map_or(u64::MAX, |rest| rest.0.0);
        due_ns.min(rest_ns).min(self.next_limit_ns)
    }

    fn update_limit(&mut self, now_ns: u64, measured: bool) {
        let Some(stages) = &self.concurrency else {
            self.next_limit_ns = u64::MAX;
            return;
        };
        if now_ns < self.next_limit_ns {
            return;
        }
        let at_ns = if measured {
            now_ns.saturating_sub(self.leg_start_ns)
        } else {
            0
        };
        self.limit = share(stages.figure(at_ns), self.place);
        self.next_limit_ns = if measured && stages.changes_after(at_ns) {
            now_ns + LIMIT_STEP_NS
        } else {
            u64::MAX
        };
    }

    fn think_ns(&mut self) -> u64 {
        match &mut self.random {
            None => self.think_ns,
            Some(random) => scaled(self.think_ns, random.exponential()),
        }
    }
}

impl Worker {
    /// Sends what has become due, on connections that have waited for it.
    pub(super) fn dispatch(&mut self) {
        let measured = self
            .leg
            .as_ref()
            .is_some_and(|running| running.leg.measured);
        let Some(pacing) = &mut self.pacing else {
            return;
        };
        pacing.update_limit(self.now_ns, measured);
        while let Some(&Reverse((until_ns, index))) =
            self.pacing.as_ref().and_then(|pacing| pacing.rests.peek())
            && until_ns <= self.now_ns
        {
            if let Some(pacing) = &mut self.pacing {
                pacing.rests.pop();
            }
            self.refill(index);
        }
        let mut left = self.pacing.as_ref().map_or(0, |pacing| pacing.ready.len());
        while left > 0 && self.is_something_due() {
            left -= 1;
            let next = self
                .pacing
                .as_mut()
                .and_then(|pacing| pacing.ready.pop_front());
            if let Some(index) = next {
                self.slots[index].is_ready = false;
                self.refill(index);
            }
        }
    }

    fn is_something_due(&mut self) -> bool {
        let (now_ns, in_flight) = (self.now_ns, self.in_flight);
        let exhausted = self
            .leg
            .as_ref()
            .is_none_or(|running| running.claims.is_exhausted());
        let pacing = self.pacing.as_mut();
        !exhausted && pacing.is_some_and(|pacing| pacing.admits(now_ns, in_flight))
    }

    /// A connection has room and found nothing to send: it waits for the next request.
    #[inline]
    pub(super) fn wait_for_due(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(pacing) = &mut self.pacing
            && !slot.is_ready
        {
            slot.is_ready = true;
            pacing.ready.push_back(index);
        }
    }

    /// A connection has answered, and thinks before it sends again.
    #[inline]
    pub(super) fn rest(&mut self, index: usize) {
        let Some(pacing) = self.pacing.as_mut().filter(|pacing| pacing.think_ns > 0) else {
            return;
        };
        let until_ns = self.now_ns.saturating_add(pacing.think_ns());
        self.slots[index].rests_until_ns = until_ns;
        pacing.rests.push(Reverse((until_ns, index)));
    }

    /// A connection without anything to send was lost: a load that is paced opens it again at once,
    /// so that as many are alive as were asked for.
    pub(super) fn keep_alive(&mut self, index: usize) {
        let goes_on = self
            .leg
            .as_ref()
            .is_some_and(|running| !running.claims.is_exhausted());
        let is_closed = self.slots[index].stage == Stage::Closed;
        if goes_on && is_closed && self.pacing.is_some() {
            self.connect(index);
        }
    }

    /// When pacing has something to do.
    pub(super) fn next_pacing_ns(&self) -> u64 {
        let Some(pacing) = &self.pacing else {
            return u64::MAX;
        };
        let goes_on = self
            .leg
            .as_ref()
            .is_some_and(|running| !running.claims.is_exhausted());
        if goes_on {
            pacing.next_ns(self.in_flight)
        } else {
            u64::MAX
        }
    }
}

/// The whole part of one thread's share of a figure; shares of all threads add up to its whole part.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are at most 1e7, and the quotient is smaller than the figure"
)]
fn share(figure: f64, (thread, threads): (u32, u32)) -> u32 {
    let whole = figure as u64;
    let up_to = |thread: u32| whole * u64::from(thread) / u64::from(threads);
    (up_to(thread + 1) - up_to(thread)) as u32
}

/// A time of a given mean.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates"
)]
fn scaled(mean_ns: u64, factor: f64) -> u64 {
    (mean_ns as f64 * factor) as u64
}

fn saturated(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// How often a limit that changes is looked at.
const LIMIT_STEP_NS: u64 = 10_000_000;
/// Keeps think times apart from due times of the same seed.
const THINK_STREAM: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of threads add up to the whole figure.
    #[test]
    fn shares_add_up() {
        for figure in [0.0, 1.0, 7.9, 64.0, 1000.0] {
            for threads in 1..9 {
                let sum: u32 = (0..threads)
                    .map(|thread| share(figure, (thread, threads)))
                    .sum();
                assert!(
                    (f64::from(sum) - figure.floor()).abs() < 0.5,
                    "{figure} {threads}"
                );
            }
        }
    }
}
