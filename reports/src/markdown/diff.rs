//! The difference between two profiles in Markdown.

use recording::{StackTime, SyscallDiff};

use super::document::{Document, Priority};
use super::escape::escape;
use crate::view::{diff as view, flame};

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
    for time in [StackTime::OnCpu, StackTime::OffCpu] {
        let functions = flame::difference_table(diff, time, FUNCTION_ROWS);
        if !functions.rows.is_empty() {
            document.table(Priority::Tables, &functions);
        }
    }
    document.list(Priority::Caveats, &flame::difference_notes(diff));
    document.list(Priority::Caveats, &view::remarks(diff));
    document.render()
}

/// Functions that are shown of each time; JSON has all.
const FUNCTION_ROWS: usize = 40;
