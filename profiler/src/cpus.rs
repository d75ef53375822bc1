//! The CPUs that a target may run on, and what the kernel says about them: time that the hypervisor
//! took, time that a control group was throttled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use procfs::process::Process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What the kernel has counted until one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelClocks {
    /// By CPU, clock ticks.
    steal_ticks: BTreeMap<u32, u64>,
    /// By file, ns.
    throttled_ns: BTreeMap<PathBuf, u64>,
}

impl KernelClocks {
    /// Reads what there is for these processes.
    pub(crate) fn read(pids: &BTreeSet<u32>) -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let files: BTreeSet<PathBuf> = pids.iter().flat_map(|&pid| throttling_files(pid)).collect();
        let throttled = files.into_iter().filter_map(|file| {
            let text = std::fs::read_to_string(&file).ok()?;
            Some((file, throttled_ns(&text)?))
        });
        Self {
            steal_ticks: stat.lines().filter_map(steal_ticks).collect(),
            throttled_ns: throttled.collect(),
        }
    }

    /// What the hypervisor took from these CPUs since, ns; `None` where it was not read.
    pub(crate) fn steal_since(&self, from: &Self, cpus: &[u32]) -> Option<u64> {
        let ticks = cpus.iter().map(|cpu| {
            let is = self.steal_ticks.get(cpu)?;
            Some(is.saturating_sub(*from.steal_ticks.get(cpu)?))
        });
        let ticks: u64 = ticks.sum::<Option<u64>>()?;
        Some(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
    }

    /// How long the control groups were throttled since, ns; `None` where none has a quota.
    pub(crate) fn throttled_since(&self, from: &Self) -> Option<u64> {
        let both = self
            .throttled_ns
            .iter()
            .filter_map(|(file, is)| Some(is.saturating_sub(*from.throttled_ns.get(file)?)));
        both.fold(None, |sum, ns| Some(sum.unwrap_or(0) + ns))
    }
}

/// The CPUs that these processes may run on, by number.
pub(crate) fn allowed(pids: &BTreeSet<u32>) -> Vec<u32> {
    let mut cpus = BTreeSet::new();
    for &pid in pids {
        let status = i32::try_from(pid)
            .ok()
            .and_then(|pid| Process::new(pid).ok()?.status().ok());
        for (first, last) in status
            .and_then(|status| status.cpus_allowed_list)
            .unwrap_or_default()
        {
            cpus.extend(first..=last.min(MOST_CPUS));
        }
    }
    let online = online();
    cpus.retain(|cpu| online.contains(cpu));
    cpus.into_iter().collect()
}

/// Those that run, by number.
pub(crate) fn online() -> BTreeSet<u32> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_list(&online)
}

/// Runs on each of these CPUs for a moment, so that the programs see a switch there: an idle CPU may
/// have none for as long as a window lasts.
pub(crate) fn visit(cpus: &[u32]) {
    let Ok(ours) = sched_getaffinity(None) else {
        return;
    };
    for &cpu in cpus {
        let mut only = CpuSet::new();
        only.set(cpu as usize);
        // One that is closed to us shows as unaccounted.
        let _visited = sched_setaffinity(None, &only);
    }
    let _back = sched_setaffinity(None, &ours);
}

/// `cpu3 user nice system idle iowait irq softirq steal ...`
fn steal_ticks(line: &str) -> Option<(u32, u64)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    let cpu = words.next()?.parse().ok()?;
    Some((cpu, words.nth(7)?.parse().ok()?))
}

/// `cpu.stat` of the control groups of a process, where it has one.
fn throttling_files(pid: u32) -> Vec<PathBuf> {
    let process = i32::try_from(pid)
        .ok()
        .and_then(|pid| Process::new(pid).ok());
    let Some(groups) = process.and_then(|process| process.cgroups().ok()) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for group in groups.0 {
        let path = group.pathname.trim_start_matches('/');
        let roots: &[&str] = if group.hierarchy == 0 {
            &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        } else if group
            .controllers
            .iter()
            .any(|controller| controller == "cpu")
        {
            &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        } else {
            &[]
        };
        files.extend(
            roots
                .iter()
                .map(|root| PathBuf::from(root).join(path).join("cpu.stat")),
        );
    }
    files
}

/// `throttled_usec` of version 2, `throttled_time` (ns) of version 1.
fn throttled_ns(text: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value: u64 = value.trim().parse().ok()?;
        match name {
            "throttled_usec" => Some(value * 1_000),
            "throttled_time" => Some(value),
            _ => None,
        }
    })
}

/// `0-3,8`.
fn parse_list(text: &str) -> BTreeSet<u32> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((
            first.parse().ok()?,
            last.parse::<u32>().ok()?.min(MOST_CPUS),
        ))
    });
    ranges.flat_map(|(first, last)| first..=last).collect()
}

/// `CONFIG_NR_CPUS` of the largest distribution kernels.
const MOST_CPUS: u32 = 8_191;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of both versions of control groups, and of CPUs.
    #[test]
    fn parses_the_kernels_files() {
        let v2 = "usage_usec 5\nnr_periods 2\nnr_throttled 1\nthrottled_usec 77\n";
        assert_eq!(throttled_ns(v2), Some(77_000));
        let v1 = "nr_periods 2\nnr_throttled 1\nthrottled_time 78\n";
        assert_eq!(throttled_ns(v1), Some(78));
        assert_eq!(throttled_ns("usage_usec 5\n"), None);
        assert_eq!(steal_ticks("cpu1 10 0 5 9 1 0 2 33 0 0"), Some((1, 33)));
        assert_eq!(parse_list("0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
    }

    /// This process may run somewhere, and the kernel says what was taken from there.
    #[test]
    fn sees_ourselves() {
        let pids = BTreeSet::from([std::process::id()]);
        let cpus = allowed(&pids);
        assert!(!cpus.is_empty());
        let clocks = KernelClocks::read(&pids);
        assert_eq!(clocks.steal_since(&clocks, &cpus), Some(0));
    }
}
