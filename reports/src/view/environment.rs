//! What a comparison was run with: the load, where, how long, and which programs.

use std::fmt::Write as _;

use recording::{Arm, Protocol, Recording, Scenario};

use super::{hops, name};
use crate::clean::clean_to;
use crate::figures::{counted, date};
use crate::layout::WRITES;

/// What was run, and where.
pub(crate) fn of(recording: &Recording) -> String {
    let mut parts = Vec::new();
    if let Some(scenario) = &recording.scenario {
        parts.push(name(&scenario.name));
        parts.extend(scenario.as_published.then(|| "as published".to_owned()));
        parts.push(protocol(scenario));
        parts.push(match scenario.requests_per_connection {
            Some(1) => "a new connection for each request".to_owned(),
            Some(requests) => format!("{requests} requests per connection"),
            None => "keep-alive".to_owned(),
        });
        parts.push(match scenario.lock_step_requests {
            Some(requests) => format!("{requests} requests one at a time"),
            None => counted(scenario.connections as usize, "connection"),
        });
        parts.extend(
            scenario
                .streams
                .filter(|&streams| streams > 1)
                .map(|streams| match scenario.protocol {
                    Protocol::Http1 => format!("{streams} pipelined on each"),
                    Protocol::Http2 => format!("{streams} streams on each"),
                }),
        );
        parts.extend(
            scenario
                .request_headers
                .iter()
                .map(|(field, value)| format!("{}: {}", name(field), name(value))),
        );
        let cpus = |cpus: &Option<String>| cpus.as_ref().map_or("any".into(), |c| name(c));
        parts.push(format!(
            "CPUs server {} client {}",
            cpus(&scenario.server_cpus),
            cpus(&scenario.client_cpus)
        ));
    }
    parts.join("  ")
}

/// The version of HTTP, and what encrypts it.
fn protocol(scenario: &Scenario) -> String {
    let http = match scenario.protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
    };
    let Some(tls) = &scenario.tls else {
        return http.to_owned();
    };
    let mut text = format!("{http} over TLS");
    if let Some(version) = &tls.version {
        write!(text, " {}", name(version)).expect(WRITES);
    }
    write!(text, " ({}", name(&tls.key)).expect(WRITES);
    for pinned in tls.ciphers.iter().chain(&tls.groups) {
        write!(text, ", {}", name(pinned)).expect(WRITES);
    }
    if tls.resumption {
        text.push_str(", resumed sessions");
    }
    text.push(')');
    text
}

/// How long, with what, when, and the version of each arm; with the hashes of the programs where
/// there is room for them.
pub(crate) fn conditions(recording: &Recording, hashes: bool) -> String {
    let mut parts = Vec::new();
    if let Some(scenario) = &recording.scenario {
        let seconds = |ns: u64| format!("{:.2} s", ns as f64 / 1e9);
        parts.push(counted(scenario.pairs as usize, "pair"));
        parts.extend(
            scenario
                .duration_ns
                .map(|ns| format!("{} windows", seconds(ns))),
        );
        let requests =
            |requests: u64| counted(usize::try_from(requests).unwrap_or(usize::MAX), "request");
        parts.extend(
            scenario
                .requests
                .map(|count| format!("windows of {}", requests(count))),
        );
        parts.push(match (scenario.warmup_ns, scenario.warmup_requests) {
            (0, None) => "no warm-up".to_owned(),
            (0, Some(count)) => format!("warm-up of {}", requests(count)),
            (ns, _) => format!("{} warm-up", seconds(ns)),
        });
    }
    parts.push(format!("whyfast {}", name(&recording.tool.version)));
    parts.push(date(recording.created_unix_ns));
    let arms: Vec<String> = recording
        .arms
        .iter()
        .map(|arm| program(arm, hashes))
        .collect();
    format!("{}  {}", parts.join(", "), arms.join(", "))
}

/// An arm with the version of its program.
fn program(arm: &Arm, hash: bool) -> String {
    if !arm.hops.is_empty() {
        return hops::programs(arm);
    }
    let version = arm
        .version
        .as_deref()
        .map_or("(version not known)", version_number);
    let mut text = format!("{} {}", clean_to(&arm.name, 30), name(version));
    if let Some(sha256) = arm.binary_sha256.as_deref().filter(|_| hash) {
        write!(
            text,
            " (sha256 {})",
            clean_to(sha256.get(..12).unwrap_or(sha256), 12)
        )
        .expect(WRITES);
    }
    text
}

/// The number in what a program says of itself (`nginx/1.22.1`), or all of it where there is none.
pub(super) fn version_number(text: &str) -> &str {
    text.split([' ', '/'])
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .unwrap_or(text)
}
