//! The ratio of two means by Fieller's theorem, for values that may be zero or negative.

use super::{Ratio, mean, t_quantile, two_sided, variance};

/// The ratio of the arithmetic means of two independent samples with Fieller's interval, as used by
/// Kalibera and Jones ("Quantifying Performance Changes with Effect Size Confidence Intervals").
///
/// The interval is `None` where the mean of `b` cannot be told from zero: then the ratio is
/// undefined. `None` without a value on both sides.
pub fn ratio_of_means(a: &[f64], b: &[f64], level: f64) -> Option<Ratio> {
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    if !(mean_a.is_finite() && mean_b.is_finite()) || mean_b == 0.0 {
        return None;
    }
    let half = |sample: &[f64]| {
        let n = sample.len() as f64;
        let deviation = variance(sample)?.sqrt();
        Some(t_quantile(two_sided(level), n - 1.0) * deviation / n.sqrt())
    };
    let interval = half(a)
        .zip(half(b))
        .and_then(|(half_a, half_b)| interval(mean_a, mean_b, half_a, half_b));
    Some(Ratio {
        a_mean: mean_a,
        b_mean: mean_b,
        ratio: mean_a / mean_b,
        interval,
        log_deviation: None,
        pairs: u32::try_from(a.len().min(b.len())).ok()?,
    })
}

fn interval(mean_a: f64, mean_b: f64, half_a: f64, half_b: f64) -> Option<(f64, f64)> {
    let denominator = mean_b.powi(2) - half_b.powi(2);
    if denominator <= 0.0 {
        return None;
    }
    let product = mean_a * mean_b;
    let root = (product.powi(2) - (mean_a.powi(2) - half_a.powi(2)) * denominator).sqrt();
    let (low, high) = (
        (product - root) / denominator,
        (product + root) / denominator,
    );
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF as _, Normal};

    use super::super::random::SplitMix64;
    use super::*;

    /// By hand: means 10 and 5, deviations 1 and 1, n = 4, t(.975, 3) = 3.182446, so both half-widths
    /// are 1.591223; the ends are (50 ± √(2500 - (100-2.532)(25-2.532)))/(25-2.532).
    #[test]
    fn matches_a_hand_computation() {
        let around = |mean: f64| {
            // Four values with deviation 1: ±√0.75.
            let step = 0.75_f64.sqrt();
            [mean - step, mean - step, mean + step, mean + step]
        };
        let ratio = ratio_of_means(&around(10.0), &around(5.0), 0.95).unwrap();
        assert!((ratio.ratio - 2.0).abs() < 1e-12);
        let h = 1.591_223_f64.powi(2);
        let root = (2500.0 - (100.0 - h) * (25.0 - h)).sqrt();
        let (low, high) = ratio.interval.unwrap();
        assert!((low - (50.0 - root) / (25.0 - h)).abs() < 1e-5, "{low}");
        assert!((high - (50.0 + root) / (25.0 - h)).abs() < 1e-5, "{high}");
    }

    /// A divisor that may be zero leaves the ratio undefined, one value has no interval.
    #[test]
    fn is_undefined_near_zero() {
        let ratio = ratio_of_means(&[1.0, 2.0, 3.0], &[-1.0, 0.5, 1.0], 0.95).unwrap();
        assert_eq!(ratio.interval, None);
        assert_eq!(ratio_of_means(&[1.0], &[2.0], 0.95).unwrap().interval, None);
        assert_eq!(ratio_of_means(&[1.0], &[0.0], 0.95), None);
        assert_eq!(ratio_of_means(&[], &[1.0], 0.95), None);
    }

    /// Coverage over 3000 log-normal samples of ten with a spread of 3 % stays within the 99.9 % band
    /// of the binomial.
    #[test]
    fn covers_the_true_ratio() {
        let mut random = SplitMix64::new(5);
        let normal = Normal::standard();
        let mut sample = |mean: f64| -> Vec<f64> {
            (0..10)
                .map(|_| mean * (0.03 * normal.inverse_cdf(random.unit())).exp())
                .collect()
        };
        let runs = 3000;
        let covered = (0..runs)
            .filter(|_| {
                let (a, b) = (sample(1.1), sample(1.0));
                let (low, high) = ratio_of_means(&a, &b, 0.95).unwrap().interval.unwrap();
                low <= 1.1 && 1.1 <= high
            })
            .count();
        let share = covered as f64 / f64::from(runs);
        let band = 3.29 * (0.95 * 0.05 / f64::from(runs)).sqrt();
        assert!((share - 0.95).abs() < band, "{share}");
    }
}
