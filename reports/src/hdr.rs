//! Histograms of a load in the formats of `HdrHistogram`: its log (`.hlog`, V2) and its percentile
//! distribution (`.hgrm`).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use recording::{LatencyHistogram, Load, Recording};

use crate::layout::WRITES;
use crate::view::load as view;

/// The histograms of a load as an `HdrHistogram` log: an interval with the latency, and one with a
/// tag for each further distribution. Times are in seconds of the run, maxima in milliseconds, the
/// values of the histograms in nanoseconds.
pub fn log(recording: &Recording) -> String {
    let start_s = recording.created_unix_ns as f64 / 1e9;
    let mut text = format!(
        "#[Histogram log format version 1.3]\n\
         #[StartTime: {start_s:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    );
    let Some(load) = view::load(recording) else {
        return text;
    };
    let length_s = load.window.seconds();
    for (tag, histogram) in distributions(load) {
        let Some(histogram) = histogram.to_hdr().ok() else {
            continue;
        };
        let tag = tag.map_or_else(String::new, |tag| format!("Tag={tag},"));
        let max_ms = histogram.max() as f64 / 1e6;
        let encoded = encode(&histogram);
        writeln!(text, "{tag}0.000,{length_s:.3},{max_ms:.3},{encoded}").expect(WRITES);
    }
    text
}

/// The latency of a load as the percentile distribution that `HdrHistogram` plots, in milliseconds;
/// empty when no request was ok.
pub fn percentiles(recording: &Recording) -> String {
    let latency = view::load(recording).and_then(|load| load.latency.as_ref()?.to_hdr().ok());
    latency.map_or_else(String::new, |latency| distribution(&latency))
}

/// Every distribution of a load; the latency has no tag.
fn distributions(load: &Load) -> Vec<(Option<&'static str>, &LatencyHistogram)> {
    let mut all = vec![(None, load.latency.as_ref())];
    if let Some(measures) = &load.measures {
        let phases = &measures.phases;
        all.extend([
            (Some("service"), phases.service.as_ref()),
            (Some("connect"), phases.connect.as_ref()),
            (Some("tls"), phases.tls.as_ref()),
            (Some("first_byte"), phases.first_byte.as_ref()),
            (Some("receive"), phases.receive.as_ref()),
            (
                Some("lag"),
                measures
                    .schedule
                    .as_ref()
                    .and_then(|schedule| schedule.lag.as_ref()),
            ),
        ]);
    }
    all.into_iter()
        .filter_map(|(tag, histogram)| Some((tag, histogram?)))
        .collect()
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing to memory cannot fail");
    STANDARD.encode(bytes)
}

/// The layout of `outputPercentileDistribution`, five steps per half distance.
fn distribution(histogram: &Histogram<u64>) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut seen = 0;
    for step in histogram.iter_quantiles(STEPS_PER_HALF) {
        seen += step.count_since_last_iteration();
        let value = ms(step.value_iterated_to());
        let quantile = step.quantile_iterated_to();
        write!(text, "{value:12.3} {quantile:2.12} {seen:10}").expect(WRITES);
        if quantile < 1.0 {
            write!(text, " {:14.2}", 1.0 / (1.0 - quantile)).expect(WRITES);
        }
        text.push('\n');
    }
    write!(
        text,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
         #[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]\n",
        histogram.mean() / 1e6,
        histogram.stdev() / 1e6,
        ms(histogram.max()),
        histogram.len(),
        histogram.buckets(),
        SUB_BUCKETS
    )
    .expect(WRITES);
    text
}

const STEPS_PER_HALF: u32 = 5;
/// What three significant digits take.
const SUB_BUCKETS: u32 = 2048;
