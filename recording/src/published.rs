//! Published figures: what the author of a benchmark that a scenario repeats has printed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The publication that a scenario repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// Title.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// When, as it says itself.
    pub date: String,
    /// The machine and system that it ran on, in its words.
    pub machine: String,
    /// Its figures.
    pub figures: Vec<PublishedFigure>,
    /// What has changed since, or was different there: one sentence each.
    pub changes: Vec<PublishedChange>,
}

/// One figure as it was printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedFigure {
    /// The arm that it is about, in the words of the publication (`nginx 1.9.10`).
    pub server: String,
    /// The arm of the scenario that repeats it (`nginx:seed`); `null` where none does.
    pub arm: Option<String>,
    /// What was measured, in our words where ours has the same definition
    /// (`throughput_rps`, `latency_mean_ns`, `syscalls_per_request`), else a name of its own.
    pub metric: String,
    /// Which of several runs or settings it belongs to (`K=5`); `null` where there is one.
    pub variant: Option<String>,
    /// The figures of its runs, in the unit of `metric`.
    pub values: Vec<f64>,
    /// One of them as it was printed.
    pub printed: String,
}

/// Something that was different then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedChange {
    /// What (`cipher`, `keep-alive limit`, `poller`).
    pub what: String,
    /// As it was published.
    pub then: String,
    /// As it is now, where a recipe fixes it; `null` where the recording says.
    pub now: Option<String>,
}
