//! Gates on what client and server spoke: TLS and HTTP have to be the same for every arm.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use recording::{Gate, Load, Probes, Recording, TlsNegotiated, TlsReport};

use super::Finding;
use crate::figures::{counted, percent};
use crate::layout::WRITES;
use crate::metrics::good_rounds;

/// G2: the same version, cipher suite, group, certificate key, ALPN and share of resumed sessions.
pub(super) fn tls(recording: &Recording) -> Gate {
    let arms = by_arm(recording, |load| load.tls.as_ref());
    let finding = match arms {
        None => first_connections(recording),
        Some(arms) if arms.iter().all(|(_, reports)| reports.is_empty()) => {
            Finding::ok("in clear on every arm".to_owned())
        }
        Some(arms) => judge_tls(&arms),
    };
    finding.gate(
        "G2",
        "TLS parity",
        "same version, cipher suite, group, certificate key and ALPN; resumed share within 5 points",
    )
}

fn judge_tls(arms: &[(&str, Vec<&TlsReport>)]) -> Finding {
    let spoken: Vec<(String, f64)> = arms
        .iter()
        .map(|(_, reports)| (negotiated(reports), resumed(reports)))
        .collect();
    let (first, share) = &spoken[0];
    let equal = spoken
        .iter()
        .all(|(words, other)| words == first && (other - share).abs() <= RESUMED_POINTS);
    let describe = |((arm, _), (words, share)): (&(&str, Vec<&TlsReport>), &(String, f64))| {
        format!("{arm}: {words}, {} resumed", percent(*share))
    };
    let value = if equal {
        format!("{first}, {} resumed", percent(*share))
    } else {
        let parts: Vec<String> = arms.iter().zip(&spoken).map(describe).collect();
        parts.join("; ")
    };
    if equal {
        Finding::ok(value)
    } else {
        Finding::refuse(value, SAME_TLS.to_owned())
    }
}

/// Before there are rounds: what the parity check negotiated on the first connection to each arm can
/// refuse already, and not pass yet.
fn first_connections(recording: &Recording) -> Finding {
    let spoken: Option<Vec<(&str, String)>> = recording
        .arms
        .iter()
        .map(|arm| {
            let tls = arm.response.as_ref()?.tls.as_ref();
            Some((arm.name.as_str(), tls.map_or(IN_CLEAR.to_owned(), words)))
        })
        .collect();
    let differs = |spoken: &Vec<(&str, String)>| {
        let mut others = spoken.iter();
        let first = others.next();
        others.any(|(_, words)| first.is_some_and(|(_, first)| words != first))
    };
    match spoken.filter(differs) {
        None => Finding::not_measured("no good round of every arm", ""),
        Some(spoken) => {
            let parts = spoken.iter().map(|(arm, words)| format!("{arm}: {words}"));
            Finding::refuse(parts.collect::<Vec<_>>().join("; "), SAME_TLS.to_owned())
        }
    }
}

/// What was negotiated, all kinds of sessions of an arm.
fn negotiated(reports: &[&TlsReport]) -> String {
    let kinds: BTreeSet<String> = reports
        .iter()
        .flat_map(|report| &report.negotiated)
        .map(words)
        .collect();
    if kinds.is_empty() {
        return IN_CLEAR.to_owned();
    }
    kinds.into_iter().collect::<Vec<_>>().join(" and ")
}

/// A kind of sessions, for people. Who chooses no protocol by ALPN speaks HTTP/1.1, which is as if that
/// was chosen.
fn words(kind: &TlsNegotiated) -> String {
    let mut words = vec![kind.version.as_str(), kind.cipher.as_str()];
    words.extend(kind.group.as_deref());
    words.push(&kind.certificate_key);
    words.push(kind.alpn.as_deref().unwrap_or("http/1.1"));
    words.join(" ")
}

fn resumed(reports: &[&TlsReport]) -> f64 {
    let sum = |figure: fn(&TlsReport) -> u64| -> f64 {
        reports.iter().map(|report| figure(report) as f64).sum()
    };
    let resumed = sum(|report| report.resumed_handshakes);
    let all = resumed + sum(|report| report.full_handshakes);
    if all > 0.0 { resumed / all } else { 0.0 }
}

/// G3: the same version of HTTP, with as many requests in flight on as many connections.
pub(super) fn protocol(recording: &Recording) -> Gate {
    let arms = by_arm(recording, Some);
    let finding = match arms {
        None => Finding::not_measured("no good round of every arm", ""),
        Some(arms) => {
            let spoken: Vec<String> = arms.iter().map(|(_, loads)| shapes(loads)).collect();
            if spoken.iter().all(|words| *words == spoken[0]) {
                Finding::ok(spoken[0].clone())
            } else {
                let parts = arms.iter().zip(&spoken);
                let parts: Vec<String> = parts
                    .map(|((arm, _), words)| format!("{arm}: {words}"))
                    .collect();
                Finding::refuse(
                    parts.join("; "),
                    "allow as many streams everywhere (nginx: http2_max_concurrent_streams; h2o: \
                     http2-max-concurrent-requests-per-connection; haproxy: \
                     tune.h2.max-concurrent-streams), or ask for fewer (-m)"
                        .to_owned(),
                )
            }
        }
    };
    finding.gate(
        "G3",
        "protocol parity",
        "same version of HTTP, connections, pipelining and streams in flight",
    )
}

/// What the rounds of an arm spoke.
fn shapes(loads: &[&Load]) -> String {
    let shapes: BTreeSet<String> = loads
        .iter()
        .map(|load| {
            let mut words = format!(
                "{}, {}",
                load.plan.http.name(),
                counted(load.plan.connections as usize, "connection")
            );
            match &load.http2 {
                Some(http2) => {
                    let streams = counted(http2.streams_max as usize, "stream");
                    write!(words, ", {streams}").expect(WRITES);
                }
                None if load.plan.depth > 1 => {
                    write!(words, ", {} pipelined", load.plan.depth).expect(WRITES);
                }
                None => {}
            }
            words
        })
        .collect();
    shapes.into_iter().collect::<Vec<_>>().join(" and ")
}

/// A part of the loads of every arm; `None` where an arm has no good round.
fn by_arm<'a, T>(
    recording: &'a Recording,
    part: impl Fn(&'a Load) -> Option<&'a T>,
) -> Option<Vec<(&'a str, Vec<&'a T>)>> {
    let arms = recording.arms.iter().map(|arm| {
        let mut loads = [Probes::Off, Probes::On]
            .into_iter()
            .flat_map(|probes| good_rounds(recording, &arm.name, probes))
            .filter_map(|round| round.load.as_ref())
            .peekable();
        loads.peek()?;
        Some((arm.name.as_str(), loads.filter_map(&part).collect()))
    });
    let arms: Vec<(&str, Vec<&T>)> = arms.collect::<Option<_>>()?;
    (!arms.is_empty()).then_some(arms)
}

const IN_CLEAR: &str = "in clear";

/// How TLS is made the same.
const SAME_TLS: &str = "give every server the same certificate, protocol and cipher suite (nginx: ssl_protocols, \
                        ssl_conf_command Ciphersuites; h2o: ssl minimum-version, cipher-suite; haproxy: \
                        ssl-default-bind-ciphersuites; caddy: tls protocols, ciphers; Node.js: minVersion, ciphers), or \
                        pin them at the client: --tls-min, --tls-max, --ciphers, --groups";

/// Difference of the shares of resumed sessions that is chance.
const RESUMED_POINTS: f64 = 0.05;
