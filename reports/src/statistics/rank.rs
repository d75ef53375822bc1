//! Ratios that assume no distribution: Hodges-Lehmann with the interval of Wilcoxon's signed ranks.

use super::bootstrap::median;
use super::{Ratio, logs, mean};

/// The ratio of pairs as the median of all means of two log ratios, with the exact interval of
/// Wilcoxon's signed-rank test.
///
/// The interval is `None` where so few pairs cannot reach the level: the smallest two-sided
/// probability is `2·2⁻ⁿ`, so 95 % needs 6 pairs and 99 % needs 8.
pub fn hodges_lehmann(a: &[f64], b: &[f64], level: f64) -> Option<Ratio> {
    if a.len() != b.len() {
        return None;
    }
    let (log_a, log_b) = (logs(a)?, logs(b)?);
    let differences: Vec<f64> = log_a.iter().zip(&log_b).map(|(a, b)| a - b).collect();
    let mut averages: Vec<f64> = Vec::new();
    for (index, left) in differences.iter().enumerate() {
        let pairs = differences[index..].iter();
        averages.extend(pairs.map(|right| f64::midpoint(*left, *right)));
    }
    let center = median(&mut averages)?;
    averages.sort_unstable_by(f64::total_cmp);
    let interval = critical_rank_sum(differences.len(), level).map(|rank| {
        let last = averages.len() - 1;
        (averages[rank].exp(), averages[last - rank].exp())
    });
    Some(Ratio {
        a_mean: mean(&log_a)?.exp(),
        b_mean: mean(&log_b)?.exp(),
        ratio: center.exp(),
        interval,
        log_deviation: None,
        pairs: u32::try_from(differences.len()).ok()?,
    })
}

/// The largest rank sum W of `n` pairs with `2·P(sum <= W) <= 1 - level`: the critical value of
/// tables of the signed-rank test. `None` where not even the smallest sum is that rare, and above
/// [`EXACT_LIMIT`] pairs.
pub fn critical_rank_sum(n: usize, level: f64) -> Option<usize> {
    if n == 0 || n > EXACT_LIMIT {
        return None;
    }
    let most = n * (n + 1) / 2;
    // How many of the 2^n sets of ranks have each sum.
    let mut ways = vec![0.0_f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let all = 2_f64.powi(i32::try_from(n).ok()?);
    let rare = f64::midpoint(1.0, -level) * (1.0 + 1e-12);
    let mut probability = 0.0;
    let reached = ways
        .iter()
        .take_while(|ways| {
            probability += **ways / all;
            probability <= rare
        })
        .count();
    reached.checked_sub(1)
}

/// Pairs up to which the distribution is counted; more is no plan for a comparison.
const EXACT_LIMIT: usize = 200;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Critical values of the signed-rank test as printed in tables (two-sided .05 and .01).
    #[test]
    fn critical_values_match_the_tables() {
        for (n, five, one) in [
            (5, None, None),
            (6, Some(0), None),
            (7, Some(2), None),
            (8, Some(3), Some(0)),
            (9, Some(5), Some(1)),
            (10, Some(8), Some(3)),
            (12, Some(13), Some(7)),
            (15, Some(25), Some(15)),
            (20, Some(52), Some(37)),
            (30, Some(137), Some(109)),
        ] {
            assert_eq!(critical_rank_sum(n, 0.95), five, "{n}");
            assert_eq!(critical_rank_sum(n, 0.99), one, "{n}");
        }
        assert_eq!(critical_rank_sum(0, 0.5), None);
    }

    /// Six pairs: the interval at 95 % goes from the smallest to the largest log ratio.
    #[test]
    fn six_pairs_reach_from_end_to_end() {
        let a = [1.1, 1.2, 1.3, 1.15, 1.25, 1.05];
        let ratio = hodges_lehmann(&a, &[1.0; 6], 0.95).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!((low - 1.05).abs() < 1e-12 && (high - 1.3).abs() < 1e-12);
        assert!(ratio.ratio > 1.1 && ratio.ratio < 1.25);
        assert_eq!(
            hodges_lehmann(&a[..5], &[1.0; 5], 0.95).unwrap().interval,
            None
        );
        assert_eq!(hodges_lehmann(&[], &[], 0.95), None);
    }

    /// One wild pair of ten moves the estimate by less than the spread of the others.
    #[test]
    fn one_outlier_hardly_matters() {
        let mut a: Vec<f64> = (0..10).map(|n| 1.5 + 0.001 * f64::from(n)).collect();
        let calm = hodges_lehmann(&a, &[1.0; 10], 0.95).unwrap().ratio;
        a[3] = 100.0;
        let wild = hodges_lehmann(&a, &[1.0; 10], 0.95).unwrap().ratio;
        assert!((wild - calm).abs() < 0.009, "{calm} {wild}");
    }

    proptest! {
        /// Swapping the sides inverts estimate and interval.
        #[test]
        fn swapping_inverts(pairs in prop::collection::vec((0.1_f64..10.0, 0.1_f64..10.0), 6..12)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let forth = hodges_lehmann(&a, &b, 0.95).unwrap();
            let back = hodges_lehmann(&b, &a, 0.95).unwrap();
            let (low, _) = forth.interval.unwrap();
            let (_, back_high) = back.interval.unwrap();
            prop_assert!((forth.ratio * back.ratio - 1.0).abs() < 1e-9);
            prop_assert!((low * back_high - 1.0).abs() < 1e-9);
        }
    }
}
