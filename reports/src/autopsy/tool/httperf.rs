//! httperf: from `Total:` to its errors.

use recording::ForeignLoad;

use super::{Found, after, load};
use crate::autopsy::lines::Lines;
use crate::autopsy::number::{count, decimal, whole};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    let total = lines.at(at).strip_prefix("Total: connections ")?;
    let words: Vec<&str> = total.split_whitespace().collect();
    let replies = after(&words, "replies").and_then(count);
    let duration = after(&words, "test-duration").and_then(decimal);
    let end = lines
        .block(at, LINES, |line| line.starts_with("Total: connections "))
        .rev()
        .find(|&at| lines.at(at).starts_with("Errors:"))
        .map_or(at + 1, |last| last + 1);
    // Replies over time: its own request rate counts what was sent.
    let rate = replies
        .zip(duration)
        .filter(|&(_, duration)| duration > 0.0)
        .map(|(replies, duration)| replies as f64 / duration);
    Some(load("httperf", at, end, rate, |load| {
        load.responses = replies;
        load.duration_s = duration;
        for at in at..end {
            line(load, lines.at(at));
        }
    }))
}

fn line(load: &mut ForeignLoad, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |word: &str| after(&words, word).and_then(decimal);
    if line.starts_with("Connection rate:") {
        load.connections = line
            .split_once("<=")
            .and_then(|(_, rest)| count(rest.split(' ').next()?));
    } else if line.starts_with("Connection time [ms]: connect") {
        load.connect_mean_s = value("connect").map(|ms| ms / 1e3);
    } else if line.starts_with("Connection length") {
        load.requests_per_connection = value("[replies/conn]:").and_then(whole);
    } else if line.starts_with("Reply time [ms]:") {
        load.latency_mean_s = value("response")
            .zip(value("transfer"))
            .map(|(response, transfer)| (response + transfer) / 1e3);
    } else if line.starts_with("Reply size [B]:") {
        let replies = load.responses.unwrap_or(0);
        let all = |each: f64| whole(each)?.checked_mul(replies);
        load.head_bytes = value("header").and_then(all);
        load.body_bytes = value("content").and_then(all);
    } else if line.starts_with("CPU time [s]:") {
        let share = words.iter().rev().find_map(|word| word.strip_suffix("%)"));
        load.client_cpu = share.and_then(decimal).map(|percent| percent / 100.0);
    } else if let Some(errors) = line.strip_prefix("Errors:") {
        let words: Vec<&str> = errors.split_whitespace().collect();
        for pair in words.chunks_exact(2).filter(|pair| pair[0] != "total") {
            if let Some(number) = count(pair[1]) {
                load.failures.insert(pair[0].to_owned(), number);
            }
        }
    }
}

const LINES: usize = 30;
