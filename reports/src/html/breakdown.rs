//! Where the CPU time of a request went, and why CPUs were idle: arms on one scale.

use maud::{Markup, html};
use recording::{IdleCause, Recording};

use super::axis::Axis;
use super::element::{Chart, micros, portion, swatch};
use crate::attribution::{ArmDemand, of_arm};
use crate::figures::{micros as bare, percent};
use crate::view::{self, Table, or_absent};

/// Both charts.
pub(super) fn breakdown(recording: &Recording) -> Markup {
    let arms: Vec<(String, ArmDemand)> = recording
        .arms
        .iter()
        .filter_map(|arm| Some((view::name(&arm.name), of_arm(recording, &arm.name)?)))
        .collect();
    html! {
        @if arms.is_empty() {
            p { "Not measured: CPU time of the servers could not be read." }
        } @else {
            (demand(&arms))
            (idle(&arms))
        }
    }
}

fn demand(arms: &[(String, ArmDemand)]) -> Markup {
    let terms = columns(arms, |demand| &demand.titled);
    let longest = arms
        .iter()
        .map(|(_, demand)| demand.titled.values().filter(|ns| **ns > 0.0).sum::<f64>())
        .fold(0.0, f64::max);
    let size = |term: &str| -> f64 {
        let values = arms
            .iter()
            .filter_map(|(_, demand)| demand.titled.get(term));
        values.fold(0.0, |most: f64, ns| most.max(*ns))
    };
    let large = terms
        .iter()
        .take_while(|term| size(term) >= SMALL_TERM * longest)
        .count();
    let (own, others) = terms.split_at(large.min(PART_COLOURS - 1));
    let scale = Axis::linear("", (0.0, longest / 1e3), |_| String::new());
    let stacks: Vec<Stack<'_>> = arms
        .iter()
        .map(|(arm, demand)| Stack {
            arm,
            parts: std::iter::empty()
                .chain(own.iter().map(|term| ns_of(demand, term).max(0.0)))
                .chain([others.iter().map(|term| ns_of(demand, term).max(0.0)).sum()])
                .map(|ns| (scale.at(ns / 1e3), micros(ns)))
                .collect(),
            amount: micros(demand.demand_ns),
        })
        .collect();
    let mut titles = own.to_vec();
    titles.push("everything else");
    Chart {
        title: "CPU time per request",
        legend: legend(&titles),
        picture: picture("CPU time per request", &stacks, &titles),
        data: table(arms, &terms, &terms, |demand, term| {
            or_absent(demand.titled.get(term), |ns| bare(*ns))
        }),
        how: "CPU time of the server's processes per request from rounds without probes; what it is made of from \
              rounds with probes, their calibrated cost taken out. Terms below nothing (an effect of probes that saves \
              time) have no length here and stand in the data. Microseconds, not percent: an arm that needs less \
              is shorter.",
    }
    .render()
}

fn idle(arms: &[(String, ArmDemand)]) -> Markup {
    let mut labels = columns(arms, |demand| &demand.idle);
    labels.retain(|label| {
        let shares = arms.iter().filter_map(|(_, demand)| demand.idle.get(label));
        shares.fold(0.0, |most: f64, share| most.max(share.abs())) >= SMALL
    });
    let busy = |demand: &ArmDemand| demand.demand_ns / (demand.cpus * demand.request_ns);
    let stacks: Vec<Stack<'_>> = arms
        .iter()
        .map(|(arm, demand)| {
            let shares = labels
                .iter()
                .map(|label| demand.idle.get(label).copied().unwrap_or(0.0));
            let parts = std::iter::once(busy(demand)).chain(shares);
            Stack {
                arm,
                parts: parts
                    .map(|share| (share.clamp(0.0, 1.0), percent(share)))
                    .collect(),
                amount: format!("{} used", percent(busy(demand))),
            }
        })
        .collect();
    let mut titles = vec!["used by the server"];
    titles.extend(labels.iter().map(|label| idle_title(label)));
    let mut data = table(arms, &labels, &titles[1..], |demand, label| {
        or_absent(demand.idle.get(label), |share| percent(*share))
    });
    let mut used = vec!["used by the server".to_owned()];
    used.extend(arms.iter().map(|(_, demand)| percent(busy(demand))));
    data.rows.insert(0, used);
    Chart {
        title: "The server's CPUs",
        legend: legend(&titles),
        picture: picture("The server's CPUs", &stacks, &titles),
        data,
        how: "Shares of the time of the CPUs that the server may use, in rounds without probes; why they were idle from \
              rounds with probes at detail sched. Waiting for requests is no fault of a server: it had nothing to do.",
    }
    .render()
}

fn ns_of(demand: &ArmDemand, term: &str) -> f64 {
    demand.titled.get(term).copied().unwrap_or(0.0)
}

/// One arm: the length of each part as a share of the width, with its amount.
struct Stack<'a> {
    arm: &'a str,
    parts: Vec<(f64, String)>,
    amount: String,
}

/// Every identifier that some arm has, largest first.
fn columns(
    arms: &[(String, ArmDemand)],
    of: fn(&ArmDemand) -> &std::collections::BTreeMap<&'static str, f64>,
) -> Vec<&'static str> {
    let all = arms.iter().flat_map(|(_, demand)| of(demand).keys());
    let mut names: Vec<&'static str> = all.copied().collect();
    names.sort_unstable();
    names.dedup();
    let size = |name: &str| -> f64 {
        let values = arms.iter().filter_map(|(_, demand)| of(demand).get(name));
        values.fold(0.0, |most: f64, value| most.max(*value))
    };
    names.sort_by(|x, y| size(y).total_cmp(&size(x)));
    names
}

fn idle_title(label: &str) -> &'static str {
    let causes = [
        IdleCause::Throttled,
        IdleCause::RunnableElsewhere,
        IdleCause::Blocked,
        IdleCause::Parked,
        IdleCause::Waiting,
        IdleCause::NoneAsleep,
        IdleCause::OtherTasks,
        IdleCause::Interrupts,
        IdleCause::Unlabelled,
    ];
    let found = causes.into_iter().find(|cause| cause.cause() == label);
    found.map_or("other", IdleCause::title)
}

fn legend(titles: &[&str]) -> Markup {
    html! {
        ul.legend {
            @for (index, title) in titles.iter().enumerate() { li { (swatch(&part_class(index))) (title) } }
        }
    }
}

fn picture(label: &str, stacks: &[Stack<'_>], titles: &[&str]) -> Markup {
    html! {
        dl.bars.stacked {
            @for stack in stacks {
                dt { (stack.arm) }
                dd {
                    div.bar {
                        svg.strip role="img" aria-label={ (label) ", " (stack.arm) ": " (stack.amount) } {
                            @for (index, (from, length, amount)) in placed(stack).into_iter().enumerate() {
                                @let class = part_class(index);
                                rect class={ "fill " (class) } x=(portion(from)) width=(portion(length)) height="100%" {
                                    title { (titles[index]) ": " (amount) }
                                }
                            }
                        }
                        span.amount { (stack.amount) }
                    }
                }
            }
        }
    }
}

/// Parts with where they begin.
fn placed<'a>(stack: &'a Stack<'_>) -> Vec<(f64, f64, &'a str)> {
    let mut from = 0.0;
    let mut placed = Vec::new();
    for (length, amount) in &stack.parts {
        placed.push((from, *length, amount.as_str()));
        from += length;
    }
    placed
}

fn table(
    arms: &[(String, ArmDemand)],
    names: &[&'static str],
    titles: &[&str],
    cell: impl Fn(&ArmDemand, &'static str) -> String,
) -> Table {
    let mut header = vec![String::new()];
    header.extend(arms.iter().map(|(arm, _)| arm.clone()));
    let rows = names.iter().zip(titles).map(|(name, title)| {
        let mut row = vec![(*title).to_owned()];
        row.extend(arms.iter().map(|(_, demand)| cell(demand, name)));
        row
    });
    Table {
        header,
        rows: rows.collect(),
        left: Vec::new(),
        optional: Vec::new(),
    }
}

fn part_class(index: usize) -> String {
    format!("part{}", index % PART_COLOURS)
}

/// Colours of parts; parts beyond begin again.
const PART_COLOURS: usize = 10;
/// Share of the CPU time per request below which a term has no colour of its own.
const SMALL_TERM: f64 = 0.01;
/// Share of the CPUs below which a cause of idle time is not shown.
const SMALL: f64 = 0.0005;
