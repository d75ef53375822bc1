//! Rules about how responses leave, and how requests are read.

use recording::Confidence;

use super::advice::Advice;
use super::advice::Server::{Caddy, H2o, Haproxy, Nginx, Node};
use super::facts::{CallFacts, Facts};
use super::{Found, Rule, detail, number};
use crate::attribution::CallGroup;
use crate::figures::{bytes, per_request};

pub(super) const RULES: [Rule; 4] = [
    Rule {
        id: "cork-around-tiny-sendfile",
        about: "socket options set around each sendfile of a few bytes",
        cause: "the socket is corked before and uncorked after each response, so that head and body \
                leave in one packet; a small body fits into one writev with the head",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `tcp_nopush off`, or `sendfile off` where files are small",
                ),
                (
                    Haproxy,
                    "nothing to set: it does not do so itself; look at the server behind it",
                ),
            ],
            any: "send small bodies with the head in one writev, sendfile only from some kB on",
        },
        check: cork,
    },
    Rule {
        id: "many-small-writes",
        about: "a response leaves in several calls of less than a packet each",
        cause: "the response is written in parts as they are made, each with its own call and packet",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `tcp_nopush on` with sendfile, keep `postpone_output` at 1460, enlarge `output_buffers`",
                ),
                (
                    Node,
                    "end a response with one `res.end(body)`, or use `res.cork()` and `res.uncork()`",
                ),
                (Haproxy, "remove `option http-no-delay`"),
                (
                    Caddy,
                    "write through a buffer: handlers that flush after each part defeat it",
                ),
            ],
            any: "gather the parts of a response into one writev",
        },
        check: small_writes,
    },
    Rule {
        id: "log-write-per-request",
        about: "a line is written to a log file for each request",
        cause: "an access log without a buffer",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "set `access_log ... buffer=64k flush=5s`, or `access_log off`",
                ),
                (H2o, "remove `access-log`; it has no buffer"),
                (
                    Haproxy,
                    "log to a ring in memory: `log ring@requests local0`",
                ),
                (
                    Caddy,
                    "remove `log` from the site, or discard it: `log { output discard }`",
                ),
                (Node, "log through a buffered, asynchronous destination"),
            ],
            any: "buffer the access log, or turn it off",
        },
        check: log_writes,
    },
    Rule {
        id: "reads-ending-in-eagain",
        about: "requests are read until the kernel says that there is nothing more",
        cause: "with edge-triggered events a socket is read until EAGAIN; a read that returns less than \
                it had room for says the same",
        advice: Advice {
            servers: &[
                (
                    Nginx,
                    "no setting is known; the server would have to stop at a short read",
                ),
                (
                    H2o,
                    "no setting is known; the server would have to stop at a short read",
                ),
                (
                    Haproxy,
                    "set `tune.recv_enough` below the bytes of a request",
                ),
                (
                    Caddy,
                    "no setting is known; the runtime of Go tries to read before it waits",
                ),
                (
                    Node,
                    "no setting is known; libuv would have to stop at a short read",
                ),
            ],
            any: "stop at a read that returns less than the buffer holds",
        },
        check: eager_reads,
    },
];

fn to_socket(call: &CallFacts) -> bool {
    call.group == CallGroup::Send
}

fn cork(facts: &Facts<'_>) -> Option<Found> {
    let option = |call: &CallFacts| call.name == "setsockopt";
    let sendfile = |call: &CallFacts| call.named(&["sendfile", "sendfile64"]);
    let (options, files) = (facts.count(option), facts.count(sendfile));
    let moved = facts.of_calls(sendfile, |call| call.bytes) / files;
    (options >= CORKS && files >= HALF && moved < TINY_BYTES).then(|| Found {
        title: format!(
            "{} setsockopt per request around a sendfile of {}",
            per_request(options, false),
            bytes(moved)
        ),
        numbers: vec![
            number("setsockopt per request", options, CORKS),
            number("sendfile per request", files, HALF),
            number("bytes per sendfile", moved, TINY_BYTES),
        ],
        cost_ns: facts.least_cost(option, |call| call.count),
        calls: facts.labels(option),
        confidence: Confidence::Likely,
        caveat: "which option is set was not seen; the cost is that of calls that only set one, since the \
                 one that uncorks also sends, and sending stays"
            .to_owned(),
    })
}

fn small_writes(facts: &Facts<'_>) -> Option<Found> {
    let sends = facts.count(to_socket);
    let moved = facts.of_calls(to_socket, |call| call.bytes) / sends;
    (sends >= MANY_WRITES && moved < PACKET_BYTES && moved > 0.0).then(|| Found {
        title: format!(
            "{} sends per request of {} each",
            per_request(sends, false),
            bytes(moved)
        ),
        numbers: vec![
            number("sends per request", sends, MANY_WRITES),
            number("bytes per send", moved, PACKET_BYTES),
        ],
        // One send stays.
        cost_ns: facts.cost(to_socket).map(|ns| ns * (1.0 - 1.0 / sends)),
        calls: facts.labels(to_socket),
        confidence: Confidence::Likely,
        caveat: "the cost takes all sends for equally dear, and one for needed".to_owned(),
    })
}

fn log_writes(facts: &Facts<'_>) -> Option<Found> {
    let line = |call: &CallFacts| call.group == CallGroup::WriteFile;
    let writes = facts.count(line);
    let moved = facts.of_calls(line, |call| call.bytes) / writes;
    (writes >= HALF && moved < LINE_BYTES && moved > 0.0).then(|| Found {
        title: format!(
            "{} writes of {} to a file per request",
            per_request(writes, false),
            bytes(moved)
        ),
        numbers: vec![
            number("writes to files per request", writes, HALF),
            number("bytes per write", moved, LINE_BYTES),
        ],
        cost_ns: facts.cost(line),
        calls: facts.labels(line),
        confidence: Confidence::Measured,
        caveat: "that the file is a log is a guess by the size of the writes".to_owned(),
    })
}

fn eager_reads(facts: &Facts<'_>) -> Option<Found> {
    let reads = |call: &CallFacts| call.group == CallGroup::Receive;
    let again = facts.of_calls(reads, |call| call.again);
    let all = facts.count(reads);
    (again >= HALF).then(|| Found {
        title: format!(
            "{} of {} reads per request end in EAGAIN",
            per_request(again, false),
            per_request(all, false)
        ),
        numbers: vec![
            number("reads with EAGAIN per request", again, HALF),
            detail("reads per request", all, ""),
        ],
        cost_ns: facts.least_cost(reads, |call| call.again),
        calls: facts.labels(reads),
        confidence: Confidence::Likely,
        caveat: "the cost takes each failed read for as cheap as the shortest read, since it finds nothing".to_owned(),
    })
}

/// Socket options per request from which a cork is likely: on and off are two.
const CORKS: f64 = 1.5;
/// About once in two requests.
const HALF: f64 = 0.5;
/// Bodies that fit beside a head without a call of their own.
const TINY_BYTES: f64 = 4096.0;
/// Sends per request from which a response is cut up; head and body apart are two.
const MANY_WRITES: f64 = 2.5;
/// Payload of a packet on Ethernet.
const PACKET_BYTES: f64 = 1448.0;
/// Longer writes are buffered already.
const LINE_BYTES: f64 = 2048.0;
