//! Why: the waterfall from one arm's time per request to another's. Each cause is a row that opens to
//! its evidence, without a script too.

use maud::{Markup, html};
use recording::{Attribution, Bar, BarKind, Recording};

use super::element::{self, micros, portion};
use crate::figures::{counted, micros as bare, percent};
use crate::view::judgement::hidden_by_loss;
use crate::view::{self, Table, or_absent, why};

/// Every waterfall, the predictions and the findings.
pub(super) fn why(recording: &Recording) -> Markup {
    if hidden_by_loss(recording) {
        return html! { p { "Hidden: too many events were lost (gate G12)." } };
    }
    html! {
        @if recording.attributions.is_empty() {
            p { "Nothing can be explained: a gate refused, or no pair of good rounds has both throughput and \
                 CPU time." }
        }
        @for attribution in &recording.attributions { (waterfall(attribution)) }
        (element::lines(&why::predictions(recording)))
        @if !recording.findings.is_empty() {
            (element::table("Findings", &why::finding_table(recording)))
        }
    }
}

fn waterfall(attribution: &Attribution) -> Markup {
    let bars = ordered(attribution);
    let scale = Scale::of(attribution, &bars);
    let steps = steps(attribution.a_ns, &bars);
    let longest = bars
        .iter()
        .filter_map(|bar| bar.delta_ns)
        .fold(0.0, |most: f64, ns| most.max(ns.abs()));
    let is_last = |step: &Step<'_>| step.bar.kind == BarKind::Unexplained;
    let is_large = |step: &Step<'_>| step.delta_ns().abs() >= SMALL * longest;
    let (last, steps): (Vec<Step<'_>>, Vec<Step<'_>>) = steps.into_iter().partition(is_last);
    let (large, small): (Vec<Step<'_>>, Vec<Step<'_>>) = steps.into_iter().partition(is_large);
    let heading = why::heading(attribution);
    let counted: Vec<&Bar> = attribution
        .bars
        .iter()
        .filter(|bar| bar.delta_ns.is_none())
        .collect();
    html! {
        h3 { (heading) }
        p.small {
            "Time per request, CPUs and idle time included. Orange adds time, blue takes it away; whiskers are "
            (percent(attribution.level)) " intervals; hatched bars cannot be told from nothing. Each cause opens \
            to its evidence."
        }
        div.waterfall {
            (end(&attribution.a, attribution.a_ns, &scale))
            @for step in &large { (row(step, &scale, attribution)) }
            @if !small.is_empty() { (others(&small, &scale, attribution)) }
            @for step in &last { (row(step, &scale, attribution)) }
            (end(&attribution.b, attribution.b_ns, &scale))
        }
        @if !counted.is_empty() {
            h4 { "Counted, not timed" }
            @for bar in counted {
                details.evidence { summary { (view::sentence(&bar.title)) } (evidence(bar, attribution)) }
            }
        }
        (element::lines(&why::notes(attribution)))
    }
}

/// A bar with where it begins.
struct Step<'a> {
    bar: &'a Bar,
    from_ns: f64,
}

impl Step<'_> {
    fn delta_ns(&self) -> f64 {
        self.bar.delta_ns.unwrap_or(0.0)
    }
}

/// Each bar begins at the end of the one before.
fn steps<'a>(start_ns: f64, bars: &[&'a Bar]) -> Vec<Step<'a>> {
    let steps = bars.iter().scan(start_ns, |at, bar| {
        let from_ns = *at;
        *at += bar.delta_ns.unwrap_or(0.0);
        Some(Step { bar, from_ns })
    });
    steps.collect()
}

/// Bars with a length, largest first, the unexplained last.
fn ordered(attribution: &Attribution) -> Vec<&Bar> {
    let mut bars: Vec<&Bar> = attribution
        .bars
        .iter()
        .filter(|bar| bar.delta_ns.is_some())
        .collect();
    bars.sort_by_key(|bar| bar.kind == BarKind::Unexplained);
    bars
}

/// What fits into the width: from nothing to the farthest end of a bar or whisker.
struct Scale {
    low_ns: f64,
    high_ns: f64,
}

impl Scale {
    fn of(attribution: &Attribution, bars: &[&Bar]) -> Self {
        let (mut low_ns, mut high_ns) = (0.0_f64, attribution.a_ns.max(attribution.b_ns));
        for Step { bar, from_ns } in steps(attribution.a_ns, bars) {
            let ends = bar
                .interval_ns
                .into_iter()
                .flat_map(|(low, high)| [low, high]);
            for end in ends.chain(bar.delta_ns) {
                low_ns = low_ns.min(from_ns + end);
                high_ns = high_ns.max(from_ns + end);
            }
        }
        Self {
            low_ns,
            high_ns: if high_ns > low_ns {
                high_ns
            } else {
                low_ns + 1.0
            },
        }
    }

    fn at(&self, ns: f64) -> String {
        portion((ns - self.low_ns) / (self.high_ns - self.low_ns))
    }

    fn width(&self, ns: f64) -> String {
        portion(ns.abs() / (self.high_ns - self.low_ns))
    }
}

/// The whole time per request of an arm.
fn end(arm: &str, ns: f64, scale: &Scale) -> Markup {
    html! {
        div.step.total {
            span.cause { (view::name(arm)) }
            svg.strip aria-hidden="true" {
                rect.total x=(scale.at(0.0)) width=(scale.width(ns)) y="15%" height="70%" {}
            }
            span.amount { (micros(ns)) }
            span.share {}
        }
    }
}

fn row(step: &Step<'_>, scale: &Scale, attribution: &Attribution) -> Markup {
    let bar = step.bar;
    let delta_ns = step.delta_ns();
    let faint = bar.distinguishable == Some(false);
    html! {
        details.evidence {
            summary.step {
                span.cause { (view::sentence(&bar.title)) }
                svg.strip aria-hidden="true" {
                    (drawn(step.from_ns, delta_ns, faint, scale))
                    @if let Some((low, high)) = bar.interval_ns {
                        line.whisker x1=(scale.at(step.from_ns + low)) x2=(scale.at(step.from_ns + high))
                            y1="50%" y2="50%" {}
                        @for end in [low, high] {
                            line.whisker x1=(scale.at(step.from_ns + end)) x2=(scale.at(step.from_ns + end))
                                y1="35%" y2="65%" {}
                        }
                    }
                }
                span.amount { (why::signed(delta_ns)) " µs" }
                span.share { (bar.log_share.map_or_else(String::new, why::points)) }
            }
            (evidence(bar, attribution))
        }
    }
}

/// Small causes as one step, which opens to all of them.
fn others(steps: &[Step<'_>], scale: &Scale, attribution: &Attribution) -> Markup {
    let delta_ns = steps.iter().map(Step::delta_ns).sum();
    let from_ns = steps.first().map_or(0.0, |step| step.from_ns);
    html! {
        details {
            summary.step.sum {
                span.cause { (counted(steps.len(), "smaller cause")) }
                svg.strip aria-hidden="true" { (drawn(from_ns, delta_ns, false, scale)) }
                span.amount { (why::signed(delta_ns)) " µs" }
                span.share {}
            }
            @for step in steps { (row(step, scale, attribution)) }
        }
    }
}

/// A bar between the lines that lead to it and on from it.
fn drawn(from_ns: f64, delta_ns: f64, faint: bool, scale: &Scale) -> Markup {
    let to_ns = from_ns + delta_ns;
    let class = if delta_ns < 0.0 { "less" } else { "more" };
    html! {
        line.level x1=(scale.at(from_ns)) x2=(scale.at(from_ns)) y1="0" y2="50%" {}
        line.level x1=(scale.at(to_ns)) x2=(scale.at(to_ns)) y1="50%" y2="100%" {}
        rect class={ (class) @if faint { " faint" } } x=(scale.at(from_ns.min(to_ns))) width=(scale.width(delta_ns))
            y="15%" height="70%" {}
    }
}

/// The figures behind a bar, arm beside arm.
fn evidence(bar: &Bar, attribution: &Attribution) -> Markup {
    let found = &bar.evidence;
    let us = |ns: Option<f64>| or_absent(ns, bare);
    let number = |value: Option<f64>| or_absent(value, |v| crate::figures::per_request(v, false));
    let share = |value: Option<f64>| or_absent(value, why::share);
    let timed = match bar.kind {
        BarKind::SyscallCount | BarKind::SyscallUnit => "calls per request",
        BarKind::Faults => "page faults per request",
        BarKind::Cpus => "CPUs",
        _ => "number",
    };
    let rows = [
        (
            timed,
            found.n_a.or(found.n_b),
            number(found.n_a),
            number(found.n_b),
        ),
        (
            "µs of one",
            found.t_a_ns.or(found.t_b_ns),
            us(found.t_a_ns),
            us(found.t_b_ns),
        ),
        (
            "CPU µs per request",
            found.demand_a_ns.or(found.demand_b_ns),
            us(found.demand_a_ns),
            us(found.demand_b_ns),
        ),
        (
            "share of the CPUs' time",
            found.idle_a.or(found.idle_b),
            share(found.idle_a),
            share(found.idle_b),
        ),
    ];
    let table = Table {
        header: vec![
            String::new(),
            view::name(&attribution.a),
            view::name(&attribution.b),
        ],
        rows: rows
            .into_iter()
            .filter(|(_, measured, ..)| measured.is_some())
            .map(|(what, _, a, b)| vec![what.to_owned(), a, b])
            .collect(),
        left: Vec::new(),
        optional: Vec::new(),
    };
    let interval = |bounds: Option<(f64, f64)>| {
        or_absent(bounds, |(low, high)| {
            format!("[{}, {}] µs", why::signed(low), why::signed(high))
        })
    };
    html! {
        div.behind {
            (element::table(&format!("Evidence: {}", view::sentence(&bar.title)), &table))
            @if !found.calls.is_empty() {
                p { "Calls: " (view::sentence(&found.calls.join(", "))) }
            }
            p.small {
                "Interval " (interval(bar.interval_ns))
                "; of CPU time " (interval(bar.demand_interval_ns))
                "; share of the log ratio " (or_absent(bar.log_share, why::points))
                "; p adjusted for all bars " (or_absent(bar.p_adjusted, |p| format!("{p:.4}")))
            }
        }
    }
}

/// Share of the longest bar below which one is put together with others.
const SMALL: f64 = 0.02;
