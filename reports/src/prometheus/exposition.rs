//! Lines of Prometheus' text format.

use std::fmt::Write as _;

use recording::Log2Histogram;

use crate::clean::clean;

/// What comes before the samples of a metric.
pub(super) fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string can grow");
}

/// One sample; labels without a value are left out.
pub(super) fn sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    text.push_str(name);
    let labels: Vec<String> = labels
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
        .collect();
    if !labels.is_empty() {
        write!(text, "{{{}}}", labels.join(",")).expect("a string can grow");
    }
    writeln!(text, " {value}").expect("a string can grow");
}

/// The samples of a counter that has one.
pub(super) fn counter(text: &mut String, name: &str, help: &str, value: f64) {
    family(text, name, "counter", help);
    sample(text, name, &[], value);
}

/// A histogram of times, ns, whose sum is known, in steps of four from a microsecond to sixteen seconds.
pub(super) fn histogram(
    text: &mut String,
    name: &str,
    help: &str,
    of: &Log2Histogram,
    sum_ns: u64,
) {
    family(text, name, "histogram", help);
    let bucket = format!("{name}_bucket");
    for power in (FIRST_POWER..=LAST_POWER).step_by(2) {
        // Bucket n holds what is less than 2^n.
        let below: u64 = of.buckets().iter().take(power + 1).sum();
        let limit = (1_u64 << power) as f64 / 1e9;
        sample(text, &bucket, &[("le", &limit.to_string())], below as f64);
    }
    sample(text, &bucket, &[("le", "+Inf")], of.count() as f64);
    sample(text, &format!("{name}_sum"), &[], sum_ns as f64 / 1e9);
    sample(text, &format!("{name}_count"), &[], of.count() as f64);
}

/// A label's value: backslash, quote and line break have a meaning there.
fn escape(value: &str) -> String {
    let value = clean(value);
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

const FIRST_POWER: usize = 10;
const LAST_POWER: usize = 34;

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets are cumulative, each with what is below its limit, and the last one has all.
    #[test]
    fn histograms_are_cumulative() {
        let mut buckets = vec![0; 41];
        for (value, count) in [(1_000_u64, 2), (1_024, 3), (1 << 20, 4), (1 << 39, 5)] {
            buckets[Log2Histogram::bucket_of(value)] += count;
        }
        let mut text = String::new();
        histogram(
            &mut text,
            "wait_seconds",
            "Waits.",
            &Log2Histogram::new(buckets),
            7_000_000_000,
        );
        for line in [
            "# TYPE wait_seconds histogram",
            "wait_seconds_bucket{le=\"0.000001024\"} 2",
            "wait_seconds_bucket{le=\"0.000004096\"} 5",
            "wait_seconds_bucket{le=\"0.001048576\"} 5",
            "wait_seconds_bucket{le=\"0.004194304\"} 9",
            "wait_seconds_bucket{le=\"17.179869184\"} 9",
            "wait_seconds_bucket{le=\"+Inf\"} 14",
            "wait_seconds_sum 7",
            "wait_seconds_count 14",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
