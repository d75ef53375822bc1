//! What a check of exact counts against a `syscalls.lock` found.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A check of exact counts per request against a lock file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetCheck {
    /// `whyfast-gate/1.0`.
    pub schema: String,
    /// The outcome of all sections together.
    pub outcome: BudgetOutcome,
    /// Machine and load of the counts, in one line for people.
    pub conditions: String,
    /// One per server, load and architecture.
    pub sections: Vec<SectionCheck>,
}

/// The schema of a [`BudgetCheck`].
pub const BUDGET_SCHEMA: &str = "whyfast-gate/1.0";

/// The outcome of a check, gravest last.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BudgetOutcome {
    /// Every count is as locked, within every limit.
    Unchanged,
    /// This machine could not count.
    CannotMeasure,
    /// There is nothing to compare with, or the counts are not exact.
    NotComparable,
    /// The server could not be measured.
    Failed,
    /// A count changed, or a limit was broken.
    Broken,
    /// A limit is finer than what was measured can tell.
    LimitRejected,
}

/// The check of one server under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SectionCheck {
    /// Name of the arm.
    pub arm: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// The outcome.
    pub outcome: BudgetOutcome,
    /// Why it could not be checked, and the remedy; `null` where it was.
    pub why: Option<String>,
    /// Version of the server when it was locked; `null` where it said none, or is new.
    pub locked_version: Option<String>,
    /// Version of the server that was measured.
    pub version: Option<String>,
    /// Requests of each repeat; `null` where it was not measured.
    pub requests: Option<u64>,
    /// Lock-step rounds that were measured.
    pub repeats: u32,
    /// Whether the lock has no section for it.
    pub new: bool,
    /// What differs from the lock, calls that break it first.
    pub changes: Vec<CallChange>,
    /// The limits of the section.
    pub limits: Vec<LimitCheck>,
}

/// A call that is not as locked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallChange {
    /// Name of the call.
    pub call: String,
    /// Kind of its descriptor; `null` for calls that are not told apart by it.
    pub on: Option<String>,
    /// As locked; `null` where it is new.
    pub locked: Option<CallBudget>,
    /// As measured, the mean of the repeats; `null` where it is gone.
    pub measured: Option<CallBudget>,
    /// Repeats that differ from the lock by more than the tolerance.
    pub seen_in: u32,
    /// Whether it breaks the lock: every repeat differs.
    pub breaks: bool,
}

/// What one call costs a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallBudget {
    /// Calls per request, errors included.
    pub per_request: f64,
    /// Of them, those that failed, by error.
    pub errors_per_request: BTreeMap<String, f64>,
    /// Bytes per call that did not fail; `null` for calls that move none.
    pub bytes_per_call: Option<f64>,
}

/// A limit on a metric of one section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitCheck {
    /// `syscalls`, `errors`, `openat`, `read.socket`, `server_cpu_us`...
    pub metric: String,
    /// As written in the lock.
    pub limit: String,
    /// As measured, the least of the repeats; `null` where it was not measured.
    pub measured: Option<f64>,
    /// The least difference that the counts could tell; `null` where it was not measured.
    pub floor: Option<f64>,
    /// The outcome.
    pub status: LimitStatus,
}

/// The outcome of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitStatus {
    /// Kept.
    Kept,
    /// Broken.
    Broken,
    /// Broken, and the metric is too noisy to fail anything.
    Warned,
    /// Finer than the floor.
    Rejected,
    /// Not measured, which is never the same as kept.
    NotMeasured,
}

impl BudgetCheck {
    /// The check as JSON, indented, with a newline at its end.
    ///
    /// # Panics
    /// Never: all of it can be written as JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data");
        text.push('\n');
        text
    }
}

impl BudgetOutcome {
    /// The exit code that it deserves.
    pub fn exit_code(self) -> u8 {
        use crate::exit_code as code;
        match self {
            Self::Unchanged => code::DONE,
            Self::CannotMeasure => code::CANNOT_MEASURE,
            Self::NotComparable => code::NOT_COMPARABLE,
            Self::Failed => code::FAILED,
            Self::Broken => code::LIMIT_BROKEN,
            Self::LimitRejected => code::USAGE,
        }
    }
}
