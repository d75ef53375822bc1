//! The gate on the harness itself: a second copy of the first arm has to come out equal.

use recording::{Gate, Recording};

use super::Finding;
use crate::figures::{interval, percent, ratio};
use crate::metrics::AA_THROUGHPUT;
use crate::statistics::pairs_needed;
use crate::verdict::{LEVEL, PAIRS_FOR_AN_INTERVAL};

/// G10: the interval of A against its copy contains 1 and is narrow.
pub(super) fn a_a_control(recording: &Recording) -> Gate {
    let margin = recording.scenario.as_ref().map_or(0.0, |s| s.margin);
    let row = recording
        .comparisons
        .iter()
        .find(|row| row.metric == AA_THROUGHPUT && row.pairs >= PAIRS_FOR_AN_INTERVAL);
    let finding = match row {
        None => Finding::not_measured("no A/A rounds were run: the verdict is indicative", ""),
        Some(row) => match row.interval {
            None => Finding::refuse(
                format!("{} without an interval", ratio(row.ratio)),
                "the rounds are too unequal: quiet the machine".to_owned(),
            ),
            Some((low, high)) => {
                let half = half_width((low, high));
                let value = format!(
                    "{} {}, half-width {}",
                    ratio(row.ratio),
                    interval(row.interval),
                    percent(half)
                );
                if low > 1.0 || high < 1.0 {
                    Finding::refuse(
                        value,
                        "two copies of one server differ, so the harness is biased: quiet the \
                         machine, give client and servers CPUs of their own, run again"
                            .to_owned(),
                    )
                } else if half > 2.0 * margin {
                    Finding::refuse(value, more_pairs(half, 2.0 * margin, row.pairs))
                } else {
                    Finding::ok(value)
                }
            }
        },
    };
    finding.gate(
        "G10",
        "A/A control",
        "the 99% interval of A/A contains 1, its half-width at most twice the margin",
    )
}

/// The relative half-width of the interval of a ratio.
pub(crate) fn half_width((low, high): (f64, f64)) -> f64 {
    (high / low).sqrt() - 1.0
}

fn more_pairs(half: f64, wanted: f64, pairs: u32) -> String {
    let n = f64::from(pairs);
    let deviation = half.ln_1p() * n.sqrt() / crate::statistics::t_quantile(0.995, n - 1.0);
    match pairs_needed(deviation, wanted, LEVEL) {
        Some(needed) if needed > pairs => format!("too noisy: about {} more pairs", needed - pairs),
        _ => "too noisy: quiet the machine".to_owned(),
    }
}
