//! wrk and wrk2, which print the same but for the calibration of wrk2.

use recording::ForeignLoad;

use super::{Found, load};
use crate::autopsy::lines::Lines;
use crate::autopsy::number::{bytes, count, decimal, duration_s, whole};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    let rest = lines.at(at).strip_prefix("Running ")?;
    let (_, url) = rest.split_once(" test @ ")?;
    let block = lines.block(at, LINES, |line| line.starts_with("Running "));
    let rate = lines.find(block.clone(), "Requests/sec:");
    let end = lines
        .find(block, "Transfer/sec:")
        .or(rate)
        .map_or(at + 1, |(last, _)| last + 1);
    let is_wrk2 = lines.find(at..end, "Thread calibration").is_some();
    let tool = if is_wrk2 { "wrk2" } else { "wrk" };
    Some(load(
        tool,
        at,
        end,
        rate.and_then(|(_, rate)| decimal(rate)),
        |load| {
            load.url = Some(url.to_owned());
            let rows = (at..end).map(|at| lines.at(at));
            for row in rows {
                line(load, row);
            }
        },
    ))
}

fn line(load: &mut ForeignLoad, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [_, "threads", "and", connections, "connections"] => load.connections = count(connections),
        ["Latency", mean, _, max, _] => {
            load.latency_mean_s = load.latency_mean_s.or_else(|| duration_s(mean));
            load.latency_max_s = load.latency_max_s.or_else(|| duration_s(max));
        }
        [requests, "requests", "in", duration, read, "read"] => {
            load.responses = count(requests);
            load.duration_s = duration_s(duration.trim_end_matches(','));
            load.bytes = bytes(read).and_then(whole);
        }
        ["Socket", "errors:", errors @ ..] => {
            for pair in errors.chunks_exact(2) {
                if let Some(number) = count(pair[1].trim_end_matches(',')) {
                    load.failures.insert(pair[0].to_owned(), number);
                }
            }
        }
        ["Non-2xx", "or", "3xx", "responses:", number] => {
            if let Some(number) = count(number) {
                load.failures.insert("status".to_owned(), number);
            }
        }
        _ => {}
    }
}

/// wrk2 prints its whole spectrum.
const LINES: usize = 200;
