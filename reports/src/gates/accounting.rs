//! Gates on the books of the load generator: its figures have to fit each other and the server's.

use recording::{Gate, Load, Probes, Recording};

use super::Finding;
use crate::figures::{percent, rate};
use crate::metrics::good_rounds;

/// G7: by Little's law the requests in flight are throughput times mean latency, and there cannot be
/// more of them than connections times depth. The time between a response and the next request on
/// its connection is the client's, so that there can be fewer.
pub(super) fn littles_law(recording: &Recording) -> Gate {
    let arms: Option<Vec<(&str, f64)>> = recording
        .arms
        .iter()
        .map(|arm| {
            let shares = [Probes::Off, Probes::On]
                .into_iter()
                .flat_map(|probes| good_rounds(recording, &arm.name, probes))
                .filter_map(|round| in_flight_share(round.load.as_ref()?));
            Some((arm.name.as_str(), shares.reduce(f64::max)?))
        })
        .collect();
    let finding = match arms.filter(|arms| !arms.is_empty()) {
        None => Finding::not_measured("no latency of every arm", ""),
        Some(arms) => {
            let parts: Vec<String> = arms
                .iter()
                .map(|(arm, share)| format!("{arm} {}", percent(*share)))
                .collect();
            let value = format!("{} of connections times depth", parts.join(", "));
            if arms.iter().all(|(_, share)| *share <= 1.0 + LITTLE) {
                Finding::ok(value)
            } else {
                Finding::refuse(
                    value,
                    "throughput and latency contradict each other: report this with the recording"
                        .to_owned(),
                )
            }
        }
    };
    finding.gate(
        "G7",
        "Little's law",
        "throughput times mean latency at most 5% above the requests that can be in flight",
    )
}

/// Requests in flight by Little's law as a share of those that can be. An open loop measures latency
/// from when a request was due, so waiting outside of connections is in it: no such limit.
fn in_flight_share(load: &Load) -> Option<f64> {
    let measures = load.measures.as_deref();
    if measures.is_some_and(|measures| measures.schedule.is_some()) {
        return None;
    }
    let mean_s = load.latency.as_ref()?.to_hdr().ok()?.mean() / 1e9;
    let live = measures.and_then(|measures| measures.live_connections);
    let room = live.unwrap_or(f64::from(load.plan.connections)) * f64::from(load.plan.depth);
    let seconds = load.window.seconds();
    (seconds > 0.0 && room > 0.0).then(|| load.ledger.ok as f64 / seconds * mean_s / room)
}

/// G8: what the server says it answered is what the client saw.
pub(super) fn server_count(recording: &Recording) -> Gate {
    let mut parts = Vec::new();
    let mut worst: f64 = 0.0;
    let mut complete = !recording.arms.is_empty();
    for arm in &recording.arms {
        let (mut server, mut client, mut room) = (0.0, 0.0, 0.0);
        for count in [Probes::Off, Probes::On]
            .into_iter()
            .flat_map(|probes| good_rounds(recording, &arm.name, probes))
            .filter_map(|round| round.server_count.as_ref())
        {
            server += count.responses as f64;
            client += count.completed as f64;
            room += count.in_flight as f64;
        }
        complete &= client > 0.0;
        if client > 0.0 {
            let beyond = (f64::abs(server - client) - room).max(0.0) / client;
            worst = worst.max(beyond);
            parts.push(format!(
                "{}: server {}, client {}",
                arm.name,
                rate(server),
                rate(client)
            ));
        }
    }
    let finding = if !complete {
        Finding::not_measured(
            "not every server counts its responses",
            "give the server a counter (nginx: stub_status; haproxy: stats; caddy: metrics)",
        )
    } else if worst <= COUNT_SHARE {
        Finding::ok(parts.join("; "))
    } else {
        Finding::refuse(
            parts.join("; "),
            "somebody else uses the server, or counts are lost: counts per request mean nothing"
                .to_owned(),
        )
    };
    finding.gate(
        "G8",
        "server and client count",
        "responses by server and client within 0.1% and those in flight",
    )
}

/// What Little's law may be off by: a window cuts requests in half.
const LITTLE: f64 = 0.05;
/// Difference of the counts of server and client that is allowed.
const COUNT_SHARE: f64 = 1e-3;
