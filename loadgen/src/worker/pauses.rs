//! Pauses between two turns of the loop, in which responses come together.
//!
//! A client that is faster than its server is woken by every single response. That costs it more than
//! the response, and it costs the server as much, which then answers fewer requests than it could. So
//! where many requests are in flight and few responses were there, the loop pauses before it looks
//! again. A pause is so short against the usual latency that what is measured stays what it is, and
//! it costs no throughput: in a closed loop the mean latency is the number of requests in flight
//! divided by the throughput, which rises.

use std::num::NonZeroU64;

use rustix::thread::{ClockId, clock_nanosleep_relative, set_current_timer_slack};
use rustix::time::Timespec;

/// How long the loop of one thread pauses.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Mean latency of the responses that came last, ns.
    usual_ns: u64,
    /// Responses in this turn.
    found: u64,
}

impl Pauses {
    /// A response came.
    #[inline]
    pub(super) fn add(&mut self, latency_ns: u64) {
        self.usual_ns = self.usual_ns - self.usual_ns / MEMORY + latency_ns / MEMORY;
        self.found += 1;
    }

    /// How long to pause after this turn, while `in_flight` requests wait for their responses, ns;
    /// `None` for not at all.
    #[inline]
    pub(super) fn after_turn(&mut self, in_flight: u32) -> Option<u64> {
        let in_flight = u64::from(in_flight);
        let pause_ns = (self.usual_ns / SHARE).min(PAUSE_MAX_NS);
        // By Little's law more than one comes in a pause.
        let is_worth_it = pause_ns * in_flight > self.usual_ns;
        let were_few = std::mem::take(&mut self.found) < in_flight / FEW;
        (pause_ns >= PAUSE_MIN_NS && were_few && is_worth_it).then_some(pause_ns)
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
const SHARE: u64 = 32;
/// Shorter ones cost more than they save.
const PAUSE_MIN_NS: u64 = 5_000;
/// What a pause takes at most.
const PAUSE_MAX_NS: u64 = 100_000;
/// Part of the requests in flight whose responses are many.
const FEW: u64 = 4;
/// What a pause may take longer.
const SLACK_NS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is said after a turn with so many responses of one latency, once that is the usual one.
    fn after(latency_ns: u64, found: u64, in_flight: u32) -> Option<u64> {
        let mut pauses = Pauses::default();
        for _ in 0..20 * MEMORY {
            pauses.add(latency_ns);
        }
        pauses.found = found;
        pauses.after_turn(in_flight)
    }

    /// 64 requests in flight that take 640 µs: 10 µs of the server for each, and two come in a pause.
    #[test]
    fn pauses_where_many_wait_for_a_busy_server() {
        let pause_ns = after(640_000, 1, 64).unwrap();
        assert!((19_000..=20_000).contains(&pause_ns), "{pause_ns}");
    }

    /// Nobody waits where that could be noticed or would not help: for a single request, for a server
    /// that answers at once, for one that answers rarely, and where enough was there.
    #[test]
    fn does_not_pause_without_need() {
        assert_eq!(after(640_000, 1, 1), None);
        assert_eq!(after(20_000, 1, 64), None);
        assert_eq!(after(1_000_000_000, 1, 64), None);
        assert_eq!(after(640_000, 16, 64), None);
        assert_eq!(Pauses::default().after_turn(64), None);
    }

    /// The responses of a turn count for that turn only.
    #[test]
    fn every_turn_counts_anew() {
        let mut pauses = Pauses::default();
        for _ in 0..1000 {
            pauses.add(640_000);
        }
        assert_eq!(pauses.after_turn(64), None);
        assert!(pauses.after_turn(64).is_some());
    }

    proptest! {
        /// No pause is longer than its share of the latencies that were seen, or than the longest one.
        #[test]
        fn pauses_are_short(latencies_ns in prop::collection::vec(0..u64::MAX / 1_000_000, 1..300), in_flight: u32) {
            let mut pauses = Pauses::default();
            for latency_ns in &latencies_ns {
                pauses.add(*latency_ns);
            }
            let _first = pauses.after_turn(in_flight);
            if let Some(pause_ns) = pauses.after_turn(in_flight) {
                let longest_ns = latencies_ns.iter().max().unwrap();
                prop_assert!(pause_ns <= longest_ns / SHARE && pause_ns <= PAUSE_MAX_NS);
            }
        }
    }
}
