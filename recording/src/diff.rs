//! The difference between two profiles, call by call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Abi, Family, FrameSide, Gate};

/// What differs from one server, version or day to another, in system calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyscallDiff {
    /// `whyfast-diff/1.0`.
    pub schema: String,
    /// What everything is divided by.
    pub per: Denominator,
    /// Whether both sides counted requests one at a time, so that counts are exact.
    pub exact: bool,
    /// Which times both sides have.
    pub times: DiffTimes,
    /// The first side.
    pub a: DiffSide,
    /// The second side.
    pub b: DiffSide,
    /// Families with what differs in them, costliest difference first.
    pub families: Vec<FamilyDiff>,
    /// The checks that did not simply pass.
    pub gates: Vec<Gate>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
    /// Functions by the difference of their own time, on the CPU and then off it; those that the samples
    /// tell apart come first. Empty where one side has no stacks.
    #[serde(default)]
    pub functions: Vec<FunctionDiff>,
}

/// The schema of a [`SyscallDiff`].
pub const DIFF_SCHEMA: &str = "whyfast-diff/1.0";

/// What figures are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Denominator {
    /// A connection that the server accepted.
    Connection,
    /// A request that the load generator completed.
    Request,
    /// A second of the window.
    Second,
}

/// Which times a difference has.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DiffTimes {
    /// None.
    None,
    /// From entry to exit, sleep included.
    Inside,
    /// On and off the CPU apart.
    Split,
}

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffSide {
    /// The file.
    pub source: String,
    /// Name of the arm.
    pub arm: String,
    /// Version of the server; `null` where it is not known.
    pub version: Option<String>,
    /// Profiled rounds.
    pub rounds: u32,
    /// Requests, seconds or connections of all rounds.
    pub units: f64,
    /// All calls together, without the sleep of those that wait for events.
    pub total: DiffFigures,
}

/// The calls of one family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FamilyDiff {
    /// The family.
    pub family: Family,
    /// All its calls on the first side, without the sleep of those that wait for events.
    pub a: DiffFigures,
    /// All its calls on the second side.
    pub b: DiffFigures,
    /// Its calls, costliest difference first.
    pub calls: Vec<CallDiff>,
}

/// One call on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallDiff {
    /// The table of the call.
    pub abi: Abi,
    /// Its name, with what it was done to: `read(socket)`.
    pub call: String,
    /// What became of it.
    pub change: DiffWord,
    /// On the first side; `null` where it was not made.
    pub a: Option<DiffFigures>,
    /// On the second side; `null` where it was not made.
    pub b: Option<DiffFigures>,
    /// Whether it waits for events, so that time inside is no cost.
    pub waits: bool,
}

/// One function on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionDiff {
    /// Its name; all addresses without a name in one file are one function.
    pub function: String,
    /// The file that it is in; `null` where that is not known.
    pub module: Option<String>,
    /// On which side of the kernel's boundary.
    pub side: FrameSide,
    /// Which time.
    pub time: StackTime,
    /// What became of it; `not_distinguishable` where the difference is within `error_ns`.
    pub change: DiffWord,
    /// On the first side; `null` where no stack has it.
    pub a: Option<FunctionTime>,
    /// On the second side; `null` where no stack has it.
    pub b: Option<FunctionTime>,
    /// By how much the difference of `own_ns` may be off, at 95 %, ns: from the number of samples, or of
    /// waits.
    pub error_ns: f64,
}

/// Which time of threads a stack stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StackTime {
    /// Running.
    OnCpu,
    /// Waiting.
    OffCpu,
}

/// A function per unit of the denominator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionTime {
    /// In itself, ns.
    pub own_ns: f64,
    /// In itself and in what it calls, ns.
    pub total_ns: f64,
    /// Samples, or waits, of `own_ns`, in all rounds.
    pub own_count: u64,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffWord {
    /// Its number, errors, bytes or time differ.
    Changed,
    /// Only the first side makes it.
    Gone,
    /// Only the second side makes it.
    New,
    /// The rounds do not tell both sides apart.
    NotDistinguishable,
}

/// A call per unit of the denominator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffFigures {
    /// Calls.
    pub count: f64,
    /// Of them, those that failed.
    pub errors: f64,
    /// Bytes; `null` where no call moves any.
    pub bytes: Option<f64>,
    /// Time inside, ns; `null` where one side has none.
    pub inside_ns: Option<f64>,
    /// Of it on a CPU, ns; `null` below detail `sched`.
    pub on_cpu_ns: Option<f64>,
    /// Of it asleep, ns; `null` below detail `sched`.
    pub off_cpu_ns: Option<f64>,
}

impl SyscallDiff {
    /// The difference as JSON, indented, with a newline at its end.
    ///
    /// # Panics
    /// Never: all of it can be written as JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data");
        text.push('\n');
        text
    }
}

impl DiffFigures {
    /// What it costs, ns: CPU time where that is known, else the time inside of a call that does not
    /// wait; `null` where no time is known.
    pub fn cost_ns(&self, waits: bool) -> Option<f64> {
        self.on_cpu_ns.or(if waits { None } else { self.inside_ns })
    }
}
