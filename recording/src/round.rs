//! A round of a comparison: one server start and one measured window, and what it is for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HopProcesses, Load, Profile, Window};

/// Whether a round is profiled in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Probes {
    /// Attached: explains.
    On,
    /// Not attached: gives the throughput.
    Off,
}

/// One server start (or, for a live server, one attach) and one measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Name of the arm.
    pub arm: String,
    /// Position in the run, from 0.
    pub order: u32,
    /// Pair that it belongs to, from 0; the rounds of a pair run next to each other.
    pub pair: u32,
    /// Whether probes were attached.
    pub probes: Probes,
    /// Why it cannot be used; `null` for a good round. A failed round is kept.
    pub failed: Option<String>,
    /// The measured window of the load.
    pub window: Option<Window>,
    /// The load half.
    pub load: Option<Load>,
    /// CPU time of the server over `window`.
    pub server_cpu: Option<ServerCpu>,
    /// The profile half; `null` with probes off.
    pub profile: Option<Profile>,
    /// Responses completed inside the window of `profile`: the denominator of "per request".
    pub profile_requests: Option<f64>,
    /// What the round is for; only main rounds are in the headline and in the tables.
    #[serde(default)]
    pub role: RoundRole,
    /// Why a rule that was fixed before the run leaves it out of every statistic, although it did
    /// not fail; `null` for others. It is counted in the report.
    #[serde(default)]
    pub excluded: Option<String>,
    /// Time of the server's CPUs over the window, whoever used it; `null` where it was not read.
    #[serde(default)]
    pub machine_cpu: Option<MachineCpu>,
    /// The server's own count of its responses; `null` where it has none.
    #[serde(default)]
    pub server_count: Option<ServerCount>,
    /// Which processes are which hop of a chain; empty where the arm is one program.
    #[serde(default)]
    pub hops: Vec<HopProcesses>,
}

impl Round {
    /// Requests in the window of its profile: those of the load, else those of a live server as somebody
    /// else counted them; `None` where nobody did.
    pub fn requests_under_probes(&self) -> Option<f64> {
        let counted = || self.profile.as_ref()?.requests_in_window();
        self.profile_requests.or_else(counted)
    }
}

/// What a round is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoundRole {
    /// Headline, tables and attribution.
    #[default]
    Main,
    /// A second copy of the reference arm, under the name of that arm and in the pair of its main
    /// round: the A/A control.
    Aa,
    /// An open loop at the same rate for every arm, for latency.
    EqualRate {
        /// Requests per second that were asked for.
        rate_rps: f64,
    },
    /// As the main round of its pair, with more connections: does throughput rise?
    MoreConnections {
        /// Connections kept open.
        connections: u32,
    },
    /// The client against a minimal responder on the server's CPUs, `arm` is empty: how much the
    /// client and the kernel can do at most.
    NullServer,
}

/// Time of the server's CPUs by `/proc/stat`, exact to a clock tick per CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineCpu {
    /// The interval that it was read over.
    pub window: Window,
    /// Number of these CPUs.
    pub cpus: u32,
    /// All tasks, in user mode and in the kernel, interrupts left out, ns.
    pub tasks_ns: u64,
    /// Interrupts and soft interrupts where the kernel accounts for them apart, ns.
    pub interrupts_ns: u64,
    /// Taken by the hypervisor, ns.
    pub steal_ns: u64,
}

/// Responses by the server's own count, beside what the client saw over the same span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCount {
    /// Where the count comes from (a counter of its own, its status page, its access log).
    pub source: String,
    /// Responses by the server's count.
    pub responses: u64,
    /// Responses that the client completed over the same span, failed ones with a response
    /// included.
    pub completed: u64,
    /// Requests that may have been in flight at the two ends of the span: by so much both may differ.
    pub in_flight: u64,
}

/// CPU time of the server's processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCpu {
    /// The interval that it was read over.
    pub window: Window,
    /// All of it, from the process CPU clocks, ns.
    pub total_ns: u64,
    /// In user mode, ns, from `/proc/PID/stat`: exact to a clock tick only. `null` where it
    /// cannot be read.
    pub user_ns: Option<u64>,
    /// In the kernel, ns, likewise.
    pub system_ns: Option<u64>,
    /// Processes that it is the sum of.
    pub processes: u32,
    /// The same for each process that was there at the end, in the order of their ids; they add up to
    /// `total_ns`. Empty in recordings that do not say.
    #[serde(default)]
    pub by_process: Vec<ProcessCpu>,
    /// CPU time of each of their threads that lived through the window, busiest first; empty where it
    /// was not read.
    #[serde(default)]
    pub threads: Vec<ThreadCpu>,
}

/// CPU time of a process, by its process CPU clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessCpu {
    /// The process.
    pub pid: u32,
    /// CPU time over the window, ns; all of it where the process began in the window.
    pub total_ns: u64,
}

/// CPU time of a thread, by `/proc/PID/task/TID/schedstat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadCpu {
    /// Process that it belongs to.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// CPU time over the window, ns.
    pub total_ns: u64,
}
