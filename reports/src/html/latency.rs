//! Latency by percentile, on an axis on which each nine is as wide as the one before.

use hdrhistogram::Histogram;
use maud::{Markup, html};
use recording::{LatencyHistogram, Probes, Recording, Round, RoundRole};

use super::axis::Axis;
use super::element::{Chart, arm_class, legend};
use super::plot::{Height, band, path, plot};
use crate::figures::{rounded, span};
use crate::metrics::{equal_rates, is_good, is_main};
use crate::view::{self, ABSENT, Table};

/// A chart for the rounds at saturation, and one for each equal rate.
pub(super) fn latency(recording: &Recording) -> Markup {
    let main = curves(recording, |round, arm| is_main(round, arm, Probes::Off));
    let rates = equal_rates(recording);
    html! {
        @if main.is_empty() && rates.is_empty() {
            p { "Not measured: no good round without probes has a latency." }
        }
        @if !main.is_empty() {
            (chart(
                "Latency by percentile, every connection busy",
                &main,
                "From the first byte of a request written to the last byte of its response read, rounds without \
                 probes, all rounds of an arm added up in one histogram (percentiles are never averaged). The \
                 shaded band is the lowest and highest of its rounds. The line is thin where fewer than ten \
                 requests lie beyond it. With every connection busy latency follows from throughput: compare it \
                 at an equal rate.",
            ))
        }
        @for rate_rps in rates {
            @let title = format!("Latency by percentile, {} req/s asked of each", rounded(rate_rps));
            @let curves = curves(recording, |round, arm| {
                round.arm == arm && round.role == RoundRole::EqualRate { rate_rps }
            });
            (chart(
                &title,
                &curves,
                "From when a request was due, whether or not the client could send it then, to the last byte of its \
                 response read; otherwise as above.",
            ))
        }
    }
}

/// One curve, for a report of a load.
pub(super) fn of_load(name: String, latency: &LatencyHistogram) -> Option<Markup> {
    let curve = Curve::of(name, 0, &[latency])?;
    Some(chart(
        "Latency by percentile",
        &[curve],
        "Of ok requests. The line is thin where fewer than ten requests lie beyond it.",
    ))
}

/// The latency of an arm.
struct Curve {
    arm: String,
    index: usize,
    count: u64,
    /// Nines (1 is p90, 2 is p99) and latency, ns.
    points: Vec<(f64, f64)>,
    /// Nines, and the lowest and highest latency of the rounds, ns.
    envelope: Vec<(f64, f64, f64)>,
    /// The latencies of [`PERCENTILES`], ns, as far as single requests go.
    marked_ns: Vec<f64>,
}

fn curves(recording: &Recording, belongs: impl Fn(&Round, &str) -> bool) -> Vec<Curve> {
    let arms = recording.arms.iter().enumerate();
    arms.filter_map(|(index, arm)| {
        let rounds = recording.rounds.iter();
        let stored: Vec<&LatencyHistogram> = rounds
            .filter(|round| is_good(round) && belongs(round, &arm.name))
            .filter_map(|round| round.load.as_ref()?.latency.as_ref())
            .collect();
        Curve::of(view::name(&arm.name), index, &stored)
    })
    .collect()
}

impl Curve {
    fn of(arm: String, index: usize, stored: &[&LatencyHistogram]) -> Option<Self> {
        let rounds: Vec<Histogram<u64>> = stored
            .iter()
            .filter_map(|latency| latency.to_hdr().ok())
            .collect();
        let mut all = LatencyHistogram::recorder();
        for round in &rounds {
            all.add(round).ok()?;
        }
        let points = quantiles(&all);
        let each: Vec<Vec<(f64, f64)>> = rounds.iter().map(quantiles).collect();
        let envelope = if each.len() > 1 {
            envelope(&each)
        } else {
            Vec::new()
        };
        let reached = points.last()?.0;
        let marked = PERCENTILES.iter().filter(|(nines, _)| *nines <= reached);
        let marked_ns =
            marked.map(|(nines, _)| all.value_at_quantile(1.0 - 10.0_f64.powf(-nines)) as f64);
        Some(Self {
            arm,
            index,
            count: all.len(),
            marked_ns: marked_ns.collect(),
            points,
            envelope,
        })
    }

    /// Nines up to which ten requests or more lie beyond.
    fn supported(&self) -> f64 {
        (self.count as f64 / SUPPORT).max(1.0).log10()
    }
}

/// The latency at every tenth of a nine, as far as single requests go, in one pass.
fn quantiles(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let total = histogram.len() as f64;
    let steps = std::iter::successors(Some(0_u32), |step| Some(step + 1));
    let mut wanted = steps
        .map(|step| f64::from(step) / STEPS)
        .take_while(|nines| *nines <= total.max(1.0).log10().min(NINES))
        .peekable();
    let mut seen = 0.0;
    let mut points = Vec::new();
    for value in histogram.iter_recorded() {
        seen += value.count_at_value() as f64;
        while let Some(nines) =
            wanted.next_if(|nines| seen >= total * (1.0 - 10.0_f64.powf(-nines)))
        {
            points.push((nines, value.value_iterated_to() as f64));
        }
    }
    points
}

/// The lowest and highest of the rounds, as far as all of them go.
fn envelope(rounds: &[Vec<(f64, f64)>]) -> Vec<(f64, f64, f64)> {
    let shortest = rounds.iter().map(Vec::len).min().unwrap_or(0);
    (0..shortest)
        .map(|at| {
            let values = || rounds.iter().map(|points| points[at].1);
            let low = values().fold(f64::INFINITY, f64::min);
            (rounds[0][at].0, low, values().fold(0.0, f64::max))
        })
        .collect()
}

fn chart(title: &str, curves: &[Curve], how: &str) -> Markup {
    let names: Vec<(usize, &str)> = curves
        .iter()
        .map(|curve| (curve.index, curve.arm.as_str()))
        .collect();
    Chart {
        title,
        legend: html! { @if curves.len() > 1 { (legend(&names)) } },
        picture: picture(title, curves),
        data: data(curves),
        how,
    }
    .render()
}

fn picture(title: &str, curves: &[Curve]) -> Markup {
    let values = || {
        let bands = curves.iter().flat_map(|curve| &curve.envelope);
        let points = curves.iter().flat_map(|curve| &curve.points);
        points
            .map(|(_, ns)| *ns)
            .chain(bands.flat_map(|(_, low, high)| [*low, *high]))
    };
    let low = values().fold(f64::INFINITY, f64::min);
    let y = Axis::doubling(
        "latency, doubling",
        (low, values().fold(0.0, f64::max)),
        1e6,
        span,
    );
    let last = curves.iter().filter_map(|curve| curve.points.last());
    let nines = last.map(|(nines, _)| *nines).fold(1.0, f64::max);
    // The first one is too near to the second for a label.
    let labels = PERCENTILES.iter().skip(1).filter(|(at, _)| *at <= nines);
    let x = Axis::places(
        "percentile: each step is a tenth of the requests of the one before",
        labels
            .map(|(at, label)| (*at, (*label).to_owned()))
            .collect(),
        nines,
    );
    let axes = (&x, &y);
    let drawn = html! {
        @for curve in curves {
            @let class = arm_class(curve.index);
            path class={ "band " (class) } d=(band(axes, &curve.envelope)) {}
        }
        @for curve in curves {
            @let class = arm_class(curve.index);
            @let supported = curve.supported();
            @let firm = curve.points.iter().filter(|(at, _)| *at <= supported).count();
            path class={ "curve " (class) } d=(path(axes, &curve.points[..firm])) {}
            path class={ "curve unsupported " (class) }
                d=(path(axes, &curve.points[firm.saturating_sub(1)..])) {}
        }
    };
    plot(title, Height::Tall, axes, &drawn, &html! {})
}

fn data(curves: &[Curve]) -> Table {
    let mut header = vec!["percentile".to_owned()];
    header.extend(curves.iter().map(|curve| curve.arm.clone()));
    let rows = PERCENTILES.iter().enumerate().map(|(at, (nines, label))| {
        let mut row = vec![(*label).to_owned()];
        row.extend(curves.iter().map(|curve| match curve.marked_ns.get(at) {
            Some(ns) if *nines <= curve.supported() => span(*ns),
            Some(ns) => format!("({})", span(*ns)),
            None => ABSENT.to_owned(),
        }));
        row
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    let mut counts = vec!["requests".to_owned()];
    counts.extend(curves.iter().map(|curve| rounded(curve.count as f64)));
    rows.push(counts);
    rows.push(
        std::iter::once("in brackets".to_owned())
            .chain(
                curves
                    .iter()
                    .map(|_| format!("fewer than {SUPPORT} requests beyond")),
            )
            .collect(),
    );
    Table {
        header,
        rows,
        left: Vec::new(),
        optional: Vec::new(),
    }
}

/// Marks of the axis.
const PERCENTILES: [(f64, &str); 8] = [
    (0.0, "min"),
    (std::f64::consts::LOG10_2, "p50"),
    (1.0, "p90"),
    (2.0, "p99"),
    (3.0, "p99.9"),
    (4.0, "p99.99"),
    (5.0, "p99.999"),
    (6.0, "p99.9999"),
];
/// Points per nine.
const STEPS: f64 = 20.0;
/// No axis goes further.
const NINES: f64 = 6.0;
/// Requests beyond a percentile that support it.
const SUPPORT: f64 = 10.0;
