//! A load as wrk prints it (4.1 and 4.2), its correction of latencies included.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use recording::{FailureClass, Load, Recording, Spread};

use super::{
    Summary, failures, failures_in, histogram, measures, received_bytes, responses, service,
    statuses,
};
use crate::clean;
use crate::layout::WRITES;
use crate::view::load as view;

/// A load in the layout and by the definitions of wrk with `--latency`; empty where nothing was
/// measured.
///
/// The latencies are corrected as wrk corrects them, by requests that would have been sent at equal
/// distances. Latencies above the timeout stay failures and are not among them, as in wrk.
pub fn wrk(recording: &Recording) -> String {
    let Some(load) = view::load(recording) else {
        return String::new();
    };
    let plan = &load.plan;
    let runtime_us = load.window.length_ns() as f64 / 1e3;
    let planned_us = plan
        .duration_ns
        .map_or(runtime_us, |duration_ns| duration_ns as f64 / 1e3);
    let mut text = format!(
        "Running {} test @ {}\n  {} threads and {} connections\n",
        units((planned_us / 1e6).round(), &SECONDS, 0),
        clean(&load.url),
        plan.threads,
        plan.connections
    );
    writeln!(
        text,
        "  Thread Stats{:>6}{:>11}{:>8}{:>12}",
        "Avg", "Stdev", "Max", "+/- Stdev"
    )
    .expect(WRITES);
    let latencies = Latencies::of(load, runtime_us);
    let latency = latencies.summary();
    row(&mut text, "Latency", &latency, time);
    let rate = measures(load).and_then(|measures| measures.thread_rate_rps);
    row(&mut text, "Req/Sec", &of_rates(rate), |rate| {
        units(rate, &METRIC, 2)
    });
    text.push_str("  Latency Distribution\n");
    for percentile in [50.0, 75.0, 90.0, 99.0] {
        let value = padded(&time(latencies.percentile(percentile)), 10);
        writeln!(text, "{percentile:>7.0}%{value}").expect(WRITES);
    }
    totals(&mut text, load, runtime_us);
    text
}

fn totals(text: &mut String, load: &Load, runtime_us: f64) {
    let received = received_bytes(load) as f64;
    writeln!(
        text,
        "  {} requests in {}, {}B read",
        responses(load),
        time(runtime_us),
        units(received, &BINARY, 2)
    )
    .expect(WRITES);
    let timeout = failures(load, &[FailureClass::Timeout]);
    let connect = failures_in(load, &["connect", "tls"]);
    let write = failures_in(load, &["write"]);
    // Those of one request are counted once: a timeout while connecting is a timeout to us.
    let all =
        load.ledger.failed_total() - failures(load, &[FailureClass::Status, FailureClass::Content]);
    let read = all.saturating_sub(timeout + connect + write);
    if connect + read + write + timeout > 0 {
        writeln!(
            text,
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
        )
        .expect(WRITES);
    }
    let bad = statuses(load, 400..1000);
    if bad > 0 {
        writeln!(text, "  Non-2xx or 3xx responses: {bad}").expect(WRITES);
    }
    let per_second = |value: f64| {
        if runtime_us > 0.0 {
            value * 1e6 / runtime_us
        } else {
            0.0
        }
    };
    writeln!(
        text,
        "Requests/sec: {:>9.2}",
        per_second(responses(load) as f64)
    )
    .expect(WRITES);
    writeln!(
        text,
        "Transfer/sec: {:>10}B",
        units(per_second(received), &BINARY, 2)
    )
    .expect(WRITES);
}

fn row(text: &mut String, name: &str, summary: &Summary, format: impl Fn(f64) -> String) {
    writeln!(
        text,
        "    {name:<10}{}{}{}{:>8.2}%",
        padded(&format(summary.mean), 8),
        padded(&format(summary.sd), 10),
        padded(&format(summary.max), 9),
        summary.within
    )
    .expect(WRITES);
}

/// Latencies in microseconds, corrected.
struct Latencies {
    counts: BTreeMap<u64, u64>,
    /// Extremes before the correction, which wrk keeps.
    min: u64,
    max: u64,
    total: u64,
}

impl Latencies {
    fn of(load: &Load, runtime_us: f64) -> Self {
        let mut counts = BTreeMap::new();
        let (mut min, mut max) = (0, 0);
        if let Some(histogram) = histogram(service(load)) {
            for step in histogram.iter_recorded() {
                *counts.entry(step.value_iterated_to() / 1000).or_insert(0) +=
                    step.count_at_value();
            }
            (min, max) = (histogram.min() / 1000, histogram.max() / 1000);
        }
        let complete = responses(load);
        let connections = u64::from(load.plan.connections);
        if let Some(batches) = complete.checked_div(connections).filter(|&n| n > 0) {
            let interval = whole(runtime_us) / batches;
            correct(&mut counts, interval);
        }
        // wrk sums up from the smallest value that it measured.
        let total = counts.values().sum();
        Self {
            counts,
            min,
            max,
            total,
        }
    }

    fn summary(&self) -> Summary {
        let measured = self.counts.range(self.min.min(self.max)..=self.max.max(1));
        let counts: Vec<_> = measured
            .map(|(&value, &count)| (value as f64, count))
            .collect();
        Summary::of_counts(&counts, self.min as f64, self.max as f64)
    }

    /// The smallest value whose rank reaches the percentile.
    fn percentile(&self, percentile: f64) -> f64 {
        let wanted = (percentile / 100.0 * self.total as f64 + 0.5).round();
        let mut seen = 0;
        for (&value, &count) in &self.counts {
            seen += count;
            if seen as f64 >= wanted {
                return value as f64;
            }
        }
        0.0
    }
}

/// Adds, for each latency of two intervals and more, those of the requests that a client with a
/// fixed interval would have sent meanwhile.
fn correct(counts: &mut BTreeMap<u64, u64>, interval: u64) {
    if interval == 0 {
        return;
    }
    let late: Vec<(u64, u64)> = counts
        .range(interval * 2..)
        .map(|(&value, &count)| (value, count))
        .collect();
    for (value, count) in late {
        let mut at = value - interval;
        while at > interval {
            *counts.entry(at).or_insert(0) += count;
            at -= interval;
        }
    }
}

fn of_rates(rates: Option<Spread>) -> Summary {
    rates.map_or_else(Summary::default, |rates| Summary {
        count: rates.count,
        min: rates.min,
        max: rates.max,
        mean: rates.mean,
        sd: rates.sd,
        within: rates.within_sd * 100.0,
    })
}

/// A scale of units, each `step` times the one before.
struct Scale {
    step: f64,
    names: &'static [&'static str],
}

const SECONDS: Scale = Scale {
    step: 60.0,
    names: &["s", "m"],
};
const MICROSECONDS: Scale = Scale {
    step: 1000.0,
    names: &["us", "ms"],
};
const METRIC: Scale = Scale {
    step: 1000.0,
    names: &["", "k", "M", "G", "T"],
};
const BINARY: Scale = Scale {
    step: 1024.0,
    names: &["", "K", "M", "G", "T"],
};

/// A figure in the unit that wrk chooses: the next one from 0.85 of it on.
fn units(figure: f64, scale: &Scale, decimals: usize) -> String {
    let (mut amount, mut unit) = (figure, 0);
    while unit + 1 < scale.names.len() && amount >= scale.step * 0.85 {
        amount /= scale.step;
        unit += 1;
    }
    format!("{amount:.decimals$}{}", scale.names[unit])
}

/// Microseconds as wrk prints them.
fn time(micros: f64) -> String {
    if micros >= 1e6 {
        units(micros / 1e6, &SECONDS, 2)
    } else {
        units(micros, &MICROSECONDS, 2)
    }
}

/// Right-aligned so that digits of figures with units of one and two letters line up.
fn padded(text: &str, width: usize) -> String {
    let letters = text
        .bytes()
        .rev()
        .take(2)
        .filter(u8::is_ascii_alphabetic)
        .count();
    let spaces = 2 - letters;
    format!("{text:>0$}{1:2$}", width - spaces, "", spaces)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "wrk counts whole microseconds"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units change where wrk changes them.
    #[test]
    fn units_change_at_085() {
        for (micros, wanted) in [
            (119.45, "119.45us"),
            (849.0, "849.00us"),
            (970.0, "0.97ms"),
            (1_100_000.0, "1.10s"),
            (52_000_000.0, "0.87m"),
            (7_200_000_000.0, "120.00m"),
        ] {
            assert_eq!(time(micros), wanted);
        }
        assert_eq!(units(6280.0, &METRIC, 2), "6.28k");
        assert_eq!(units(54_098_000.0, &BINARY, 2), "51.59M");
        assert_eq!(units(52.0, &SECONDS, 0), "1m");
    }

    /// Letters of units line up.
    #[test]
    fn units_line_up() {
        assert_eq!(padded("119.45us", 8), "119.45us");
        assert_eq!(padded("6.28k", 8), "  6.28k ");
        assert_eq!(padded("147.95", 10), "  147.95  ");
    }

    /// A stall counts for every request that it held up.
    #[test]
    fn correction_fills_stalls() {
        let mut counts = BTreeMap::from([(100, 5), (1000, 1)]);
        correct(&mut counts, 300);
        assert_eq!(
            counts,
            BTreeMap::from([(100, 5), (400, 1), (700, 1), (1000, 1)])
        );
    }
}
