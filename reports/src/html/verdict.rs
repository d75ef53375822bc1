//! The verdict at the top of a page, the headline under it, and the gates.

use maud::{Markup, html};
use recording::{GateStatus, Recording, VerdictWord};

use super::element;
use crate::figures::percent;
use crate::join::ArmFigures;
use crate::verdict::{LEVEL, margin};
use crate::view::{self, compare as view_of, judgement};

/// What follows, how sure that is, and the controls of those who doubt it.
pub(super) fn verdict(recording: &Recording, figures: &[ArmFigures]) -> Markup {
    let mut lines: Vec<view::Line> = view::partial(recording).into_iter().collect();
    lines.extend(judgement::live_arms(recording));
    lines.extend(judgement::busy(recording));
    let refused = |gate: &&recording::Gate| gate.status == GateStatus::Refuse;
    let refusing = recording.gates.iter().filter(refused).count();
    html! {
        div class={ "verdict " (tone(recording)) } {
            p.word { (word(recording)) }
            @for line in judgement::verdict(recording) { p { (line.text) } }
        }
        @if refusing > 0 {
            p { a href="#gates" { "What refused, and what to change" } }
        }
        (element::lines(&lines))
        p { a href="#rounds" { "Leave rounds out, or change the margin" } ", and see what is left of it." }
        (element::table("Headline", &view_of::headline(recording, figures)))
    }
}

/// The form that the script brings to life.
pub(super) fn controls(recording: &Recording) -> Markup {
    let asked = recording.scenario.as_ref().map_or(0.0, |s| s.margin);
    html! {
        noscript { p { "With JavaScript rounds can be left out here, and the margin changed." } }
        form #controls hidden {
            p {
                "Untick rounds in the table below, or change the margin: the verdict is computed again, in \
                 this page, from what is left. Gates and limiter stay those of the whole run."
            }
            label {
                "Margin, percent "
                input #margin type="number" min="0" max="100" step="any" value=((asked * 1e6).round() / 1e4);
            }
            " "
            label {
                "Level "
                select #level {
                    @for level in LEVELS {
                        option value=(level) selected[level == LEVEL] { (percent(level)) }
                    }
                }
            }
            " "
            button #reset type="reset" { "As recorded" }
        }
        div #recomputed role="status" hidden {
            p.label { "Computed again" }
            p #recomputed-text {}
        }
        div #recomputed-table.scroll tabindex="0" role="region" aria-label="Ratios, computed again" hidden {}
        @if recording.verdict.is_some() {
            p.small {
                "Margin applied: " (percent(margin(recording)))
                ", the one that was asked for or the half-width of the A/A control, whichever is larger."
            }
        }
    }
}

/// The gates: a summary, then all of them.
pub(super) fn gates(recording: &Recording) -> Markup {
    let lines = judgement::gates(recording);
    html! {
        (element::lines(&lines))
        details open[recording.gates.iter().any(|gate| gate.status == GateStatus::Refuse)] {
            summary { "All gates, with their limits" }
            (element::table("Gates", &judgement::gate_table(recording)))
        }
    }
}

fn word(recording: &Recording) -> &'static str {
    match recording.verdict.as_ref().map(|verdict| verdict.word) {
        None => "no verdict",
        Some(VerdictWord::Equivalent) => "equivalent",
        Some(VerdictWord::Faster) => "faster",
        Some(VerdictWord::Immaterial) => "immaterial",
        Some(VerdictWord::Inconclusive) => "inconclusive",
        Some(VerdictWord::Mixed) => "mixed",
        Some(VerdictWord::NotComparable) => "not comparable",
    }
}

fn tone(recording: &Recording) -> &'static str {
    match recording.verdict.as_ref().map(|verdict| verdict.word) {
        Some(VerdictWord::Equivalent | VerdictWord::Faster | VerdictWord::Immaterial) => "good",
        None | Some(VerdictWord::Inconclusive | VerdictWord::Mixed) => "caution",
        Some(VerdictWord::NotComparable) => "bad",
    }
}

/// Levels that the page can compute intervals at.
pub(super) const LEVELS: [f64; 3] = [0.9, 0.95, LEVEL];
