//! Flame graphs and tables of functions, of one server and of two.

use maud::{Markup, html};
use recording::{Recording, StackTime, SyscallDiff};

use super::element::{self, Chart};
use crate::flame::{
    CHANGES, CLASSES, Difference, Graph, Layout, Picture, Sampled, Time, deltas, graph, picture,
};
use crate::view::{self, flame as view_of};

/// Every server's flame graphs, and each server against the first one; `None` where nothing has stacks.
pub(super) fn of_recording(recording: &Recording) -> Option<Markup> {
    let arms = Sampled::all(recording);
    let first = arms.first()?;
    let others = arms.iter().skip(1);
    let differences: Vec<Difference> = others
        .filter_map(|arm| Difference::between(first, arm, None))
        .collect();
    Some(html! {
        @for arm in &arms { (of_arm(arm, arms.len() > 1)) }
        @for difference in &differences {
            (of_both(difference))
            (differences_table(difference))
        }
    })
}

/// The functions of two recordings against each other.
pub(super) fn of_diff(diff: &SyscallDiff, difference: &Difference) -> Markup {
    html! {
        (element::lines(&view_of::difference_notes(diff)))
        (element::table(ON_CPU, &view_of::difference_table(diff, StackTime::OnCpu, DIFF_ROWS)))
        (element::table(OFF_CPU, &view_of::difference_table(diff, StackTime::OffCpu, DIFF_ROWS)))
        (of_both(difference))
    }
}

fn differences_table(difference: &Difference) -> Markup {
    let found = difference.functions();
    let table = |time| {
        let per = difference.pictures[0].facts[0].per;
        view_of::function_differences(&found, per, time, DIFF_ROWS)
    };
    html! {
        (element::table(ON_CPU, &table(StackTime::OnCpu)))
        (element::table(OFF_CPU, &table(StackTime::OffCpu)))
    }
}

fn of_arm(arm: &Sampled<'_>, several: bool) -> Markup {
    let name = view::name(arm.arm);
    html! {
        @if several { h3 { (name) } }
        @for time in Time::ALL {
            @if let Some(facts) = arm.facts(time, arm.per()) {
                @let tree = arm.tree(time);
                (element::lines(&view_of::notes(&facts)))
                (chart(
                    &format!("Flame graph of {name}, {}", time.words()),
                    &legend(&CLASSES.map(|(kind, words)| (kind.class(), words))),
                    &graph(&name, &tree, &facts, Layout::Page),
                    view_of::frame_table(&tree, &facts),
                    how(time),
                ))
                (element::table(
                    &format!("Hottest functions of {name}, {}", time.words()),
                    &view_of::function_table(&tree, &facts, FUNCTION_ROWS),
                ))
            }
        }
        @let modules = view_of::modules(arm);
        @if !modules.rows.is_empty() {
            details {
                summary { "Where names of functions come from" span.for-readers { ": " (name) } }
                (element::table(&format!("Files of {name}"), &modules))
            }
        }
    }
}

fn of_both(difference: &Difference) -> Markup {
    let names = [0, 1].map(|side| view::name(&difference.arms[side]));
    html! {
        h3 { "Functions, from " (names[0]) " to " (names[1]) }
        @for both in &difference.pictures {
            @for side in [0, 1] { (of_side(difference, &names, both, side)) }
        }
    }
}

fn of_side(difference: &Difference, names: &[String; 2], both: &Picture, side: usize) -> Markup {
    let graph = deltas(names, both, side, Layout::Page);
    html! {
        (chart(
            &graph.label,
            &legend(&CHANGES.map(|(change, words)| (change.class(), words))),
            &graph,
            view::Table::default(),
            HOW_DIFFERENT,
        ))
        (element::lines(&view_of::gone(difference, both, side)))
    }
}

fn chart(title: &str, legend: &Markup, graph: &Graph, data: view::Table, how: &str) -> Markup {
    Chart {
        title,
        legend: legend.clone(),
        picture: html! {
            // It can be taller than the window, and is reached with the keyboard to be scrolled.
            div.scroll.flames tabindex="0" role="region" aria-label={ (title) ", frames" } {
                (picture(graph, 0))
            }
            // The script tells here what is picked.
            p.flame-told aria-live="polite" hidden {}
            @if let Some(cut) = &graph.cut { p.small { (cut) } }
        },
        data,
        how,
    }
    .render()
}

fn legend(entries: &[(&str, &str)]) -> Markup {
    html! {
        ul.legend {
            @for (class, words) in entries {
                li {
                    svg.swatch.flame-swatch aria-hidden="true" {
                        rect class=(class) width="100%" height="100%" {}
                    }
                    (words)
                }
            }
        }
    }
}

fn how(time: Time) -> &'static str {
    match time {
        Time::OnCpu => {
            "Threads were sampled while they ran; a frame is as wide as the time in its function and in what \
             that calls. From left to right is the alphabet, not time. What ± says follows from the number of \
             samples (score interval of a binomial share, 95%): a frame narrower than that may be chance."
        }
        Time::OffCpu => {
            "Each time that a thread left a CPU its stack was taken, with the time until it ran again: waits are \
             exact, and most are idleness where a server has little to do. From left to right is the alphabet, not \
             time."
        }
    }
}

const HOW_DIFFERENT: &str = "Both servers' stacks in one tree, without the names of threads; widths are one server's time, colours what the \
     other has more (+) or less (\u{2212}). A difference has a colour only where it is larger than what sampling leaves \
     open (95%, of either side together): one in twenty of those without a difference has one too. Functions that only \
     the other server has are missing from this picture and listed at the other one.";
const ON_CPU: &str = "Functions by difference, on the CPU";
const OFF_CPU: &str = "Functions by difference, off the CPU";
/// Functions in a table; the recording has all.
const FUNCTION_ROWS: usize = 30;
const DIFF_ROWS: usize = 40;
