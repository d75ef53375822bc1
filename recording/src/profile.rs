//! The profile half of a measurement: what the kernel did for the target during a window.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Abi, Calibration, CallObject, CallTime, CpuView, Family, Group, GroupBy, Hardware, IoUring,
    Log2Histogram, Network, NotMeasured, RequestCount, Stacks, ThreadTime, TlsTime, Warning,
    Window,
};

/// How much is probed; each level includes the ones before it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// An empty program pair, for benchmarks: what any tracepoint pair costs.
    Floor,
    /// Calls, errors and bytes, from `sys_exit` alone.
    Counts,
    /// And the time of each call, from a pair of programs.
    Times,
    /// And where each nanosecond of each thread went, from the scheduler and interrupts too.
    Sched,
    /// And the functions that threads were in, sampled on the CPU and at each switch off it.
    Stacks,
}

/// What the kernel did for the target during one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// How much was probed.
    pub detail: Detail,
    /// The window: between the copy of the counters at its start and the copy at its end.
    pub window: Window,
    /// Release of the kernel that was probed; `null` in recordings that do not say.
    #[serde(default)]
    pub kernel: Option<String>,
    /// How long copying the counters took at both edges together, ns: the boundary error.
    pub boundary_ns: u64,
    /// The processes that were counted, those that ended during the window included.
    pub processes: Vec<ProfiledProcess>,
    /// Whether children were followed.
    pub follow: bool,
    /// One row per call that was made or is in flight, by ABI and number.
    pub calls: Vec<CallRow>,
    /// One row per waiting call (epoll, poll, select).
    pub waits: Vec<WaitRow>,
    /// Calls that had been entered before the window and were still in flight at its start. They
    /// are counted in `calls` if they ended inside the window.
    pub in_flight_at_start: Vec<InFlightCall>,
    /// Calls in flight at the end of the window; not counted in `calls`.
    pub in_flight_at_end: Vec<InFlightCall>,
    /// CPU time of the target's processes during the window, from their process CPU clocks, ns;
    /// `null` where a process ended before it could be read.
    pub cpu_ns: Option<u64>,
    /// Events that are missing from the counts. Empty when nothing was lost.
    pub lost: Lost,
    /// What the measurement itself cost.
    pub cost: OwnCost,
    /// Sub-windows, which add up to the window; empty where no interval was asked for.
    pub slices: Vec<ProfileSlice>,
    /// Why the window ended early; `null` when it did not.
    pub ended_early: Option<String>,
    /// Where the time of the threads went; `null` below detail `sched`.
    #[serde(default)]
    pub threads: Option<ThreadTime>,
    /// Where the time of the CPUs went; `null` below detail `sched`.
    #[serde(default)]
    pub cpus: Option<CpuView>,
    /// What `groups` are; `null` where no grouping was asked for.
    #[serde(default)]
    pub grouped_by: Option<GroupBy>,
    /// The calls by process, thread or name, busiest first.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// What the target did through `io_uring`; `null` where it was not measured.
    #[serde(default)]
    pub io_uring: Option<IoUring>,
    /// The network as the target's listening sockets saw it; `null` where it was not measured.
    #[serde(default)]
    pub network: Option<Network>,
    /// Counters of the hardware; `null` below detail `times` and where the machine has none.
    #[serde(default)]
    pub hardware: Option<Hardware>,
    /// Functions that the target was in; `null` below detail `stacks`.
    #[serde(default)]
    pub stacks: Option<Stacks>,
    /// Time inside TLS libraries; `null` where it was not asked for.
    #[serde(default)]
    pub tls_time: Option<TlsTime>,
    /// Requests that a live server answered, where whyfast did not load it; `null` where nobody counted
    /// them.
    #[serde(default)]
    pub requests: Option<RequestCount>,
    /// What was not measured, and why.
    pub not_measured: Vec<NotMeasured>,
    /// What the reader has to know.
    pub warnings: Vec<Warning>,
}

impl Profile {
    /// Requests in its window, as `requests` has them: where they were counted over a span of its own, at
    /// their rate in that. `None` where they were not counted.
    pub fn requests_in_window(&self) -> Option<f64> {
        let counted = self.requests.as_ref()?;
        let requests = counted.requests? as f64;
        let span = counted.window.map_or(1.0, |window| {
            self.window.length_ns() as f64 / window.length_ns() as f64
        });
        Some(requests * span).filter(|requests| requests.is_finite())
    }

    /// A profile of nothing: no process, no call, nothing lost and nothing spent.
    pub fn empty(detail: Detail, window: Window) -> Self {
        Self {
            detail,
            window,
            kernel: None,
            boundary_ns: 0,
            processes: Vec::new(),
            follow: true,
            calls: Vec::new(),
            waits: Vec::new(),
            in_flight_at_start: Vec::new(),
            in_flight_at_end: Vec::new(),
            cpu_ns: None,
            lost: Lost::default(),
            cost: OwnCost::default(),
            slices: Vec::new(),
            ended_early: None,
            threads: None,
            cpus: None,
            grouped_by: None,
            groups: Vec::new(),
            io_uring: None,
            network: None,
            hardware: None,
            stacks: None,
            tls_time: None,
            requests: None,
            not_measured: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// One process of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledProcess {
    /// Process id in the initial PID namespace.
    pub pid: u32,
    /// Name as the kernel has it; any bytes, lossily decoded. `null` where it ended too soon.
    pub comm: Option<String>,
    /// Threads at the end of the window, or when last seen.
    pub threads: Option<u32>,
    /// Container id or name of the innermost control group, where it is not the root.
    pub container: Option<String>,
    /// Whether it ended during the window.
    pub ended: bool,
    /// The target that it belongs to, in the words of the command line (`port 80`), several joined by
    /// a comma; a child has the target of its parent. `null` where it ended too soon.
    pub target: Option<String>,
    /// Process id in its own PID namespace; `null` where that is the initial one, or where it ended
    /// too soon.
    pub ns_pid: Option<u32>,
    /// Process id of its parent when it was first seen, in the initial PID namespace; `null` where
    /// it ended too soon, or has no parent there.
    pub parent: Option<u32>,
}

/// One system call of the target, by ABI and number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallRow {
    /// The table of the number.
    pub abi: Abi,
    /// The number.
    pub nr: u32,
    /// The name.
    pub name: String,
    /// What it was done to, where calls are told apart by that: a `read` of a file and one of a
    /// socket are two rows. `null` for other calls, and where the descriptor was not known.
    #[serde(default)]
    pub on: Option<CallObject>,
    /// What it is for.
    pub family: Family,
    /// Calls that returned. As in strace, `exit` and calls killed in flight are not in it.
    pub count: u64,
    /// Calls that returned an error, by name (`EAGAIN`), ERESTART* included as strace counts them.
    pub errors: BTreeMap<String, u64>,
    /// Bytes returned by read- and write-like calls; `null` for other calls.
    pub bytes: Option<u64>,
    /// Calls that a signal ended together with their thread; in neither `count` nor `errors`.
    pub died_in_call: u64,
    /// Entered and never to return (`exit`, `exit_group`).
    pub no_return: u64,
    /// Time inside the call; `null` below detail `times`.
    pub time: Option<TimeStats>,
    /// What threads did inside the call during the window, calls that are still in flight
    /// included; `null` below detail `sched`.
    #[serde(default)]
    pub split: Option<CallTime>,
}

impl CallRow {
    /// Calls that returned an error, whichever.
    pub fn error_count(&self) -> u64 {
        self.errors.values().copied().fold(0, u64::saturating_add)
    }

    /// The name with what it was done to: `read(socket)`.
    pub fn label(&self) -> String {
        match self.on {
            Some(on) => format!("{}({})", self.name, on.word()),
            None => self.name.clone(),
        }
    }
}

/// Time inside a call, wall clock from entry to exit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeStats {
    /// Calls with a time: fewer than the calls where an entry was not seen (seccomp refusals,
    /// calls in flight when the probes were attached).
    pub timed: u64,
    /// Sum, ns.
    pub ns_total: u64,
    /// Shortest since the probes were attached, ns; `null` when nothing was timed.
    pub ns_min: Option<u64>,
    /// Longest since the probes were attached, ns; `null` when nothing was timed.
    pub ns_max: Option<u64>,
    /// Distribution, ns.
    pub histogram: Log2Histogram,
}

/// One kind of waiting call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitRow {
    /// The table of the number.
    pub abi: Abi,
    /// Name of the call.
    pub name: String,
    /// Returns with at least one event.
    pub wakes: u64,
    /// Events of all wakes.
    pub events: u64,
    /// Events per wake.
    pub events_per_wake: Log2Histogram,
    /// Returns without an event: the timeout passed, or was zero.
    pub timeouts: u64,
    /// Of them, those that did not wait at all: their timeout was zero. `null` where the call does
    /// not pass its timeout by value.
    #[serde(default)]
    pub polls: Option<u64>,
    /// Wakes that returned as many events as the program had room for: there may have been more.
    /// `null` for calls without such a limit.
    #[serde(default)]
    pub truncated: Option<u64>,
    /// Ended by a signal.
    pub interrupted: u64,
    /// Time inside the call, ns; `null` below detail `times`.
    pub ns_total: Option<u64>,
}

/// A call that a thread was inside of at an edge of the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InFlightCall {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The table of the number.
    pub abi: Abi,
    /// Name of the call.
    pub name: String,
    /// What it was done to, where calls are told apart by that.
    #[serde(default)]
    pub on: Option<CallObject>,
    /// How long it had been inside, ns; `null` below detail `times`, and where the call had been
    /// entered before the probes were attached.
    pub age_ns: Option<u64>,
}

/// Events that are missing from the counts, by class; a class that lost nothing is not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Lost(pub BTreeMap<LostClass, u64>);

impl Lost {
    /// Everything that was lost, of all classes.
    pub fn total(&self) -> u64 {
        self.0.values().copied().fold(0, u64::saturating_add)
    }

    /// Of that, what may be missing from counts of calls: a switch that was missed is in none of them.
    pub fn of_calls(&self) -> u64 {
        let counts = self.0.iter();
        let of_calls = counts.filter(|(class, _)| **class != LostClass::MissedSwitches);
        of_calls
            .map(|(_, count)| *count)
            .fold(0, u64::saturating_add)
    }

    /// Adds to a class; zero adds no entry.
    pub fn add(&mut self, class: LostClass, count: u64) {
        if count > 0 {
            *self.0.entry(class).or_default() += count;
        }
    }
}

/// How an event can be lost.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LostClass {
    /// The clock went backwards between entry and exit: the call is counted, its time is not.
    ClockBackwards,
    /// Calls that found the table of groups full: counted, but in no group.
    UngroupedCalls,
    /// The kernel did not report that a thread came onto its CPU: until it was seen to run, its time counts
    /// as what it was before, asleep or waiting for a CPU.
    MissedSwitches,
    /// The kernel skipped a program to keep it from running inside itself.
    RecursionMisses,
    /// A child process whose id is outside the table of targets: its calls are not counted.
    UntrackedProcesses,
    /// Calls of threads whose id is outside the table of start times: counted, without a time.
    UntimedCalls,
    /// Calls with a number outside the table, after the list of such numbers was full.
    UnknownNumbers,
}

impl LostClass {
    /// Every class, in the order of the recording.
    pub const ALL: [Self; 7] = [
        Self::ClockBackwards,
        Self::UngroupedCalls,
        Self::MissedSwitches,
        Self::RecursionMisses,
        Self::UntrackedProcesses,
        Self::UntimedCalls,
        Self::UnknownNumbers,
    ];

    /// What is lost, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::ClockBackwards => "times lost because the clock went backwards",
            Self::UngroupedCalls => "calls beyond the table of groups",
            Self::MissedSwitches => "switches onto a CPU that the kernel did not report",
            Self::RecursionMisses => "program runs skipped by the kernel (recursion)",
            Self::UntrackedProcesses => "child processes with an id outside the target table",
            Self::UntimedCalls => "times lost of threads with an id outside the start table",
            Self::UnknownNumbers => "calls with an unknown number beyond the list of such numbers",
        }
    }
}

/// What the measurement itself cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCost {
    /// Runs of our programs on calls of the target during the window (one per call at `counts`,
    /// two at `times`); with `--only`, on the calls that it names.
    pub target_events: u64,
    /// CPU time of the profiler itself during the window, ns.
    pub reader_cpu_ns: u64,
    /// Memory of all maps in the kernel, bytes.
    pub map_bytes: u64,
    /// From the start of the profiler to attached, ns.
    pub attach_ns: u64,
    /// Runs of our programs on switches, wake-ups and interrupts of the target's threads during
    /// the window; 0 below detail `sched`.
    #[serde(default)]
    pub sched_events: u64,
    /// Runs of our programs on operations of `io_uring` of the target during the window: one per
    /// submission, one per completion.
    #[serde(default)]
    pub uring_events: u64,
    /// Stacks that our programs took during the window; 0 below detail `stacks`.
    #[serde(default)]
    pub stack_events: u64,
    /// What one run costs here; `null` where it was not calibrated.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// What the programs cost the target during the window, ns: calls and switches times their
    /// calibrated cost, and runs on `io_uring` as if they were on calls. `null` where that was not calibrated, and with `--only`.
    #[serde(default)]
    pub target_ns_estimate: Option<u64>,
    /// Run time of our programs by the kernel's own statistics, for all processes, ns; `null` without
    /// `--bpf-stats`, which taxes every program on the host.
    #[serde(default)]
    pub bpf_run_ns: Option<u64>,
    /// Runs of our programs for all processes by the same statistics; `null` likewise.
    #[serde(default)]
    pub bpf_runs: Option<u64>,
}

/// A sub-window with its own counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileSlice {
    /// The sub-window.
    pub window: Window,
    /// The calls of it, those that were made at least once, or that threads are in where `split` says so.
    pub calls: Vec<SliceCall>,
    /// The waiting calls of it, those that returned at least once.
    #[serde(default)]
    pub waits: Vec<SliceWait>,
    /// The calls by process, thread or name, busiest first; only where somebody looks at them as they
    /// are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Where the time of the target's threads went; only at detail `sched`, and where somebody looks at
    /// slices as they are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Box<ThreadTime>>,
    /// The network, without its listening sockets; only where somebody looks at slices as they are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Box<Network>>,
    /// Events that are missing from these counts.
    #[serde(default)]
    pub lost: Lost,
}

/// One call during one slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SliceCall {
    /// The table of the number.
    pub abi: Abi,
    /// Name of the call.
    pub name: String,
    /// What it was done to, where calls are told apart by that.
    #[serde(default)]
    pub on: Option<CallObject>,
    /// Calls that returned.
    pub count: u64,
    /// Of them, with an error.
    pub errors: u64,
    /// Bytes returned by read- and write-like calls.
    pub bytes: Option<u64>,
    /// Time inside the call, ns; `null` below detail `times`.
    pub ns_total: Option<u64>,
    /// What of it was spent how, calls that are still in flight included; only at detail `sched`, and
    /// where somebody looks at slices as they are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<CallTime>,
}

/// One kind of waiting call during one slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SliceWait {
    /// The table of the number.
    pub abi: Abi,
    /// Name of the call.
    pub name: String,
    /// Returns with at least one event.
    pub wakes: u64,
    /// Events of all wakes.
    pub events: u64,
    /// Returns without an event.
    pub timeouts: u64,
}
