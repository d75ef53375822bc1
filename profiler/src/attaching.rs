//! The beginning of a session: what is loaded, what that costs, and who is counted from the start.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use profiler_common::{PENDING, TARGET};
use recording::{Calibration, Detail, GroupBy};

use crate::calibration::Bare;
use crate::processes::{self, ProcessInfo};
use crate::session::{Session, clock_ns, row_names};
use crate::source::LoadPlan;
use crate::tracked::Joined;
use crate::{Config, ProfilerError, Target, cpus, first_states};

impl Session {
    /// Sets the flags of the targets, and of the descendants that they already have.
    pub(crate) fn begin(&mut self, roots: &[(BTreeSet<u32>, u8)]) -> Result<(), ProfilerError> {
        for (pids, flag) in roots {
            for &pid in pids {
                self.set_target(pid, *flag)?;
            }
        }
        if self.config.follow {
            self.add_descendants();
        }
        self.tracked.follow(&self.source.tables());
        self.give_states();
        Ok(())
    }

    pub(crate) fn set_target(&mut self, pid: u32, flag: u8) -> Result<(), ProfilerError> {
        let tables = self.source.tables();
        if !tables.set_flags(pid, flag) {
            let entries = tables.targets.len() * profiler_common::TARGETS_PER_ENTRY as usize;
            return Err(ProfilerError::OutsideTable {
                pid,
                limit: u32::try_from(entries).unwrap_or(u32::MAX),
            });
        }
        // It may have ended before the flag was there to be taken back at its end.
        if ProcessInfo::of(pid).is_none_or(|info| info.is_zombie && info.threads <= 1) {
            tables.set_flags(pid, 0);
            return Err(ProfilerError::NoSuchProcess { pid });
        }
        self.tracked.add(pid, Joined::Found);
        Ok(())
    }

    /// Children that were forked before their parent had its flag. A child that is forked later
    /// gets its own from the programs, so the walk ends when it finds no new one.
    pub(crate) fn add_descendants(&mut self) {
        loop {
            let tables = self.source.tables();
            let is_target = |pid: u32| tables.flags(pid).unwrap_or(0) & TARGET != 0;
            let alive = self.tracked.alive();
            let roots = alive.into_iter().filter(|&pid| is_target(pid)).collect();
            let family = processes::with_descendants(&roots, &processes::all());
            let new: Vec<u32> = family
                .into_iter()
                .filter(|&pid| pid != std::process::id() && !is_target(pid))
                .collect();
            let mut added = false;
            for pid in new {
                // One that has just ended is no loss.
                added |= self.set_target(pid, TARGET).is_ok();
            }
            if !added {
                return;
            }
        }
    }

    /// Threads that are there already have no event that tells what they do.
    pub(crate) fn give_states(&self) {
        if self.config.detail >= Detail::Sched {
            let tables = self.source.tables();
            let is_target = |pid: &u32| tables.flags(*pid).unwrap_or(0) & TARGET != 0;
            let pids = self.tracked.alive().into_iter().filter(is_target).collect();
            first_states::give(&pids, &tables, clock_ns);
        }
    }

    /// Sets the rows of the only calls that are counted.
    pub(crate) fn choose_calls(&self) -> Result<(), ProfilerError> {
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
    pub(crate) fn calibrate(&self, bare: &Bare) -> Calibration {
        let own = std::process::id();
        let tables = self.source.tables();
        tables.set_flags(own, TARGET);
        let (calibration, tids) = bare.compare();
        tables.set_flags(own, 0);
        // A program that saw the flag has ended when its CPU has switched.
        cpus::visit(&cpus::allowed(&BTreeSet::from([own])));
        first_states::forget(&tids, &tables, clock_ns());
        tables.forget_extremes();
        calibration
    }
}

/// The processes of each target with the flag that they get.
pub(crate) fn resolve(targets: &[Target]) -> Result<Vec<(BTreeSet<u32>, u8)>, ProfilerError> {
    let resolved = targets.iter().map(|target| {
        let flag = match target {
            Target::Pending(_) => PENDING,
            Target::Cgroup(_) | Target::Comm(_) | Target::Pid(_) | Target::Port(_) => TARGET,
        };
        Ok((target.resolve()?, flag))
    });
    resolved.collect()
}

pub(crate) fn plan(config: &Config) -> Result<LoadPlan, ProfilerError> {
    let pid_max = pid_max()?;
    Ok(LoadPlan {
        detail: config.detail,
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
