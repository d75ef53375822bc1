//! Burns a known amount of CPU time in user mode.
//!
//! Calibrated once against the monotonic clock; after that it reads no clock, so that it makes no
//! system call whatever the clock source is, and a preempted thread does not do less work.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A number of steps of a dependent chain of multiplications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spin {
    steps: u64,
}

impl Spin {
    /// The work that takes so many microseconds on this CPU when nothing disturbs it.
    pub(crate) fn calibrated(microseconds: u32) -> Self {
        if microseconds == 0 {
            return Self { steps: 0 };
        }
        // Every disturbance makes a trial longer, so the shortest one is the nearest to the truth.
        let fastest = (0..TRIALS)
            .map(|_trial| timed(TRIAL_STEPS))
            .min()
            .unwrap_or(Duration::MAX);
        let nanoseconds = u128::from(microseconds) * 1_000;
        let steps = nanoseconds * u128::from(TRIAL_STEPS) / fastest.as_nanos().max(1);
        Self {
            steps: u64::try_from(steps).unwrap_or(u64::MAX),
        }
    }

    /// Does the work.
    pub(crate) fn run(self) {
        if self.steps > 0 {
            black_box(chain(self.steps));
        }
    }
}

fn timed(steps: u64) -> Duration {
    let start = Instant::now();
    black_box(chain(steps));
    start.elapsed()
}

/// Each step needs the result of the one before, so that a wide CPU cannot overlap them.
#[inline(never)]
fn chain(steps: u64) -> u64 {
    let mut value = 1_u64;
    for _step in 0..steps {
        value = black_box(value.wrapping_mul(MULTIPLIER).wrapping_add(1));
    }
    value
}

/// Knuth's multiplier for 64-bit linear congruential generators; any odd number would do.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// Long enough that reading the clock (some 25 ns) does not matter, short against a time slice.
const TRIAL_STEPS: u64 = 50_000;
/// Enough that one of them is undisturbed on a busy machine; together some milliseconds.
const TRIALS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the time is twice the work, and none is none.
    #[test]
    fn work_grows_with_the_time_asked_for() {
        assert_eq!(Spin::calibrated(0), Spin { steps: 0 });
        assert!(Spin::calibrated(1_000).steps > Spin::calibrated(10).steps);
    }
}
