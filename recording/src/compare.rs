//! A comparison: its arms, its rounds, what was checked, and what follows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Hop, Published, TlsNegotiated};

/// Which load to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scenario {
    /// Name (`static-1b`).
    pub name: String,
    /// Protocol of the load.
    pub protocol: Protocol,
    /// Path that is requested, query values replaced by hashes.
    pub path: String,
    /// Bytes of the file behind the path, where whyfast made it.
    pub body_bytes: Option<u64>,
    /// Connections kept open.
    pub connections: u32,
    /// Client threads.
    pub client_threads: u32,
    /// Measured window of a round, ns; `null` for lock-step rounds.
    pub duration_ns: Option<u64>,
    /// Warm-up of a round, ns.
    pub warmup_ns: u64,
    /// Requests of a lock-step round, one at a time; `null` for rounds by time.
    pub lock_step_requests: Option<u64>,
    /// Requests after which the client reconnects.
    pub requests_per_connection: Option<u64>,
    /// CPUs of the servers, as a list (`0`, `2-3`); `null` where not pinned.
    pub server_cpus: Option<String>,
    /// CPUs of the client.
    pub client_cpus: Option<String>,
    /// Pairs of rounds that were planned.
    pub pairs: u32,
    /// The margin below which a difference is not material, as a fraction (0.02).
    pub margin: f64,
    /// Pairs run until the interval of the throughput ratio has this relative half-width or less;
    /// `null` where the number of pairs was fixed.
    #[serde(default)]
    pub half_width_target: Option<f64>,
    /// Whether connections are encrypted, and how; `null` in clear.
    #[serde(default)]
    pub tls: Option<ScenarioTls>,
    /// Requests in flight at once on each connection (HTTP/2 streams, or HTTP/1.1 pipelining).
    #[serde(default)]
    pub streams: Option<u32>,
    /// Fields that each request has, beside those that the client always sends.
    #[serde(default)]
    pub request_headers: Vec<(String, String)>,
    /// Requests of a round, where a round is a number of requests and not a time.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Whether the load is as it was published, what it breaks in fairness included.
    #[serde(default)]
    pub as_published: bool,
    /// The publication that this scenario repeats.
    #[serde(default)]
    pub published: Option<Published>,
    /// Requests that are sent before the window and not counted, where warm-up is a number of requests
    /// and not a time.
    #[serde(default)]
    pub warmup_requests: Option<u64>,
    /// What the publication did that is no fair comparison, where the load is as it was published.
    #[serde(default)]
    pub unfair: Vec<Unfair>,
}

/// Something that a publication did and that is no fair comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unfair {
    /// The gate that refuses it (`G2`), and that is allowed for this reason; `null` where none does.
    pub gate: Option<String>,
    /// What was done, in a sentence.
    pub what: String,
}

/// How connections of a scenario are encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioTls {
    /// Kind of key in the certificate that was made for the run (`rsa-2048`, `p-256`).
    pub key: String,
    /// The only version that the client offers (`1.3`); `null` where it offers all.
    pub version: Option<String>,
    /// Whether sessions are resumed.
    pub resumption: bool,
    /// The only cipher suites that the client offers, best first; empty where the choice is left to
    /// the servers.
    #[serde(default)]
    pub ciphers: Vec<String>,
    /// The only groups of the key exchange that the client offers; empty where it offers all.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// What the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// One server in a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// The name in every table; unique.
    pub name: String,
    /// What it is.
    pub kind: ArmKind,
    /// As typed on the command line.
    pub spec: String,
    /// Version, as the program says itself; `null` where it does not.
    pub version: Option<String>,
    /// The settings that matter, in words ("file cache: on"); printed side by side.
    pub settings: Vec<Setting>,
    /// What the program says of how it was built: libraries, modules.
    #[serde(default)]
    pub build: Vec<Setting>,
    /// Configuration files that whyfast generated.
    pub config: Vec<ConfigFile>,
    /// Command line that was run; empty for a live server.
    pub command: Vec<String>,
    /// SHA-256 of the program file; `null` where it could not be read.
    pub binary_sha256: Option<String>,
    /// What the parity check saw.
    pub response: Option<ResponseShape>,
    /// The programs that requests pass through, the client's end first; empty where the arm is one
    /// program, which is then described by the fields above. Of a chain those have the versions of all
    /// hops and their settings side by side, and no file, command or hash.
    #[serde(default)]
    pub hops: Vec<Hop>,
}

/// What kind of server an arm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArmKind {
    /// A command that whyfast starts.
    Command,
    /// A live server: it cannot be restarted, so its replicate is the window.
    Live,
    /// A recipe.
    Recipe,
    /// The built-in server.
    Testserver,
}

/// One setting of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// What is set ("workers").
    pub key: String,
    /// To what.
    pub value: String,
}

/// A generated configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFile {
    /// File name without folder.
    pub name: String,
    /// Its text; port and folder as `{port}` and `{dir}`, so that it is the same in every round.
    pub text: String,
}

/// What a server answered to the parity check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseShape {
    /// Status codes seen, with how often.
    pub statuses: BTreeMap<u16, u32>,
    /// SHA-256 of the decoded body, hexadecimal.
    pub body_sha256: String,
    /// Bytes of the body on the wire.
    pub body_bytes: u64,
    /// Bytes of the response head: status line, header lines and the empty line. That of HTTP/2 is
    /// compressed with what came before it, so what counts is its form in HTTP/1.1.
    pub head_bytes: u64,
    /// Value of Content-Encoding; `null` when absent.
    pub content_encoding: Option<String>,
    /// How the body ends: `content-length`, `chunked`, `close`, `none`, or `end-stream` in HTTP/2
    /// without a length.
    pub framing: String,
    /// Header names and values in order, of the first response.
    pub headers: Vec<(String, String)>,
    /// What the first connection negotiated, where it was encrypted.
    #[serde(default)]
    pub tls: Option<TlsNegotiated>,
}

/// A check that can refuse a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// `G1`...
    pub id: String,
    /// What is checked.
    pub title: String,
    /// The outcome.
    pub status: GateStatus,
    /// What was measured, for people.
    pub value: String,
    /// The limit, for people.
    pub limit: String,
    /// What to change; empty when there is nothing to change.
    pub fix: String,
}

/// The outcome of a gate.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    /// Within the limit.
    Ok,
    /// Outside, but only to be read.
    Warn,
    /// Outside: no verdict.
    Refuse,
    /// Outside, but allowed on the command line.
    Allowed,
    /// Not measured, which is never the same as ok.
    NotMeasured,
}

/// A metric of one arm against the reference arm, over the paired rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// `throughput_rps`, `server_cpu_ns_per_request`, `latency_p99_ns`, `probes_throughput`...
    pub metric: String,
    /// The reference arm.
    pub a: String,
    /// The other arm.
    pub b: String,
    /// Geometric mean of `a`.
    pub a_value: f64,
    /// Geometric mean of `b`.
    pub b_value: f64,
    /// `a` divided by `b`: ratio of the geometric means.
    pub ratio: f64,
    /// Interval of the ratio; `null` with fewer than two pairs.
    pub interval: Option<(f64, f64)>,
    /// Level of the interval, 0..=1.
    pub level: f64,
    /// `paired-log-ratio-t`.
    pub method: String,
    /// Pairs.
    pub pairs: u32,
    /// Requests per second that every arm was asked for, where the rounds are those at equal rate.
    #[serde(default)]
    pub rate_rps: Option<f64>,
    /// The same ratio by methods that assume less, for a reader who doubts the first.
    #[serde(default)]
    pub others: Vec<Estimate>,
}

/// A ratio by another method than the one of the headline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// `fieller`, `hodges-lehmann-wilcoxon`, `hierarchical-bootstrap-median`.
    pub method: String,
    /// The ratio.
    pub ratio: f64,
    /// Its interval; `null` where the method cannot give one for these values.
    pub interval: Option<(f64, f64)>,
    /// Level of the interval, 0..=1: the one of the headline, or the highest that so few pairs
    /// allow.
    pub level: f64,
}

/// What follows from a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The word, the same in every format and in the exit code.
    pub word: VerdictWord,
    /// The faster arm, where the word is `faster`.
    pub winner: Option<String>,
    /// The metric that it is about.
    pub metric: String,
    /// One sentence with the numbers.
    pub text: String,
    /// Whether fewer pairs were run than a published claim needs.
    pub indicative: bool,
    /// The margin that was applied, as a fraction: that of the scenario, or the half-width of the
    /// A/A control where that is larger. `null` where nothing was judged.
    #[serde(default)]
    pub margin: Option<f64>,
}

/// The words of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// The interval lies inside the margin.
    Equivalent,
    /// One arm is faster by more than the margin.
    Faster,
    /// A difference is established but it touches the margin.
    Immaterial,
    /// The interval contains 1 and is wider than the margin.
    Inconclusive,
    /// Two established results disagree (throughput at saturation and at equal rate, or throughput
    /// and CPU time per request), so that there is no single winner.
    Mixed,
    /// A gate refused.
    NotComparable,
}
