//! Numbers as a lock file has them: with four decimals, so that what is read is what was written.

use std::fmt;
use std::str::FromStr;

/// A number of ten-thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed(u64);

/// Text that is no number with at most four decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a number with at most four decimals")]
pub struct FixedError;

impl Fixed {
    /// The nearest such number; nothing below zero, and at most a million million.
    pub fn of(value: f64) -> Self {
        let scaled = (value * SCALE).round().clamp(0.0, LARGEST);
        // Clamped to what both types hold exactly; no number at all becomes 0.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped"
        )]
        Self(scaled as u64)
    }

    /// The number.
    pub fn value(self) -> f64 {
        self.0 as f64 / SCALE
    }

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.0.is_multiple_of(10_000)
    }

    /// Without the zeros at the end: `94`, `94.25`.
    pub(crate) fn short(self) -> String {
        let text = self.to_string();
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:04}", self.0 / 10_000, self.0 % 10_000)
    }
}

impl FromStr for Fixed {
    type Err = FixedError;

    fn from_str(text: &str) -> Result<Self, FixedError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = !whole.is_empty() && whole.len() <= 12 && fraction.len() <= 4;
        if !is_number || !digits(whole) || !digits(fraction) || text.ends_with('.') {
            return Err(FixedError);
        }
        let padded = format!("{whole}{fraction:0<4}");
        padded.parse().map(Self).map_err(|_digits_only| FixedError)
    }
}

const SCALE: f64 = 10_000.0;
/// A million million of units; both `u64` and `f64` hold it exactly.
const LARGEST: f64 = 9_999_999_999_999_999.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Four decimals, and no other text.
    #[test]
    fn reads_what_it_writes() {
        assert_eq!(Fixed::of(1.0).to_string(), "1.0000");
        assert_eq!(Fixed::of(0.99996).to_string(), "1.0000");
        assert_eq!(Fixed::of(94.25).short(), "94.25");
        assert_eq!(Fixed::of(100.0).short(), "100");
        assert_eq!(Fixed::of(f64::NAN), Fixed::of(0.0));
        assert_eq!("94".parse(), Ok(Fixed::of(94.0)));
        for wrong in ["", "-1", "1.", ".5", "1.00000", "1e3", "NaN", "+1", "1,5"] {
            assert_eq!(wrong.parse::<Fixed>(), Err(FixedError), "{wrong}");
        }
    }

    proptest! {
        /// Text leads back to the number, with and without its zeros.
        #[test]
        fn text_round_trips(value in 0.0..1e9_f64) {
            let fixed = Fixed::of(value);
            prop_assert_eq!(fixed.to_string().parse(), Ok(fixed));
            prop_assert_eq!(fixed.short().parse(), Ok(fixed));
            prop_assert!((fixed.value() - value).abs() <= 0.00005 + value * 1e-12);
        }
    }
}
