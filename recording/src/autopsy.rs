//! What was read from the output of other tools, and what follows from it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Spread;

/// An examination of other tools' output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Autopsy {
    /// `whyfast-autopsy/1.0`.
    pub schema: String,
    /// The servers that the output is about, in the order of their first appearance.
    pub servers: Vec<ExaminedServer>,
    /// Throughput of each further server against the first, for each load that both got.
    pub ratios: Vec<ExaminedRatio>,
    /// What follows, what does not, and what is suspicious.
    pub statements: Vec<Statement>,
    /// Blocks that were found and could not be read.
    pub unread: Vec<Unread>,
    /// One sentence.
    pub verdict: String,
    /// The command that would settle it; `null` where whyfast has no recipe for the servers.
    pub command: Option<String>,
}

/// The schema of an [`Autopsy`].
pub const AUTOPSY_SCHEMA: &str = "whyfast-autopsy/1.0";

/// One server, as far as its blocks tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExaminedServer {
    /// From the heading above its blocks, else from the address that was requested, else from the
    /// file.
    pub name: String,
    /// Runs of load generators.
    pub loads: Vec<ForeignLoad>,
    /// Tables of calls.
    pub calls: Vec<ForeignCalls>,
    /// Settings of its configuration that matter in a comparison, where the text has it.
    pub settings: BTreeMap<String, String>,
}

/// A run of another load generator. `null` is what it did not print.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForeignLoad {
    /// The tool.
    pub tool: String,
    /// The first line of its output, from 1.
    pub line: u64,
    /// Its command line.
    pub command: Option<String>,
    /// What it requested.
    pub url: Option<String>,
    /// Connections that it kept open at a time.
    pub connections: Option<u64>,
    /// Requests in flight on each connection.
    pub streams: Option<u64>,
    /// Requests on each connection before a new one is opened.
    pub requests_per_connection: Option<u64>,
    /// Length of the run, s.
    pub duration_s: Option<f64>,
    /// Responses that it counted.
    pub responses: Option<u64>,
    /// Throughput as printed, responses per second.
    pub rate_rps: f64,
    /// Mean latency, s.
    pub latency_mean_s: Option<f64>,
    /// Largest latency, s.
    pub latency_max_s: Option<f64>,
    /// Mean time to open a connection, handshake included, s.
    pub connect_mean_s: Option<f64>,
    /// Throughput of the single connections, responses per second.
    pub connection_rate: Option<Spread>,
    /// What went wrong, by the tool's own word.
    pub failures: BTreeMap<String, u64>,
    /// All bytes received.
    pub bytes: Option<u64>,
    /// Header bytes received, as compressed on the wire.
    pub head_bytes: Option<u64>,
    /// Share of header bytes that compression saved, 0..=1.
    pub head_savings: Option<f64>,
    /// Body bytes received.
    pub body_bytes: Option<u64>,
    /// Negotiated version of TLS.
    pub tls_version: Option<String>,
    /// Negotiated cipher.
    pub cipher: Option<String>,
    /// CPU time of the tool as a share of the run, 0..=1 for each CPU.
    pub client_cpu: Option<f64>,
}

/// A table of calls that another tracer printed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForeignCalls {
    /// The tool.
    pub tool: String,
    /// Its first line, from 1.
    pub line: u64,
    /// The rows by name; rows of several threads are summed.
    pub rows: BTreeMap<String, ForeignCall>,
    /// The tool's own total; `null` where it prints none or the table is cut.
    pub total: Option<ForeignCall>,
}

/// A row of such a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForeignCall {
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Time as the tool counts it, s.
    pub seconds: f64,
}

/// The throughput of two servers under the same load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExaminedRatio {
    /// The load (`-c200 -m1 K=5`), empty where there is only one.
    pub load: String,
    /// The first server.
    pub a: String,
    /// The other one.
    pub b: String,
    /// `a` divided by `b`: ratio of the geometric means of the runs.
    pub ratio: f64,
    /// Interval of the ratio, from Welch's t on the logs; `null` with fewer than two runs of one.
    pub interval: Option<(f64, f64)>,
    /// Level of the interval, 0..=1.
    pub level: f64,
    /// Runs of the server with fewer.
    pub runs: u32,
}

/// Something that the figures say, or do not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// The rule that found it.
    pub rule: String,
    /// What kind of statement it is.
    pub kind: StatementKind,
    /// The servers that it is about; empty for all.
    pub servers: Vec<String>,
    /// The statement with its figures.
    pub text: String,
    /// Why it forbids a comparison, in a few words; `null` where it does not.
    pub refuses: Option<String>,
}

/// Kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatementKind {
    /// Arithmetic over printed figures.
    Follows,
    /// The most that something can explain.
    Bound,
    /// Fits the figures and is not proven.
    Suspicion,
    /// A claim that the figures do not support.
    DoesNotFollow,
}

/// A block that was found and not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unread {
    /// The tool.
    pub tool: String,
    /// The line that could not be read, from 1.
    pub line: u64,
    /// Why.
    pub why: String,
}

impl ForeignCall {
    /// Both rows as one.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            errors: self.errors.saturating_add(other.errors),
            seconds: self.seconds + other.seconds,
        }
    }
}

impl Autopsy {
    /// The examination as JSON, indented, with a newline at its end.
    ///
    /// # Panics
    /// Never: all of it can be written as JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data");
        text.push('\n');
        text
    }
}
