//! What to profile and how.

use std::time::Duration;

use recording::{Detail, GroupBy};

use crate::Target;

/// What to profile and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, and any of them goes with any other"
)]
pub struct Config {
    /// What to profile; several at once are counted together.
    pub targets: Vec<Target>,
    /// Whether children that a target forks become targets, and its descendants are to begin with.
    pub follow: bool,
    /// How much is probed.
    pub detail: Detail,
    /// Where calls are counted.
    pub hook: Hook,
    /// What calls are told apart by, beside the sum over all.
    pub group_by: Option<GroupBy>,
    /// Names of the only calls to count, chosen in the kernel; `None`: all.
    pub only: Option<Vec<String>>,
    /// Whether the kernel keeps its own statistics of eBPF programs meanwhile, which taxes every
    /// program on the host.
    pub bpf_stats: bool,
    /// Whether the window may stay open for as long as the machine runs: memory is then bounded. Slices
    /// are not kept (the profile has only the one from the last [`Session::slice`](crate::Session::slice) to
    /// the end), and of the processes that ended only the latest are listed.
    pub endless: bool,
    /// Whether slices say also what threads did inside the calls (at detail `sched`), and what each
    /// group did: for who looks at them as they are taken.
    pub slice_details: bool,
    /// How long a target whose processes have all ended is awaited, if it can come back
    /// ([`Target::can_return`]); `None`: its end is the end.
    pub return_within: Option<Duration>,
    /// Samples per second of each CPU, at detail `stacks`.
    pub stack_hz: u32,
    /// Whether the functions of the target's TLS libraries are probed, which costs every process that has
    /// them some microseconds a call.
    pub tls: bool,
    /// Sizes of the tables.
    pub limits: Limits,
}

impl Config {
    /// These targets, their children followed, with tables sized to the machine.
    pub fn new(targets: impl IntoIterator<Item = Target>, detail: Detail) -> Self {
        Self {
            targets: targets.into_iter().collect(),
            follow: true,
            detail,
            hook: Hook::default(),
            group_by: None,
            only: None,
            bpf_stats: false,
            endless: false,
            slice_details: false,
            return_within: None,
            stack_hz: STACK_HZ,
            tls: false,
            limits: Limits::default(),
        }
    }
}

/// Not a divisor of what else happens by a clock, so that samples do not fall into step with it.
const STACK_HZ: u32 = 99;

/// Where calls are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
    /// At the tracepoints of system calls: everything, on every kernel.
    #[default]
    Tracepoint,
    /// At the function that calls the one of each number (`x64_sys_call`), detail `counts` only, where
    /// a kernel has it and lets programs attach to functions. Not seen are calls that were entered
    /// before the attach, that seccomp refuses, and that have 32-bit numbers or numbers of no call.
    /// What it costs has not been measured.
    Function,
}

/// Sizes of the tables in the kernel. `None` takes what the machine needs, with which nothing is
/// lost; smaller ones save memory, and let tests show that a loss is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processes with an id from this on cannot be targets; `None`: `kernel.pid_max`.
    pub target_ids: Option<u32>,
    /// Calls of threads with an id from this on are not timed; `None`: `kernel.pid_max`.
    pub start_ids: Option<u32>,
    /// Call numbers outside the table that are told apart; `None`: 64, which is also the most.
    pub unknown_numbers: Option<u32>,
}
