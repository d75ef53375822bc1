//! The clock that stacks are sampled by: a counter of cycles of each CPU, or a timer where there is none.

use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

use aya::Ebpf;
use aya::programs::perf_event::{
    HardwareEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::{PerfEvent, Program, ProgramError};
use profiler_common::program;
use recording::StackClock;

use super::{not_permitted, refused};
use crate::ProfilerError;

/// Starts it on every CPU; with the descriptor of the program that it runs.
pub(super) fn start(ebpf: &mut Ebpf, hz: u32) -> Result<(StackClock, RawFd), ProfilerError> {
    let Some(Program::PerfEvent(program)) = ebpf.program_mut(program::STACK_SAMPLE) else {
        unreachable!("the object was built with a program of this name");
    };
    let told = |error: &ProgramError| {
        not_permitted("open a clock to sample stacks by", error)
            .unwrap_or_else(|| refused("the clock of stacks", error))
    };
    program.load().map_err(|error| told(&error))?;
    let cpus = aya::util::online_cpus().map_err(|(path, source)| ProfilerError::Read {
        path: path.into(),
        source,
    })?;
    let mut clock = StackClock::Cycles;
    for cpu in cpus {
        // Whether there are counters shows at the first CPU.
        if clock == StackClock::Cycles && attach(program, clock, cpu, hz).is_ok() {
            continue;
        }
        clock = StackClock::CpuClock;
        attach(program, clock, cpu, hz).map_err(|error| told(&error))?;
    }
    let fd = program.fd().map_err(|error| told(&error))?;
    Ok((clock, fd.as_fd().as_raw_fd()))
}

fn attach(
    program: &mut PerfEvent,
    clock: StackClock,
    cpu: u32,
    hz: u32,
) -> Result<(), ProgramError> {
    let config = match clock {
        StackClock::Cycles => PerfEventConfig::Hardware(HardwareEvent::CpuCycles),
        StackClock::CpuClock => PerfEventConfig::Software(SoftwareEvent::CpuClock),
    };
    let scope = PerfEventScope::AllProcessesOneCpu { cpu };
    let policy = SamplePolicy::Frequency(hz.into());
    program.attach(config, scope, policy, false)?;
    Ok(())
}
