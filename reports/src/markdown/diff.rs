//! The difference between two profiles in Markdown.

use recording::SyscallDiff;

use super::document::{Document, Priority};
use super::escape::escape;
use crate::view::diff as view;

/// Renders a difference.
pub fn diff(diff: &SyscallDiff) -> String {
    let mut document = Document::default();
    let title = format!(
        "### system calls per {}: {} against {}",
        crate::diff::word(diff.per),
        escape(&crate::view::name(&diff.a.arm)),
        escape(&crate::view::name(&diff.b.arm))
    );
    document.text(&title);
    let sides = [('-', &diff.a), ('+', &diff.b)]
        .map(|(mark, side)| format!("`{mark}` {}", escape(&view::side(diff, side))));
    document.text(&sides.join("  \n"));
    document.text(&escape(&view::heading(diff)));
    document.table(Priority::Tables, &view::table(diff));
    document.list(Priority::Caveats, &view::remarks(diff));
    document.render()
}
