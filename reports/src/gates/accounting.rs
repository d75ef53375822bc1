//! Gates on the books of the load generator: its figures have to fit each other and the server's.

use recording::{Arm, ArmKind, CallObject, Family, Gate, Load, Probes, Profile, Recording, Round};

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

/// G8: what the server answered is what the client saw. A count of the server's own is taken where there
/// is one; else the bytes that it sent, which the probes count, over the bytes of a response.
pub(super) fn server_count(recording: &Recording) -> Gate {
    let mut outcomes = Vec::new();
    for arm in &recording.arms {
        match Counted::of(recording, &arm.name) {
            Ok(counted) => outcomes.push((arm, counted)),
            Err(why) => {
                let why = format!("{}: {why}", arm.name);
                return Finding::not_measured(&why, COUNTER).gate("G8", G8, G8_LIMIT);
            }
        }
    }
    if outcomes.is_empty() {
        return Finding::not_measured("there is no arm", "").gate("G8", G8, G8_LIMIT);
    }
    let parts: Vec<String> = outcomes
        .iter()
        .map(|(arm, counted)| format!("{}: {}", arm.name, counted.describe()))
        .collect();
    let value = parts.join("; ");
    // Who may have connections of its own, to other servers, may send more than responses.
    let sends_more = |(arm, counted): &&(&Arm, Counted)| {
        let unknown = matches!(arm.kind, ArmKind::Command | ArmKind::Live);
        unknown && counted.by_bytes && counted.server > counted.client
    };
    let broken: Vec<&(&Arm, Counted)> = outcomes
        .iter()
        .filter(|(_, counted)| counted.beyond() > COUNT_SHARE)
        .collect();
    let finding = if broken.is_empty() {
        Finding::ok(value)
    } else if broken.iter().all(sends_more) {
        Finding::warn(
            value,
            "it sends more than the client gets: somebody else uses it, or it has connections of its own \
             (a proxy); counts per request hold what it does for those as well",
        )
    } else {
        Finding::refuse(
            value,
            "somebody else uses the server, or counts are lost: counts per request mean nothing"
                .to_owned(),
        )
    };
    finding.gate("G8", G8, G8_LIMIT)
}

/// Responses by both sides, over all rounds in which both are known.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    server: f64,
    client: f64,
    /// What the edges of windows cut off, over all rounds.
    room: f64,
    /// Whether the server's side follows from the bytes that it sent.
    by_bytes: bool,
}

impl Counted {
    fn of(recording: &Recording, arm: &str) -> Result<Self, &'static str> {
        let mut sum = Self::default();
        let mut why = "no good round with probes, and no counter of its own";
        for round in [Probes::Off, Probes::On]
            .into_iter()
            .flat_map(|probes| good_rounds(recording, arm, probes))
        {
            if let Some(count) = &round.server_count {
                sum.server += count.responses as f64;
                sum.client += count.completed as f64;
                sum.room += count.in_flight as f64;
                continue;
            }
            match Self::of_sends(round) {
                Some(Ok(counted)) => {
                    sum.server += counted.server;
                    sum.client += counted.client;
                    sum.room += counted.room;
                    sum.by_bytes = true;
                }
                Some(Err(reason)) => why = reason,
                None => {}
            }
        }
        if sum.client > 0.0 { Ok(sum) } else { Err(why) }
    }

    /// The responses of one round from what its calls sent; `None` without probes.
    fn of_sends(round: &Round) -> Option<Result<Self, &'static str>> {
        let (profile, load) = (round.profile.as_ref()?, round.load.as_ref()?);
        let client = round.profile_requests.filter(|requests| *requests > 0.0)?;
        if load.tls.is_some() || load.http2.is_some() {
            return Some(Err(
                "bytes of TLS and HTTP/2 do not tell responses apart, and it has no counter",
            ));
        }
        if !round.hops.is_empty() {
            return Some(Err(
                "its hops send to one another as well, so that bytes do not tell responses apart, and it \
                 has no counter",
            ));
        }
        let answered = (load.ledger.ok + load.ledger.failed_total()) as f64;
        let response_bytes = load.traffic.received_bytes as f64 / answered;
        let sent_bytes = match sent_bytes(profile) {
            Ok(bytes) if response_bytes > 0.0 => bytes,
            Ok(_) => return Some(Err("the client received no bytes")),
            Err(why) => return Some(Err(why)),
        };
        let rate = client / profile.window.seconds().max(f64::EPSILON);
        let in_flight = f64::from(load.plan.connections) * f64::from(load.plan.depth);
        Some(Ok(Self {
            server: sent_bytes as f64 / response_bytes,
            client,
            room: in_flight + rate * profile.boundary_ns as f64 / 1e9,
            by_bytes: true,
        }))
    }

    /// By how much both differ beyond what was in flight, as a share.
    fn beyond(&self) -> f64 {
        ((self.server - self.client).abs() - self.room).max(0.0) / self.client
    }

    fn describe(&self) -> String {
        let how = if self.by_bytes {
            " (by bytes sent)"
        } else {
            ""
        };
        format!(
            "server {}{how}, client {}",
            rate(self.server),
            rate(self.client)
        )
    }
}

/// Bytes that calls sent on sockets, or why that is not known.
fn sent_bytes(profile: &Profile) -> Result<u64, &'static str> {
    let mut operations = profile.io_uring.iter().flat_map(|ring| &ring.operations);
    let sends = |name: &str| RING_SENDS.iter().any(|send| name.starts_with(send));
    if operations.any(|operation| operation.submitted > 0 && sends(&operation.name)) {
        return Err("it sends through io_uring, whose bytes are not counted, and has no counter");
    }
    let mut sum = 0;
    for row in profile
        .calls
        .iter()
        .filter(|row| row.family == Family::Send)
    {
        let to_socket = match row.on {
            Some(object) => object == CallObject::Socket,
            None if SOCKET_CALLS.contains(&row.name.as_str()) => true,
            None if row.bytes == Some(0) => false,
            None => return Err("what some of its calls write to was not seen"),
        };
        match row.bytes.filter(|_| to_socket) {
            Some(bytes) => sum += bytes,
            None if to_socket && row.count > row.error_count() => {
                return Err("some of its calls send without saying how many bytes");
            }
            None => {}
        }
    }
    Ok(sum)
}

const G8: &str = "server and client count";
const G8_LIMIT: &str = "responses by server and client within 0.1% and those in flight";
/// What gives a server a count.
const COUNTER: &str = "profile it (as root, with sudo), so that what it sends is counted";
/// What names of operations of `io_uring` that send begin with.
const RING_SENDS: [&str; 3] = ["send", "splice", "write"];
/// Calls that only sockets take.
const SOCKET_CALLS: [&str; 3] = ["sendmmsg", "sendmsg", "sendto"];
/// What Little's law may be off by: a window cuts requests in half.
const LITTLE: f64 = 0.05;
/// Difference of the counts of server and client that is allowed.
const COUNT_SHARE: f64 = 1e-3;
