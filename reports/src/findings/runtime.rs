//! Rules about memory, clocks and random numbers: what libraries and runtimes do unasked.

use recording::Confidence;

use super::advice::Advice;
use super::advice::Server::{Caddy, Haproxy, Node};
use super::facts::{CallFacts, Facts};
use super::{Found, Rule, number};
use crate::figures::per_request;

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "allocator-trimming",
        about: "memory is taken from the kernel and given back for each request",
        cause: "an allocator that returns free memory at once, or blocks so large that each is a mapping",
        advice: Advice {
            servers: &[
                (
                    Caddy,
                    "raise GOGC, or set GOMEMLIMIT with GOGC=off, so that the collector runs less often",
                ),
                (Haproxy, "set `no-memory-trimming` in the global section"),
                (
                    Node,
                    "raise --max-semi-space-size (node --max-semi-space-size=64), and reuse buffers",
                ),
            ],
            any: "raise MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ (glibc), reuse buffers, or use \
                  another allocator",
        },
        check: trimming,
    },
    Rule {
        id: "clock-misses-vdso",
        about: "the clock is read with a call into the kernel",
        cause: "the clock source cannot be read from user code, or a clock is asked for that has no such \
                way (CPU time)",
        advice: Advice {
            servers: &[],
            any: "use the clock source tsc where the machine has it \
                  (/sys/devices/system/clocksource/clocksource0/current_clocksource), and read the clock \
                  once per turn of the event loop",
        },
        check: clock,
    },
    Rule {
        id: "getrandom-per-request",
        about: "random numbers are asked of the kernel for each request",
        cause: "identifiers, nonces or hash seeds that are made one by one",
        advice: Advice {
            servers: &[
                (
                    Haproxy,
                    "leave uuid() out of `unique-id-format`: `unique-id-format %{+X}o%ci:%cp_%Ts_%rt`",
                ),
                (
                    Node,
                    "make identifiers from a pool: crypto.randomUUID caches, crypto.randomBytes(16) does not",
                ),
            ],
            any: "ask for many random bytes at once, or seed a generator in user code",
        },
        check: random,
    },
];

fn trimming(facts: &Facts<'_>) -> Option<Found> {
    let memory = |call: &CallFacts| call.named(&["madvise", "munmap", "mmap", "brk", "mremap"]);
    per_request_calls(
        facts,
        memory,
        "memory calls per request",
        TRIMS,
        Confidence::Measured,
        "",
    )
}

fn clock(facts: &Facts<'_>) -> Option<Found> {
    let clock = |call: &CallFacts| call.named(&["clock_gettime", "gettimeofday", "time"]);
    let source = facts.recording.host.clocksource.as_deref();
    let caveat = match source {
        Some("tsc") => "the clock source is tsc, so it is likely a clock of CPU time",
        Some(_) => "",
        None => "the clock source is not known",
    };
    let confidence = if caveat.is_empty() {
        Confidence::Measured
    } else {
        Confidence::Likely
    };
    let found = per_request_calls(
        facts,
        clock,
        "clock calls per request",
        CLOCKS,
        confidence,
        caveat,
    );
    found.map(|found| Found {
        title: match source {
            Some(source) => format!("{}, clock source {source}", found.title),
            None => found.title,
        },
        ..found
    })
}

fn random(facts: &Facts<'_>) -> Option<Found> {
    let random = |call: &CallFacts| call.name == "getrandom";
    per_request_calls(
        facts,
        random,
        "getrandom per request",
        RANDOMS,
        Confidence::Measured,
        "",
    )
}

/// Calls that occur more often than a limit.
fn per_request_calls(
    facts: &Facts<'_>,
    test: impl Fn(&CallFacts) -> bool + Copy,
    what: &str,
    limit: f64,
    confidence: Confidence,
    caveat: &str,
) -> Option<Found> {
    let count = facts.count(test);
    (count >= limit).then(|| Found {
        title: format!(
            "{} {what} ({})",
            per_request(count, false),
            facts.labels(test).join(", ")
        ),
        numbers: vec![number(what, count, limit)],
        cost_ns: facts.cost(test),
        calls: facts.labels(test),
        confidence,
        caveat: caveat.to_owned(),
    })
}

/// Calls about memory per request that are more than growth.
const TRIMS: f64 = 0.1;
/// Clock calls per request that are no exception.
const CLOCKS: f64 = 0.05;
/// Calls for random numbers per request that are no exception.
const RANDOMS: f64 = 0.1;
