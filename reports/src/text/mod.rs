//! Reports for a terminal: understandable without colour, and in 110 columns where names allow it.

mod autopsy;
mod budget;
mod compare;
mod diff;
mod load;
mod profile;
mod strace;

pub use autopsy::autopsy;
pub use budget::budget;
pub use compare::compare;
pub use diff::diff;
pub use load::load;
pub use profile::profile;

use std::fmt::Write as _;

use crate::clean::clean;
use crate::layout::{Footer, Style, Tone, WRITES, grid, wrap};
use crate::view::{Line, Table};

/// Labelled lines, each with its tone on the label.
fn lines(style: Style, lines: &[Line]) -> String {
    lines
        .iter()
        .map(|line| {
            let text = style.labelled(line.label, &line.text);
            match line.tone {
                Some(tone) if !line.label.is_empty() => {
                    text.replacen(line.label, &style.paint(tone, line.label), 1)
                }
                // Without a label the first word says what it is.
                Some(tone) => match line.text.split_once(' ') {
                    Some((word, _)) => text.replacen(word, &style.paint(tone, word), 1),
                    None => text,
                },
                None => text,
            }
        })
        .collect()
}

/// A table of the view, in as many of its columns as there is room for.
fn table(style: Style, table: Table) -> String {
    let table = table.narrowed(style.width);
    grid(table.header, table.rows, &table.left)
}

/// A heading on its own line.
fn heading(style: Style, text: &str) -> String {
    let (word, rest) = text.split_at(text.find("  ").unwrap_or(text.len()));
    let lines = wrap(
        rest,
        style.width.saturating_sub(word.chars().count()).max(20),
    );
    let rest = lines.join(&format!("\n{}", " ".repeat(word.chars().count())));
    format!("{}{rest}\n", style.paint(Tone::Strong, word))
}

/// Where the results are and how to repeat the run.
fn footer(style: Style, footer: &Footer) -> String {
    let mut text = String::new();
    if !footer.saved.is_empty() {
        let saved: Vec<String> = footer.saved.iter().map(|file| clean(file)).collect();
        text.push_str(&style.labelled("saved", &saved.join("  ")));
    }
    if let Some(command) = &footer.reproduce {
        // One line whatever its length, so that it can be copied.
        writeln!(text, "repeat   {}", clean(command)).expect(WRITES);
    }
    text
}
