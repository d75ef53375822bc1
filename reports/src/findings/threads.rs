//! Rules about threads that wait for each other, for a CPU, or for nothing.

use recording::{Confidence, Probes, ServerCpu};

use super::advice::Advice;
use super::advice::Server::{Caddy, H2o, Haproxy, Nginx, Node};
use super::facts::{CallFacts, Facts};
use super::{Found, Rule, detail, number};
use crate::attribution::CallGroup;
use crate::figures::{micros, per_request, percent};
use crate::metrics::good_rounds;

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "futex-contention",
        about: "threads wait for and wake each other for each request",
        cause: "a lock that several threads want, or work that is handed from thread to thread",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "turn `aio threads` off where files are in the page cache",
                ),
                (H2o, "set `num-threads` to the CPUs that it may use"),
                (
                    Haproxy,
                    "set `nbthread` to the CPUs that it may use, and `bind ... shards by-thread`",
                ),
                (Caddy, "set GOMAXPROCS to the CPUs that it may use"),
                (Node, "set UV_THREADPOOL_SIZE, and keep work off the pool"),
            ],
            any: "give each thread its own connections and data; hold locks more briefly",
        },
        check: contention,
    },
    Rule {
        id: "idle-worker-beside-busy-one",
        about: "one worker is busy all the time while another has time to spare",
        cause: "connections are spread unevenly over workers",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `listen ... reuseport` with many connections, `accept_mutex on` with few",
                ),
                (
                    H2o,
                    "set `num-threads` to the CPUs that it may use, and open many more connections than threads",
                ),
                (
                    Haproxy,
                    "leave `tune.listener.multi-queue on`; with many connections `bind ... shards by-thread`",
                ),
                (Node, "use the cluster module with SCHED_RR"),
            ],
            any: "spread connections evenly: more connections, or hand them out in turn",
        },
        check: uneven,
    },
    Rule {
        id: "throttled-cgroup",
        about: "a quota of the control group held the server back",
        cause: "cpu.max is lower than what the server could use",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "raise cpu.max, or set `worker_processes` to the whole CPUs of the quota",
                ),
                (
                    H2o,
                    "raise cpu.max, or set `num-threads` to the whole CPUs of the quota",
                ),
                (
                    Haproxy,
                    "raise cpu.max, or set `nbthread` to the whole CPUs of the quota",
                ),
                (
                    Caddy,
                    "raise cpu.max, or set GOMAXPROCS to the whole CPUs of the quota",
                ),
                (
                    Node,
                    "raise cpu.max, or start as many processes as the quota has whole CPUs",
                ),
            ],
            any: "raise cpu.max (CPUQuota= of a unit, limits.cpu of a container), or give it fewer threads",
        },
        check: throttled,
    },
];

fn contention(facts: &Facts<'_>) -> Option<Found> {
    let futex = |call: &CallFacts| call.group == CallGroup::Futex;
    let count = facts.count(futex);
    let asleep: Option<f64> = facts
        .calls
        .iter()
        .filter(|call| futex(call))
        .map(|call| call.asleep_ns)
        .sum();
    (count >= FUTEXES).then(|| {
        let mut numbers = vec![number("futex calls per request", count, FUTEXES)];
        numbers.extend(asleep.map(|ns| detail("asleep in them", ns / 1e3, "us/req")));
        let slept = asleep.map_or(String::new(), |ns| format!(", {} us asleep", micros(ns)));
        Found {
            title: format!(
                "{} futex calls per request{slept}",
                per_request(count, false)
            ),
            numbers,
            cost_ns: facts.cost(futex),
            calls: facts.labels(futex),
            confidence: Confidence::Likely,
            caveat: "idle threads of a pool wait on futexes as well; which lock it is was not seen"
                .to_owned(),
        }
    })
}

fn uneven(facts: &Facts<'_>) -> Option<Found> {
    let rounds = good_rounds(facts.recording, &facts.arm.name, Probes::Off);
    let (busiest, idlest, workers) = rounds
        .filter_map(|round| spread(round.server_cpu.as_ref()?))
        .max_by(|x, y| (x.0 - x.1).total_cmp(&(y.0 - y.1)))?;
    (busiest >= BUSY && idlest <= SPARE).then(|| Found {
        title: format!(
            "one worker {} busy, another {}",
            percent(busiest),
            percent(idlest)
        ),
        numbers: vec![
            number("share of its CPU of the busiest worker", busiest, BUSY),
            number("share of its CPU of the idlest worker", idlest, SPARE),
            detail("workers", workers as f64, ""),
        ],
        cost_ns: None,
        calls: Vec::new(),
        confidence: Confidence::Measured,
        caveat: "threads that do other work than serving connections are taken for workers"
            .to_owned(),
    })
}

/// How busy the busiest and the idlest worker were, as shares of one CPU, and how many workers there are.
fn spread(cpu: &ServerCpu) -> Option<(f64, f64, usize)> {
    let window_ns = cpu.window.length_ns() as f64;
    let shares = cpu.threads.iter();
    let shares = shares.map(|thread| thread.total_ns as f64 / window_ns);
    // Helpers that hardly run are no workers.
    let working: Vec<f64> = shares.filter(|share| *share >= WORKER).collect();
    let low = working.iter().copied().reduce(f64::min)?;
    let high = working.iter().copied().reduce(f64::max)?;
    (working.len() > 1).then_some((high, low, working.len()))
}

fn throttled(facts: &Facts<'_>) -> Option<Found> {
    let (mut held_ns, mut capacity_ns) = (0.0, 0.0);
    for cpus in facts.profiles().filter_map(|profile| profile.cpus.as_ref()) {
        held_ns += cpus.throttled_ns? as f64;
        capacity_ns += cpus.capacity_ns as f64;
    }
    let share = held_ns / capacity_ns;
    (capacity_ns > 0.0 && share >= HELD).then(|| Found {
        title: format!("held back by a quota {} of the time", percent(share)),
        numbers: vec![
            number("share of the time of its CPUs", share, HELD),
            detail("held back", held_ns / facts.window_ns * 1e3, "ms/s"),
        ],
        cost_ns: None,
        calls: Vec::new(),
        confidence: Confidence::Measured,
        caveat: String::new(),
    })
}

/// Futex calls per request that are no exception.
const FUTEXES: f64 = 0.3;
/// A worker that is as good as always busy, as a share of one CPU.
const BUSY: f64 = 0.9;
/// A worker with time to spare.
const SPARE: f64 = 0.6;
/// Less is no worker.
const WORKER: f64 = 0.02;
/// Share of the time that a quota may hold a server back unnoticed.
const HELD: f64 = 0.01;
