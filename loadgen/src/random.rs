//! Numbers that look random and are the same again for the same seed.

/// `SplitMix64` (Steele, Lea and Flood, 2014): one multiplication-xorshift step per number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A sequence of its own for each pair of seed and stream.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self {
            state: mix(seed ^ mix(stream.wrapping_add(STEP))),
        }
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A gap between two events of a Poisson process that has one event per unit of time.
    pub(crate) fn exponential(&mut self) -> f64 {
        // 53 bits, never zero: in (0, 1].
        let uniform = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}

/// The number of a place in a sequence, without the ones before it.
pub(crate) fn number_at(seed: u64, place: u64) -> u64 {
    mix(seed ^ mix(place.wrapping_mul(STEP)))
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The golden ratio in 64 bits: steps that visit every state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaps are positive, with a mean and a deviation of 1.
    #[test]
    fn gaps_are_exponential() {
        let mut random = Random::new(7, 0);
        let gaps: Vec<f64> = (0..100_000).map(|_| random.exponential()).collect();
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
    }

    /// Streams differ, and each is the same again.
    #[test]
    fn streams_repeat() {
        let take = |stream| {
            let mut random = Random::new(1, stream);
            [random.next(), random.next()]
        };
        assert_eq!(take(3), take(3));
        assert_ne!(take(3), take(4));
    }
}
