//! Stages as a function of time: the figure at an instant, the sum up to it, and when a sum is
//! reached.

use crate::shape::Stage;

/// Stages one after the other; after the last one its figure goes on.
#[derive(Clone, Debug)]
pub(crate) struct Stages {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    /// Start, seconds.
    start_s: f64,
    /// Length, seconds; infinite for the last one.
    length_s: f64,
    from: f64,
    to: f64,
    /// The sum up to its start.
    sum: f64,
}

impl Part {
    /// Change per second.
    fn slope(&self) -> f64 {
        if self.length_s.is_finite() {
            (self.to - self.from) / self.length_s
        } else {
            0.0
        }
    }

    fn figure(&self, after_s: f64) -> f64 {
        self.from + self.slope() * after_s
    }

    fn sum(&self, after_s: f64) -> f64 {
        self.sum + (self.from + self.slope() * after_s / 2.0) * after_s
    }

    /// When the sum is reached after its start; `None` when it is not.
    fn time_of(&self, sum: f64) -> Option<f64> {
        let wanted = sum - self.sum;
        let slope = self.slope();
        let after_s = if wanted <= 0.0 {
            0.0
        } else {
            // The root of slope/2 t^2 + from t = wanted, in the form that does not cancel.
            let root = (self.from * self.from + 2.0 * slope * wanted)
                .max(0.0)
                .sqrt();
            2.0 * wanted / (self.from + root)
        };
        (after_s.is_finite() && after_s <= self.length_s).then_some(after_s)
    }
}

impl Stages {
    /// At least one stage is needed.
    pub(crate) fn new(stages: &[Stage]) -> Self {
        let mut parts = Vec::new();
        let (mut start_s, mut sum, mut last) = (0.0, 0.0, 0.0);
        for stage in stages {
            let length_s = stage
                .length
                .map_or(f64::INFINITY, |length| length.as_secs_f64());
            let part = Part {
                start_s,
                length_s,
                from: stage.from,
                to: stage.to,
                sum,
            };
            start_s += length_s;
            if length_s.is_finite() {
                sum = part.sum(length_s);
            }
            last = stage.to;
            parts.push(part);
        }
        if start_s.is_finite() {
            parts.push(Part {
                start_s,
                length_s: f64::INFINITY,
                from: last,
                to: last,
                sum,
            });
        }
        Self { parts }
    }

    /// A figure that stays.
    pub(crate) fn constant(figure: f64) -> Self {
        Self::new(&[Stage::constant(figure)])
    }

    /// The figure at a time since the start.
    pub(crate) fn figure(&self, at_ns: u64) -> f64 {
        let seconds = at_ns as f64 / NS_PER_S;
        let part = self.part_at(seconds);
        part.figure(seconds - part.start_s)
    }

    /// The sum of the figure per second up to a time since the start.
    pub(crate) fn sum(&self, at_ns: u64) -> f64 {
        let seconds = at_ns as f64 / NS_PER_S;
        let part = self.part_at(seconds);
        part.sum(seconds - part.start_s)
    }

    /// When a sum is reached, ns since the start; the largest number when it never is.
    pub(crate) fn time_of(&self, sum: f64) -> u64 {
        let reached = self.parts.iter().find_map(|part| {
            let after_s = part.time_of(sum)?;
            Some((part.start_s + after_s) * NS_PER_S)
        });
        reached.map_or(u64::MAX, whole)
    }

    /// Whether the figure changes at all after a time since the start.
    pub(crate) fn changes_after(&self, at_ns: u64) -> bool {
        let seconds = at_ns as f64 / NS_PER_S;
        self.parts.last().is_some_and(|last| seconds < last.start_s)
    }

    fn part_at(&self, seconds: f64) -> &Part {
        self.parts
            .iter()
            .rev()
            .find(|part| part.start_s <= seconds)
            .unwrap_or(&self.parts[0])
    }
}

/// The whole part; numbers beyond 64 bits become the largest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

const NS_PER_S: f64 = 1e9;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn stages(parts: &[(f64, f64, u64)]) -> Stages {
        let stage = |&(from, to, ms): &(f64, f64, u64)| Stage {
            from,
            to,
            length: Some(Duration::from_millis(ms)),
        };
        Stages::new(&parts.iter().map(stage).collect::<Vec<_>>())
    }

    proptest! {
        /// Times of sums never go back, and the sum at the time of a sum is that sum.
        #[test]
        fn times_and_sums_agree(
            parts in prop::collection::vec((0.0_f64..5000.0, 0.0_f64..5000.0, 1_u64..5000), 1..6),
            steps in 1_u32..2000,
        ) {
            let mut parts = parts;
            parts.push((10.0, 10.0, 1));
            let stages = stages(&parts);
            let mut last_ns = 0;
            for step in 0..steps {
                let sum = f64::from(step) * 3.7;
                let at_ns = stages.time_of(sum);
                prop_assert!(at_ns >= last_ns);
                last_ns = at_ns;
                let back = stages.sum(at_ns);
                // A nanosecond at 5000 per second is 5e-6 of one.
                prop_assert!((back - sum).abs() < 1e-4 * (1.0 + sum), "{sum} {back}");
            }
        }
    }

    /// A ramp from 0 to 100 in 2 s sends 100 in it, half of them in its last 0.6 s.
    #[test]
    fn ramps_add_up() {
        let stages = stages(&[(0.0, 100.0, 2000), (100.0, 100.0, 1000)]);
        assert!((stages.sum(2_000_000_000) - 100.0).abs() < 1e-9);
        assert!((stages.sum(3_000_000_000) - 200.0).abs() < 1e-9);
        assert!((stages.figure(1_000_000_000) - 50.0).abs() < 1e-9);
        let half_s = stages.time_of(50.0) as f64 / 1e9;
        assert!((half_s - 2.0_f64.sqrt()).abs() < 1e-6, "{half_s}");
        // The last figure goes on.
        assert!((stages.figure(9_000_000_000) - 100.0).abs() < 1e-9);
    }

    /// Nothing is due in a pause, and the next one is due right after it.
    #[test]
    fn pauses_are_skipped() {
        let stages = stages(&[(10.0, 10.0, 1000), (0.0, 0.0, 5000), (10.0, 10.0, 1)]);
        assert_eq!(stages.time_of(10.0), 1_000_000_000);
        assert_eq!(stages.time_of(11.0), 6_100_000_000);
        assert!(stages.changes_after(5_000_000_000));
        assert!(!stages.changes_after(7_000_000_000));
    }
}
