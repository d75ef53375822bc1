//! A load in the words of other tools, so that scripts that parse them keep working: the layout
//! character by character, and each figure by that tool's definition.
//!
//! What a tool prints and whyfast does not have stays at what the tool prints when nothing happened.

mod h2load;
mod httperf;
mod wrk;

pub use h2load::h2load;
pub use httperf::httperf;
pub use wrk::wrk;

use hdrhistogram::Histogram;
use recording::{FailureClass, LatencyHistogram, Load, LoadMeasures};

/// Mean and spread of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    count: u64,
    min: f64,
    max: f64,
    mean: f64,
    /// Standard deviation of the sample.
    sd: f64,
    /// Share of values within one standard deviation of the mean, in percent.
    within: f64,
}

impl Summary {
    /// The summary of a stored histogram; zeros where there is none, as the tools print.
    fn of(stored: Option<&LatencyHistogram>) -> Self {
        match histogram(stored) {
            Some(histogram) => {
                let counts: Vec<_> = histogram
                    .iter_recorded()
                    .map(|step| {
                        // The middle of its bucket, so that sums are not biased.
                        let value = histogram.median_equivalent(step.value_iterated_to());
                        (value as f64, step.count_at_value())
                    })
                    .collect();
                Self::of_counts(&counts, histogram.min() as f64, histogram.max() as f64)
            }
            None => Self::default(),
        }
    }

    /// The summary of values with their counts.
    fn of_counts(counts: &[(f64, u64)], min: f64, max: f64) -> Self {
        let count: u64 = counts.iter().map(|(_, count)| count).sum();
        if count == 0 {
            return Self::default();
        }
        let sum: f64 = counts.iter().map(|&(value, n)| value * n as f64).sum();
        let mean = sum / count as f64;
        let squares: f64 = counts
            .iter()
            .map(|&(value, n)| (value - mean).powi(2) * n as f64)
            .sum();
        let sd = if count > 1 {
            (squares / (count - 1) as f64).sqrt()
        } else {
            0.0
        };
        let inside: u64 = counts
            .iter()
            .filter(|(value, _)| (mean - sd..=mean + sd).contains(value))
            .map(|(_, n)| n)
            .sum();
        Self {
            count,
            min,
            max,
            mean,
            sd,
            within: 100.0 * inside as f64 / count as f64,
        }
    }
}

/// A stored histogram, if there is one that can be read.
fn histogram(stored: Option<&LatencyHistogram>) -> Option<Histogram<u64>> {
    stored.and_then(|stored| stored.to_hdr().ok())
}

/// The time of requests as all three tools take it: from the first write, whatever the schedule.
fn service(load: &Load) -> Option<&LatencyHistogram> {
    measures(load)
        .and_then(|measures| measures.phases.service.as_ref())
        .or(load.latency.as_ref())
}

fn measures(load: &Load) -> Option<&LoadMeasures> {
    load.measures.as_deref()
}

/// Complete responses, whatever their status.
fn responses(load: &Load) -> u64 {
    load.statuses.values().sum()
}

/// Final statuses of a range.
fn statuses(load: &Load, range: std::ops::Range<u16>) -> u64 {
    load.statuses.range(range).map(|(_, count)| count).sum()
}

/// Failures of some classes.
fn failures(load: &Load, classes: &[FailureClass]) -> u64 {
    let failed = load.ledger.failed.iter();
    failed
        .filter(|failure| classes.contains(&failure.class))
        .map(|failure| failure.count)
        .sum()
}

/// Failures of a phase.
fn failures_in(load: &Load, phases: &[&str]) -> u64 {
    let failed = load.ledger.failed.iter();
    failed
        .filter(|failure| phases.contains(&failure.phase.as_str()))
        .map(|failure| failure.count)
        .sum()
}

/// The share of one of `parts`, as evenly as it goes, the first ones one more.
fn share(total: u64, parts: u64, part: u64) -> u64 {
    total / parts + u64::from(part < total % parts)
}

/// Bytes read, after decryption where there was any.
fn received_bytes(load: &Load) -> u64 {
    load.tls
        .as_ref()
        .map_or(load.traffic.received_bytes, |tls| tls.clear_received_bytes)
}

/// Bytes written, before encryption where there was any.
fn sent_bytes(load: &Load) -> u64 {
    load.tls
        .as_ref()
        .map_or(load.traffic.sent_bytes, |tls| tls.clear_sent_bytes)
}
