//! The difference between two profiles in the layout of `diff -u`: one hunk per family of calls.

use recording::{DiffFigures, FamilyDiff, StackTime, SyscallDiff};

use super::{lines, table};
use crate::figures::per_request;
use crate::layout::{Style, Tone, grid};
use crate::view::{diff as view, flame, name};

/// Renders a difference.
pub fn diff(diff: &SyscallDiff, style: &Style) -> String {
    let style = *style;
    let mut text = format!(
        "{}\n{}\n{}\n",
        style.paint(Tone::Strong, &format!("--- {}", view::side(diff, &diff.a))),
        style.paint(Tone::Strong, &format!("+++ {}", view::side(diff, &diff.b))),
        view::heading(diff)
    );
    let families: Vec<&FamilyDiff> = diff
        .families
        .iter()
        .filter(|family| view::told(family).next().is_some())
        .collect();
    let mut rows = Vec::new();
    // Rows of each hunk, behind which the next one begins.
    let mut hunks = Vec::new();
    for family in &families {
        hunks.push((rows.len(), hunk(diff, family)));
        for call in view::told(family) {
            let sides = [('-', call.a), ('+', call.b)];
            for (mark, figures) in sides {
                rows.extend(figures.map(|figures| {
                    row(
                        mark,
                        &name(&call.call),
                        view::cells(diff, &figures, call.waits),
                    )
                }));
            }
        }
    }
    hunks.push((rows.len(), "@@ all @@".to_owned()));
    rows.push(row('-', "all", view::total_cells(diff, &diff.a.total)));
    rows.push(row('+', "all", view::total_cells(diff, &diff.b.total)));
    text.push_str(&spliced(style, diff, rows, &hunks));
    for time in [StackTime::OnCpu, StackTime::OffCpu] {
        let functions = flame::difference_table(diff, time, FUNCTION_ROWS);
        if !functions.rows.is_empty() {
            text.push_str(&table(style, functions));
        }
    }
    text.push_str(&lines(style, &flame::difference_notes(diff)));
    text.push_str(&lines(style, &view::remarks(diff)));
    text
}

fn row(mark: char, call: &str, cells: Vec<String>) -> Vec<String> {
    let mut row = vec![format!("{mark}{call}")];
    row.extend(cells);
    row
}

/// The line above the calls of a family.
fn hunk(diff: &SyscallDiff, family: &FamilyDiff) -> String {
    let count = |figures: &DiffFigures| per_request(figures.count, diff.exact);
    format!(
        "@@ {}  {} -> {} @@",
        view::family(family.family),
        count(&family.a),
        count(&family.b)
    )
}

/// Rows in aligned columns, with the hunks between them.
fn spliced(
    style: Style,
    diff: &SyscallDiff,
    rows: Vec<Vec<String>>,
    hunks: &[(usize, String)],
) -> String {
    let columns = view::columns(diff).into_iter().map(str::to_owned);
    let header: Vec<String> = std::iter::once(" call".to_owned()).chain(columns).collect();
    let laid_out = grid(header, rows, &[]);
    // The grid begins every line with a space; marks stand in the first column.
    let mut laid_out = laid_out
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    let mut text = String::new();
    if let Some(header) = laid_out.next() {
        text.extend([header, "\n"]);
    }
    for (index, line) in laid_out.enumerate() {
        for (_, hunk) in hunks.iter().filter(|(at, _)| *at == index) {
            text.extend([&style.paint(Tone::Strong, hunk), "\n"]);
        }
        let tone = if line.starts_with('-') {
            Tone::Bad
        } else {
            Tone::Good
        };
        text.extend([&style.paint(tone, line), "\n"]);
    }
    text
}

/// Functions that are shown of each time; JSON has all.
const FUNCTION_ROWS: usize = 12;
