//! What a caller may choose about a rendered report, and the pieces that all text reports share.
//!
//! It owns widths, colour and alignment. It knows nothing about recordings.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns that a line may fill.
    pub width: usize,
    /// Whether ANSI colours are added. Nothing is said by colour alone.
    pub colour: bool,
}

impl Default for Style {
    /// The layout of a file or a pipe: 110 columns, no colour.
    fn default() -> Self {
        Self {
            width: 110,
            colour: false,
        }
    }
}

/// Lines that only the caller knows: they end a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Files that were written.
    pub saved: Vec<String>,
    /// The command that repeats the run.
    pub reproduce: Option<String>,
}

/// What a colour stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// A heading.
    Strong,
    /// Established and good to know.
    Good,
    /// To be read before believing a figure.
    Caution,
    /// Refused, failed, lost.
    Bad,
}

impl Style {
    /// The text in the colour of a tone, or as it is.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Caution => "33",
            Tone::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// An item of a list, words wrapped under its text.
    pub(crate) fn item(self, text: &str) -> String {
        let mut lines = String::new();
        for (index, line) in wrap(text, self.width.saturating_sub(2).max(20))
            .iter()
            .enumerate()
        {
            let mark = if index == 0 { "- " } else { "  " };
            lines.extend([mark, line, "\n"]);
        }
        lines
    }

    /// A line under a label of nine columns, words wrapped at the width under the same indent.
    pub(crate) fn labelled(self, label: &str, text: &str) -> String {
        let mut lines = String::new();
        for (index, line) in wrap(text, self.width.saturating_sub(LABEL).max(20))
            .iter()
            .enumerate()
        {
            let label = if index == 0 { label } else { "" };
            lines.push_str(format!("{label:<8} {line}").trim_end());
            lines.push('\n');
        }
        lines
    }
}

/// Breaks text at spaces so that no line is longer than `width`, except for a single longer word,
/// which is broken where it must be. Runs of spaces inside a line are kept: they separate items.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut line_length = 0;
    for word in text.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if line_length > 0 && line_length + length > width {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            line_length = 0;
        }
        let mut rest = word;
        while rest.trim_end().chars().count() > width {
            let cut = rest
                .char_indices()
                .nth(width)
                .map_or(rest.len(), |(index, _)| index);
            lines.push(rest[..cut].to_owned());
            rest = &rest[cut..];
        }
        line.push_str(rest);
        line_length += rest.chars().count();
    }
    if !line.trim_end().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Aligned columns without lines between them: the first column to the left, others to the right,
/// except those named in `left`. Ends with a newline.
pub(crate) fn grid(header: Vec<String>, rows: Vec<Vec<String>>, left: &[usize]) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        let alignment = if index == 0 || left.contains(&index) {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        column.set_cell_alignment(alignment);
        column.set_padding((1, 1));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Why writing into a string cannot fail.
pub(crate) const WRITES: &str = "a string can grow";

/// Columns of a label with the space behind it.
const LABEL: usize = 9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text wraps under its label.
    #[test]
    fn labelled_lines_wrap_under_the_text() {
        let style = Style {
            width: 31,
            colour: false,
        };
        assert_eq!(
            style.labelled("gates", "one two three four five six seven"),
            "gates    one two three four\n         five six seven\n"
        );
    }

    /// Columns line up and no line ends in blanks.
    #[test]
    fn grid_aligns_columns() {
        let rows = vec![
            vec!["writev".into(), "1.0000".into(), "x".into()],
            vec!["recv".into(), "12.0000".into(), "yy".into()],
        ];
        let text = grid(vec!["call".into(), "n".into(), "z".into()], rows, &[2]);
        assert_eq!(
            text,
            " call          n  z\n writev   1.0000  x\n recv    12.0000  yy\n"
        );
    }

    /// Colour adds sequences only when asked.
    #[test]
    fn colour_is_optional() {
        let plain = Style::default();
        assert_eq!(plain.paint(Tone::Bad, "lost"), "lost");
        let coloured = Style {
            colour: true,
            ..plain
        };
        assert_eq!(coloured.paint(Tone::Bad, "lost"), "\x1b[31mlost\x1b[0m");
    }

    proptest! {
        /// No wrapped line is longer than the width, and no word is lost.
        #[test]
        fn wrap_keeps_the_width_and_the_words(text in "[a-z ]{0,200}", width in 5_usize..40) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width));
            let joined: String = lines.concat().split_whitespace().collect();
            let words: String = text.split_whitespace().collect();
            prop_assert_eq!(joined, words);
        }
    }
}
