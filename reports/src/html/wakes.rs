//! Events per wake of the event loops.

use std::collections::BTreeSet;

use maud::{Markup, html};
use recording::{Log2Histogram, Profile, Recording};

use super::axis::Axis;
use super::element::{Chart, arm_class, legend, portion};
use super::plot::{Height, plot};
use crate::figures::{grouped, per_request, percent, rate};
use crate::join::ArmFigures;
use crate::view::compare::range;
use crate::view::{self, Table, or_absent};

/// A chart per waiting call, arms beside each other.
pub(super) fn wakes(recording: &Recording, figures: &[ArmFigures]) -> Markup {
    let names: BTreeSet<&str> = figures
        .iter()
        .flat_map(|arm| &arm.waits)
        .filter(|wait| wait.wakes > 0)
        .map(|wait| wait.name.as_str())
        .collect();
    let of = |name: &str| -> Vec<Loop<'_>> {
        let arms = figures.iter().zip(&recording.arms).enumerate();
        arms.filter_map(|(index, (figures, arm))| {
            let wait = figures.waits.iter().find(|wait| wait.name == name)?;
            Some(Loop {
                arm: view::name(&arm.name),
                index,
                histogram: &wait.histogram,
                mean: wait.events_per_wake,
                per_request: Some(wait.wakes_per_request),
                empty: wait.timeouts,
            })
        })
        .collect()
    };
    html! {
        @if names.is_empty() {
            p { "Not measured: no good round with probes saw a wait for events." }
        }
        @for name in names { (chart(name, &of(name))) }
    }
}

/// The charts of a profile.
pub(super) fn of_profile(profile: &Profile) -> Markup {
    html! {
        @for wait in profile.waits.iter().filter(|wait| wait.wakes > 0) {
            (chart(&wait.name, &[Loop {
                arm: "the target".to_owned(),
                index: 0,
                histogram: &wait.events_per_wake,
                mean: Some(wait.events as f64 / wait.wakes as f64),
                per_request: None,
                empty: wait.timeouts,
            }]))
        }
    }
}

/// The waits of one arm in one call.
struct Loop<'a> {
    arm: String,
    /// Its place among the arms.
    index: usize,
    histogram: &'a Log2Histogram,
    /// Mean events of a wake.
    mean: Option<f64>,
    /// Wakes per request, where requests are known.
    per_request: Option<f64>,
    /// Returns without an event.
    empty: u64,
}

fn chart(name: &str, loops: &[Loop<'_>]) -> Markup {
    let title = format!("Events per wake of {}", view::name(name));
    let buckets = loops
        .iter()
        .map(|own| own.histogram.buckets().len())
        .max()
        .unwrap_or(0);
    let names: Vec<(usize, &str)> = loops
        .iter()
        .map(|own| (own.index, own.arm.as_str()))
        .collect();
    Chart {
        title: &title,
        legend: html! { @if loops.len() > 1 { (legend(&names)) } },
        picture: picture(&title, loops, buckets),
        data: data(loops, buckets),
        how: "Counted at the return of the call. A bar is the share of all events that came in wakes of this size (by \
              the middle of the step): weighted by events, since that is how most requests were met. How many events \
              come together depends on the load; a call that waits long is no slow call.",
    }
    .render()
}

/// Steps from one event on: a wake has at least one.
fn steps(buckets: usize) -> impl Iterator<Item = usize> {
    1..buckets
}

/// The share of the events that came in wakes of each step.
fn shares(histogram: &Log2Histogram, buckets: usize) -> Vec<f64> {
    let counts = histogram.buckets();
    let events: Vec<f64> = steps(buckets)
        .map(|step| {
            let low = Log2Histogram::bucket_low(step) as f64;
            let high = Log2Histogram::bucket_low(step + 1) as f64 - 1.0;
            counts.get(step).copied().unwrap_or(0) as f64 * f64::midpoint(low, high)
        })
        .collect();
    let all: f64 = events.iter().sum();
    let share = |events: f64| if all > 0.0 { events / all } else { 0.0 };
    events.into_iter().map(share).collect()
}

fn step_title(step: usize) -> String {
    range(
        Log2Histogram::bucket_low(step),
        Log2Histogram::bucket_low(step + 1),
    )
}

fn picture(title: &str, loops: &[Loop<'_>], buckets: usize) -> Markup {
    let places = steps(buckets).count() as f64;
    let labels = steps(buckets).enumerate();
    let x = Axis::places(
        "events per wake",
        labels
            .map(|(at, step)| (at as f64 + 0.5, step_title(step)))
            .collect(),
        places,
    );
    let shares: Vec<Vec<f64>> = loops
        .iter()
        .map(|own| shares(own.histogram, buckets))
        .collect();
    let most = shares.iter().flatten().copied().fold(0.0, f64::max);
    let y = Axis::linear("share of events", (0.0, most), percent);
    let width = 0.8 / loops.len().max(1) as f64;
    let marks = html! {
        @for (place, (own, shares)) in loops.iter().zip(&shares).enumerate() {
            @for (at, share) in shares.iter().enumerate() {
                @let left = at as f64 + 0.1 + place as f64 * width;
                @let top = 1.0 - y.at(*share);
                rect class={ "fill " (arm_class(own.index)) } x=(portion(x.at(left)))
                    width=(portion(width / places.max(1.0))) y=(portion(top)) height=(portion(1.0 - top)) {}
            }
        }
    };
    plot(title, Height::Tall, (&x, &y), &html! {}, &marks)
}

fn data(loops: &[Loop<'_>], buckets: usize) -> Table {
    let mut header = vec![String::new()];
    header.extend(loops.iter().map(|own| own.arm.clone()));
    let row = |title: String, cell: &dyn Fn(&Loop<'_>) -> String| {
        let mut row = vec![title];
        row.extend(loops.iter().map(cell));
        row
    };
    let mut rows: Vec<Vec<String>> = steps(buckets)
        .map(|step| {
            row(format!("wakes with {}", step_title(step)), &|own| {
                grouped(own.histogram.buckets().get(step).copied().unwrap_or(0))
            })
        })
        .collect();
    rows.push(row("wakes per request".to_owned(), &|own| {
        or_absent(own.per_request, |value| per_request(value, false))
    }));
    rows.push(row("mean events per wake".to_owned(), &|own| {
        or_absent(own.mean, rate)
    }));
    rows.push(row("returns without an event".to_owned(), &|own| {
        grouped(own.empty)
    }));
    Table {
        header,
        rows,
        left: Vec::new(),
        optional: Vec::new(),
    }
}
