//! Hops: the programs of an arm that is a chain of several, such as terminator, cache and origin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ConfigFile, Setting};

/// One program of an arm that is a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Its part (`terminator`, `cache`, `origin`); unique in the arm. The first one has the port that
    /// the client connects to.
    pub name: String,
    /// Name of the program (`haproxy`).
    pub program: String,
    /// Version, as the program says itself; `null` where it does not.
    pub version: Option<String>,
    /// The settings that matter, in words.
    pub settings: Vec<Setting>,
    /// What it says of how it was built: libraries, modules.
    #[serde(default)]
    pub build: Vec<Setting>,
    /// Configuration files that whyfast generated.
    pub config: Vec<ConfigFile>,
    /// Command line that was run.
    pub command: Vec<String>,
    /// SHA-256 of the program file; `null` where it could not be read.
    pub binary_sha256: Option<String>,
}

/// The processes of a hop in one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopProcesses {
    /// Name of the hop.
    pub hop: String,
    /// Its processes, children included, in the initial PID namespace.
    pub pids: Vec<u32>,
}
