//! Pauses between two turns of the loop, in which responses come together.
//!
//! A client that is faster than its server is woken by every single response. That costs it more than
//! the response, and it costs the server as much, which then answers fewer requests than it could. So
//! where many requests are in flight and few responses were there, the loop pauses before it looks
//! again.
//!
//! Where the server is not the limit, pauses would only make latencies longer. So they are tried: for
//! some moments with, for some without, again and again. They are made while they save CPU time and
//! cost no throughput. Then they do not raise the mean latency either, which in a closed loop is the
//! number of requests in flight divided by the throughput.

use std::num::NonZeroU64;

use rustix::thread::{ClockId, clock_nanosleep_relative, set_current_timer_slack};
use rustix::time::Timespec;

use crate::shape::Pausing;

/// How long the loop of one thread pauses.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    pausing: Pausing,
    /// Mean latency of the responses that came last, ns.
    usual_ns: u64,
    /// Responses in this turn.
    found: u64,
    /// Responses in this period.
    responses: u64,
    /// Whether there are pauses in this period.
    is_on: bool,
    starts_ns: u64,
    ends_ns: u64,
    cpu_at_start_ns: u64,
    trial: Trial,
}

/// Periods with and without pauses, in turn.
#[derive(Debug, Default)]
struct Trial {
    /// Those that have ended.
    periods: u32,
    without: Side,
    with: Side,
}

/// One kind of periods of a trial.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    responses: u64,
    cpu_ns: u64,
    /// Responses per second in the best of them: others may have been disturbed.
    best_rate: f64,
}

impl Pauses {
    pub(super) fn new(pausing: Pausing) -> Self {
        Self {
            pausing,
            ..Self::default()
        }
    }

    /// A response came.
    #[inline]
    pub(super) fn add(&mut self, latency_ns: u64) {
        self.usual_ns = self.usual_ns - self.usual_ns / MEMORY + latency_ns / MEMORY;
        self.found += 1;
    }

    /// How long to pause after this turn, while `in_flight` requests wait for their responses, ns;
    /// `None` for not at all. `cpu_ns` is asked now and then for the CPU time of the thread.
    #[inline]
    pub(super) fn after_turn(
        &mut self,
        in_flight: u32,
        now_ns: u64,
        cpu_ns: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let found = std::mem::take(&mut self.found);
        self.responses += found;
        let may_pause = match self.pausing {
            Pausing::Tried => {
                if now_ns >= self.ends_ns {
                    self.end_period(now_ns, cpu_ns());
                }
                self.is_on
            }
            Pausing::Always => true,
            Pausing::Never => false,
        };
        let in_flight = u64::from(in_flight);
        let pause_ns = (self.usual_ns / SHARE).min(PAUSE_MAX_NS);
        // By Little's law more than two come in a pause.
        let is_worth_it = pause_ns * in_flight > 2 * self.usual_ns;
        let were_few = found < in_flight / FEW;
        let would_help = pause_ns >= PAUSE_MIN_NS && were_few && is_worth_it;
        (may_pause && would_help).then_some(pause_ns)
    }

    /// Goes on with a trial, judges it, or begins the next one.
    #[cold]
    fn end_period(&mut self, now_ns: u64, cpu_ns: u64) {
        let trial = &mut self.trial;
        let period_ns = (self.usual_ns * LATENCIES).clamp(PERIOD_MIN_NS, PERIOD_MAX_NS);
        let mut next_ns = period_ns;
        if trial.periods < PERIODS {
            // What came before the first one is nothing to compare with.
            if self.ends_ns > 0 {
                let side = if self.is_on {
                    &mut trial.with
                } else {
                    &mut trial.without
                };
                let took_ns = now_ns - self.starts_ns;
                side.add(self.responses, cpu_ns - self.cpu_at_start_ns, took_ns);
                trial.periods += 1;
            }
            self.is_on = trial.periods.is_multiple_of(2);
            if trial.periods == PERIODS {
                self.is_on = trial.with.is_better_than(&trial.without);
                next_ns = period_ns * SETTLED_PERIODS;
            }
        } else {
            *trial = Trial::default();
            self.is_on = true;
        }
        self.responses = 0;
        self.starts_ns = now_ns;
        self.ends_ns = now_ns + next_ns;
        self.cpu_at_start_ns = cpu_ns;
    }
}

impl Side {
    fn add(&mut self, responses: u64, cpu_ns: u64, took_ns: u64) {
        self.responses += responses;
        self.cpu_ns += cpu_ns;
        let rate = responses as f64 * 1e9 / took_ns.max(1) as f64;
        self.best_rate = self.best_rate.max(rate);
    }

    /// Whether it takes clearly less CPU time for a response, and is no slower.
    fn is_better_than(&self, other: &Self) -> bool {
        let cpu_ns = |side: &Self| side.cpu_ns as f64 / side.responses as f64;
        let is_comparable = self.responses > 0 && other.responses > 0;
        is_comparable
            && cpu_ns(self) < CPU_AT_MOST * cpu_ns(other)
            && self.best_rate >= RATE_AT_LEAST * other.best_rate
    }
}

/// Asks the kernel to end the pauses of the calling thread in time; without it they take 50 µs longer.
pub(super) fn end_in_time() {
    // Where it is not allowed, nothing is lost but some of what they save.
    let _unchanged = set_current_timer_slack(NonZeroU64::new(SLACK_NS));
}

/// Pauses.
pub(super) fn pause(ns: u64) {
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: ns.cast_signed(),
    };
    // A pause that a signal ends is one.
    let _interrupted = clock_nanosleep_relative(ClockId::Monotonic, &time);
}

/// Responses that the usual latency is the mean of, newer ones weighing more.
const MEMORY: u64 = 64;
/// Part of the usual latency that a pause takes at most; a response waits half of it on average.
const SHARE: u64 = 10;
/// Shorter ones cost more than they save.
const PAUSE_MIN_NS: u64 = 5_000;
/// What a pause takes at most.
const PAUSE_MAX_NS: u64 = 100_000;
/// Part of the requests in flight whose responses are many.
const FEW: u64 = 4;
/// What a pause may take longer.
const SLACK_NS: u64 = 1_000;
/// Periods of a trial, half of them with pauses.
const PERIODS: u32 = 6;
/// Usual latencies in a period: what was sent in the one before is soon over.
const LATENCIES: u64 = 8;
const PERIOD_MIN_NS: u64 = 5_000_000;
const PERIOD_MAX_NS: u64 = 80_000_000;
/// Periods after which there is another trial, which is a small part of the time.
const SETTLED_PERIODS: u64 = 400;
/// What pauses have to save, and the throughput that may be lost, which is what both vary by.
const CPU_AT_MOST: f64 = 0.95;
const RATE_AT_LEAST: f64 = 0.99;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A loop with so many requests in flight, which take the time that `respond` says for whether
    /// there are pauses: latency, time between two responses, and CPU time of each, all in ns.
    struct Loop<'a> {
        pauses: Pauses,
        now_ns: u64,
        cpu_ns: u64,
        in_flight: u32,
        respond: &'a dyn Fn(bool) -> (u64, u64, u64),
    }

    impl Loop<'_> {
        /// Turns with one response each for so long; returns the share of them that paused, and the
        /// last pause.
        fn run(&mut self, for_ns: u64) -> (f64, Option<u64>) {
            let ends_ns = self.now_ns + for_ns;
            let (mut turns, mut paused, mut last) = (0, 0, None);
            let mut pause = None;
            while self.now_ns < ends_ns {
                let (latency_ns, interval_ns, cpu_ns) = (self.respond)(pause.is_some());
                self.now_ns += interval_ns;
                self.cpu_ns += cpu_ns;
                self.pauses.add(latency_ns);
                let cpu_ns = self.cpu_ns;
                pause = self
                    .pauses
                    .after_turn(self.in_flight, self.now_ns, || cpu_ns);
                turns += 1;
                paused += u32::from(pause.is_some());
                last = pause.or(last);
            }
            (f64::from(paused) / f64::from(turns), last)
        }
    }

    fn with(in_flight: u32, respond: &dyn Fn(bool) -> (u64, u64, u64)) -> Loop<'_> {
        Loop {
            pauses: Pauses::default(),
            now_ns: 1,
            cpu_ns: 0,
            in_flight,
            respond,
        }
    }

    /// A server that is busy: without being woken the client takes less, and more is answered.
    fn busy(paused: bool) -> (u64, u64, u64) {
        if paused {
            (640_000, 10_000, 7_000)
        } else {
            (800_000, 12_500, 12_000)
        }
    }

    /// A busy server has its client pause, but for the time of the trials, for a tenth of the latency.
    #[test]
    fn pauses_for_a_busy_server() {
        let mut looping = with(64, &busy);
        looping.run(500_000_000);
        let (share, last) = looping.run(10_000_000_000);
        assert!(share > 0.95, "{share}");
        let pause_ns = last.unwrap();
        assert!((62_000..=81_000).contains(&pause_ns), "{pause_ns}");
    }

    /// Pauses that lose throughput, or save nothing, are made only to find that out.
    #[test]
    fn does_not_pause_where_it_costs() {
        let slower = |paused| {
            if paused {
                (1_030_000, 16_500, 5_000)
            } else {
                (1_000_000, 16_000, 10_000)
            }
        };
        let dearer = |paused| (1_000_000, 16_000, if paused { 9_000 } else { 6_000 });
        let equal = |_| (1_000_000, 16_000, 6_000);
        let all: [&dyn Fn(bool) -> (u64, u64, u64); 3] = [&slower, &dearer, &equal];
        for respond in all {
            let (share, _) = with(64, respond).run(20_000_000_000);
            assert!(share < 0.05, "{share}");
        }
    }

    /// Nobody waits where that would be noticed or would not help: for a single request, for a server
    /// that answers at once or rarely, and where enough was there.
    #[test]
    fn does_not_pause_without_need() {
        assert_eq!(with(1, &busy).run(2_000_000_000).1, None);
        assert_eq!(
            with(64, &|_| (20_000, 10_000, 7_000)).run(2_000_000_000).1,
            None
        );
        let rare = |_| (10_000_000_000, 10_000_000, 7_000);
        assert_eq!(with(64, &rare).run(200_000_000_000).1, None);
        // One response in a turn is a quarter of what is in flight.
        assert_eq!(with(4, &busy).run(2_000_000_000).1, None);
    }

    /// Without trials the same is done whatever it would bring.
    #[test]
    fn the_same_for_every_server() {
        let dearer = |paused| (1_000_000, 16_000, if paused { 9_000 } else { 6_000 });
        for (pausing, expected) in [(Pausing::Always, true), (Pausing::Never, false)] {
            for respond in [&busy as &dyn Fn(bool) -> (u64, u64, u64), &dearer] {
                let mut looping = with(64, respond);
                looping.pauses = Pauses::new(pausing);
                looping.run(100_000_000);
                let (share, _) = looping.run(2_000_000_000);
                assert_eq!(share > 0.999, expected, "{share}");
                assert_eq!(share < 0.001, !expected, "{share}");
            }
        }
    }

    /// What was found out is tried again: a server that gets busy later is noticed.
    #[test]
    fn tries_again() {
        let is_busy = std::cell::Cell::new(false);
        let respond = |paused| {
            if is_busy.get() {
                busy(paused)
            } else {
                (640_000, 10_000, 7_000)
            }
        };
        let mut looping = with(64, &respond);
        assert!(looping.run(5_000_000_000).0 < 0.05);
        is_busy.set(true);
        looping.run(2_000_000_000);
        assert!(looping.run(5_000_000_000).0 > 0.9);
    }

    proptest! {
        /// No pause is longer than its share of the latencies that were seen, or than the longest one.
        #[test]
        fn pauses_are_short(latencies_ns in prop::collection::vec(0..u64::MAX / 1_000_000, 1..300), in_flight: u32) {
            let mut pauses = Pauses { is_on: true, ends_ns: u64::MAX, ..Pauses::default() };
            for latency_ns in &latencies_ns {
                pauses.add(*latency_ns);
            }
            pauses.found = 0;
            if let Some(pause_ns) = pauses.after_turn(in_flight, 0, || 0) {
                let longest_ns = latencies_ns.iter().max().unwrap();
                prop_assert!(pause_ns <= longest_ns / SHARE && pause_ns <= PAUSE_MAX_NS);
            }
        }
    }
}
