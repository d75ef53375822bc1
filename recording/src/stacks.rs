//! Stacks: which functions the target was in while it ran, and while it waited.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stacks of a window, with their functions by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stacks {
    /// What the samples of `on_cpu` were taken by.
    pub clock: StackClock,
    /// Samples per second of running that were asked for, of each CPU.
    pub hz: u32,
    /// Every frame that a stack names, by its position here.
    pub frames: Vec<Frame>,
    /// Stacks of threads that ran: sampled, so their time is samples times the period.
    pub on_cpu: StackSet,
    /// Stacks of threads that were not on a CPU, from switch to switch, so their time is exact;
    /// `null` where switches were not looked at.
    pub off_cpu: Option<StackSet>,
    /// The programs and libraries that were looked at for names, and what was found.
    pub modules: Vec<Module>,
}

/// What samples are taken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StackClock {
    /// Cycles of the CPU, by its performance counters: sees code that runs with interrupts off.
    Cycles,
    /// The kernel's CPU clock, by a timer, where there are no counters: code that runs with interrupts
    /// off is seen where they are switched on again.
    CpuClock,
}

/// Stacks of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackSet {
    /// Each distinct stack, most time first.
    pub stacks: Vec<Stack>,
    /// Samples, or switches, that the kernel could not store because its table was full; not in
    /// `stacks`.
    pub lost: u64,
    /// Time of those in `lost`, ns; `null` where it is not known.
    pub lost_ns: Option<u64>,
}

impl StackSet {
    /// Time of all stacks, ns.
    pub fn ns_total(&self) -> u64 {
        let times = self.stacks.iter().map(|stack| stack.ns);
        times.fold(0, u64::saturating_add)
    }

    /// Samples, or switches, of all stacks.
    pub fn count(&self) -> u64 {
        let counts = self.stacks.iter().map(|stack| stack.count);
        counts.fold(0, u64::saturating_add)
    }
}

/// One stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Name of the thread as the kernel has it; any bytes, lossily decoded.
    pub comm: String,
    /// Positions in `frames`, the outermost caller first: of the program, then of the kernel.
    pub frames: Vec<u32>,
    /// Samples, or times that a thread left the CPU here.
    pub count: u64,
    /// Time, ns.
    pub ns: u64,
    /// Whether the program's part ends before its outermost caller: compiled without frame
    /// pointers, or deeper than the kernel walks.
    pub ends_early: bool,
}

/// One function, or an address that has no name.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Frame {
    /// Name of the function, demangled; `null` where none was found.
    pub name: Option<String>,
    /// Where it is: file name of the program or library without its folder, `[kernel]`, `[jit]`, or `null`
    /// where the address is in no known file.
    pub module: Option<String>,
    /// Offset of the address in its file, where there is no name.
    pub offset: Option<u64>,
    /// On which side.
    pub side: FrameSide,
}

/// On which side of the boundary a function runs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FrameSide {
    /// The program.
    User,
    /// Code that the program made while it ran, named by its `perf-PID.map`.
    Jit,
    /// The kernel.
    Kernel,
}

/// A program or library that frames are in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// File name without its folder, as in `Frame::module`.
    pub name: String,
    /// Build id, hexadecimal; `null` where the file has none.
    pub build_id: Option<String>,
    /// Where its names come from (`symbol table`, `dynamic symbols`, `debug file by build id`); `null` where it
    /// has none.
    pub names: Option<String>,
    /// Share of the samples of on-CPU stacks whose innermost frame is here, 0..=1.
    pub share: f64,
}
