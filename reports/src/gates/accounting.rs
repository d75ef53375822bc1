//! Gates on the books of the load generator: its figures have to fit each other and the server's.

use recording::{Gate, Load, Probes, Recording};

use super::Finding;
use crate::figures::{percent, rate};
use crate::metrics::good_rounds;

/// G7: by Little's law the requests in flight are throughput times mean latency, and there cannot be
/// more of them than connections times depth. The time between a response and the next request on
/// its connection is the client's, so that there can be fewer.
pub(super) fn littles_law(recording: &Recording) -> Gate {
    let arms: Option<Vec<(&str, InFlight)>> = recording
        .arms
        .iter()
        .map(|arm| Some((arm.name.as_str(), InFlight::of(recording, &arm.name)?)))
        .collect();
    let finding = match arms.filter(|arms| !arms.is_empty()) {
        None => Finding::not_measured("no latency of every arm", ""),
        Some(arms) => {
            let parts: Vec<String> = arms
                .iter()
                .map(|(arm, sum)| format!("{arm} {}", percent(sum.share())))
                .collect();
            let value = format!("{} of connections times depth", parts.join(", "));
            let possible = |sum: &InFlight| sum.share() <= 1.0 + LITTLE + sum.edges();
            if arms.iter().all(|(_, sum)| possible(sum)) {
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
        "throughput times mean latency at most 5% above the requests that can be in flight, and what \
         the longest latency can bring over the edge of a window",
    )
}

/// Requests in flight over the rounds of an arm.
#[derive(Default)]
#[expect(
    clippy::struct_field_names,
    reason = "the unit ends each name, as everywhere"
)]
struct InFlight {
    /// Latencies of all requests, s.
    latency_s: f64,
    /// Connections times depth times window, s.
    room_s: f64,
    /// The longest latency of each round times connections and depth, s: requests that were in flight
    /// when a window opened bring time from before it.
    edge_s: f64,
}

impl InFlight {
    /// `None` without a closed loop. In an open one latency begins when a request was due, so that
    /// waiting outside of connections is in it, and there is no such limit.
    fn of(recording: &Recording, arm: &str) -> Option<Self> {
        let mut sum = Self::default();
        for load in [Probes::Off, Probes::On]
            .into_iter()
            .flat_map(|probes| good_rounds(recording, arm, probes))
            .filter_map(|round| round.load.as_ref())
        {
            sum.add(load);
        }
        (sum.room_s > 0.0).then_some(sum)
    }

    fn add(&mut self, load: &Load) {
        let measures = load.measures.as_deref();
        if measures.is_some_and(|measures| measures.schedule.is_some()) {
            return;
        }
        let Some(latency) = load.latency.as_ref().and_then(|l| l.to_hdr().ok()) else {
            return;
        };
        let live = measures.and_then(|measures| measures.live_connections);
        let room = live.unwrap_or(f64::from(load.plan.connections)) * f64::from(load.plan.depth);
        self.latency_s += load.ledger.ok as f64 * latency.mean() / 1e9;
        self.room_s += room * load.window.seconds();
        self.edge_s += room * latency.max() as f64 / 1e9;
    }

    fn share(&self) -> f64 {
        self.latency_s / self.room_s
    }

    fn edges(&self) -> f64 {
        self.edge_s / self.room_s
    }
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
