//! Ratios with intervals: the paired log-ratio t, its unpaired form, and how many pairs are needed.
//!
//! The unit of replication is the round. Windows inside a round are never passed here: they share
//! the state of one server start and are not replicates.

pub mod bootstrap;
pub mod fieller;
pub mod holm;
pub mod proportion;
pub mod random;
pub mod rank;

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// A ratio of two geometric means and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Geometric mean of the first sample.
    pub a_mean: f64,
    /// Geometric mean of the second sample.
    pub b_mean: f64,
    /// `a_mean / b_mean`.
    pub ratio: f64,
    /// Interval of the ratio; `None` with too few values for a spread, and where the spread is so
    /// wide that an end is no finite number.
    pub interval: Option<(f64, f64)>,
    /// Standard deviation of the log ratios of the pairs; `None` below two pairs, and for
    /// unpaired samples.
    pub log_deviation: Option<f64>,
    /// Pairs, or the smaller sample of an unpaired ratio.
    pub pairs: u32,
}

/// The t quantile: the value that a t variable with `freedom` degrees stays below with
/// `probability`.
///
/// # Panics
/// If `freedom` is not positive or `probability` is outside `0..=1`.
pub fn t_quantile(probability: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .expect("degrees of freedom are positive")
        .inverse_cdf(probability)
}

/// The geometric mean; `None` when empty or when a value is not positive and finite.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    mean(&logs(values)?).map(f64::exp)
}

/// The ratio of paired samples: `d = ln(a/b)` per pair, interval `exp(mean ± t·s/√n)`.
///
/// Swapping `a` and `b` inverts the ratio and its interval. `None` when the samples are empty, of
/// different length, or hold a value that is not positive and finite.
pub fn paired_ratio(a: &[f64], b: &[f64], level: f64) -> Option<Ratio> {
    if a.len() != b.len() {
        return None;
    }
    let (log_a, log_b) = (logs(a)?, logs(b)?);
    let differences: Vec<f64> = log_a.iter().zip(&log_b).map(|(a, b)| a - b).collect();
    let center = mean(&differences)?;
    let deviation = variance(&differences).map(f64::sqrt);
    let interval = deviation.and_then(|deviation| {
        let n = differences.len() as f64;
        let half = t_quantile(two_sided(level), n - 1.0) * deviation / n.sqrt();
        bounds(center, half)
    });
    Some(Ratio {
        a_mean: mean(&log_a)?.exp(),
        b_mean: mean(&log_b)?.exp(),
        ratio: center.exp(),
        interval,
        log_deviation: deviation,
        pairs: u32::try_from(differences.len()).ok()?,
    })
}

/// The ratio of two independent samples: Welch's t on the logs, for rounds without a partner.
pub fn unpaired_ratio(a: &[f64], b: &[f64], level: f64) -> Option<Ratio> {
    let (log_a, log_b) = (logs(a)?, logs(b)?);
    let (mean_a, mean_b) = (mean(&log_a)?, mean(&log_b)?);
    let center = mean_a - mean_b;
    let interval = variance(&log_a)
        .zip(variance(&log_b))
        .and_then(|(variance_a, variance_b)| {
            let (n_a, n_b) = (log_a.len() as f64, log_b.len() as f64);
            let (part_a, part_b) = (variance_a / n_a, variance_b / n_b);
            let error = part_a + part_b;
            // Without any spread the Welch-Satterthwaite freedom is 0/0; the interval is a point.
            let half = if error > 0.0 {
                let freedom =
                    error.powi(2) / (part_a.powi(2) / (n_a - 1.0) + part_b.powi(2) / (n_b - 1.0));
                t_quantile(two_sided(level), freedom) * error.sqrt()
            } else {
                0.0
            };
            bounds(center, half)
        });
    Some(Ratio {
        a_mean: mean_a.exp(),
        b_mean: mean_b.exp(),
        ratio: center.exp(),
        interval,
        log_deviation: None,
        pairs: u32::try_from(log_a.len().min(log_b.len())).ok()?,
    })
}

/// The smallest number of pairs whose interval has a relative half-width of `half_width` or less,
/// given the standard deviation of the log ratios; `None` above [`PAIRS_LIMIT`].
pub fn pairs_needed(log_deviation: f64, half_width: f64, level: f64) -> Option<u32> {
    let target = half_width.ln_1p();
    (2..=PAIRS_LIMIT).find(|&pairs| {
        let n = f64::from(pairs);
        t_quantile(two_sided(level), n - 1.0) * log_deviation / n.sqrt() <= target
    })
}

/// More pairs than this are not a plan.
pub const PAIRS_LIMIT: u32 = 2000;

/// The interval around a log ratio, where both ends are finite numbers.
fn bounds(center: f64, half: f64) -> Option<(f64, f64)> {
    let (low, high) = ((center - half).exp(), (center + half).exp());
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

/// The upper quantile of a two-sided interval.
fn two_sided(level: f64) -> f64 {
    f64::midpoint(1.0, level)
}

/// Logs of all values, where each has one.
fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values
        .iter()
        .map(|value| (value.is_finite() && *value > 0.0).then(|| value.ln()))
        .collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The unbiased variance; `None` below two values.
fn variance(values: &[f64]) -> Option<f64> {
    let center = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() as f64 - 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::Normal;

    use super::random::SplitMix64;
    use super::*;

    fn close(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance * right.abs().max(1e-300)
    }

    /// Critical values of Student's t as printed in statistical tables (NIST/SEMATECH 1.3.6.7.2).
    #[test]
    fn t_quantiles_match_the_tables() {
        for (probability, freedom, expected) in [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 9.0, 2.262),
            (0.975, 30.0, 2.042),
            (0.95, 5.0, 2.015),
            (0.995, 2.0, 9.925),
            (0.995, 7.0, 3.499),
            (0.995, 11.0, 3.106),
            (0.995, 100.0, 2.626),
        ] {
            let quantile = t_quantile(probability, freedom);
            assert!(
                (quantile - expected).abs() < 5e-4,
                "{probability} {freedom}: {quantile}"
            );
        }
    }

    /// One and two degrees of freedom have closed forms: tan(pi(p - 1/2)) and a square root.
    #[test]
    fn t_quantiles_match_the_closed_forms() {
        for probability in [0.6, 0.9, 0.975, 0.995] {
            let cauchy = (std::f64::consts::PI * (probability - 0.5)).tan();
            assert!(close(t_quantile(probability, 1.0), cauchy, 1e-8));
            let alpha = 4.0 * probability * (1.0 - probability);
            let two = 2.0 * (probability - 0.5) * (2.0 / alpha).sqrt();
            assert!(close(t_quantile(probability, 2.0), two, 1e-8));
        }
    }

    /// By hand: logs of the ratios are ln 2, ln 2.2, ln 1.8; mean .689797, s .100377,
    /// t(.975, 2) 4.302653, so the half-width is .249351.
    #[test]
    fn paired_ratio_matches_a_hand_computation() {
        let ratio = paired_ratio(&[200.0, 220.0, 180.0], &[100.0, 100.0, 100.0], 0.95).unwrap();
        let center = (2.0_f64.ln() + 2.2_f64.ln() + 1.8_f64.ln()) / 3.0;
        assert!(close(center, 0.689_797, 1e-5));
        assert!(close(ratio.ratio, center.exp(), 1e-12));
        assert!(close(ratio.log_deviation.unwrap(), 0.100_377, 1e-5));
        let (low, high) = ratio.interval.unwrap();
        assert!(close(low, 1.553_400, 1e-6), "{low}");
        assert!(close(high, 2.557_801, 1e-6), "{high}");
        assert!(close(ratio.b_mean, 100.0, 1e-12));
        assert_eq!(ratio.pairs, 3);
    }

    /// One pair has a ratio and no interval; none, or a zero, has neither.
    #[test]
    fn too_few_values_have_no_interval() {
        let one = paired_ratio(&[3.0], &[2.0], 0.99).unwrap();
        assert!(close(one.ratio, 1.5, 1e-12) && one.interval.is_none());
        assert_eq!(paired_ratio(&[], &[], 0.99), None);
        assert_eq!(paired_ratio(&[1.0], &[0.0], 0.99), None);
        assert_eq!(paired_ratio(&[1.0, 2.0], &[1.0], 0.99), None);
        assert_eq!(geometric_mean(&[f64::NAN]), None);
        assert!(close(geometric_mean(&[1.0, 100.0]).unwrap(), 10.0, 1e-12));
        let absurd = paired_ratio(&[1e-200, 1e200], &[1.0, 1.0], 0.99).unwrap();
        assert_eq!(absurd.interval, None, "no end of it is a number");
    }

    /// Welch on logs against the textbook formula with variances .02 and .005, n = 2 each:
    /// error √.0125, freedom .0125²/(.01²+.0025²) = 1.470588.
    #[test]
    fn unpaired_ratio_matches_welch() {
        let a = [0.9_f64.exp(), 1.1_f64.exp()];
        let b = [0.45_f64.exp(), 0.55_f64.exp()];
        let ratio = unpaired_ratio(&a, &b, 0.95).unwrap();
        assert!(close(ratio.ratio, 0.5_f64.exp(), 1e-12));
        let half = t_quantile(0.975, 1.470_588_235) * 0.0125_f64.sqrt();
        let (low, high) = ratio.interval.unwrap();
        assert!(close(low, (0.5 - half).exp(), 1e-6));
        assert!(close(high, (0.5 + half).exp(), 1e-6));
        let flat = unpaired_ratio(&[2.0, 2.0], &[1.0, 1.0], 0.95).unwrap();
        assert_eq!(flat.interval, Some((2.0, 2.0)));
    }

    /// With the count that is asked for the half-width is reached, with one pair fewer it is not.
    #[test]
    fn pairs_needed_is_the_smallest_that_reaches_the_width() {
        for (deviation, width) in [(0.02, 0.01), (0.01, 0.01), (0.05, 0.02)] {
            let pairs = pairs_needed(deviation, width, 0.99).unwrap();
            let half = |n: f64| (t_quantile(0.995, n - 1.0) * deviation / n.sqrt()).exp_m1();
            assert!(half(f64::from(pairs)) <= width + 1e-12);
            assert!(half(f64::from(pairs) - 1.0) > width);
        }
        // s = 1 %, w = 1 % at 99 %: t(.995, 9) = 3.250, 3.250/√10 = 1.028; t(.995, 10) = 3.169,
        // 3.169/√11 = .9555 <= ln(1.01)/.01 = .99503.
        assert_eq!(pairs_needed(0.01, 0.01, 0.99), Some(11));
        assert_eq!(pairs_needed(10.0, 0.001, 0.99), None);
    }

    /// Coverage of the 95 % and 99 % intervals over 4000 log-normal samples with a fixed seed
    /// stays inside the 99.9 % band of the binomial.
    #[test]
    fn intervals_cover_the_true_ratio() {
        let mut random = SplitMix64::new(20_240_229);
        let normal = Normal::standard();
        let mut draw = || normal.inverse_cdf(random.unit());
        for (level, pairs) in [(0.95, 5), (0.99, 10)] {
            let runs = 4000;
            let mut covered = 0;
            for _ in 0..runs {
                let (a, b): (Vec<f64>, Vec<f64>) = (0..pairs)
                    .map(|_| {
                        // A common drift of 5 % that pairing has to take out, noise of 1 %.
                        let drift = 0.05 * draw();
                        (
                            (drift + 0.01 * draw()).exp() * 1.1,
                            (drift + 0.01 * draw()).exp(),
                        )
                    })
                    .unzip();
                let (low, high) = paired_ratio(&a, &b, level).unwrap().interval.unwrap();
                covered += u32::from(low <= 1.1 && 1.1 <= high);
            }
            let share = f64::from(covered) / f64::from(runs);
            let band = 3.29 * (level * (1.0 - level) / f64::from(runs)).sqrt();
            assert!(
                (share - level).abs() < band,
                "{share} against {level} ± {band}"
            );
        }
    }

    proptest! {
        /// Swapping the samples inverts ratio and interval, paired or not.
        #[test]
        fn swapping_inverts(
            // With fewer pairs, or nearer to 1, the ends of wild samples are no finite numbers.
            pairs in prop::collection::vec((1.0_f64..1e6, 1.0_f64..1e6), 3..12),
            level in 0.5_f64..0.99,
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            for method in [paired_ratio, unpaired_ratio] {
                let forth = method(&a, &b, level).unwrap();
                let back = method(&b, &a, level).unwrap();
                let (low, high) = forth.interval.unwrap();
                let (back_low, back_high) = back.interval.unwrap();
                prop_assert!(close(forth.ratio * back.ratio, 1.0, 1e-9));
                prop_assert!(close(low.ln(), -back_high.ln(), 1e-6) || low.ln().abs() < 1e-9);
                prop_assert!(close(high.ln(), -back_low.ln(), 1e-6) || high.ln().abs() < 1e-9);
                prop_assert!(low <= forth.ratio * (1.0 + 1e-12) && forth.ratio <= high * (1.0 + 1e-12));
            }
        }

        /// Multiplying both sides by their own constant multiplies the ratio and nothing else.
        #[test]
        fn scaling_scales(
            pairs in prop::collection::vec((1.0_f64..1e3, 1.0_f64..1e3), 2..8),
            factor in 0.01_f64..100.0,
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let scaled: Vec<f64> = a.iter().map(|value| value * factor).collect();
            let plain = paired_ratio(&a, &b, 0.95).unwrap();
            let larger = paired_ratio(&scaled, &b, 0.95).unwrap();
            prop_assert!(close(larger.ratio, plain.ratio * factor, 1e-9));
            prop_assert!(close(larger.interval.unwrap().1, plain.interval.unwrap().1 * factor, 1e-6));
        }
    }
}
