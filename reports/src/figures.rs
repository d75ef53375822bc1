//! How a figure is printed: digits, separators and units.
//!
//! It owns precision. A figure that was not measured never gets here: the caller prints `-` and
//! says why elsewhere.

/// Digits in groups of three (`139,007`).
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A rate or a mean with about four digits: `139,007`, `93.4`, `0.613`.
pub(crate) fn rate(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => rounded(value),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Calls per request: four decimals where they are exact, else about four digits.
pub(crate) fn per_request(value: f64, exact: bool) -> String {
    if exact {
        format!("{value:.4}")
    } else if value != 0.0 && value.abs() < 0.01 {
        format!("{value:.5}")
    } else {
        rate(value)
    }
}

/// Nanoseconds as microseconds without the unit (`14.1`, `0.352`).
pub(crate) fn micros(ns: f64) -> String {
    let us = ns / 1e3;
    match us.abs() {
        v if v >= 1000.0 => rounded(us),
        v if v >= 100.0 => format!("{us:.0}"),
        v if v >= 10.0 => format!("{us:.1}"),
        v if v >= 1.0 => format!("{us:.2}"),
        _ => format!("{us:.3}"),
    }
}

/// A span in the unit that suits it: `450ns`, `12.3us`, `1.21ms`, `9.12s`.
pub(crate) fn span(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        v if v >= 1e9 => (ns / 1e9, "s"),
        v if v >= 1e6 => (ns / 1e6, "ms"),
        v if v >= 1e3 => (ns / 1e3, "us"),
        _ => return format!("{ns:.0}ns"),
    };
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}{unit}"),
        v if v >= 10.0 => format!("{value:.1}{unit}"),
        _ => format!("{value:.2}{unit}"),
    }
}

/// Bytes in decimal units: `812 B`, `1.19 kB`, `3.4 GB`.
pub(crate) fn bytes(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "GB"),
        v if v >= 1e6 => (value / 1e6, "MB"),
        v if v >= 1e3 => (value / 1e3, "kB"),
        _ => return format!("{value:.0} B"),
    };
    let decimals = usize::from(value.abs() < 100.0) + usize::from(value.abs() < 10.0);
    format!("{value:.decimals$} {unit}")
}

/// A share as a percentage with as many digits as it needs: `98%`, `1.4%`, `0.0012%`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        v if v >= 10.0 => format!("{percent:.0}%"),
        v if v >= 1.0 => format!("{}%", format!("{percent:.1}").trim_end_matches(".0")),
        v if v >= 0.01 => format!("{percent:.2}%"),
        0.0 => "0%".to_owned(),
        _ => format!("{percent:.4}%"),
    }
}

/// An interval of a ratio: `[1.66, 1.71]`; `-` where there is none.
pub(crate) fn interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(
        || "-".to_owned(),
        |(low, high)| format!("[{}, {}]", ratio(low), ratio(high)),
    )
}

/// A ratio with three decimals, fewer where it is large.
pub(crate) fn ratio(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.2e}"),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// `1 round`, `2 rounds`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// A large value without decimals, grouped.
fn rounded(value: f64) -> String {
    // Above 2^53 the digits are noise anyway, and the cast saturates.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let digits = grouped(value.abs().round() as u64);
    if value < 0.0 {
        format!("-{digits}")
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Separators and digits.
    #[test]
    fn figures_keep_their_meaning() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(139_007), "139,007");
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(rate(82_474.4), "82,474");
        assert_eq!(rate(5.8251), "5.825");
        assert_eq!(per_request(2.0, true), "2.0000");
        assert_eq!(per_request(0.0025, false), "0.00250");
        assert_eq!(per_request(0.0, false), "0.000");
        assert_eq!(micros(14_100.0), "14.1");
        assert_eq!(span(1_210_000.0), "1.21ms");
        assert_eq!(span(450.0), "450ns");
        assert_eq!(bytes(1189.0), "1.19 kB");
        assert_eq!(bytes(94.0), "94 B");
        assert_eq!(percent(0.981), "98%");
        assert_eq!(percent(0.014), "1.4%");
        assert_eq!(percent(0.02), "2%");
        assert_eq!(percent(0.00001), "0.0010%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(interval(Some((1.66, 1.7149))), "[1.660, 1.715]");
        assert_eq!(counted(1, "pair"), "1 pair");
    }
}
