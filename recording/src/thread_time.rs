//! Where the time of the target's threads and of its CPUs went, at detail `sched`: one label for
//! every nanosecond.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Log2Histogram;

/// Where the time of all threads of the target went. Every nanosecond of a thread is in exactly one
/// of the terms, which one state machine in the kernel emits from one clock; they add up to
/// `lifetime_ns`, and what is missing is `residual_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// Threads times window: how long each thread existed during the window, summed, ns.
    pub lifetime_ns: u64,
    /// Outside of system calls on a CPU, page faults included, ns.
    pub user_ns: u64,
    /// Inside system calls on a CPU, ns; by call in [`CallRow`](crate::CallRow).
    pub kernel_ns: u64,
    /// Asleep inside system calls, ns; by call in [`CallRow`](crate::CallRow).
    pub off_cpu_in_calls_ns: u64,
    /// Asleep outside of system calls (a page fault that reads from disk, a stop), ns.
    pub off_cpu_outside_ns: u64,
    /// Ready to run and waiting for a CPU, ns.
    pub run_queue_ns: u64,
    /// Interrupted by a hardware interrupt, ns.
    pub irq_ns: u64,
    /// Interrupted by a soft interrupt (network stack, timers), or running it at the end of a call
    /// of its own, ns.
    pub softirq_ns: u64,
    /// What the kernel's CPU clock counts at switches beyond [`on_cpu_ns`](Self::on_cpu_ns), ns; negative
    /// where it counts less. It charges a thread that is woken, and whose CPU switches at once, from the
    /// wake-up on: the end of the interrupt and the way out of idle, which are part of `run_queue_ns`
    /// here. `null` where it was not measured.
    #[serde(default)]
    pub charged_at_switches_ns: Option<i64>,
    /// `lifetime_ns` less all terms, ns: what happened while the counters were copied at the edges.
    pub residual_ns: i64,
    /// Waits for a CPU.
    pub run_queue_waits: Log2Histogram,
    /// Threads that began during the window.
    pub threads_began: u64,
    /// Threads that ended during the window.
    pub threads_ended: u64,
    /// Times that a thread gave up its CPU to sleep.
    pub voluntary_switches: u64,
    /// Times that a thread was taken off its CPU while it could have gone on.
    pub involuntary_switches: u64,
    /// Times that a thread was moved to another CPU.
    pub migrations: u64,
    /// Times that a sleeping thread was woken.
    pub wakeups: u64,
    /// Page faults in user mode.
    pub page_faults: u64,
    /// What they took, ns: their number times the calibrated cost of one that needs a fresh page.
    /// An estimate; part of `user_ns`. `null` where the cost could not be calibrated.
    pub page_fault_ns_estimate: Option<u64>,
}

impl ThreadTime {
    /// On a CPU, interrupts included, ns.
    pub fn on_cpu_ns(&self) -> u64 {
        self.user_ns + self.kernel_ns + self.irq_ns + self.softirq_ns
    }

    /// What the kernel's CPU clock should count, ns, where it does not leave out interrupts and what the
    /// hypervisor took.
    pub fn cpu_clock_ns(&self) -> u64 {
        let at_switches_ns = self.charged_at_switches_ns.unwrap_or(0);
        self.on_cpu_ns().saturating_add_signed(at_switches_ns)
    }

    /// The sum of all terms, ns.
    pub fn accounted_ns(&self) -> u64 {
        self.on_cpu_ns() + self.off_cpu_in_calls_ns + self.off_cpu_outside_ns + self.run_queue_ns
    }
}

/// Where the time of the CPUs that the target may run on went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuView {
    /// These CPUs, by number.
    pub cpus: Vec<u32>,
    /// CPUs times window, ns.
    pub capacity_ns: u64,
    /// Threads of the target, ns, interrupts taken out.
    pub target_ns: u64,
    /// Other tasks, ns, interrupts taken out.
    pub other_ns: u64,
    /// Interrupts, ns, whomever they interrupted.
    pub irq_ns: u64,
    /// Soft interrupts, ns, whomever they interrupted.
    pub softirq_ns: u64,
    /// Idle, by what the threads of the target were doing meanwhile, ns.
    pub idle: BTreeMap<IdleLabel, u64>,
    /// Taken by the hypervisor, ns, as `/proc/stat` has it (in steps of a clock tick); contained in
    /// the other terms. `null` where it could not be read.
    pub steal_ns: Option<u64>,
    /// How long the target's control group was throttled, ns; `null` where it has no such counter.
    pub throttled_ns: Option<u64>,
    /// `capacity_ns` less all terms, ns.
    pub residual_ns: i64,
}

/// Why a CPU was idle, by what the threads of the target did at that moment: the first of these
/// that applies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum IdleLabel {
    /// One was ready to run, in the queue of another CPU, or held back by a quota.
    RunnableElsewhere,
    /// One slept inside a call that is no wait for events.
    Blocked,
    /// One waited on a futex.
    Parked,
    /// All that slept waited for events, connections, children or signals.
    Waiting,
    /// None was asleep or ready: all of them ran, or there was none.
    None,
}

impl IdleLabel {
    /// All labels, in order of precedence.
    pub const ALL: [Self; 5] = [
        Self::RunnableElsewhere,
        Self::Blocked,
        Self::Parked,
        Self::Waiting,
        Self::None,
    ];

    /// What the label means, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::RunnableElsewhere => "while a thread waited for another CPU",
            Self::Blocked => "while a thread was blocked in a call",
            Self::Parked => "while a thread waited on a futex",
            Self::Waiting => "while all threads waited for events",
            Self::None => "while no thread slept",
        }
    }
}

/// Time inside one call by what the thread did meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTime {
    /// On a CPU, interrupts taken out, ns.
    pub on_cpu_ns: u64,
    /// Asleep, ns.
    pub off_cpu_ns: u64,
    /// Ready to run and waiting for a CPU, ns.
    pub run_queue_ns: u64,
    /// Times that it slept; `null` for groups.
    pub sleeps: Option<u64>,
}

/// What the calls of one group of threads came to, with `--by`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Process id, or thread id, or `null` for a group by name.
    pub id: Option<u32>,
    /// The process that a thread belongs to; `null` where it ended too soon, and for other groups.
    pub pid: Option<u32>,
    /// Name as the kernel has it; any bytes, lossily decoded. `null` where it ended too soon.
    pub comm: Option<String>,
    /// Its calls.
    pub calls: Vec<GroupCall>,
    /// Time outside of calls; `null` below detail `sched`.
    pub outside: Option<CallTime>,
}

/// One call of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupCall {
    /// The table of the number.
    pub abi: crate::Abi,
    /// The name.
    pub name: String,
    /// What it was done to, where calls are told apart by that.
    pub on: Option<CallObject>,
    /// Calls that returned.
    pub count: u64,
    /// Of them, with an error.
    pub errors: u64,
    /// Bytes returned by read- and write-like calls; `null` for other calls.
    pub bytes: Option<u64>,
    /// Time inside the call, ns; `null` below detail `times`.
    pub ns_total: Option<u64>,
    /// What of it was spent how; `null` below detail `sched`.
    pub split: Option<CallTime>,
}

/// What threads are grouped by.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// Process.
    Process,
    /// Thread.
    Thread,
    /// Name of the thread.
    Comm,
}

/// What a call was done to: a kind of descriptor, or what a futex call does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CallObject {
    /// A socket.
    Socket,
    /// A file, folder or block device.
    File,
    /// A pipe or FIFO.
    Pipe,
    /// An eventfd.
    Eventfd,
    /// Any other descriptor: epoll, timers, terminals.
    Other,
    /// A futex call that waits.
    FutexWait,
    /// A futex call that wakes.
    FutexWake,
    /// Any other futex call.
    FutexOther,
}

impl CallObject {
    /// The word behind the name of the call, for people: `read(socket)`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::File => "file",
            Self::Pipe => "pipe",
            Self::Eventfd => "eventfd",
            Self::Other | Self::FutexOther => "other",
            Self::FutexWait => "wait",
            Self::FutexWake => "wake",
        }
    }
}

/// What was measured on this machine before the window, to tell what probes cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Added to each call of the target by our programs, the kernel's slower path to them included,
    /// ns.
    pub probe_ns_per_call: f64,
    /// Added to each switch to and from a thread of the target, ns; `null` below detail `sched`.
    pub probe_ns_per_switch: Option<f64>,
    /// A call that does next to nothing (`getppid`) without probes, ns: what each call costs beyond its
    /// own work.
    pub entry_exit_ns: f64,
    /// A page fault that needs a fresh page, ns.
    pub page_fault_ns: Option<f64>,
    /// Time that the programs see inside that call, ns: the rest of it
    /// (`entry_exit_ns` and `probe_ns_per_call`) is in user code. `null` where it was not measured.
    #[serde(default)]
    pub null_call_inside_ns: Option<f64>,
}
