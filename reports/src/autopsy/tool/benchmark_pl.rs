//! Perl's `Parallel::Benchmark`, in which many small load generators are written.

use super::{Found, after, load};
use crate::autopsy::lines::Lines;
use crate::autopsy::number::{count, decimal};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    let (_, rest) = lines.at(at).split_once("done benchmark: score ")?;
    let words: Vec<&str> = rest
        .split([' ', ','])
        .filter(|word| !word.is_empty())
        .collect();
    let [score, "elapsed", elapsed, "sec", "=", rate, "/", "sec", ..] = words.as_slice() else {
        return Some(load("Parallel::Benchmark", at, at + 1, None, |_| {}));
    };
    Some(load(
        "Parallel::Benchmark",
        at,
        at + 1,
        decimal(rate),
        |load| {
            load.responses = count(score);
            load.duration_s = decimal(elapsed);
            for at in at.saturating_sub(LINES_BEFORE)..at {
                let words: Vec<&str> = lines
                    .at(at)
                    .split([' ', ','])
                    .filter(|word| !word.is_empty())
                    .collect();
                load.url = after(&words, "url:").map(str::to_owned).or(load.url.take());
                load.connections = after(&words, "concurrency:")
                    .and_then(count)
                    .or(load.connections);
                let kept = lines.at(at).split_once("keepalive requests ");
                load.requests_per_connection = kept
                    .and_then(|(_, rest)| count(rest.split(' ').next()?))
                    .or(load.requests_per_connection);
            }
        },
    ))
}

/// Its own lines and those that the script prints.
const LINES_BEFORE: usize = 3;
