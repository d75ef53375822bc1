//! Numbers as other tools print them. What could be read in two ways is not read at all.

/// A duration with its unit (`4.72s`, `435.86ms`, `237us`, `1.29m`), in seconds.
pub(super) fn duration_s(text: &str) -> Option<f64> {
    let (number, unit) = split_unit(text)?;
    Some(match unit {
        "ns" => number / 1e9,
        "us" | "µs" | "μs" => number / 1e6,
        "ms" => number / 1e3,
        "s" | "sec" | "secs" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    })
}

/// Bytes with a unit of 1024 (`11.73MB`, `1000B`, `1.5KiB`), in bytes.
pub(super) fn bytes(text: &str) -> Option<f64> {
    let (number, unit) = split_unit(text)?;
    let power = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    Some(number * 1024_f64.powi(power))
}

/// A percentage (`66.00%`), as a share.
pub(super) fn percent(text: &str) -> Option<f64> {
    Some(decimal(text.strip_suffix('%')?)? / 100.0)
}

/// A number with a decimal point, with or without separators of thousands.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(fraction) || (text.contains('.') && fraction.is_empty()) {
        return None;
    }
    let whole = count(whole)?;
    // Written by the machine, so it is a number as Rust writes it.
    format!("{whole}.{fraction}0").parse().ok()
}

/// A whole number, with or without separators of thousands (`25000`, `25,000`).
pub(super) fn count(text: &str) -> Option<u64> {
    let groups: Vec<&str> = text.split(',').collect();
    let is_grouped = groups.len() == 1
        || ((1..=3).contains(&groups[0].len()) && groups[1..].iter().all(|group| group.len() == 3));
    let digits = groups.concat();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_grouped && is_number).then(|| digits.parse().ok())?
}

/// The nearest whole number; `None` for what is none and for negative ones.
pub(super) fn whole(number: f64) -> Option<u64> {
    format!("{number:.0}").parse().ok()
}

fn split_unit(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .unwrap_or(text.len());
    Some((decimal(&text[..end])?, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Units as the tools print them.
    #[test]
    fn units() {
        assert_eq!(duration_s("435.86ms"), Some(0.43586));
        assert_eq!(duration_s("2.00h"), Some(7200.0));
        assert_eq!(duration_s("12"), None);
        assert_eq!(bytes("1.50KB"), Some(1536.0));
        assert_eq!(bytes("1000B"), Some(1000.0));
        assert_eq!(bytes("2.00MiB"), Some(2_097_152.0));
        assert_eq!(percent("87.18%"), Some(0.8718));
    }

    /// A decimal comma is no separator of thousands: not read, rather than read wrongly.
    #[test]
    fn other_locales_are_not_guessed() {
        for text in [
            "4,72",
            "1.234.567",
            "1 234",
            "12,34,567",
            "1234,567",
            "",
            "-3",
            "1.",
            "4e3",
            "١",
        ] {
            assert_eq!(decimal(text), None, "{text}");
        }
        assert_eq!(decimal("1,234.5"), Some(1234.5));
        assert_eq!(count("1,234,567"), Some(1_234_567));
        assert_eq!(count("99999999999999999999999"), None);
    }

    proptest! {
        /// A printed number is read back, with and without separators.
        #[test]
        fn counts_are_read_back(number in any::<u64>()) {
            let plain = number.to_string();
            prop_assert_eq!(count(&plain), Some(number));
            let mut grouped = String::new();
            for (at, digit) in plain.chars().enumerate() {
                if at > 0 && (plain.len() - at) % 3 == 0 {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            prop_assert_eq!(count(&grouped), Some(number));
        }

        /// No text makes a reader panic.
        #[test]
        fn any_text_is_taken(text in "\\PC{0,40}") {
            let _ = (duration_s(&text), bytes(&text), percent(&text));
        }
    }
}
