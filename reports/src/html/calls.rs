//! Calls per request, arm beside arm: what differs most in cost comes first.

use std::fmt::Write as _;

use maud::{Markup, html};
use recording::{CallRow, Detail, Profile, Recording};

use super::element::{self, arm_class, arms_legend, portion};
use crate::figures::{counted, grouped, micros, per_request, percent, span};
use crate::join::{ArmFigures, CallFigures};
use crate::layout::WRITES;
use crate::view::judgement::hidden_by_loss;
use crate::view::syscalls::{Extent, call_table, ranked, timed};
use crate::view::{self, Line, compare as view_of, profile as profile_view};

/// The bars, and the table of all calls.
pub(super) fn calls(recording: &Recording, figures: &[ArmFigures]) -> Markup {
    if hidden_by_loss(recording) {
        return html! { p { "Hidden: too many events were lost (gate G12)." } };
    }
    let extent = Extent {
        rows: usize::MAX,
        width: usize::MAX,
        rest: true,
    };
    let Some(table) = call_table(figures, extent) else {
        return html! { p { "Not measured: no good round with probes. Run as root (sudo)." } };
    };
    let mut notes: Vec<Line> = table
        .notes
        .into_iter()
        .map(|note| Line::new("note", note))
        .collect();
    notes.extend(view_of::waits(figures));
    html! {
        (arms_legend(recording))
        (bars(figures))
        details {
            summary { "All calls as a table" }
            p.small { (table.heading) }
            (element::table("Calls per request", &table.table))
        }
        (element::lines(&notes))
    }
}

fn bars(figures: &[ArmFigures]) -> Markup {
    let timed = timed(figures);
    let (rows, _) = ranked(figures, timed);
    let lengths = rows.iter().flat_map(|row| row.calls.iter().flatten());
    let longest = lengths
        .filter_map(|call| length(call, timed))
        .fold(0.0, f64::max);
    let hidden = rows.len().saturating_sub(ROWS);
    html! {
        p.small {
            @if timed {
                "Bars are microseconds inside the call per request, our probes included; text is number per request \
                 times microseconds of one. "
            } @else { "Bars are calls per request: they were counted, not timed. " }
            "Hatched: the share of calls that failed."
        }
        (hatch())
        dl.bars {
            @for row in rows.iter().take(ROWS) {
                dt { (view::name(row.name)) }
                dd {
                    @for (index, call) in row.calls.iter().enumerate() {
                        (bar(index, *call, timed, longest))
                    }
                }
            }
        }
        @if hidden > 0 { p.small { (counted(hidden, "call")) " more in the table" } }
    }
}

/// What a bar is as long as; nothing for time that is sleep.
fn length(call: &CallFigures, timed: bool) -> Option<f64> {
    if timed {
        call.ns_per_request.filter(|_| !call.waits)
    } else {
        Some(call.per_request)
    }
}

fn bar(index: usize, call: Option<&CallFigures>, timed: bool, longest: f64) -> Markup {
    let share = call
        .and_then(|call| length(call, timed))
        .filter(|_| longest > 0.0)
        .map_or(0.0, |length| length / longest);
    let failed = call.map_or(0.0, |call| failed_share(call.error_count, call.count));
    strip(index, share, failed, &amount(call, timed))
}

/// A bar over a share of the width, hatched where calls failed, with its amount.
fn strip(index: usize, share: f64, failed: f64, amount: &str) -> Markup {
    let hatched = share * failed;
    html! {
        div.bar {
            svg.strip aria-hidden="true" {
                rect class={ "fill " (arm_class(index)) } width=(portion(share)) height="100%" {}
                @if hatched > 0.0 {
                    rect.failed x=(portion(share - hatched)) width=(portion(hatched)) height="100%" {}
                }
            }
            span.amount { (amount) }
        }
    }
}

fn failed_share(errors: u64, count: u64) -> f64 {
    if count == 0 {
        0.0
    } else {
        (errors as f64 / count as f64).min(1.0)
    }
}

/// The pattern of failed calls, once per page.
fn hatch() -> Markup {
    html! {
        svg.for-readers aria-hidden="true" width="0" height="0" {
            defs {
                pattern #hatch width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    line.hatch x1="0" y1="0" x2="0" y2="4" {}
                }
            }
        }
    }
}

/// The calls of a profile as bars, by the time inside where it was measured.
pub(super) fn of_profile(profile: &Profile) -> Markup {
    let timed = profile.detail >= Detail::Times;
    let rows = profile_view::by_cost(profile);
    let length = |row: &CallRow| -> f64 {
        if timed {
            row.time.as_ref().map_or(0.0, |time| time.ns_total as f64)
        } else {
            row.count as f64
        }
    };
    let longest = rows.iter().map(|row| length(row)).fold(0.0, f64::max);
    let hidden = rows.len().saturating_sub(ROWS);
    html! {
        p.small {
            @if timed { "Time inside each call during the window; inside a call that waits for events it is sleep." }
            @else { "Calls during the window: they were counted, not timed." }
            " Hatched: the share of calls that failed."
        }
        (hatch())
        dl.bars {
            @for row in rows.iter().take(ROWS) {
                dt { (view::name(&row.label())) }
                dd {
                    @let share = if longest > 0.0 { length(row) / longest } else { 0.0 };
                    @let failed = failed_share(row.error_count(), row.count);
                    (strip(0, share, failed, &total(row, timed)))
                }
            }
        }
        @if hidden > 0 { p.small { (counted(hidden, "call")) " more in the table" } }
    }
}

/// `200,000 calls, 122ms`.
fn total(row: &CallRow, timed: bool) -> String {
    let mut text = grouped(row.count);
    if let Some(time) = row.time.as_ref().filter(|_| timed) {
        write!(text, ", {}", span(time.ns_total as f64)).expect(WRITES);
    }
    if row.error_count() > 0 {
        let share = failed_share(row.error_count(), row.count);
        write!(text, ", {} failed", percent(share)).expect(WRITES);
    }
    text
}

/// `2.000 × 2.27 µs`, with the errors where there are some.
fn amount(call: Option<&CallFigures>, timed: bool) -> String {
    let Some(call) = call.filter(|call| call.count > 0) else {
        return "none".to_owned();
    };
    let mut text = per_request(call.per_request, call.integer.is_some());
    if call.waits && timed {
        text.push_str(" waits");
    } else if let Some(ns) = call.ns_per_call.filter(|_| timed) {
        write!(text, " × {} µs", micros(ns)).expect(WRITES);
    }
    if call.error_count > 0 {
        let share = failed_share(call.error_count, call.count);
        write!(text, ", {} failed", percent(share)).expect(WRITES);
    }
    text
}

/// Calls with bars.
const ROWS: usize = 16;
