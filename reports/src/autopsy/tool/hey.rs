//! hey and oha: the `Summary:` of both, which differ in the labels.

use recording::ForeignLoad;

use super::{Found, load};
use crate::autopsy::lines::Lines;
use crate::autopsy::number::{bytes, count, decimal, duration_s, percent, whole};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    if lines.at(at) != "Summary:" {
        return None;
    }
    let block = lines.block(at, LINES, |line| line == "Summary:");
    let rate = lines.find(block.clone(), "Requests/sec:")?;
    let success = lines.find(block.clone(), "Success rate:");
    let tool = if success.is_some() { "oha" } else { "hey" };
    let last = lines.find(block.clone(), "Status code distribution:");
    let end = last.map_or(rate.0 + 1, |(last, _)| last + 1);
    Some(load(tool, at, end, decimal(rate.1), |load| {
        let time = |label: &str| {
            let (_, text) = lines.find(at..rate.0, label)?;
            duration_s(text).or_else(|| duration_s(text.replace(' ', "").as_str()))
        };
        load.duration_s = time("Total:");
        load.latency_max_s = time("Slowest:");
        load.latency_mean_s = time("Average:");
        let total = lines.find(rate.0..block.end, "Total data:");
        load.body_bytes = total
            .and_then(|(_, text)| bytes(&text.replace(" bytes", "B").replace(' ', "")))
            .and_then(whole);
        responses(load, lines, end..block.end);
        // Of what ended at all: oha's own word for it is of all requests.
        if let (Some(share), Some(ended)) =
            (success.and_then(|(_, text)| percent(text)), load.responses)
        {
            let failed = whole(ended as f64 / share - ended as f64);
            if let Some(failed) = failed.filter(|failed| *failed > 0) {
                load.failures.insert("failed".to_owned(), failed);
            }
        }
    }))
}

/// `[200] 10000 responses`, in lines of their own; others than 2xx and 3xx failed.
fn responses(load: &mut ForeignLoad, lines: &Lines<'_>, range: std::ops::Range<usize>) {
    let mut all = None;
    for at in range {
        let words: Vec<&str> = lines.at(at).split_whitespace().collect();
        let [status, number, "responses"] = words.as_slice() else {
            break;
        };
        let (Some(status), Some(number)) = (
            status
                .strip_prefix('[')
                .and_then(|rest| count(rest.strip_suffix(']')?)),
            count(number),
        ) else {
            break;
        };
        all = Some(all.unwrap_or(0) + number);
        if !(200..400).contains(&status) {
            *load.failures.entry("status".to_owned()).or_default() += number;
        }
    }
    load.responses = all;
}

const LINES: usize = 80;
