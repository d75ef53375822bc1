//! Rules about connections and the network.

use recording::{Confidence, Probes};

use super::advice::Advice;
use super::advice::Server::{Caddy, H2o, Haproxy, Nginx, Node};
use super::facts::{CallFacts, Facts};
use super::{Found, Rule, detail, number};
use crate::attribution::CallGroup;
use crate::figures::{grouped, per_request};
use crate::metrics::good_rounds;

pub(super) const RULES: [Rule; 4] = [
    Rule {
        id: "accept-herd",
        about: "threads wake for a connection that another one takes",
        cause: "several threads wait at one listening socket without exclusive wake-ups",
        advice: Advice {
            servers: &[
                (Nginx, "set `listen ... reuseport`, or `accept_mutex on`"),
                (
                    H2o,
                    "set `num-threads` no higher than the CPUs that it may use; version 2.2 cannot give each thread a listening socket",
                ),
                (
                    Caddy,
                    "set GOMAXPROCS to the CPUs that it may use; the runtime of Go accepts on one socket",
                ),
                (Haproxy, "set `bind ... shards by-thread`"),
                (
                    Node,
                    "let the primary process hand out connections (`cluster.schedulingPolicy = cluster.SCHED_RR`)",
                ),
            ],
            any: "one listening socket per thread (SO_REUSEPORT), or EPOLLEXCLUSIVE",
        },
        check: herd,
    },
    Rule {
        id: "full-handshakes-dominate",
        about: "most requests pay for a full TLS handshake",
        cause: "connections carry few requests and sessions are not resumed",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `ssl_session_cache shared:SSL:10m; ssl_session_tickets on;` and raise `keepalive_requests`",
                ),
                (
                    H2o,
                    "set `ssl-session-resumption: {mode: all}`, and keep connections open",
                ),
                (
                    Haproxy,
                    "raise `tune.ssl.cachesize` and `tune.ssl.lifetime`, and `timeout http-keep-alive`",
                ),
                (Caddy, "leave session tickets on, and keep connections open"),
                (
                    Node,
                    "keep connections open (`server.keepAliveTimeout`), share `ticketKeys` between processes",
                ),
            ],
            any: "resume sessions, keep connections open, prefer ECDSA certificates",
        },
        check: handshakes,
    },
    Rule {
        id: "listen-queue-overflow",
        about: "connections found the queue of the listening socket full",
        cause: "connections come in bursts larger than the queue, or are not accepted in time",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `listen ... backlog=4096`, and net.core.somaxconn to as much",
                ),
                (
                    Haproxy,
                    "set `backlog 4096`, and net.core.somaxconn to as much",
                ),
                (
                    H2o,
                    "raise net.core.somaxconn, which cuts the queue that it asks for",
                ),
                (
                    Caddy,
                    "raise net.core.somaxconn: the runtime of Go asks for a queue as long as that",
                ),
                (
                    Node,
                    "pass `backlog` to server.listen, and raise net.core.somaxconn to as much",
                ),
            ],
            any: "raise net.core.somaxconn and the queue of the server; accept until EAGAIN",
        },
        check: overflow,
    },
    Rule {
        id: "retransmits",
        about: "segments are sent again",
        cause: "packets are lost: full queues of the network, a lossy link, or a receiver without buffers",
        advice: Advice {
            servers: &[],
            any: "look at drops of the interfaces (`ip -s link`, `nstat -az`), and measure over a quiet link",
        },
        check: retransmits,
    },
];

fn herd(facts: &Facts<'_>) -> Option<Found> {
    let accept = |call: &CallFacts| call.named(&["accept", "accept4"]);
    let tried = facts.count(accept);
    let vain = facts.of_calls(accept, |call| call.again);
    let taken = tried - facts.of_calls(accept, |call| call.errors);
    let threads = facts
        .profiles()
        .map(|profile| profile.processes.iter().filter_map(|p| p.threads).sum())
        .max()
        .unwrap_or(0_u32);
    // A loop that accepts until EAGAIN fails once per wake, also alone.
    let share = vain / taken.max(1e-9);
    (threads > 1 && vain >= VAIN && share >= HERD).then(|| Found {
        title: format!(
            "{} accepts in vain per connection, {threads} threads",
            per_request(share, false)
        ),
        numbers: vec![
            number("accepts with EAGAIN per accepted connection", share, HERD),
            number("accepts with EAGAIN per request", vain, VAIN),
            detail("threads", f64::from(threads), ""),
        ],
        cost_ns: facts.cost(accept).map(|ns| ns * vain / tried),
        calls: facts.labels(accept),
        confidence: Confidence::Likely,
        caveat:
            "a loop that accepts until EAGAIN fails once per wake as well; wake-ups in vain are \
                 not in the cost"
                .to_owned(),
    })
}

fn handshakes(facts: &Facts<'_>) -> Option<Found> {
    let (mut full, mut resumed, mut requests) = (0.0, 0.0, 0.0);
    for round in good_rounds(facts.recording, &facts.arm.name, Probes::On) {
        let Some(load) = &round.load else { continue };
        let tls = load.tls.as_ref()?;
        full += tls.full_handshakes as f64;
        resumed += tls.resumed_handshakes as f64;
        requests += load.ledger.ok as f64;
    }
    if requests <= 0.0 {
        return None;
    }
    let per = full / requests;
    let share = full / (full + resumed).max(1.0);
    (per >= HANDSHAKES && share >= MOSTLY_FULL).then(|| Found {
        title: format!(
            "{} full TLS handshakes per request",
            per_request(per, false)
        ),
        numbers: vec![
            number("full handshakes per request", per, HANDSHAKES),
            number("share of full handshakes", share, MOSTLY_FULL),
        ],
        cost_ns: None,
        calls: Vec::new(),
        confidence: Confidence::Likely,
        caveat: "what a handshake costs is in user code and was not measured apart".to_owned(),
    })
}

fn overflow(facts: &Facts<'_>) -> Option<Found> {
    let overflows: u64 = facts
        .profiles()
        .filter_map(|profile| profile.network.as_ref())
        .flat_map(|network| &network.namespaces)
        .map(|namespace| namespace.listen_overflows)
        .sum();
    let deepest = facts
        .listeners()
        .max_by_key(|queue| queue.deepest)
        .map(|queue| (queue.deepest, queue.limit));
    let (deep, limit) = deepest.unwrap_or((0, None));
    let full = limit.is_some_and(|limit| deep >= limit);
    (overflows > 0).then(|| {
        let mut numbers = vec![
            number("overflows of listen queues", overflows as f64, 1.0),
            detail("connections waiting at most", deep as f64, ""),
        ];
        numbers.extend(limit.map(|limit| detail("room of the queue", limit as f64, "")));
        Found {
            title: format!("{} overflows of listen queues", grouped(overflows)),
            numbers,
            cost_ns: None,
            calls: Vec::new(),
            confidence: if full {
                Confidence::Measured
            } else {
                Confidence::Possible
            },
            caveat: if full {
                String::new()
            } else {
                "the counter is that of the whole network namespace, and the server's queue was not \
                 seen full"
                    .to_owned()
            },
        }
    })
}

fn retransmits(facts: &Facts<'_>) -> Option<Found> {
    let counts = facts
        .profiles()
        .filter_map(|profile| profile.network.as_ref()?.retransmits);
    let again: u64 = counts.sum();
    let share = again as f64 / facts.requests;
    (share >= RETRANSMITS).then(|| Found {
        title: format!("{} retransmits per request", per_request(share, false)),
        numbers: vec![
            number("retransmits per request", share, RETRANSMITS),
            detail(
                "sends per request",
                facts.count(|call| call.group == CallGroup::Send),
                "",
            ),
        ],
        cost_ns: None,
        calls: Vec::new(),
        confidence: Confidence::Likely,
        caveat: "where packets were lost was not seen".to_owned(),
    })
}

/// Accepts in vain per request that are no exception.
const VAIN: f64 = 0.01;
/// Accepts in vain per connection that one loop alone does not make.
const HERD: f64 = 1.5;
/// Full handshakes per request that are no exception.
const HANDSHAKES: f64 = 0.1;
/// Share of handshakes that are full.
const MOSTLY_FULL: f64 = 0.5;
/// Retransmits per request that are no exception.
const RETRANSMITS: f64 = 1e-3;
