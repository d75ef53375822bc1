//! Findings: what in the evidence is worth changing, what it costs, and how sure that is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that a rule found in the evidence of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule, a stable identifier: `cork-around-tiny-sendfile`.
    pub id: String,
    /// The arm.
    pub arm: String,
    /// One line with the main number.
    pub title: String,
    /// The numbers that triggered the rule, with their limits.
    pub evidence: Vec<FindingNumber>,
    /// What it costs per request, ns of the server's CPU; `null` where that was not measured.
    pub cost_ns_per_request: Option<f64>,
    /// The calls that the cost is the time of.
    pub calls: Vec<String>,
    /// The likely cause.
    pub cause: String,
    /// What to change.
    pub change: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// What keeps it from being surer; empty where nothing does.
    pub caveat: String,
}

/// A number that triggered a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingNumber {
    /// What it is: `setsockopt per request`.
    pub name: String,
    /// As measured.
    pub value: f64,
    /// The limit of the rule; `null` for a number that only explains.
    pub limit: Option<f64>,
    /// Unit, empty for a count.
    pub unit: String,
}

/// How sure a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The pattern fits, other causes do as well.
    Possible,
    /// The pattern fits and the usual cause is known; something of it was not seen, or the cost was
    /// not measured.
    Likely,
    /// What happens was measured, and so was what it costs where it costs CPU time.
    Measured,
}
