//! Rules about files.

use recording::{CallObject, Confidence};

use super::advice::Advice;
use super::advice::Server::{Caddy, H2o, Haproxy, Nginx, Node};
use super::facts::{CallFacts, Facts};
use super::{Found, Rule, detail, number};
use crate::attribution::CallGroup;
use crate::figures::{micros, per_request};

pub(super) const RULES: [Rule; 2] = [
    Rule {
        id: "file-opened-per-request",
        about: "a file is opened, looked at and closed for each request",
        cause: "no cache of open files",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;`",
                ),
                (
                    H2o,
                    "no setting is known that keeps files open between requests; serve small files from memory (a mruby handler), or from a cache in front",
                ),
                (
                    Caddy,
                    "no setting of file_server is known; put a cache in front, or embed the files",
                ),
                (
                    Haproxy,
                    "serve small files from memory: `http-request return ... file`",
                ),
                (Node, "read the file once at the start and keep the buffer"),
            ],
            any: "keep files open between requests",
        },
        check: opened,
    },
    Rule {
        id: "blocking-file-read",
        about: "threads sleep while they read files",
        cause: "files that are not in the page cache are read by the threads that serve connections",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `aio threads` for large files, or give the machine memory for the page cache",
                ),
                (
                    H2o,
                    "raise `num-threads`, so that a thread that waits for a disk holds fewer connections up",
                ),
                (
                    Caddy,
                    "give the machine memory for the page cache; the runtime of Go starts threads for reads that wait",
                ),
                (
                    Node,
                    "read asynchronously (fs.promises), never with the ...Sync functions",
                ),
            ],
            any: "read files on threads of their own, or keep them in memory",
        },
        check: blocking_read,
    },
];

fn opened(facts: &Facts<'_>) -> Option<Found> {
    let opens = |call: &CallFacts| call.named(&["open", "openat", "openat2"]);
    let around = |call: &CallFacts| {
        opens(call) || matches!(call.group, CallGroup::CloseFile | CallGroup::Stat)
    };
    let count = facts.count(opens);
    (count >= OPENS).then(|| Found {
        title: format!(
            "{} opens of a file per request, {} calls with stat and close",
            per_request(count, false),
            per_request(facts.count(around), false)
        ),
        numbers: vec![
            number("opens per request", count, OPENS),
            detail("calls around them per request", facts.count(around), ""),
            detail(
                "failed opens per request",
                facts.of_calls(opens, |call| call.errors),
                "",
            ),
        ],
        cost_ns: facts.cost(around),
        calls: facts.labels(around),
        confidence: Confidence::Measured,
        caveat: String::new(),
    })
}

fn blocking_read(facts: &Facts<'_>) -> Option<Found> {
    let reads = |call: &CallFacts| {
        let of_file = call.on == Some(CallObject::File) && call.group == CallGroup::ReadFile;
        of_file || call.named(&["sendfile", "pread64", "preadv"])
    };
    let asleep = facts.calls.iter().filter(|call| reads(call));
    let asleep: f64 = asleep.map(|call| call.asleep_ns).sum::<Option<f64>>()?;
    let sleeps = facts.of_calls(reads, |call| call.sleeps);
    (sleeps >= SLEEPS && asleep >= ASLEEP_NS).then(|| Found {
        title: format!("{} us asleep in reads of files per request", micros(asleep)),
        numbers: vec![
            number("sleeps in reads of files per request", sleeps, SLEEPS),
            detail("asleep", asleep / 1e3, "us/req"),
        ],
        cost_ns: None,
        calls: facts.labels(|call| reads(call) && call.sleeps > 0.0),
        confidence: Confidence::Likely,
        caveat:
            "sendfile also sleeps for a slow receiver; sleep costs no CPU time, only connections \
                 that wait behind it"
                .to_owned(),
    })
}

/// Opens per request that are no exception.
const OPENS: f64 = 0.3;
/// Sleeps per request that are no exception.
const SLEEPS: f64 = 0.01;
/// Sleep per request that matters, ns.
const ASLEEP_NS: f64 = 1_000.0;
