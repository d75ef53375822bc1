//! The page of the difference between two profiles.

use maud::html;
use recording::SyscallDiff;

use super::element;
use super::page::{Page, Section};
use crate::view::{self, diff as view_of};

/// Renders a difference as one page that needs nothing else.
pub fn diff(diff: &SyscallDiff) -> String {
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
    Page::of_text("diff", title, sides.to_vec(), vec![calls])
}
