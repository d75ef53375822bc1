//! Rules about waiting for events.

use recording::Confidence;

use super::advice::Advice;
use super::advice::Server::{Caddy, H2o, Haproxy, Nginx, Node};
use super::facts::{CallFacts, Facts};
use super::{Found, Rule, detail, number};
use crate::attribution::CallGroup;
use crate::figures::{per_request, rate};

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "one-event-per-wake",
        about: "each wait returns a single event although many connections are busy",
        cause: "room for one event only, or a server so little busy that events never gather",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "leave `epoll_events` at 512 or raise it; else nothing: an idle worker wakes for each event",
                ),
                (Haproxy, "raise `tune.maxpollevents`"),
                (
                    Caddy,
                    "nothing to set: the runtime of Go asks for 128 events at once",
                ),
                (Node, "nothing to set: libuv asks for 1024 events at once"),
            ],
            any: "ask for many events at once (maxevents), and serve all before waiting again",
        },
        check: one_event,
    },
    Rule {
        id: "epoll-ctl-per-request",
        about: "interest in a connection is changed for each request",
        cause: "level-triggered events with interest that follows the state of the connection, one-shot \
                events, or a connection for each request",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "keep connections open (`keepalive_requests`, `keepalive` in upstream blocks): nginx registers a connection once",
                ),
                (
                    Haproxy,
                    "set `tune.fd.edge-triggered on` (after `expose-experimental-directives`), and keep connections alive (`http-reuse always`)",
                ),
                (
                    Caddy,
                    "keep connections open: the runtime of Go registers a connection once",
                ),
                (
                    Node,
                    "keep connections open: libuv registers a connection once",
                ),
            ],
            any: "register a connection once, edge-triggered, for reading and writing",
        },
        check: changes,
    },
    Rule {
        id: "select-or-poll",
        about: "select or poll with many descriptors, whose cost grows with their number",
        cause: "an old event loop, or epoll switched off",
        advice: Advice {
            servers: &[
                (Nginx, "set `use epoll;` in the events block"),
                (Haproxy, "remove `noepoll` from the global section"),
                (H2o, "take version 1.4 or later, which waits with epoll"),
            ],
            any: "wait with epoll",
        },
        check: select,
    },
];

fn one_event(facts: &Facts<'_>) -> Option<Found> {
    let wakes = facts.wakes()?;
    let events = wakes.events / wakes.count;
    let many = facts.connections() >= MANY_CONNECTIONS;
    let full = wakes.full / wakes.count;
    (many && wakes.count >= HALF && events <= ONE).then(|| Found {
        title: format!(
            "{} events per wake with {} connections",
            rate(events),
            rate(facts.connections())
        ),
        numbers: vec![
            number("events per wake", events, ONE),
            number("wakes per request", wakes.count, HALF),
            number("connections", facts.connections(), MANY_CONNECTIONS),
            detail("share of wakes that filled the room for events", full, ""),
        ],
        cost_ns: facts.cost(|call| call.group == CallGroup::Poll),
        calls: facts.labels(|call| call.group == CallGroup::Poll),
        // Only a full room shows that more events were there.
        confidence: if full >= FULL {
            Confidence::Measured
        } else {
            Confidence::Possible
        },
        caveat: if full >= FULL {
            String::new()
        } else {
            "a server with time to spare wakes for each event as well".to_owned()
        },
    })
}

fn changes(facts: &Facts<'_>) -> Option<Found> {
    let change = |call: &CallFacts| call.name == "epoll_ctl";
    let count = facts.count(change);
    (count >= HALF).then(|| Found {
        title: format!("{} epoll_ctl per request", per_request(count, false)),
        numbers: vec![
            number("epoll_ctl per request", count, HALF),
            detail(
                "connections accepted per request",
                facts.count(|call| call.group == CallGroup::Accept),
                "",
            ),
        ],
        cost_ns: facts.cost(change),
        calls: facts.labels(change),
        confidence: Confidence::Measured,
        caveat: String::new(),
    })
}

fn select(facts: &Facts<'_>) -> Option<Found> {
    let scan = |call: &CallFacts| call.named(&["select", "pselect6", "poll", "ppoll"]);
    let epoll = |call: &CallFacts| call.name.starts_with("epoll_");
    let count = facts.count(scan);
    let leads = count > facts.count(epoll) && count > 0.0;
    (leads && facts.connections() >= MANY_DESCRIPTORS).then(|| Found {
        title: format!(
            "{} per request with {} connections",
            facts.labels(scan).join(", "),
            rate(facts.connections())
        ),
        numbers: vec![
            number("connections", facts.connections(), MANY_DESCRIPTORS),
            detail("select and poll per request", count, ""),
        ],
        cost_ns: facts.cost(scan),
        calls: facts.labels(scan),
        confidence: Confidence::Likely,
        caveat: "how many descriptors a call names was not seen".to_owned(),
    })
}

/// Connections from which events could gather.
const MANY_CONNECTIONS: f64 = 8.0;
/// Connections from which scanning descriptors shows.
const MANY_DESCRIPTORS: f64 = 64.0;
/// About once in two requests.
const HALF: f64 = 0.5;
/// Events per wake that are as good as one.
const ONE: f64 = 1.2;
/// Share of full wakes that is no chance.
const FULL: f64 = 0.9;
