//! The page of the difference between two profiles.

use maud::html;
use recording::SyscallDiff;

use super::page::{Page, Section};
use super::{element, flame};
use crate::flame::Difference;
use crate::view::{self, diff as view_of};

/// Renders a difference as one page that needs nothing else, with flame graphs where both sides have stacks.
pub fn diff(diff: &SyscallDiff, stacks: Option<&Difference>) -> String {
    let (a, b) = (view::name(&diff.a.arm), view::name(&diff.b.arm));
    let sides = [('-', &diff.a), ('+', &diff.b)]
        .map(|(mark, side)| format!("{mark} {}", view_of::side(diff, side)));
    let calls = Section {
        id: "calls",
        title: "System calls",
        body: html! {
            p { (view_of::heading(diff)) }
            (element::table("System calls", &view_of::table(diff)))
            (element::lines(&view_of::remarks(diff)))
        },
    };
    let title = format!("{a} against {b}");
    let stacks = stacks.filter(|_| !diff.functions.is_empty());
    let functions = stacks.map(|difference| Section {
        id: "functions",
        title: "Functions",
        body: flame::of_diff(diff, difference),
    });
    let sections = [calls].into_iter().chain(functions).collect();
    Page::of_text("diff", title, sides.to_vec(), sections)
}
