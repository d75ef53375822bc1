//! An axis: which values it covers, where it is marked, and where a value lies on it.

use crate::figures::rounded;

/// A linear or logarithmic axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Marked values with their labels.
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) title: String,
}

impl Axis {
    /// From `low` to `high`, widened to round numbers.
    pub(super) fn linear(
        title: impl Into<String>,
        (low, high): (f64, f64),
        print: impl Fn(f64) -> String,
    ) -> Self {
        let high = if high > low {
            high
        } else {
            low + low.abs().max(1.0)
        };
        let step = round_step((high - low) / TICKS);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        Self {
            low: first * step,
            high: last * step,
            logarithmic: false,
            ticks: multiples(first, last)
                .map(|multiple| (multiple * step, print(multiple * step)))
                .collect(),
            title: title.into(),
        }
    }

    /// Over exactly these values, marked at round numbers inside.
    pub(super) fn exact(
        title: impl Into<String>,
        (low, high): (f64, f64),
        print: impl Fn(f64) -> String,
    ) -> Self {
        let mut axis = Self::linear(title, (low, high), print);
        let high = if high > low { high } else { axis.high };
        (axis.low, axis.high) = (low, high);
        let slack = (high - low) * 1e-9;
        axis.ticks
            .retain(|(value, _)| *value >= low - slack && *value <= high + slack);
        axis
    }

    /// Logarithmic with steps by factors of 2, 4 or more of a base: a factor of two is a length.
    pub(super) fn doubling(
        title: impl Into<String>,
        (low, high): (f64, f64),
        base: f64,
        print: impl Fn(f64) -> String,
    ) -> Self {
        let low = if low > 0.0 { low } else { base };
        let high = high.max(low);
        let (first, mut last) = ((low / base).log2().floor(), (high / base).log2().ceil());
        if last <= first {
            last = first + 1.0;
        }
        let step = ((last - first) / LOG_TICKS).ceil();
        let value = |exponent: f64| base * exponent.exp2();
        Self {
            low: value(first),
            high: value(last),
            logarithmic: true,
            ticks: multiples(0.0, ((last - first) / step).floor())
                .map(|multiple| value(first + multiple * step))
                .map(|value| (value, print(value)))
                .collect(),
            title: title.into(),
        }
    }

    /// With one place for each label.
    pub(super) fn places(title: impl Into<String>, labels: Vec<(f64, String)>, count: f64) -> Self {
        Self {
            low: 0.0,
            high: count.max(1.0),
            logarithmic: false,
            ticks: labels,
            title: title.into(),
        }
    }

    /// Where a value lies: 0 at the low end, 1 at the high one, not beyond.
    pub(super) fn at(&self, value: f64) -> f64 {
        let place = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }
}

/// A label without more digits than the value has: `0`, `2.5`, `50,000`.
pub(super) fn plain(value: f64) -> String {
    if value.abs() >= 1000.0 {
        rounded(value)
    } else {
        // Multiples of a tenth are no exact numbers.
        format!("{}", (value * 1e6).round() / 1e6)
    }
}

/// Whole numbers from one to another.
fn multiples(first: f64, last: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(first), |value| Some(value + 1.0))
        .take_while(move |value| *value <= last)
        .take(TICKS_LIMIT)
}

/// 1, 2 or 5 times a power of ten, at least as large.
fn round_step(rough: f64) -> f64 {
    let power = 10.0_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0];
    let factor = factors
        .into_iter()
        .find(|factor| factor * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Parts of a linear axis.
const TICKS: f64 = 4.0;
/// Parts of a logarithmic one.
const LOG_TICKS: f64 = 7.0;
/// Marks beyond would be a mistake.
const TICKS_LIMIT: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    /// Round numbers around what is covered; equal ends still make an axis.
    #[test]
    fn linear_axes_are_round() {
        let print = |value: f64| format!("{value}");
        let axis = Axis::linear("x", (0.0, 139_007.0), print);
        assert_eq!(labels(&axis), ["0", "50000", "100000", "150000"]);
        assert!((axis.at(75_000.0) - 0.5).abs() < 1e-12);
        assert!(Axis::linear("x", (3.0, 3.0), print).at(3.0).is_finite());
        let axis = Axis::exact("x", (0.0, 1.5), print);
        assert_eq!(labels(&axis), ["0", "0.5", "1", "1.5"]);
        assert!((axis.at(1.5) - 1.0).abs() < 1e-12);
    }

    /// No label shows what a multiple of a tenth is in binary.
    #[test]
    fn labels_are_plain() {
        let axis = Axis::linear("", (0.0, 0.9), plain);
        assert_eq!(labels(&axis), ["0", "0.5", "1"]);
        assert_eq!(plain(3.0 * 0.2), "0.6");
        assert_eq!(plain(50_000.0), "50,000");
    }

    /// Doubling: 250, 500, 1000 are equally far apart.
    #[test]
    fn doubling_axes_have_equal_steps() {
        let axis = Axis::doubling("y", (300.0, 900.0), 1000.0, |v| format!("{v}"));
        assert_eq!(labels(&axis), ["250", "500", "1000"]);
        assert!((axis.at(500.0) - 0.5).abs() < 1e-12);
        let wide = Axis::doubling("y", (1.0, 1e9), 1000.0, |v| format!("{v}"));
        assert!(wide.ticks.len() <= 9, "{:?}", wide.ticks);
    }

    proptest! {
        /// Every value is somewhere on its axis, and larger ones are not before smaller ones.
        #[test]
        fn values_keep_their_order(low in 0.001_f64..1e9, width in 0.0_f64..1e9, at in 0.0_f64..1.0) {
            let (high, middle) = (low + width, low + width * at);
            for axis in [
                Axis::linear("", (low, high), |_| String::new()),
                Axis::exact("", (low, high), |_| String::new()),
                Axis::doubling("", (low, high), 1000.0, |_| String::new()),
            ] {
                let places = [low, middle, high].map(|value| axis.at(value));
                prop_assert!(places.is_sorted(), "{places:?} {axis:?}");
                prop_assert!(places.iter().all(|place| (0.0..=1.0).contains(place)));
            }
        }
    }
}
