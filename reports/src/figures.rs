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

/// The day of a moment in UTC (`2026-11-30`), from ns since 1970.
///
/// Days are counted in eras of 400 years whose years begin in March, so that the leap day is the
/// last day of a year and every month has a fixed place.
pub(crate) fn date(unix_ns: u64) -> String {
    let days = unix_ns / 86_400_000_000_000 + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let leaps = day_of_era / 1460 + day_of_era / (DAYS_OF_ERA - 1);
    let year_of_era = (day_of_era - leaps + day_of_era / 36_524) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // 153 days are five months, 31 30 31 30 31, from March on.
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let (month, next_year) = if from_march < 10 {
        (from_march + 3, 0)
    } else {
        (from_march - 9, 1)
    };
    let year = era * 400 + year_of_era + next_year;
    format!("{year:04}-{month:02}-{day:02}")
}

/// A large value without decimals, grouped.
pub(crate) fn rounded(value: f64) -> String {
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

/// Days from 0000-03-01 to 1970-01-01 in the calendar of today.
const DAYS_TO_1970: u64 = 719_468;
/// Days of 400 years.
const DAYS_OF_ERA: u64 = 146_097;

#[cfg(test)]
mod tests {
    use super::*;

    /// Leap days, ends of years and centuries; the moment before midnight is still the old day.
    #[test]
    fn dates_follow_the_calendar() {
        const DAY_NS: u64 = 86_400_000_000_000;
        for (day, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (364, "1970-12-31"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (19_675, "2023-11-14"),
            (20_787, "2026-11-30"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(day * DAY_NS), expected);
            assert_eq!(date(day * DAY_NS + DAY_NS - 1), expected);
        }
    }

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
