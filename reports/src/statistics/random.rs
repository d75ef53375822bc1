//! Random numbers for resampling: the same seed gives the same numbers on every machine.

/// `SplitMix64` (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A sequence that depends on nothing but the seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 where `end` is 0. The bias of the multiplication is below `end` in
    /// 2^64.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next_u64()) * end as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in the open interval from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / 2_f64.powi(53) + 2_f64.powi(-54)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, as the reference implementation prints them.
    #[test]
    fn follows_the_reference() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    /// Numbers stay below the end, every one occurs, and about as often.
    #[test]
    fn draws_evenly() {
        let mut random = SplitMix64::new(7);
        let mut seen = [0_u32; 6];
        for _ in 0..6000 {
            seen[random.below(6)] += 1;
        }
        // Five standard deviations of the binomial around 1000.
        assert!(
            seen.iter().all(|count| (856..1144).contains(count)),
            "{seen:?}"
        );
        assert_eq!(random.below(0), 0);
        assert!(
            (0..1000)
                .map(|_| random.unit())
                .all(|unit| unit > 0.0 && unit < 1.0)
        );
    }
}
