//! A document that knows what to leave out: blocks in the order of reading, rows by priority.

use super::escape::{code, escape};
use crate::layout::Footer;
use crate::view::{Line, Table};

/// Characters of a report: GitHub takes 65,536 in a comment, and something has to be added to it.
pub const CHARACTERS_LIMIT: usize = 60_000;

/// A report being put together.
#[derive(Debug, Default)]
pub(super) struct Document {
    blocks: Vec<Block>,
}

/// What may be left out last comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// Verdict, headline: never cut.
    Verdict,
    /// What has to be known to believe it.
    Caveats,
    /// The tables that explain.
    Tables,
    /// Settings, configuration, everything in details.
    Details,
}

/// Lines around rows; only rows are left out.
#[derive(Debug)]
struct Block {
    priority: Priority,
    head: String,
    rows: Vec<String>,
    tail: String,
    omitted: usize,
}

impl Document {
    /// A paragraph or a heading that is never cut.
    pub(super) fn text(&mut self, text: &str) {
        self.push(
            Priority::Verdict,
            format!("{text}\n\n"),
            Vec::new(),
            String::new(),
        );
    }

    /// Labelled lines as a list.
    pub(super) fn list(&mut self, priority: Priority, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        let rows = lines.iter().map(|line| {
            let text = escape(&line.text);
            if line.label.is_empty() {
                format!("- {text}\n")
            } else {
                format!("- **{}**: {text}\n", line.label)
            }
        });
        self.push(priority, String::new(), rows.collect(), "\n".to_owned());
    }

    /// A table; the first column holds names.
    pub(super) fn table(&mut self, priority: Priority, table: &Table) {
        self.folded_table(priority, String::new(), false, table);
    }

    /// A table under a line of its own, which goes when the table goes.
    pub(super) fn headed_table(&mut self, priority: Priority, heading: &str, table: &Table) {
        let heading = format!("{}\n\n", escape(heading));
        self.folded_table(priority, heading, false, table);
    }

    /// A table behind a summary that has to be opened.
    pub(super) fn details(&mut self, summary: &str, table: &Table) {
        self.folded_table(Priority::Details, open_details(summary), true, table);
    }

    /// Lines as they are behind a summary, between a first and a last one that stay.
    pub(super) fn fenced_details(&mut self, summary: &str, mut lines: Vec<String>) {
        let fence = lines.pop().unwrap_or_default();
        let open = if lines.is_empty() {
            String::new()
        } else {
            lines.remove(0)
        };
        self.push(
            Priority::Details,
            format!("{}{open}\n", open_details(summary)),
            lines.into_iter().map(|line| format!("{line}\n")).collect(),
            format!("{fence}\n\n</details>\n\n"),
        );
    }

    /// Where the results are and how to repeat the run.
    pub(super) fn footer(&mut self, footer: &Footer) {
        if !footer.saved.is_empty() {
            let saved: Vec<String> = footer.saved.iter().map(|file| code(file)).collect();
            self.text(&format!("Saved: {}", saved.join(", ")));
        }
        if let Some(command) = &footer.reproduce {
            let lines = super::escape::fenced(command, COMMAND_LIMIT);
            self.text(&format!("Repeat:\n\n{}", lines.join("\n")));
        }
    }

    /// The Markdown, cut to the limit.
    pub(super) fn render(mut self) -> String {
        self.cut(CHARACTERS_LIMIT);
        self.blocks.iter().map(Block::render).collect()
    }

    fn folded_table(&mut self, priority: Priority, mut head: String, folded: bool, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        head.push_str(&row(table.header.iter().map(|cell| escape(cell))));
        let rules = (0..table.header.len()).map(|column| {
            let left = column == 0 || table.left.contains(&column);
            if left { "---" } else { "---:" }.to_owned()
        });
        head.push_str(&row(rules));
        let calls = table.header.first().is_some_and(|header| header == "call");
        let rows = table.rows.iter().map(|cells| {
            row(cells.iter().enumerate().map(|(column, cell)| {
                if column == 0 && calls {
                    code(cell)
                } else {
                    escape(cell)
                }
            }))
        });
        let tail = if folded { "\n</details>\n\n" } else { "\n" };
        self.push(priority, head, rows.collect(), tail.to_owned());
    }

    fn push(&mut self, priority: Priority, head: String, rows: Vec<String>, tail: String) {
        self.blocks.push(Block {
            priority,
            head,
            rows,
            tail,
            omitted: 0,
        });
    }

    /// Leaves out rows from the end of the block that matters least, the longest such block first,
    /// until the rest fits; where that does not suffice, whole blocks; and only then rows of what
    /// matters most.
    fn cut(&mut self, limit: usize) {
        let mut total: usize = self.blocks.iter().map(Block::characters).sum();
        self.cut_rows(&mut total, limit, |priority| priority > Priority::Verdict);
        self.drop_blocks(&mut total, limit);
        self.cut_rows(&mut total, limit, |_| true);
    }

    fn cut_rows(&mut self, total: &mut usize, limit: usize, of: impl Fn(Priority) -> bool) {
        while *total > limit {
            let least = self
                .blocks
                .iter_mut()
                .filter(|block| !block.rows.is_empty() && of(block.priority))
                .max_by_key(|block| (block.priority, block.characters()));
            let Some(block) = least else { break };
            let before = block.characters();
            block.omit(*total - limit + OMISSION_CHARACTERS);
            *total = *total + block.characters() - before;
        }
    }

    fn drop_blocks(&mut self, total: &mut usize, limit: usize) {
        let mut dropped = 0_usize;
        while *total > limit {
            let cuttable = |block: &Block| block.priority > Priority::Verdict;
            let Some(last) = self.blocks.iter().rposition(cuttable) else {
                break;
            };
            *total -= self.blocks.remove(last).characters();
            if dropped == 0 {
                *total += OMISSION_CHARACTERS;
            }
            dropped += 1;
        }
        if dropped > 0 {
            self.text(&format!(
                "{dropped} sections omitted, the recording has them"
            ));
        }
    }
}

impl Block {
    fn characters(&self) -> usize {
        self.render().chars().count()
    }

    /// Leaves out rows from the end until `excess` characters are gone.
    fn omit(&mut self, mut excess: usize) {
        while excess > 0 {
            let Some(last) = self.rows.pop() else { return };
            self.omitted += 1;
            excess = excess.saturating_sub(last.chars().count());
        }
    }

    fn render(&self) -> String {
        let mut text = format!("{}{}", self.head, self.rows.concat());
        // Inside a fence or under a table a row would be read as content; the note goes behind.
        let note = match self.omitted {
            0 => String::new(),
            1 => "1 row omitted, the recording has it\n\n".to_owned(),
            omitted => format!("{omitted} rows omitted, the recording has them\n\n"),
        };
        text.push_str(&self.tail);
        text.push_str(&note);
        text
    }
}

fn open_details(summary: &str) -> String {
    format!("<details><summary>{}</summary>\n\n", escape(summary))
}

fn row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Room for the note about omitted rows.
const OMISSION_CHARACTERS: usize = 64;
/// Characters of the command that repeats a run.
const COMMAND_LIMIT: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    fn long_table(rows: usize) -> Table {
        Table {
            header: vec!["call".into(), "n".into()],
            rows: (0..rows)
                .map(|n| vec![format!("call_{n}"), "x".repeat(90)])
                .collect(),
            ..Table::default()
        }
    }

    /// Details go before tables, and each cut block says how much is gone.
    #[test]
    fn cuts_the_least_important_rows_first() {
        let mut document = Document::default();
        document.text("verdict");
        document.table(Priority::Tables, &long_table(300));
        document.details("all", &long_table(900));
        let text = document.render();
        assert!(text.chars().count() <= CHARACTERS_LIMIT);
        assert!(text.chars().count() > CHARACTERS_LIMIT - 400);
        assert!(text.contains("`call_299`"), "the table is whole");
        let note = text
            .lines()
            .find(|line| line.contains("rows omitted"))
            .unwrap();
        let omitted: usize = note.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(text.matches("`call_").count() + omitted, 1200);
    }

    /// Where rows do not suffice, sections go, and the verdict stays.
    #[test]
    fn drops_sections_when_rows_do_not_suffice() {
        let mut document = Document::default();
        document.text("verdict");
        for _ in 0..2000 {
            document.fenced_details(
                &"s".repeat(40),
                vec!["```".into(), "x".into(), "```".into()],
            );
        }
        let text = document.render();
        assert!(text.chars().count() <= CHARACTERS_LIMIT);
        assert!(text.starts_with("verdict") && text.contains("sections omitted"));
    }

    /// A small document is whole.
    #[test]
    fn small_documents_are_whole() {
        let mut document = Document::default();
        document.table(Priority::Tables, &long_table(2));
        let text = document.render();
        assert!(text.starts_with("| call | n |\n| --- | ---: |\n| `call_0` | xxx"));
        assert!(!text.contains("omitted"));
    }
}
