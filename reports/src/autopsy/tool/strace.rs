//! The table of `strace -c`, with whatever columns were chosen.

use recording::{ForeignCall, ForeignCalls};

use super::{Block, Found};
use crate::autopsy::lines::{Lines, number};
use crate::autopsy::number::{count, decimal};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    let columns = columns(lines.at(at))?;
    let mut table = ForeignCalls {
        tool: "strace -c".to_owned(),
        line: number(at),
        ..ForeignCalls::default()
    };
    let mut end = at + 1;
    while end < lines.count() {
        let line = lines.at(end);
        if !line.starts_with("---") {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.contains(&"total") {
                table.total = total(&words, &columns, &table);
                end += 1;
                break;
            }
            let Some((name, row)) = row(&words, &columns) else {
                break;
            };
            let known = table.rows.entry(name).or_default();
            *known = known.plus(row);
        }
        end += 1;
    }
    (!table.rows.is_empty()).then_some(Ok((Block::Calls(table), end)))
}

/// The names of the columns, where the line is the head of such a table.
fn columns(line: &str) -> Option<Vec<&str>> {
    if !line.contains("syscall") || !line.contains("calls") {
        return None;
    }
    let words = line.split_whitespace();
    // `% time` is two words.
    let columns: Vec<&str> = words.filter(|word| *word != "%").collect();
    let is_known = |column: &&str| COLUMNS.contains(column);
    columns.iter().all(is_known).then_some(columns)
}

/// A row; a blank cell can only be that of the errors.
fn row(words: &[&str], columns: &[&str]) -> Option<(String, ForeignCall)> {
    let has_errors = columns.contains(&"errors");
    let is_blank = has_errors && words.len() + 1 == columns.len();
    if words.len() != columns.len() && !is_blank {
        return None;
    }
    let mut row = ForeignCall::default();
    let mut name = None;
    let filled = columns
        .iter()
        .filter(|column| !(is_blank && **column == "errors"));
    for (column, word) in filled.zip(words) {
        match *column {
            "syscall" => name = Some((*word).to_owned()),
            "calls" => row.calls = count(word)?,
            "errors" => row.errors = count(word)?,
            "seconds" => row.seconds = decimal(word)?,
            _ => {
                decimal(word)?;
            }
        }
    }
    let name =
        name.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'))?;
    Some((name, row))
}

/// The last row, whose average old releases leave blank too: of the readings that are possible, the
/// one whose calls are the sum.
fn total(words: &[&str], columns: &[&str], table: &ForeignCalls) -> Option<ForeignCall> {
    let summed: u64 = table
        .rows
        .values()
        .map(|row| row.calls)
        .fold(0, u64::saturating_add);
    let readings = [
        columns.to_vec(),
        columns
            .iter()
            .filter(|column| **column != "usecs/call")
            .copied()
            .collect(),
    ];
    let read: Vec<ForeignCall> = readings
        .iter()
        .filter_map(|columns| row(words, columns))
        .map(|(_, row)| row)
        .collect();
    let matching = read.iter().find(|row| row.calls == summed);
    matching.or(read.first()).copied()
}

const COLUMNS: [&str; 13] = [
    "time",
    "seconds",
    "usecs/call",
    "calls",
    "errors",
    "syscall",
    "shortest",
    "longest",
    "wall-total",
    "wall-min",
    "wall-max",
    "wall-avg",
    "total",
];
