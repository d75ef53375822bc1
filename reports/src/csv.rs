//! A load as comma-separated values: one line per slice, and one for the whole window.

use std::fmt::Write as _;

use recording::{LatencyHistogram, Load, Recording};

use crate::layout::WRITES;
use crate::view::load as view;

/// The slices of a load, then its window, under one header; what was not measured is empty.
///
/// Times are in seconds since the start of the window, latencies in nanoseconds.
pub fn load(recording: &Recording) -> String {
    let mut text = String::from(
        "row,from_s,to_s,ok,failed,requests_per_s,p50_ns,p90_ns,p99_ns,p999_ns,max_ns\n",
    );
    let Some(load) = view::load(recording) else {
        return text;
    };
    let start_ns = load.window.start_ns;
    for slice in &load.slices {
        let quantiles = [slice.p50_ns, None, slice.p99_ns, None, slice.max_ns];
        let at_ns = |ns: u64| ns.saturating_sub(start_ns);
        let times = (at_ns(slice.window.start_ns), at_ns(slice.window.end_ns));
        line(
            &mut text,
            "slice",
            times,
            (slice.ok, slice.failed),
            quantiles,
        );
    }
    let counts = (load.ledger.ok, load.ledger.failed_total());
    let times = (0, load.window.length_ns());
    line(&mut text, "window", times, counts, quantiles(load));
    text
}

fn quantiles(load: &Load) -> [Option<u64>; 5] {
    let histogram = load
        .latency
        .as_ref()
        .and_then(|latency| LatencyHistogram::to_hdr(latency).ok());
    [0.5, 0.9, 0.99, 0.999, 1.0]
        .map(|quantile| Some(histogram.as_ref()?.value_at_quantile(quantile)))
}

fn line(
    text: &mut String,
    row: &str,
    (from_ns, to_ns): (u64, u64),
    (ok, failed): (u64, u64),
    quantiles: [Option<u64>; 5],
) {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let length_s = seconds(to_ns.saturating_sub(from_ns));
    let rate = if length_s > 0.0 {
        format!("{:.3}", ok as f64 / length_s)
    } else {
        String::new()
    };
    write!(
        text,
        "{row},{:.6},{:.6},{ok},{failed},{rate}",
        seconds(from_ns),
        seconds(to_ns)
    )
    .expect(WRITES);
    for quantile in quantiles {
        let value = quantile.map_or_else(String::new, |ns| ns.to_string());
        write!(text, ",{value}").expect(WRITES);
    }
    text.push('\n');
}
