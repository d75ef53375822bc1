//! Why one arm is faster than another: the difference of the time per request as bars that add up,
//! and what a bar rests on.
//!
//! The identity behind it is the utilisation law, `X = m·U/D`: throughput is CPUs times their
//! utilisation by CPU time per request. It holds for every measured window, without a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Family, IdleLabel, NotMeasured};

/// The difference between two arms, as bars.
///
/// Throughput and CPU time per request come from rounds without probes, what they are spent on from
/// rounds with probes; the gap between both is a bar of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// The reference arm.
    pub a: String,
    /// The other arm.
    pub b: String,
    /// The past recording that `a` is from (its time of creation, ns since 1970); `null` where both
    /// arms are of this recording.
    pub baseline_unix_ns: Option<u64>,
    /// Whether the rounds of both arms form pairs. They do not against a past recording.
    pub paired: bool,
    /// Pairs of rounds, or the smaller number of rounds of an arm, that the bars are the mean of.
    pub pairs: u32,
    /// Time per request of `a`, `1/X`, ns: the mean over the rounds without probes.
    pub a_ns: f64,
    /// The same of `b`.
    pub b_ns: f64,
    /// `b_ns - a_ns`: what the bars add up to.
    pub delta_ns: f64,
    /// `ln(X_a/X_b)`: what the log parts of the bars add up to.
    pub log_ratio: f64,
    /// Whether the ratio of the throughputs is established (its interval excludes 1). Shares are
    /// `null` where it is not.
    pub established: bool,
    /// Level of the intervals of the bars, 0..=1; they come from resampled pairs of rounds.
    pub level: f64,
    /// Seed of the resampling: with it the same rounds give the same intervals.
    pub seed: u64,
    /// The bars, largest first; "unexplained" is always among them where times were measured.
    pub bars: Vec<Bar>,
    /// How far the bars can be believed.
    pub receipt: Receipt,
    /// Terms without a bar, and why.
    pub not_measured: Vec<NotMeasured>,
}

/// One cause of the difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// A stable identifier: `user`, `send.count`, `open.unit`, `idle.waiting`, `unexplained`...
    pub cause: String,
    /// What kind of cause.
    pub kind: BarKind,
    /// The words that reports use.
    pub title: String,
    /// What it adds to the time per request of `b` over that of `a`, ns; negative where it makes
    /// `b` faster. `null` where only counts were measured.
    pub delta_ns: Option<f64>,
    /// Interval of `delta_ns`; `null` with too few pairs of rounds.
    pub interval_ns: Option<(f64, f64)>,
    /// CPU time per request that it adds to `b` over `a`, ns; `null` for idle time and for the number of
    /// CPUs.
    #[serde(default)]
    pub demand_delta_ns: Option<f64>,
    /// Interval of `demand_delta_ns`; `null` with too few pairs of rounds.
    #[serde(default)]
    pub demand_interval_ns: Option<(f64, f64)>,
    /// What it adds to the CPU time that a request occupies, `m/X`, of `b` over `a`, in each pair of
    /// rounds, ns: CPU time that was used, or that passed unused. Sums over bars have an interval by
    /// these. `null` for the number of CPUs, and where rounds form no pairs.
    #[serde(default)]
    pub by_pair_ns: Option<Vec<f64>>,
    /// Its part of `log_ratio`, by the logarithmic mean.
    pub log_part: Option<f64>,
    /// Its share of `log_ratio`; `null` where the ratio is not established.
    pub log_share: Option<f64>,
    /// Interval of `log_share`.
    pub log_share_interval: Option<(f64, f64)>,
    /// Whether the interval excludes 0; `null` without an interval.
    pub distinguishable: Option<bool>,
    /// Probability of so large a bar without a difference, adjusted for the number of bars (Holm);
    /// `null` without pairs.
    pub p_adjusted: Option<f64>,
    /// The figures that it was made of.
    pub evidence: Evidence,
}

/// The kind of a bar.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// User code, page faults and the entry of the kernel taken out.
    User,
    /// More or fewer calls of one group.
    SyscallCount,
    /// Dearer or cheaper calls of one group.
    SyscallUnit,
    /// Entering and leaving the kernel, outside of the points where calls are timed.
    EntryExit,
    /// Page faults, an estimate by their number.
    Faults,
    /// Hardware interrupts on the server's threads.
    Irq,
    /// Soft interrupts on the server's threads: mostly the network stack.
    Softirq,
    /// From the wake-up of a thread until it has its CPU, where the kernel charges it with that: the
    /// end of an interrupt and the way out of idle.
    Switches,
    /// What differs between rounds with and without probes beyond the calibrated cost of the probes,
    /// which is taken out of the other bars.
    Probes,
    /// CPU time of the server that none of the probes saw.
    Unexplained,
    /// CPU time outside of the calls that were timed, not split further (detail `times`).
    OutsideCalls,
    /// All CPU time per request, not split (without times).
    Demand,
    /// Number of CPUs.
    Cpus,
    /// CPUs that were not used by the server.
    Idle,
}

/// Why CPUs of the server were not used by it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum IdleCause {
    /// A control group's quota held the server back.
    Throttled,
    /// A thread of the server waited in the queue of another CPU.
    RunnableElsewhere,
    /// A thread of the server slept in a call that is no wait for events.
    Blocked,
    /// A thread of the server waited on a futex.
    Parked,
    /// All threads of the server waited for events: there was nothing to do.
    Waiting,
    /// Idle while no thread of the server slept.
    NoneAsleep,
    /// Other tasks ran there.
    OtherTasks,
    /// Interrupts that did not interrupt the server.
    Interrupts,
    /// Not used by the server, and not known why.
    Unlabelled,
}

impl IdleCause {
    /// The words that reports use.
    pub fn title(self) -> &'static str {
        match self {
            Self::Throttled => "idle: throttled by a quota",
            Self::RunnableElsewhere => "idle: a thread waited for another CPU",
            Self::Blocked => "idle: blocked in a call",
            Self::Parked => "idle: waiting on a futex",
            Self::Waiting => "idle: waiting for requests",
            Self::NoneAsleep => "idle: no thread asleep",
            Self::OtherTasks => "CPUs used by other tasks",
            Self::Interrupts => "CPUs used by interrupts",
            Self::Unlabelled => "CPUs not used, reason unknown",
        }
    }

    /// The identifier of its bar: `idle.waiting`.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Throttled => "idle.throttled",
            Self::RunnableElsewhere => "idle.runnable_elsewhere",
            Self::Blocked => "idle.blocked",
            Self::Parked => "idle.parked",
            Self::Waiting => "idle.waiting",
            Self::NoneAsleep => "idle.none_asleep",
            Self::OtherTasks => "idle.other_tasks",
            Self::Interrupts => "idle.interrupts",
            Self::Unlabelled => "idle.unlabelled",
        }
    }
}

impl From<IdleLabel> for IdleCause {
    fn from(label: IdleLabel) -> Self {
        match label {
            IdleLabel::RunnableElsewhere => Self::RunnableElsewhere,
            IdleLabel::Blocked => Self::Blocked,
            IdleLabel::Parked => Self::Parked,
            IdleLabel::Waiting => Self::Waiting,
            IdleLabel::None => Self::NoneAsleep,
        }
    }
}

/// The figures behind a bar; `null` where they do not apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Calls (or faults) per request of `a`.
    pub n_a: Option<f64>,
    /// The same of `b`.
    pub n_b: Option<f64>,
    /// CPU time of one call of `a`, ns, the calibrated part of the probes taken out. At detail
    /// `times` wall time inside the call.
    pub t_a_ns: Option<f64>,
    /// The same of `b`.
    pub t_b_ns: Option<f64>,
    /// CPU time per request of `a` under this cause, ns; for idle the share of the CPUs' time is in
    /// `idle_a`.
    pub demand_a_ns: Option<f64>,
    /// The same of `b`.
    pub demand_b_ns: Option<f64>,
    /// Share of the time of `a`'s CPUs, 0..=1.
    pub idle_a: Option<f64>,
    /// The same of `b`.
    pub idle_b: Option<f64>,
    /// What calls the group is for.
    pub family: Option<Family>,
    /// Why CPUs were idle.
    pub idle: Option<IdleCause>,
    /// The calls in it, with what they were done to: `read(socket)`. For "blocked" the calls in
    /// which threads slept, longest first.
    pub calls: Vec<String>,
}

/// How far the bars can be believed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// Sum of the bars less `delta_ns`, as a share of the larger time per request: numerical zero.
    pub sum_error: f64,
    /// Sum of the log parts less `log_ratio`.
    pub log_sum_error: f64,
    /// CPU time that the probes saw over what the kernel's own clock says, less 1, the worst arm;
    /// `null` below detail `sched`.
    pub cpu_disagreement: Option<f64>,
    /// "Unexplained" as a share of the CPU time per request, the worst arm; `null` below detail
    /// `sched`.
    pub unexplained_share: Option<f64>,
    /// Events that are missing from the counts, both arms.
    pub lost: u64,
    /// Calibrated cost of the probes per request of `a`, ns; it is in no bar but `probes`.
    pub probes_a_ns: Option<f64>,
    /// The same of `b`.
    pub probes_b_ns: Option<f64>,
    /// CPU time per request with probes over without, less 1, of `a`.
    pub probed_demand_a: Option<f64>,
    /// The same of `b`.
    pub probed_demand_b: Option<f64>,
}

/// What limited an arm at saturation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArmLimiter {
    /// The arm.
    pub arm: String,
    /// What.
    pub limit: ArmLimit,
    /// The figures behind it, for people.
    pub why: String,
}

/// What can limit an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArmLimit {
    /// The CPUs of the server are busy.
    ServerCpu,
    /// The load generator.
    Client,
    /// A quota of the server's control group.
    Throttled,
    /// Threads of the server sleep in calls that are no waits for events.
    Blocked,
    /// Threads of the server wait for each other on futexes.
    Lock,
    /// Threads of the server wait for a CPU while another is idle.
    Placement,
    /// The figures do not say.
    Unknown,
}

/// What removing a cause would give by the identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The arm.
    pub arm: String,
    /// The cause that is removed, as it was asked for.
    pub without: String,
    /// CPU time per request that goes with it, ns; `null` where the cause is idle time.
    pub removed_ns: Option<f64>,
    /// Share of the CPUs' time that goes with it; `null` where the cause is CPU time.
    pub removed_idle: Option<f64>,
    /// Throughput as measured, requests per second.
    pub throughput_rps: f64,
    /// Throughput by the identity without the cause, requests per second.
    pub predicted_rps: f64,
}
