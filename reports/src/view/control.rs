//! What rounds besides the main ones say: the A/A control, and all arms at the same rates.

use recording::{Comparison, Recording};

use super::compare::{bounds, metric_title, metric_value};
use super::{Table, or_absent};
use crate::clean::clean_to;
use crate::figures::{interval, ratio, rounded, span};
use crate::metrics::{AA_THROUGHPUT, EQUAL_RATE, Metric, equal_rates};

/// The first arm against its copy: `A/A 1.002 [0.996, 1.008]`; `None` where there is no copy.
pub(crate) fn a_a(recording: &Recording) -> Option<String> {
    let mut rows = recording.comparisons.iter();
    let row = rows.find(|row| row.metric == AA_THROUGHPUT)?;
    Some(format!(
        "A/A {} {}",
        ratio(row.ratio),
        interval(row.interval)
    ))
}

/// Latency and CPU time where every arm was asked for the same rate: one row per rate and metric, one
/// column per arm.
pub(crate) fn at_equal_rates(recording: &Recording) -> Table {
    let mut header = vec!["all asked for".to_owned(), "metric".to_owned()];
    let names = recording.arms.iter().map(|arm| clean_to(&arm.name, 20));
    header.extend(names);
    let two = recording.arms.len() == 2;
    if two {
        header.extend(["first/second".to_owned(), "99% CI".to_owned()]);
    }
    let mut table = Table {
        header,
        left: vec![1],
        ..Table::default()
    };
    for rate_rps in equal_rates(recording) {
        for metric in [Metric::LatencyP50, Metric::LatencyP99, Metric::ServerCpu] {
            let rows = of_rate(recording, metric, rate_rps);
            if rows.is_empty() {
                continue;
            }
            let mut cells = vec![
                format!("{} req/s", rounded(rate_rps)),
                metric_title(metric).to_owned(),
            ];
            cells.extend(recording.arms.iter().map(|arm| {
                or_absent(value(&rows, &arm.name), |figure| {
                    metric_value(metric, figure)
                })
            }));
            if two {
                cells.extend([ratio(rows[0].ratio), bounds(rows[0])]);
            }
            table.rows.push(cells);
        }
    }
    table
}

/// Rows for the table of the headline: the 99th percentile at each rate, first arm, second arm, quotient
/// and interval.
pub(crate) fn p99_rows(recording: &Recording) -> Vec<Vec<String>> {
    let rates = equal_rates(recording).into_iter();
    let of_rate = rates.filter_map(|rate_rps| {
        let rows = of_rate(recording, Metric::LatencyP99, rate_rps);
        let row = rows.first()?;
        Some(vec![
            format!("p99 at {}/s each", rounded(rate_rps)),
            span(row.a_value),
            span(row.b_value),
            ratio(row.ratio),
            bounds(row),
        ])
    });
    of_rate.collect()
}

fn of_rate(recording: &Recording, metric: Metric, rate_rps: f64) -> Vec<&Comparison> {
    let wanted = format!("{EQUAL_RATE}{}", metric.name());
    let rows = recording.comparisons.iter();
    rows.filter(|row| row.metric == wanted && row.rate_rps == Some(rate_rps))
        .collect()
}

fn value(rows: &[&Comparison], arm: &str) -> Option<f64> {
    rows.iter().find_map(|row| match arm {
        arm if arm == row.a => Some(row.a_value),
        arm if arm == row.b => Some(row.b_value),
        _ => None,
    })
}
