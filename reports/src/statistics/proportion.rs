//! How far a share of a number of samples may be off.

/// How far a share may lie from the one seen, at 95 %, where `count` of `of` independent samples have
/// it: the farther end of the score interval (Wilson 1927), which is right for shares near 0 and 1 too.
/// `None` without samples.
pub fn share_error(count: u64, of: u64) -> Option<f64> {
    if of == 0 {
        return None;
    }
    let n = of as f64;
    let share = count.min(of) as f64 / n;
    let z2 = Z * Z;
    let scale = 1.0 + z2 / n;
    let center = (share + z2 / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    Some((center + half - share).max(share - (center - half)))
}

/// What a normal variable is within with 95 %.
pub const Z: f64 = 1.959_963_985;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The intervals of Newcombe (1998), table I: 81 of 263 is 0.2553..0.3662, 15 of 148 is
    /// 0.0624..0.1605, 0 of 20 is 0..0.1611.
    #[test]
    fn published_intervals() {
        let far = |count: u64, of: u64, low: f64, high: f64| {
            let share = count as f64 / of as f64;
            let error = share_error(count, of).unwrap();
            let expected = (share - low).max(high - share);
            assert!((error - expected).abs() < 1e-4, "{count}/{of}: {error}");
        };
        far(81, 263, 0.2553, 0.3662);
        far(15, 148, 0.0624, 0.1605);
        far(0, 20, 0.0, 0.1611);
        assert_eq!(share_error(0, 0), None);
    }

    proptest! {
        /// Never negative, the same for a share and its complement, and smaller with more samples.
        #[test]
        fn more_samples_know_more(count in 0_u64..1000, more in 0_u64..1000) {
            let of = count + more + 1;
            let error = share_error(count, of).unwrap();
            prop_assert!(error > 0.0 && error < 1.0);
            let complement = share_error(of - count, of).unwrap();
            prop_assert!((error - complement).abs() < 1e-12);
            prop_assert!(share_error(count * 4, of * 4).unwrap() < error);
        }
    }
}
