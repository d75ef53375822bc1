//! ab, the Apache benchmark.

use super::{Found, load};
use crate::autopsy::lines::Lines;
use crate::autopsy::number::{count, decimal};

pub(super) fn read(lines: &Lines<'_>, at: usize) -> Found {
    lines.at(at).strip_prefix("Server Software:")?;
    let block = lines.block(at, LINES, |line| line.starts_with("Server Software:"));
    let end = lines
        .find(block.clone(), "Transfer rate:")
        .map_or(at + 1, |(last, _)| last + 1);
    let value = |label: &str| lines.find(block.clone(), label)?.1.split(' ').next();
    let rate = value("Requests per second:").and_then(decimal);
    Some(load("ab", at, end, rate, |load| {
        let host = value("Server Hostname:").zip(value("Server Port:"));
        let path = value("Document Path:").unwrap_or("");
        load.url = host.map(|(host, port)| {
            let scheme = if value("SSL/TLS Protocol:").is_some() {
                "https"
            } else {
                "http"
            };
            format!("{scheme}://{host}:{port}{path}")
        });
        // `TLSv1.2,ECDHE-RSA-AES256-GCM-SHA384,2048,256`
        let mut negotiated = value("SSL/TLS Protocol:").unwrap_or("").split(',');
        load.tls_version = negotiated
            .next()
            .filter(|text| !text.is_empty())
            .map(str::to_owned);
        load.cipher = negotiated.next().map(str::to_owned);
        load.connections = value("Concurrency Level:").and_then(count);
        load.duration_s = value("Time taken for tests:").and_then(decimal);
        load.responses = value("Complete requests:").and_then(count);
        load.bytes = value("Total transferred:").and_then(count);
        load.body_bytes = value("HTML transferred:").and_then(count);
        load.head_bytes = load
            .bytes
            .zip(load.body_bytes)
            .and_then(|(all, body)| all.checked_sub(body));
        load.latency_mean_s = value("Time per request:")
            .and_then(decimal)
            .map(|ms| ms / 1e3);
        let keeps_alive = value("Keep-Alive requests:")
            .and_then(count)
            .is_some_and(|kept| kept > 0);
        load.requests_per_connection = (!keeps_alive).then_some(1);
        for (word, label) in [
            ("failed", "Failed requests:"),
            ("write", "Write errors:"),
            ("status", "Non-2xx responses:"),
        ] {
            if let Some(number) = value(label).and_then(count) {
                load.failures.insert(word.to_owned(), number);
            }
        }
    }))
}

const LINES: usize = 40;
