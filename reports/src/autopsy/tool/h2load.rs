//! h2load 1.3x to 1.7x: the lines from `finished in` on, and what was negotiated before them.

use recording::{ForeignLoad, Spread};

use super::{Found, load};
use crate::autopsy::lines::Lines;
use crate::autopsy::number::{bytes, count, decimal, duration_s, percent, whole};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    let rest = lines.at(at).strip_prefix("finished in ")?;
    let parts: Vec<&str> = rest.split(", ").collect();
    let rate = parts.iter().find_map(|part| part.strip_suffix(" req/s"))?;
    let begins =
        |line: &str| line.starts_with("finished in ") || line.starts_with("starting benchmark");
    let block = lines.block(at, LINES, begins);
    let end = block
        .rev()
        .find(|&at| ROWS.iter().any(|row| lines.at(at).starts_with(row)))
        .map_or(at + 1, |last| last + 1);
    Some(load("h2load", at, end, decimal(rate), |load| {
        load.duration_s = duration_s(parts[0]);
        if let Some((_, text)) = lines.find(at..end, "requests:") {
            requests(load, text);
        }
        if let Some((_, text)) = lines.find(at..end, "traffic:") {
            traffic(load, text);
        }
        let newer = lines
            .find(at..end, "min")
            .is_some_and(|(_, text)| text.contains("median"));
        let mean = if newer { 5 } else { 2 };
        let row = |names: [&str; 2]| {
            let mut found = names.iter().filter_map(|name| lines.find(at..end, name));
            let (_, text) = found.next()?;
            Some(
                text.trim_start_matches(':')
                    .split_whitespace()
                    .collect::<Vec<_>>(),
            )
        };
        let time = |names, column: usize| duration_s(row(names)?.get(column)?);
        load.latency_mean_s = time(["time for request:", "request "], mean);
        load.latency_max_s = time(["time for request:", "request "], 1);
        load.connect_mean_s = time(["time for connect:", "connect "], mean);
        load.connection_rate = row(["req/s ", "req/s:"]).and_then(|row| spread(&row, mean));
        before(load, lines, at);
    }))
}

fn requests(load: &mut ForeignLoad, text: &str) {
    for part in text.split(", ") {
        let Some((number, word)) = part.split_once(' ') else {
            continue;
        };
        let Some(number) = count(number) else {
            continue;
        };
        match word {
            // Its own rate is of those that ended cleanly.
            "succeeded" => load.responses = Some(number),
            "failed" | "timeout" => {
                load.failures.insert(word.to_owned(), number);
            }
            _ => {}
        }
    }
}

/// `55.35MB (58034800) total, 4.94MB (5175000) headers (space savings 26.86%), 49.97MB (52400000) data`
fn traffic(load: &mut ForeignLoad, text: &str) {
    let exact = |part: &str| count(part.split_once('(')?.1.split_once(')')?.0);
    for part in text.split(", ") {
        if part.ends_with("total") {
            load.bytes = exact(part);
        } else if part.ends_with("data") {
            load.body_bytes = exact(part);
        } else if part.contains("headers") {
            load.head_bytes = exact(part);
            load.head_savings = part
                .split_once("space savings ")
                .and_then(|(_, share)| percent(share.trim_end_matches(')')));
        }
    }
    // Older releases print no exact bytes.
    let rounded = |suffix: &str| {
        let part = text.split(", ").find(|part| part.ends_with(suffix))?;
        whole(bytes(part.split(' ').next()?)?)
    };
    load.bytes = load.bytes.or_else(|| rounded("total"));
    load.body_bytes = load.body_bytes.or_else(|| rounded("data"));
}

fn spread(row: &[&str], mean: usize) -> Option<Spread> {
    Some(Spread {
        count: 0,
        min: decimal(row.first()?)?,
        max: decimal(row.get(1)?)?,
        mean: decimal(row.get(mean)?)?,
        sd: decimal(row.get(mean + 1)?)?,
        within_sd: percent(row.get(mean + 2)?)?,
    })
}

/// What is printed when the run begins: who connects, and what is negotiated.
fn before(load: &mut ForeignLoad, lines: &Lines<'_>, at: usize) {
    let mut clients = None;
    for at in (at.saturating_sub(LINES_BEFORE)..at).rev() {
        let line = lines.at(at);
        if line.starts_with("finished in ") {
            break;
        }
        let value = |prefix: &str| {
            line.strip_prefix(prefix)
                .map(|value| value.trim().to_owned())
        };
        load.tls_version = load.tls_version.take().or_else(|| value("TLS Protocol:"));
        load.cipher = load.cipher.take().or_else(|| value("Cipher:"));
        // `spawning thread #0: 200 total client(s). 25000 total requests`, for each thread.
        let spawned = line.strip_prefix("spawning thread #");
        let each = spawned.and_then(|rest| count(rest.split_once(": ")?.1.split(' ').next()?));
        clients = each.map(|each| clients.unwrap_or(0) + each).or(clients);
        if line.starts_with("starting benchmark") {
            break;
        }
    }
    load.connections = clients;
}

/// Lines of a block, with room for what programs print between them.
const LINES: usize = 14;
/// `progress` lines of many threads come between the negotiation and the result.
const LINES_BEFORE: usize = 64;
const ROWS: [&str; 10] = [
    "requests:",
    "status codes:",
    "traffic:",
    "UDP datagram:",
    "time for ",
    "request ",
    "connect ",
    "TTFB ",
    "req/s ",
    "min ",
];
