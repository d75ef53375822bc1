//! Time inside a TLS library, from probes on its functions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TimeStats;

/// What the target did inside its TLS library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsTime {
    /// The libraries that were found in the processes, whether they could be looked into or not.
    pub libraries: Vec<TlsLibrary>,
    /// One row per function that was probed.
    pub functions: Vec<TlsFunction>,
    /// Calls whose begin or end was not seen: of threads that died or jumped out of one, or that take
    /// turns on one thread with stacks of their own.
    #[serde(default)]
    pub lost: u64,
}

/// A TLS library in a process of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsLibrary {
    /// Which one, with its version where the file says so (`OpenSSL 3.0.15`, `Go crypto/tls`).
    pub name: String,
    /// File name without its folder.
    pub file: String,
    /// Processes that have it.
    pub pids: Vec<u32>,
    /// Why its time cannot be seen; `null` where it is probed.
    pub not_probed: Option<String>,
}

/// Calls of one function of a TLS library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsFunction {
    /// Its name (`SSL_do_handshake`).
    pub name: String,
    /// What it is for.
    pub purpose: TlsPurpose,
    /// Calls that returned. A call inside another one of these functions is not counted.
    pub count: u64,
    /// Wall-clock time from entry to exit; system calls inside are part of it.
    pub time: TimeStats,
    /// CPU time from entry to exit, ns; `null` where the kernel's clock could not be read there.
    pub cpu_ns: Option<u64>,
    /// Time inside of system calls meanwhile, ns: what is left of the CPU time is in the library. `null`
    /// where calls are not timed.
    #[serde(default)]
    pub calls_ns: Option<u64>,
    /// Handshakes that were completed by a call of it; `null` for others.
    pub handshakes: Option<u64>,
}

/// What a function of a TLS library is for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TlsPurpose {
    /// Agreeing on keys.
    Handshake,
    /// Decrypting.
    Read,
    /// Making a connection's state and taking it down.
    Session,
    /// Encrypting.
    Write,
}
