//! Many tests in one table: Holm's adjustment keeps the chance of any false one at the level.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::{mean, variance};

/// The probability of a mean at least so far from zero by Student's t; `None` below two values.
/// Values without any spread are certain: 0, or 1 where all are zero.
pub fn p_of_zero_mean(values: &[f64]) -> Option<f64> {
    let (center, variance) = (mean(values)?, variance(values)?);
    if variance <= 0.0 {
        return Some(if center == 0.0 { 1.0 } else { 0.0 });
    }
    let n = values.len() as f64;
    let t = center.abs() / (variance / n).sqrt();
    let student = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
    Some((2.0 * student.cdf(-t)).min(1.0))
}

/// The probability that two samples with means so far apart have the same mean (Welch's t); `None`
/// below two values on a side. Without any spread it is certain: 0, or 1 where the means are equal.
pub fn p_of_equal_means(a: &[f64], b: &[f64]) -> Option<f64> {
    let (difference, a_variance, b_variance) = (mean(a)? - mean(b)?, variance(a)?, variance(b)?);
    let (a_n, b_n) = (a.len() as f64, b.len() as f64);
    let (a_part, b_part) = (a_variance / a_n, b_variance / b_n);
    let error = a_part + b_part;
    if error <= 0.0 {
        return Some(if difference == 0.0 { 1.0 } else { 0.0 });
    }
    let freedom = error.powi(2) / (a_part.powi(2) / (a_n - 1.0) + b_part.powi(2) / (b_n - 1.0));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some((2.0 * student.cdf(-(difference.abs() / error.sqrt()))).min(1.0))
}

/// Probabilities adjusted for their number (Holm, Scandinavian Journal of Statistics 6, 1979): an
/// adjusted one at most α may be called established at the level 1 - α for the whole table.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&x, &y| probabilities[x].total_cmp(&probabilities[y]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut so_far: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        let remaining = (probabilities.len() - rank) as f64;
        so_far = so_far.max(probabilities[index] * remaining).min(1.0);
        adjusted[index] = so_far;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::random::SplitMix64;
    use super::*;

    /// What `p.adjust(c(0.01, 0.04, 0.03, 0.02), "holm")` of R prints: 0.04 0.06 0.06 0.06.
    #[test]
    fn matches_r() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.02]);
        for (found, expected) in adjusted.iter().zip([0.04, 0.06, 0.06, 0.06]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    /// Equal sizes and variances make Welch's t the pooled one: 2.447 standard errors with freedom 6 are
    /// the two-sided 5 % point of the tables.
    #[test]
    fn welch_matches_the_table() {
        let a = [1.0, 2.0, 3.0, 4.0];
        // The variance is 5/3, so the standard error of a difference of means is √(5/6).
        let shift = 2.446_912 * (5.0_f64 / 6.0).sqrt();
        let b = a.map(|value| value + shift);
        let probability = p_of_equal_means(&a, &b).unwrap();
        assert!((probability - 0.05).abs() < 1e-6, "{probability}");
        assert_eq!(p_of_equal_means(&a, &[1.0]), None);
        assert_eq!(p_of_equal_means(&[1.0, 1.0], &[1.0, 1.0]), Some(1.0));
        assert_eq!(p_of_equal_means(&[1.0, 1.0], &[2.0, 2.0]), Some(0.0));
    }

    /// t = 2.262 with nine degrees of freedom is the two-sided 5 % point.
    #[test]
    fn probability_matches_the_table() {
        // Ten values with mean m and deviation 1 have t = m·√10.
        let step = 0.9_f64.sqrt();
        let center = 2.262_157 / 10.0_f64.sqrt();
        let values: Vec<f64> = (0..10)
            .map(|n| center + if n % 2 == 0 { step } else { -step })
            .collect();
        assert!((p_of_zero_mean(&values).unwrap() - 0.05).abs() < 1e-5);
        assert_eq!(p_of_zero_mean(&[0.0, 0.0]), Some(1.0));
        assert_eq!(p_of_zero_mean(&[2.0, 2.0]), Some(0.0));
        assert_eq!(p_of_zero_mean(&[2.0]), None);
    }

    /// In 2000 tables of 20 true nothings a false row occurs about as often as the level says, at
    /// most within the 99.9 % band of the binomial.
    #[test]
    fn keeps_the_level_of_the_table() {
        let mut random = SplitMix64::new(3);
        let runs = 2000;
        let wrong = (0..runs)
            .filter(|_| {
                let table: Vec<f64> = (0..20).map(|_| random.unit()).collect();
                holm(&table).iter().any(|p| *p <= 0.05)
            })
            .count();
        let share = wrong as f64 / f64::from(runs);
        let band = 3.29 * (0.05 * 0.95 / f64::from(runs)).sqrt();
        assert!(share < 0.05 + band && share > 0.02, "{share}");
    }

    proptest! {
        /// Nothing gets rarer by being one of many, and the order stays.
        #[test]
        fn adjusts_upwards_and_keeps_the_order(table in prop::collection::vec(0.0_f64..1.0, 0..30)) {
            let adjusted = holm(&table);
            for (index, p) in table.iter().enumerate() {
                prop_assert!(adjusted[index] >= *p && adjusted[index] <= 1.0);
                for (other, q) in table.iter().enumerate() {
                    prop_assert!(p >= q || adjusted[index] <= adjusted[other]);
                }
            }
        }
    }
}
