//! Intervals by resampling, for figures without a formula: bars of an attribution, medians.
//!
//! The unit that is drawn is the round, or the pair of rounds; windows inside a round are drawn a
//! second time within it. The seed is fixed and stored, so that the same rounds give the same
//! interval.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

use super::random::SplitMix64;
use super::{Ratio, two_sided};

/// Draws behind every interval.
pub const DRAWS: usize = 10_000;

/// The seed of every resampling.
pub const SEED: u64 = 0x7768_7966_6173_7401;

/// Rounds below which resampling says nothing: there are too few different draws.
pub const ROUNDS_FOR_RESAMPLING: usize = 6;

/// A statistic over many draws: one column per figure.
#[derive(Clone, Debug)]
pub struct Replicates {
    columns: Vec<Vec<f64>>,
    /// Units of the smallest sample that was drawn from.
    units: usize,
}

impl Replicates {
    /// Draws from samples of these sizes, with replacement, and keeps the figures that
    /// `statistic` makes of the drawn positions (one list per sample). `None` where a sample is
    /// smaller than [`ROUNDS_FOR_RESAMPLING`].
    pub fn draw(
        sizes: &[usize],
        mut statistic: impl FnMut(&[Vec<usize>], &mut Vec<f64>),
    ) -> Option<Self> {
        let units = *sizes.iter().min()?;
        if units < ROUNDS_FOR_RESAMPLING {
            return None;
        }
        let mut random = SplitMix64::new(SEED);
        let mut positions: Vec<Vec<usize>> = sizes.iter().map(|&size| vec![0; size]).collect();
        let mut columns: Vec<Vec<f64>> = Vec::new();
        let mut figures = Vec::new();
        for _ in 0..DRAWS {
            for (sample, &size) in positions.iter_mut().zip(sizes) {
                sample.fill_with(|| random.below(size));
            }
            figures.clear();
            statistic(&positions, &mut figures);
            columns.resize_with(figures.len().max(columns.len()), || {
                Vec::with_capacity(DRAWS)
            });
            for (column, figure) in columns.iter_mut().zip(&figures) {
                column.push(*figure);
            }
        }
        Some(Self { columns, units })
    }

    /// The interval of a figure; `None` where some draws gave no number.
    pub fn interval(&self, column: usize, level: f64) -> Option<(f64, f64)> {
        percentiles(self.columns.get(column)?.clone(), level, self.units)
    }

    /// The interval of a figure as a share of another one.
    pub fn share_interval(&self, part: usize, whole: usize, level: f64) -> Option<(f64, f64)> {
        let (part, whole) = (self.columns.get(part)?, self.columns.get(whole)?);
        let shares = part.iter().zip(whole).map(|(part, whole)| part / whole);
        percentiles(shares.collect(), level, self.units)
    }
}

/// The ratio of medians over windows: rounds are drawn in pairs, then windows within each round.
/// Each element of `a` and `b` is the windows of one round.
pub fn median_ratio(a: &[Vec<f64>], b: &[Vec<f64>], level: f64) -> Option<Ratio> {
    let empty = |rounds: &[Vec<f64>]| rounds.iter().any(Vec::is_empty);
    if a.len() != b.len() || empty(a) || empty(b) {
        return None;
    }
    let pooled = |rounds: &[Vec<f64>]| median(&mut rounds.concat());
    let (a_mean, b_mean) = (pooled(a)?, pooled(b)?);
    let mut random = SplitMix64::new(SEED.rotate_left(32));
    let mut windows: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let replicates = Replicates::draw(&[a.len()], |drawn, figures| {
        for (windows, rounds) in windows.iter_mut().zip([a, b]) {
            windows.clear();
            for &round in &drawn[0] {
                let round = &rounds[round];
                windows.extend(round.iter().map(|_| round[random.below(round.len())]));
            }
        }
        let [left, right] = &mut windows;
        let ratio = median(left).zip(median(right)).map(|(a, b)| a / b);
        figures.push(ratio.unwrap_or(f64::NAN));
    });
    Some(Ratio {
        a_mean,
        b_mean,
        ratio: a_mean / b_mean,
        interval: replicates.and_then(|replicates| replicates.interval(0, level)),
        log_deviation: None,
        pairs: u32::try_from(a.len()).ok()?,
    })
}

/// The middle value, or the mean of the two middle ones. Leaves the values in another order, which is
/// cheaper than sorting them.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if even {
        let lower = below.iter().copied().max_by(f64::total_cmp)?;
        Some(f64::midpoint(lower, upper))
    } else {
        Some(upper)
    }
}

/// Percentiles of the draws, moved outwards as far as Student's t with so few units lies outside
/// of the normal distribution, and by √(n/(n-1)), since a resample has a variance of (n-1)/n of
/// that of the sample (Hesterberg, The American Statistician 69:4, 2015, "expanded percentile").
fn percentiles(mut draws: Vec<f64>, level: f64, units: usize) -> Option<(f64, f64)> {
    if draws.is_empty() || draws.iter().any(|draw| !draw.is_finite()) {
        return None;
    }
    draws.sort_unstable_by(f64::total_cmp);
    let n = units as f64;
    let t = StudentsT::new(0.0, 1.0, n - 1.0)
        .ok()?
        .inverse_cdf(two_sided(level));
    let tail = Normal::standard().cdf(-t * (n / (n - 1.0)).sqrt());
    Some((at_share(&draws, tail), at_share(&draws, 1.0 - tail)))
}

/// The value below which a share of sorted values lies, between two values in proportion.
fn at_share(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in the list"
    )]
    let below = (place.floor() as usize).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    let part = place - below as f64;
    sorted[below] * (1.0 - part) + sorted[above] * part
}

#[cfg(test)]
mod tests {
    use statrs::distribution::Normal;

    use super::*;

    fn mean_of(sample: &[f64]) -> impl FnMut(&[Vec<usize>], &mut Vec<f64>) {
        move |drawn, figures| {
            let sum: f64 = drawn[0].iter().map(|&at| sample[at]).sum();
            figures.push(sum / sample.len() as f64);
        }
    }

    /// The same rounds give the same interval, and fewer than six give none.
    #[test]
    fn is_repeatable_and_refuses_too_few() {
        let sample = [1.0, 2.0, 4.0, 5.0, 7.0, 9.0];
        let draw = |size| Replicates::draw(&[size], mean_of(&sample[..size]));
        let (first, second) = (draw(6).unwrap(), draw(6).unwrap());
        assert_eq!(first.interval(0, 0.95), second.interval(0, 0.95));
        assert!(draw(5).is_none());
        let (low, high) = first.interval(0, 0.95).unwrap();
        assert!(low < 28.0 / 6.0 && 28.0 / 6.0 < high && low >= 1.0 && high <= 9.0);
    }

    /// Intervals of the mean of 8 normal values cover it as often as they say: 400 samples, within
    /// the 99.9 % band of the binomial.
    #[test]
    fn intervals_cover_the_mean() {
        let mut random = SplitMix64::new(11);
        let normal = Normal::standard();
        let runs = 400;
        let covered = (0..runs)
            .filter(|_| {
                let sample: Vec<f64> = (0..8).map(|_| normal.inverse_cdf(random.unit())).collect();
                let replicates = Replicates::draw(&[8], mean_of(&sample)).unwrap();
                let (low, high) = replicates.interval(0, 0.95).unwrap();
                low <= 0.0 && 0.0 <= high
            })
            .count();
        let share = covered as f64 / f64::from(runs);
        let band = 3.29 * (0.95 * 0.05 / f64::from(runs)).sqrt();
        assert!((share - 0.95).abs() < band, "{share}");
    }

    /// Medians of known values, their ratio, and an interval around it.
    #[test]
    fn median_ratio_of_windows() {
        let rounds = |factor: f64| -> Vec<Vec<f64>> {
            (0..8)
                .map(|round| {
                    let level = 100.0 + f64::from(round);
                    vec![
                        factor * (level - 5.0),
                        factor * level,
                        factor * (level + 5.0),
                    ]
                })
                .collect()
        };
        let ratio = median_ratio(&rounds(2.0), &rounds(1.0), 0.95).unwrap();
        assert!((ratio.ratio - 2.0).abs() < 1e-12);
        let (low, high) = ratio.interval.unwrap();
        assert!(low < 2.0 && 2.0 < high && low > 1.8 && high < 2.2);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert!(median_ratio(&rounds(1.0), &[vec![1.0]], 0.95).is_none());
    }

    /// A share of a figure of itself is one in every draw.
    #[test]
    fn shares_are_taken_draw_by_draw() {
        let replicates = Replicates::draw(&[6], |drawn, figures| {
            let sum = drawn[0].iter().sum::<usize>() as f64 + 1.0;
            figures.extend([sum, 2.0 * sum]);
        })
        .unwrap();
        assert_eq!(replicates.share_interval(0, 1, 0.95), Some((0.5, 0.5)));
        assert_eq!(replicates.interval(2, 0.95), None);
    }
}
