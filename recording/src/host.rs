//! The machine and the tool that made a recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that wrote a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Version of whyfast.
    pub version: String,
    /// SHA-256 of the embedded eBPF object, hexadecimal; `null` where this build has none.
    pub bpf_sha256: Option<String>,
}

/// What the machine is; two recordings of different machines are not comparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Node name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub arch: String,
    /// CPU model as the kernel names it; `null` where it does not.
    pub cpu_model: Option<String>,
    /// Online CPUs.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Current clock source (`tsc`, `kvm-clock`...).
    pub clocksource: Option<String>,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Hypervisor or container runtime, where one can be seen.
    pub virtualization: Option<String>,
    /// Load average over one minute at the start, in hundredths.
    pub load_average_centi: Option<u32>,
}
