//! The root of a recording, its schema version, and how a file is read and written.

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Arm, ArmLimiter, Attribution, Comparison, Finding, Fingerprint, Gate, Host, Prediction, Round,
    Scenario, Tool, Tracer, Verdict,
};

/// The schema that this version writes. A minor step adds, a major step changes meaning.
pub const SCHEMA: &str = "whyfast/1.1";

/// One run of whyfast, whatever the verb: `profile` and `load` store one arm and one round.
///
/// Everything that a report prints can be computed again from `rounds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Schema name and version, `whyfast/MAJOR.MINOR`.
    pub schema: String,
    /// What produced the file.
    pub tool: Tool,
    /// Which verb produced it.
    pub kind: RecordingKind,
    /// Wall time at the start, nanoseconds since the Unix epoch; for people, never for arithmetic.
    pub created_unix_ns: u64,
    /// The command line, secrets replaced by hashes.
    pub command: Vec<String>,
    /// Why the run ended before its plan was done; `null` when it did not.
    pub partial: Option<Partial>,
    /// The machine.
    pub host: Host,
    /// The load that was asked for; `null` for a profile of a live server.
    pub scenario: Option<Scenario>,
    /// The servers, in the order of the command line. The first one is the reference.
    pub arms: Vec<Arm>,
    /// Every round, failed ones included, in the order in which they ran.
    pub rounds: Vec<Round>,
    /// The checks that can refuse a comparison.
    pub gates: Vec<Gate>,
    /// Statistics per metric and pair of arms, computed from `rounds`.
    pub comparisons: Vec<Comparison>,
    /// The verdict of a comparison.
    pub verdict: Option<Verdict>,
    /// What limited each arm.
    #[serde(default)]
    pub limiters: Vec<ArmLimiter>,
    /// Where the difference comes from, for each arm against the reference.
    #[serde(default)]
    pub attributions: Vec<Attribution>,
    /// What in the evidence is worth changing, dearest first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What removing causes would give, where that was asked for.
    #[serde(default)]
    pub predictions: Vec<Prediction>,
    /// Tracers of others that were seen while servers were measured; `null` where nobody could
    /// look.
    #[serde(default)]
    pub tracers: Option<Vec<Tracer>>,
    /// What the result depends on besides the code of the servers; `null` in recordings of versions
    /// without it, and of `load`, which does not know the machine of the server.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// What was not measured, and why.
    pub not_measured: Vec<NotMeasured>,
    /// What the reader has to know before believing a figure.
    pub warnings: Vec<Warning>,
}

/// The verb that produced a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingKind {
    /// `whyfast compare`.
    Compare,
    /// `whyfast load`.
    Load,
    /// `whyfast profile`.
    Profile,
}

/// Why a run ended early; what was measured until then is in the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Partial {
    /// What happened, as a sentence fragment ("interrupted", "nginx exited with status 1").
    pub why: String,
}

/// A figure that is `null`, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotMeasured {
    /// What is missing, in the words of the reports ("syscalls per request").
    pub what: String,
    /// Why ("needs root").
    pub why: String,
    /// What to do about it ("run with sudo"); `null` where nothing helps.
    pub remedy: Option<String>,
}

/// Something that every format of a report must show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A stable identifier for programs, `snake_case`.
    pub code: String,
    /// What happened and what to do, for people.
    pub text: String,
}

/// A measured interval of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// First instant, ns.
    pub start_ns: u64,
    /// First instant after it, ns.
    pub end_ns: u64,
}

impl Window {
    /// Length in nanoseconds; zero for a window whose ends are swapped.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.length_ns() as f64 / 1e9
    }
}

/// A file that is not a recording this version can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Not JSON, or not the shape of a recording.
    #[error("not a whyfast recording: {0}")]
    Json(#[source] serde_json::Error),
    /// The file ends before the recording does.
    #[error(
        "the recording ends too early, at line {line}, column {column}: the file is empty or was cut \
         off; copy it again"
    )]
    Truncated {
        /// Line of its end, from 1.
        line: usize,
        /// Column of its end, from 1.
        column: usize,
    },
    /// The `schema` member is missing or names something else.
    #[error("not a whyfast recording: schema is {found:?}, expected \"whyfast/MAJOR.MINOR\"")]
    Name {
        /// What the file says.
        found: String,
    },
    /// Written by a newer major version.
    #[error("recording has schema {found}, this version reads up to {SCHEMA}; update whyfast")]
    TooNew {
        /// What the file says.
        found: String,
    },
}

impl From<serde_json::Error> for SchemaError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_eof() {
            return Self::Truncated {
                line: error.line(),
                column: error.column(),
            };
        }
        Self::Json(error)
    }
}

impl Recording {
    /// A recording of the schema of this version with nothing in it yet.
    pub fn empty(kind: RecordingKind, tool: Tool, host: Host) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            tool,
            kind,
            created_unix_ns: 0,
            command: Vec::new(),
            partial: None,
            host,
            scenario: None,
            arms: Vec::new(),
            rounds: Vec::new(),
            gates: Vec::new(),
            comparisons: Vec::new(),
            verdict: None,
            limiters: Vec::new(),
            attributions: Vec::new(),
            findings: Vec::new(),
            predictions: Vec::new(),
            tracers: None,
            fingerprint: None,
            not_measured: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Reads a recording of this or an older schema version.
    pub fn parse(json: &[u8]) -> Result<Self, SchemaError> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            schema: String,
        }
        let head: Head = serde_json::from_slice(json)?;
        match version(&head.schema) {
            None => Err(SchemaError::Name { found: head.schema }),
            Some((1, _)) => Ok(serde_json::from_slice(json)?),
            Some(_) => Err(SchemaError::TooNew { found: head.schema }),
        }
    }

    /// The recording in the schema of this version: what an older one did not have is "not
    /// measured", and a warning says where a newer one had more.
    #[must_use]
    pub fn upgraded(mut self) -> Self {
        if version(&self.schema) > version(SCHEMA) {
            self.warnings.push(Warning {
                code: "newer_schema".to_owned(),
                text: format!(
                    "the recording has schema {}, this version knows {SCHEMA}: what was added since is \
                     not shown; update whyfast",
                    self.schema
                ),
            });
        }
        SCHEMA.clone_into(&mut self.schema);
        self
    }

    /// Writes the recording as JSON without white space.
    pub fn write_json(&self, to: impl io::Write) -> Result<(), serde_json::Error> {
        serde_json::to_writer(to, self)
    }

    /// The recording as indented JSON with a final newline.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self)
            .expect("a recording has string keys only and no failing serializer");
        json.push('\n');
        json
    }
}

/// Major and minor version of the schema of recordings; `None` where it is another schema.
fn version(schema: &str) -> Option<(u32, u32)> {
    let (major, minor) = schema.strip_prefix("whyfast/")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The JSON Schema of [`Recording`], as committed in `recording/schema/`.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(Recording);
    let mut json = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    json.push('\n');
    json
}
