//! The load half of a measurement: what was sent, what came back, and when.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Http2Report, HttpVersion, LatencyHistogram, LoadMeasures, LoadShape, TlsPlan, TlsReport,
    Warning, Window,
};

/// What the load generator did and saw during the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// The URL, query values replaced by hashes.
    pub url: String,
    /// What was asked for.
    pub plan: LoadPlan,
    /// The measured window.
    pub window: Window,
    /// The account of every request.
    pub ledger: Ledger,
    /// Connections of the measured window.
    pub connections: ConnectionCounts,
    /// Final status codes of the measured window, those of failed requests included.
    pub statuses: BTreeMap<u16, u64>,
    /// Interim (1xx) responses of the measured window.
    pub interim_responses: u64,
    /// Latency of ok requests, from the first byte written to the last byte read; `null` when no
    /// request was ok.
    pub latency: Option<LatencyHistogram>,
    /// Time to connect, per connection; `null` when no connection was made in the window.
    pub connect_time: Option<LatencyHistogram>,
    /// Bytes of the measured window.
    pub traffic: Traffic,
    /// TLS; absent in clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsReport>,
    /// HTTP/2; absent where another version was spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Report>,
    /// CPU time of the client's threads during the window.
    pub client_cpu: CpuTime,
    /// CPU time of the busiest client thread as a share of the window, 0..=1.
    pub busiest_thread_share: f64,
    /// Sub-windows that add up to the window.
    pub slices: Vec<LoadSlice>,
    /// Completions over the whole run, warm-up and drain included, for joining with a profile.
    pub timeline: Timeline,
    /// Why the run ended early; `null` when it did not.
    pub ended_early: Option<String>,
    /// What the reader has to know.
    pub warnings: Vec<Warning>,
    /// How the server broke the protocol in the measured window: each kind once, the most frequent
    /// first. They are as many as failures of class `protocol`, and one more for each connection
    /// that broke with no request in flight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// What the run shows beyond its account; absent in recordings of versions without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measures: Option<Box<LoadMeasures>>,
}

/// What was asked of the load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadPlan {
    /// Connections kept open.
    pub connections: u32,
    /// Requests in flight on a connection: streams of HTTP/2, pipelined ones of HTTP/1.1; absent
    /// for one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub depth: u32,
    /// Version of HTTP; absent for HTTP/1.1.
    #[serde(default, skip_serializing_if = "HttpVersion::is_default")]
    pub http: HttpVersion,
    /// What was asked of TLS; absent in clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPlan>,
    /// Client threads.
    pub threads: u32,
    /// Measured requests, where the run is by count.
    pub requests: Option<u64>,
    /// Length of the measured window, ns, where the run is by time.
    pub duration_ns: Option<u64>,
    /// Warm-up, ns.
    pub warmup_ns: u64,
    /// Warm-up, requests (lock-step runs).
    pub warmup_requests: u64,
    /// Requests after which the client closes a connection and opens the next one.
    pub requests_per_connection: Option<u64>,
    /// Requests by which that number varies from connection to connection, up and down; absent for
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_jitter: Option<u64>,
    /// Time after which the client closes a connection and opens the next one, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_lifetime_ns: Option<u64>,
    /// Whether the name was resolved for every connection, and not once; absent for once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resolve_each: bool,
    /// Limit on one request, ns.
    pub timeout_ns: u64,
    /// Method.
    pub method: String,
    /// Extra header lines; values of Authorization and Cookie replaced by hashes.
    pub headers: Vec<(String, String)>,
    /// The shape of the load; absent for a closed loop of equal requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<LoadShape>,
}

/// Recordings from before the field had one request in flight.
fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_one(depth: &u32) -> bool {
    *depth == 1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadPhase {
    /// Before the window: requests are sent and not counted.
    Warmup,
    /// The measured window.
    Measure,
    /// After the window: nothing new is sent.
    Drain,
}

/// The account of every request of the measured window. It always balances:
/// `sent + carried_in = ok + failed + unfinished`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// In flight when the window opened, sent during warm-up.
    pub carried_in: u64,
    /// Sent during the window; a request replayed after an idle close counts once.
    pub sent: u64,
    /// Complete responses with an expected status.
    pub ok: u64,
    /// Failures by class and phase; a class without failures is not listed.
    pub failed: Vec<Failure>,
    /// In flight when the window closed.
    pub unfinished: u64,
    /// Requests sent once more because the server had closed the connection, refused the stream or
    /// said that it takes no more, all before a byte of the reply; not a failure, and already
    /// counted once in `sent`.
    pub replayed: u64,
}

impl Ledger {
    /// Failures of all classes.
    pub fn failed_total(&self) -> u64 {
        // A foreign file may say anything.
        let counts = self.failed.iter().map(|failure| failure.count);
        counts.fold(0, u64::saturating_add)
    }

    /// Whether every request is accounted for exactly once.
    pub fn balances(&self) -> bool {
        self.sent + self.carried_in == self.ok + self.failed_total() + self.unfinished
    }

    /// Adds failures of a class.
    pub fn fail(&mut self, class: FailureClass, phase: &str, count: u64) {
        if count == 0 {
            return;
        }
        let known = self
            .failed
            .iter_mut()
            .find(|failure| failure.class == class && failure.phase == phase);
        match known {
            Some(failure) => failure.count += count,
            None => self.failed.push(Failure {
                class,
                phase: phase.to_owned(),
                count,
            }),
        }
    }

    /// Adds the account of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.carried_in += other.carried_in;
        self.sent += other.sent;
        self.ok += other.ok;
        self.unfinished += other.unfinished;
        self.replayed += other.replayed;
        for failure in &other.failed {
            self.fail(failure.class, &failure.phase, failure.count);
        }
    }
}

/// Failures of one class in one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// What went wrong.
    pub class: FailureClass,
    /// Where: `resolve`, `connect`, `tls`, `write`, `first_byte`, `head`, `body`, `protocol` (where
    /// the server broke it), `check`.
    pub phase: String,
    /// How often.
    pub count: u64,
}

/// What can go wrong with a request.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// No local port or address was free.
    AddressUnavailable,
    /// The connection ended where a response had begun or was due.
    Closed,
    /// A complete response with an expected status whose length or hash is not the expected one.
    Content,
    /// The response breaks the protocol.
    Protocol,
    /// The server refused the connection.
    Refused,
    /// The connection was reset.
    Reset,
    /// The body ended before its declared length.
    ShortBody,
    /// A complete response with an unexpected status.
    Status,
    /// The server reset the stream (HTTP/2).
    StreamReset,
    /// No complete response within the limit.
    Timeout,
    /// The TLS handshake or a record failed.
    Tls,
    /// The name of the server had no address.
    Unresolved,
    /// Any other error of the operating system.
    Os,
}

/// One way in which the server broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// The rule that it broke, in words.
    pub what: String,
    /// What was found the first time: a frame of HTTP/2, or the start of what came, with escapes for
    /// all that is not printable ASCII.
    pub found: String,
    /// How often.
    pub count: u64,
}

/// Connections of the measured window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionCounts {
    /// Connections asked for, alive at the same time.
    pub asked: u32,
    /// Connections open when the window opened.
    pub open_at_start: u64,
    /// Established during the window.
    pub established: u64,
    /// Closed by the client: requests per connection reached.
    pub closed_by_plan: u64,
    /// Closed by the server between two requests.
    pub closed_idle: u64,
    /// Closed by the server as announced (`Connection: close`, HTTP/1.0, body until close).
    pub closed_by_server: u64,
    /// Ended by a failure.
    pub closed_by_failure: u64,
}

/// Bytes of the measured window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Bytes written.
    pub sent_bytes: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// Of the bytes read, response heads, interim ones and trailers included.
    pub head_bytes: u64,
    /// Of the bytes read, bodies after removing chunk framing.
    pub body_bytes: u64,
}

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTime {
    /// In user mode, ns.
    pub user_ns: u64,
    /// In the kernel, ns.
    pub system_ns: u64,
}

impl CpuTime {
    /// User and kernel together, ns.
    pub fn total_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// A sub-window of the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSlice {
    /// The sub-window.
    pub window: Window,
    /// Ok requests that ended in it.
    pub ok: u64,
    /// Failed requests that ended in it.
    pub failed: u64,
    /// Median latency of the ok requests, ns; `null` when there is none.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// Largest latency, ns.
    pub max_ns: Option<u64>,
}

/// Completed responses (ok, or failed by status) per bin over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Start of the first bin, ns.
    pub start_ns: u64,
    /// Width of a bin, ns.
    pub bin_ns: u64,
    /// Completions per bin; in JSON one text, separated by spaces, since a line per millisecond
    /// would bury everything else.
    #[serde(with = "counts_as_text")]
    #[schemars(with = "String")]
    pub completed: Vec<u32>,
}

impl Timeline {
    /// Completions inside a window; a bin that an edge cuts counts in proportion.
    pub fn completed_in(&self, window: Window) -> f64 {
        if self.bin_ns == 0 || window.length_ns() == 0 {
            return 0.0;
        }
        let bin = self.bin_ns as f64;
        let low = (window.start_ns as f64 - self.start_ns as f64) / bin;
        let high = (window.end_ns as f64 - self.start_ns as f64) / bin;
        self.completed
            .iter()
            .enumerate()
            .map(|(index, &count)| {
                let overlap = high.min(index as f64 + 1.0) - low.max(index as f64);
                f64::from(count) * overlap.clamp(0.0, 1.0)
            })
            .sum()
    }
}

/// Counts as one text.
mod counts_as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(counts: &[u32], to: S) -> Result<S::Ok, S::Error> {
        let words: Vec<String> = counts.iter().map(u32::to_string).collect();
        to.serialize_str(&words.join(" "))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
        let text = String::deserialize(from)?;
        text.split_ascii_whitespace()
            .map(|word| word.parse().map_err(D::Error::custom))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole bins count whole, cut bins in proportion.
    #[test]
    fn timeline_cuts_bins_in_proportion() {
        let timeline = Timeline {
            start_ns: 100,
            bin_ns: 10,
            completed: vec![4, 6, 8],
        };
        let count = |start_ns, end_ns| timeline.completed_in(Window { start_ns, end_ns });
        assert!((count(100, 130) - 18.0).abs() < 1e-9);
        assert!((count(105, 115) - 5.0).abs() < 1e-9);
        assert!((count(0, 1000) - 18.0).abs() < 1e-9);
        assert!(count(200, 300).abs() < 1e-9);
    }

    /// Counts are one text in JSON; what is no count is refused.
    #[test]
    fn timeline_is_stored_as_text() {
        let timeline = Timeline {
            start_ns: 1,
            bin_ns: 2,
            completed: vec![4, 0, 8],
        };
        let json = serde_json::to_string(&timeline).unwrap();
        assert!(json.contains("\"4 0 8\""), "{json}");
        assert_eq!(serde_json::from_str::<Timeline>(&json).unwrap(), timeline);
        assert!(serde_json::from_str::<Timeline>(&json.replace("4 0 8", "4 x")).is_err());
    }

    /// Accounts of threads add up class by class.
    #[test]
    fn ledger_merges_by_class_and_phase() {
        let mut a = Ledger {
            sent: 3,
            ok: 1,
            ..Ledger::default()
        };
        a.fail(FailureClass::Reset, "body", 2);
        let mut b = Ledger {
            sent: 2,
            unfinished: 1,
            ..Ledger::default()
        };
        b.fail(FailureClass::Reset, "body", 1);
        a.merge(&b);
        assert!(a.balances());
        assert_eq!(
            a.failed,
            [Failure {
                class: FailureClass::Reset,
                phase: "body".into(),
                count: 3
            }]
        );
    }
}
