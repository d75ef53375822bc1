//! The beginning of a session: what is loaded, what that costs, and what threads do already.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use profiler_common::TARGET;
use recording::{Calibration, Detail, GroupBy};

use super::{Session, clock_ns, duration_ns, row_names};
use crate::calibration::Bare;
use crate::source::LoadPlan;
use crate::sys::give_back_memory;
use crate::{Config, ProfilerError, cpus, first_states};

impl Session {
    /// All that attaching takes has been done, which began then.
    pub(super) fn attached(&mut self, begun: Instant) {
        // The kernel's types and the object were read, and are not needed any more.
        give_back_memory();
        self.attach_ns = duration_ns(begun.elapsed());
    }

    /// Threads that are there already have no event that tells what they do.
    pub(super) fn give_states(&mut self) -> Result<(), ProfilerError> {
        if self.config.detail < Detail::Sched {
            return Ok(());
        }
        self.source.give_states()
    }

    /// Sets the rows of the only calls that are counted.
    pub(super) fn choose_calls(&self) -> Result<(), ProfilerError> {
        let Some(only) = &self.config.only else {
            return Ok(());
        };
        let tables = self.source.tables();
        let names = row_names(&tables);
        for wanted in only {
            let rows: Vec<u32> = (0..profiler_common::ROWS)
                .filter(|&row| {
                    names
                        .of(row)
                        .is_some_and(|(abi, nr)| recording::name(abi, nr) == wanted.as_str())
                })
                .collect();
            if rows.is_empty() {
                return Err(ProfilerError::NoSuchCall {
                    name: wanted.clone(),
                });
            }
            for row in rows {
                tables.only[(row / 64) as usize].fetch_or(1 << (row % 64), Relaxed);
            }
        }
        Ok(())
    }

    /// Makes this process a target for as long as it takes to see what that costs.
    pub(super) fn calibrate(&self, bare: &Bare) -> Calibration {
        let own = std::process::id();
        let tables = self.source.tables();
        tables.set_flags(own, TARGET);
        let (mut calibration, tids) = bare.compare();
        tables.set_flags(own, 0);
        // A program that saw the flag has ended when its CPU has switched.
        cpus::visit(&cpus::allowed(&BTreeSet::from([own])));
        first_states::forget(&tids, &tables, clock_ns());
        // Nothing is shorter than the call that does next to nothing, which was made thousands of
        // times.
        let calls = self.snapshot().calls;
        let shortest = calls.values().filter_map(|call| call.time.ns_min).min();
        calibration.null_call_inside_ns = shortest.map(|ns| ns as f64);
        tables.forget_extremes();
        calibration
    }
}

pub(super) fn plan(config: &Config) -> Result<LoadPlan, ProfilerError> {
    let pid_max = pid_max()?;
    Ok(LoadPlan {
        detail: config.detail,
        hook: config.hook,
        follow: config.follow,
        target_ids: config.limits.target_ids.unwrap_or(pid_max),
        start_ids: config.limits.start_ids.unwrap_or(pid_max),
        unknown_numbers: config.limits.unknown_numbers.unwrap_or(u32::MAX),
        group_by: match config.group_by {
            None => profiler_common::GROUP_NONE,
            Some(GroupBy::Process) => profiler_common::GROUP_PROCESS,
            Some(GroupBy::Thread | GroupBy::Comm) => profiler_common::GROUP_THREAD,
        },
        filtered: config.only.is_some(),
        statistics: config.bpf_stats,
        stack_hz: config.stack_hz,
        tls: config.tls,
    })
}

/// First process id that this kernel does not give out.
fn pid_max() -> Result<u32, ProfilerError> {
    let read_error = |source| ProfilerError::Read {
        path: PID_MAX.into(),
        source,
    };
    let text = std::fs::read_to_string(PID_MAX).map_err(read_error)?;
    let parsed = text.trim().parse();
    parsed.map_err(|error| read_error(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
}

const PID_MAX: &str = "/proc/sys/kernel/pid_max";
