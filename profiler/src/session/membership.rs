//! Who belongs to the targets of a session: to begin with, and as processes join later.

use std::collections::BTreeSet;

use profiler_common::{PENDING, TARGET};

use super::Session;
use crate::processes::{self, ProcessInfo};
use crate::tracked::Joined;
use crate::{ProfilerError, Target};

impl Session {
    /// Sets the flags of the targets, and of the descendants that they already have.
    pub(super) fn begin(&mut self, roots: &[(BTreeSet<u32>, u8)]) -> Result<(), ProfilerError> {
        for (target, (pids, flag)) in roots.iter().enumerate() {
            let mut gone = None;
            for &pid in pids {
                match self.set_target(pid, *flag) {
                    Ok(()) => self.tracked.choose(pid, target),
                    // One of many may have ended since they were looked up.
                    Err(error) if error.is_absence() => gone = Some(error),
                    Err(error) => return Err(error),
                }
            }
            let is_there = pids.iter().any(|&pid| self.tracked.is_alive(pid));
            if let Some(error) = gone.filter(|_| !is_there) {
                return Err(error);
            }
        }
        if self.config.follow {
            self.add_descendants();
        }
        self.tracked.follow(&self.source.tables());
        self.give_states()
    }

    fn set_target(&mut self, pid: u32, flag: u8) -> Result<(), ProfilerError> {
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
    fn add_descendants(&mut self) {
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

    pub(super) fn rescan_open_ended(&mut self) {
        let mut joined = false;
        let targets = self.config.targets.iter().enumerate();
        let found: Vec<(usize, BTreeSet<u32>)> = targets
            .filter_map(|(place, target)| match target {
                target if target.is_open_ended() => Some((place, target.resolve_again())),
                // Whoever listens is looked for only when nobody does: it takes long.
                Target::Port(_) if self.is_awaited(place) => Some((place, target.resolve().ok()?)),
                _ => None,
            })
            .collect();
        for (place, pids) in found {
            for pid in pids {
                if !self.tracked.is_alive(pid) {
                    joined |= self.set_target(pid, TARGET).is_ok();
                }
                self.tracked.choose(pid, place);
            }
        }
        if joined && self.config.follow {
            self.add_descendants();
        }
        if joined {
            // Where it fails, threads have a state from their next event on.
            let _given = self.give_states();
        }
    }
}

/// The processes of each target with the flag that they get.
pub(super) fn resolve(targets: &[Target]) -> Result<Vec<(BTreeSet<u32>, u8)>, ProfilerError> {
    let resolved = targets.iter().map(|target| {
        let flag = match target {
            Target::Pending(_) => PENDING,
            Target::Cgroup(_)
            | Target::Comm(_)
            | Target::Pid(_)
            | Target::Port(_)
            | Target::Unit(_) => TARGET,
        };
        Ok((target.resolve()?, flag))
    });
    resolved.collect()
}
