//! The summary of `perf trace -s`: a block for each thread, summed.

use recording::{ForeignCall, ForeignCalls};

use super::{Block, Found};
use crate::autopsy::lines::{Lines, number};
use crate::autopsy::number::{count, decimal};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    if lines.at(at) != "Summary of events:" {
        return None;
    }
    let mut table = ForeignCalls {
        tool: "perf trace -s".to_owned(),
        line: number(at),
        ..ForeignCalls::default()
    };
    let mut end = at + 1;
    while end < lines.count() {
        let words: Vec<&str> = lines.at(end).split_whitespace().collect();
        if let Some((name, row)) = row(&words) {
            let known: &mut ForeignCall = table.rows.entry(name).or_default();
            *known = known.plus(row);
        } else if !is_frame(lines.at(end)) {
            break;
        }
        end += 1;
    }
    (!table.rows.is_empty()).then_some(Ok((Block::Calls(table), end)))
}

/// `vfork   3   0   0.995   0.137   0.332   0.683   53.14%`
fn row(words: &[&str]) -> Option<(String, ForeignCall)> {
    let [name, calls, errors, total_ms, _min, _average, _max, spread] = words else {
        return None;
    };
    spread.strip_suffix('%')?;
    let row = ForeignCall {
        calls: count(calls)?,
        errors: count(errors)?,
        seconds: decimal(total_ms)? / 1e3,
    };
    Some(((*name).to_owned(), row))
}

/// Blank lines, the head of a thread, the heads of the columns, and the summary of errno.
fn is_frame(line: &str) -> bool {
    line.is_empty()
        || line.contains(" events, ")
        || line.starts_with("syscall ")
        || line.starts_with("(msec)")
        || line.starts_with("---")
        || line
            .split_once(": ")
            .is_some_and(|(name, times)| name.starts_with(['E', '(']) && count(times).is_some())
}
