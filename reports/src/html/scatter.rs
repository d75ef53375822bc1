//! Every round as a point: throughput by pair, and the ratio of each pair with what it is judged by.

use maud::{Markup, html};
use recording::{Comparison, Probes, Recording, Round, RoundRole};

use super::axis::{Axis, plain};
use super::element::{Chart, arm_class, arms_legend, portion};
use super::plot::{Height, path, plot};
use crate::figures::{interval, rate, ratio};
use crate::gates::half_width;
use crate::metrics::{AA_THROUGHPUT, Metric, is_good, is_main, paired_copies};
use crate::verdict::margin;
use crate::view::{self, Table, or_absent};

/// The scatter of rounds, and one of the ratios for every arm against the first.
pub(super) fn scatter(recording: &Recording) -> Markup {
    let points = points(recording);
    html! {
        @if points.is_empty() {
            p { "Not measured: no round without probes has a throughput." }
        } @else {
            (throughput(recording, &points))
            @for other in recording.arms.iter().skip(1) {
                (ratios(recording, &points, &recording.arms[0].name, &other.name))
            }
        }
    }
}

/// The throughput of one round.
struct Point<'a> {
    round: &'a Round,
    arm: usize,
    copy: bool,
    rps: f64,
}

/// Main rounds without probes, and those of the copy.
fn points(recording: &Recording) -> Vec<Point<'_>> {
    let of = |round| {
        let arm = recording
            .arms
            .iter()
            .position(|arm| is_main(round, &arm.name, Probes::Off));
        let copy = round.role == RoundRole::Aa;
        Some(Point {
            round,
            arm: arm.or(copy.then_some(0))?,
            copy,
            rps: Metric::Throughput.of(round)?,
        })
    };
    recording.rounds.iter().filter_map(of).collect()
}

/// One place per pair.
fn pairs_axis(points: &[Point<'_>]) -> Axis {
    let last = points
        .iter()
        .map(|point| point.round.pair)
        .max()
        .unwrap_or(0);
    let step = last / PAIR_LABELS + 1;
    let labels = (0..=last).filter(|pair| pair % step == 0);
    Axis::places(
        "pair of rounds",
        labels
            .map(|pair| (place(pair), (pair + 1).to_string()))
            .collect(),
        f64::from(last) + 1.0,
    )
}

fn place(pair: u32) -> f64 {
    f64::from(pair) + 0.5
}

fn throughput(recording: &Recording, points: &[Point<'_>]) -> Markup {
    let x = pairs_axis(points);
    let speeds = || points.iter().map(|point| point.rps);
    let low = speeds().fold(f64::INFINITY, f64::min);
    let y = Axis::linear(
        "requests per second",
        (low, speeds().fold(0.0, f64::max)),
        plain,
    );
    let axes = (&x, &y);
    let marks = html! {
        @for point in points {
            @let name = view::name(&point.round.arm);
            @let used = if is_good(point.round) { "" } else { " unused" };
            @let copy = if point.copy { " copy" } else { "" };
            circle class={ "point " (arm_class(point.arm)) (used) (copy) } data-round=(point.round.order)
                cx=(portion(x.at(place(point.round.pair)))) cy=(portion(1.0 - y.at(point.rps))) r="4.5" {
                title {
                    (name) @if point.copy { " (copy)" } ", pair " (point.round.pair + 1) ": " (rate(point.rps)) " req/s"
                }
            }
        }
    };
    let curves = html! {
        @for arm in 0..recording.arms.len() {
            @let own = points.iter().filter(|point| point.arm == arm && !point.copy && is_good(point.round));
            @let line: Vec<(f64, f64)> = own.map(|point| (place(point.round.pair), point.rps)).collect();
            path class={ "curve thin " (arm_class(arm)) } d=(path(axes, &line)) {}
        }
    };
    Chart {
        title: "Throughput of every round",
        legend: arms_legend(recording),
        picture: plot("Throughput of every round", Height::Tall, axes, &curves, &marks),
        data: Table::default(),
        how: "Ok responses per second of the measured window, rounds without probes; each point is one start of a \
              server. Hollow: the copy of the first arm that serves as control. Crossed out: failed or left out. \
              The axis does not begin at nothing. All figures are in the table of rounds.",
    }
    .render()
}

fn ratios(recording: &Recording, points: &[Point<'_>], a: &str, b: &str) -> Markup {
    let good = |arm: &str, pair: u32| {
        let mut own = points
            .iter()
            .filter(|p| !p.copy && p.round.arm == arm && is_good(p.round));
        own.find(|point| point.round.pair == pair)
    };
    let of_pairs: Vec<(u32, [u32; 2], f64)> = points
        .iter()
        .filter(|point| !point.copy && point.round.arm == a)
        .filter_map(|point| {
            let pair = point.round.pair;
            let (first, second) = (good(a, pair)?, good(b, pair)?);
            let orders = [first.round.order, second.round.order];
            (second.rps > 0.0).then(|| (pair, orders, first.rps / second.rps))
        })
        .collect();
    if of_pairs.is_empty() {
        return html! {};
    }
    let judged = recording
        .comparisons
        .iter()
        .find(|row| row.metric == Metric::Throughput.name() && row.a == a && row.b == b);
    let control = recording
        .comparisons
        .iter()
        .find(|row| row.metric == AA_THROUGHPUT);
    let names = (view::name(a), view::name(b));
    let title = format!("Throughput of {} over {}, pair by pair", names.0, names.1);
    Chart {
        title: &title,
        legend: bands_legend(control.is_some()),
        picture: ratio_plot(recording, points, &of_pairs, judged, control, &title),
        data: ratio_table(recording, &of_pairs, judged, control),
        how: "Each point is one pair of rounds next to each other, so that what drifts on the machine meets both. \
              Above the middle line the first arm is faster. The verdict comes from where the 99% interval lies \
              against the margin; the band of the control is what two copies of one server differ by.",
    }
    .render()
}

fn bands_legend(controlled: bool) -> Markup {
    html! {
        ul.legend {
            li { (super::element::swatch("interval")) "99% interval of the ratio" }
            li { (super::element::swatch("margin")) "margin: not material" }
            @if controlled {
                li { (super::element::swatch("control")) "A/A control: two copies of the first arm" }
            } @else {
                li { "no A/A control in this run" }
            }
        }
    }
}

fn ratio_plot(
    recording: &Recording,
    points: &[Point<'_>],
    pairs: &[(u32, [u32; 2], f64)],
    judged: Option<&Comparison>,
    control: Option<&Comparison>,
    title: &str,
) -> Markup {
    let margin = margin(recording);
    let bounds = |row: Option<&Comparison>| row.and_then(|row| row.interval);
    let within = (1.0 / (1.0 + margin), 1.0 + margin);
    let covered = || {
        let intervals = [bounds(judged), bounds(control), Some(within)]
            .into_iter()
            .flatten();
        let ends = intervals.flat_map(|(low, high)| [low, high]);
        ends.chain(pairs.iter().map(|(.., ratio)| *ratio))
    };
    let x = pairs_axis(points);
    let low = covered().fold(f64::INFINITY, f64::min);
    let y = Axis::linear("ratio", (low, covered().fold(0.0, f64::max)), |v| {
        format!("{v:.2}")
    });
    let band = |class: &str, (low, high): (f64, f64)| {
        let top = 1.0 - y.at(high);
        html! {
            rect class={ "zone " (class) } x="0" width="100%" y=(portion(top))
                height=(portion(1.0 - y.at(low) - top)) {}
        }
    };
    let middle = portion(1.0 - y.at(1.0));
    let marks = html! {
        (band("margin", within))
        @if let Some(bounds) = bounds(control) { (band("control", bounds)) }
        @if let Some(bounds) = bounds(judged) { (band("interval", bounds)) }
        line.unity x1="0" x2="100%" y1=(middle) y2=(middle) {}
        @if let Some(row) = judged {
            @let at = portion(1.0 - y.at(row.ratio));
            line.mean x1="0" x2="100%" y1=(at) y2=(at) {}
        }
        @for (pair, rounds, value) in pairs {
            circle.point.ratio data-round=(rounds[0]) data-other-round=(rounds[1])
                cx=(portion(x.at(place(*pair)))) cy=(portion(1.0 - y.at(*value))) r="4.5" {
                title { "pair " (pair + 1) ": " (ratio(*value)) }
            }
        }
    };
    plot(title, Height::Tall, (&x, &y), &html! {}, &marks)
}

fn ratio_table(
    recording: &Recording,
    pairs: &[(u32, [u32; 2], f64)],
    judged: Option<&Comparison>,
    control: Option<&Comparison>,
) -> Table {
    let mut rows: Vec<Vec<String>> = pairs
        .iter()
        .map(|(pair, _, value)| vec![format!("pair {}", pair + 1), ratio(*value), String::new()])
        .collect();
    let row = |title: &str, found: Option<&Comparison>| {
        vec![
            title.to_owned(),
            or_absent(found, |row| ratio(row.ratio)),
            interval(found.and_then(|row| row.interval)),
        ]
    };
    rows.push(row("all pairs", judged));
    if let Some(row) = judged {
        rows.extend(row.others.iter().map(|other| {
            vec![
                format!("by {}", view::name(&other.method)),
                ratio(other.ratio),
                interval(other.interval),
            ]
        }));
    }
    if control.is_some() {
        rows.push(row("A/A control", control));
        let (own, copy) = paired_copies(recording);
        let each = own.iter().zip(&copy).enumerate();
        rows.extend(each.map(|(index, (own, copy))| {
            let title = format!("A/A, copy {}", index + 1);
            vec![title, ratio(own / copy), String::new()]
        }));
        let half = control.and_then(|row| row.interval).map(half_width);
        rows.push(vec![
            "half-width of the control".to_owned(),
            or_absent(half, crate::figures::percent),
            String::new(),
        ]);
    }
    Table {
        header: ["", "ratio", "99% CI"].map(str::to_owned).to_vec(),
        rows,
        left: Vec::new(),
        optional: Vec::new(),
    }
}

/// Labels of pairs, about.
const PAIR_LABELS: u32 = 12;
