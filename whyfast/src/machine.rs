//! What this machine is, and how its CPUs are shared out between server and client.

use std::fmt;
use std::fs;

use recording::{Host, Tool};
use rustix::thread::{CpuSet, sched_getaffinity};

/// A sorted list of CPUs, printed as the kernel does (`0-2,4`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(Vec<usize>);

impl CpuList {
    /// The CPUs that this process may use.
    pub(crate) fn allowed() -> rustix::io::Result<Self> {
        let set = sched_getaffinity(None)?;
        Ok(Self(
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect(),
        ))
    }

    /// Reads a list as the kernel prints it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            if low > high || high >= CpuSet::MAX_CPU {
                return None;
            }
            cpus.extend(low..=high);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Some(Self(cpus))
    }

    /// Number of CPUs.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The CPUs, ascending.
    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// The list as the kernel takes it.
    pub(crate) fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for &cpu in &self.0 {
            set.set(cpu);
        }
        set
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some(&low) = rest.first() {
            let run = rest
                .iter()
                .enumerate()
                .take_while(|&(i, &cpu)| cpu == low + i)
                .count();
            write!(f, "{separator}{low}")?;
            if run > 1 {
                write!(f, "-{}", low + run - 1)?;
            }
            separator = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

/// Which CPUs the server and the client run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuSplit {
    pub(crate) server: CpuList,
    pub(crate) client: CpuList,
    /// Whether the two lists have no CPU in common.
    pub(crate) disjoint: bool,
}

/// Shares the CPUs out in halves, the threads of one core on the same side; with a single core
/// both sides share it.
pub(crate) fn split_cpus(cores: &[Vec<usize>]) -> CpuSplit {
    let flat = |cores: &[Vec<usize>]| {
        let mut cpus: Vec<usize> = cores.iter().flatten().copied().collect();
        cpus.sort_unstable();
        CpuList(cpus)
    };
    match cores {
        // One core with several threads: a shared core is better than a shared CPU.
        [core] if core.len() > 1 => {
            let (server, client) = core.split_at(core.len() / 2);
            let list = |cpus: &[usize]| CpuList(cpus.to_vec());
            CpuSplit {
                server: list(server),
                client: list(client),
                disjoint: true,
            }
        }
        [_, _, ..] => {
            let (server, client) = cores.split_at(cores.len() / 2);
            CpuSplit {
                server: flat(server),
                client: flat(client),
                disjoint: true,
            }
        }
        _ => CpuSplit {
            server: flat(cores),
            client: flat(cores),
            disjoint: false,
        },
    }
}

/// The allowed CPUs grouped by core.
pub(crate) fn cores(allowed: &CpuList) -> Vec<Vec<usize>> {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    for &cpu in allowed.as_slice() {
        if cores.iter().any(|core| core.contains(&cpu)) {
            continue;
        }
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let siblings = fs::read_to_string(path)
            .ok()
            .and_then(|text| CpuList::parse(&text));
        let core = siblings.map_or_else(
            || vec![cpu],
            |list| {
                list.0
                    .into_iter()
                    .filter(|c| allowed.0.contains(c))
                    .collect()
            },
        );
        cores.push(core);
    }
    cores
}

/// The machine as it is stored in a recording.
pub(crate) fn host() -> Host {
    let uname = rustix::system::uname();
    let lossy = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let hypervisor = field("flags").is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor"));
    Host {
        hostname: lossy(uname.nodename()),
        kernel: lossy(uname.release()),
        arch: lossy(uname.machine()),
        cpu_model: field("model name"),
        cpus: CpuList::allowed().map_or(0, |list| u32::try_from(list.len()).unwrap_or(u32::MAX)),
        memory_bytes: read_trimmed("/proc/meminfo")
            .as_deref()
            .and_then(memory_bytes),
        clocksource: read_trimmed(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        governor: read_trimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        virtualization: hypervisor.then(|| {
            read_trimmed("/sys/class/dmi/id/sys_vendor")
                .filter(|vendor| !vendor.is_empty())
                .unwrap_or_else(|| "hypervisor".to_owned())
        }),
        load_average_centi: read_trimmed("/proc/loadavg")
            .as_deref()
            .and_then(load_average_centi),
    }
}

/// This program, as it is stored in a recording.
pub(crate) fn tool() -> Tool {
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        bpf_sha256: profiler::bpf_object_sha256().map(str::to_owned),
    }
}

/// `CLOCK_MONOTONIC`, ns.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let parts = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    match parts {
        (Ok(seconds), Ok(nanoseconds)) => seconds * 1_000_000_000 + nanoseconds,
        _ => 0,
    }
}

/// Wall time, ns since the epoch, for people.
pub(crate) fn wall_unix_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
}

fn read_trimmed(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// `MemTotal` of /proc/meminfo, bytes.
pub(crate) fn memory_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    total
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

/// The first figure of /proc/loadavg, in hundredths.
fn load_average_centi(loadavg: &str) -> Option<u32> {
    let (whole, cents) = loadavg.split(' ').next()?.split_once('.')?;
    whole
        .parse::<u32>()
        .ok()?
        .checked_mul(100)?
        .checked_add(cents.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists read and print as the kernel prints them.
    #[test]
    fn cpu_lists_round_trip() {
        for text in ["0", "0-3", "0,2-3,7", "1,3,5"] {
            assert_eq!(CpuList::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuList::parse("3-1"), None);
        assert_eq!(CpuList::parse("x"), None);
        assert_eq!(CpuList::parse("0-99999999"), None);
    }

    /// Threads of one core stay on one side; one core alone is shared by its threads.
    #[test]
    fn cores_are_not_split() {
        let split = |cores: &[&[usize]]| {
            let cores: Vec<Vec<usize>> = cores.iter().map(|core| core.to_vec()).collect();
            let split = split_cpus(&cores);
            (
                split.server.to_string(),
                split.client.to_string(),
                split.disjoint,
            )
        };
        assert_eq!(split(&[&[0], &[1]]), ("0".into(), "1".into(), true));
        assert_eq!(
            split(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]),
            ("0-1,4-5".into(), "2-3,6-7".into(), true)
        );
        assert_eq!(split(&[&[0, 1]]), ("0".into(), "1".into(), true));
        assert_eq!(split(&[&[0]]), ("0".into(), "0".into(), false));
    }

    /// The kernel's texts are read with their units.
    #[test]
    fn proc_figures_keep_their_units() {
        assert_eq!(
            memory_bytes("MemTotal:       24684084 kB\nMemFree: 1 kB"),
            Some(25_276_502_016)
        );
        assert_eq!(load_average_centi("0.52 0.40 0.30 1/150 4242"), Some(52));
        assert_eq!(load_average_centi("nonsense"), None);
    }
}
