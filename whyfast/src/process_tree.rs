//! The processes of a server, and their CPU time.

use std::collections::BTreeMap;

use procfs::process::{Process, Stat, all_processes};
use recording::{ProcessCpu, ServerCpu, ThreadCpu, Window};

use crate::machine::now_ns;

/// CPU time of some processes at one instant.
#[derive(Clone, Debug)]
pub(crate) struct CpuReading {
    at_ns: u64,
    processes: Vec<ProcessReading>,
}

#[derive(Clone, Debug)]
struct ProcessReading {
    pid: i32,
    /// Tells a process from a later one with the same id.
    started: u64,
    total_ns: u64,
    user_ticks: u64,
    system_ticks: u64,
    /// CPU time by thread, ns.
    threads: BTreeMap<u32, u64>,
}

/// A process and all its descendants, those included whose parent has ended but whose session is
/// the root's.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let Ok(processes) = all_processes() else {
        return vec![root];
    };
    let stats: Vec<Stat> = processes
        .filter_map(|process| process.ok()?.stat().ok())
        .filter(|stat| !matches!(stat.state, 'Z' | 'X'))
        .collect();
    family(
        root,
        &stats
            .iter()
            .map(|s| (s.pid, s.ppid, s.session))
            .collect::<Vec<_>>(),
    )
}

/// The family of a process, from (pid, parent, session) of all processes.
fn family(root: i32, processes: &[(i32, i32, i32)]) -> Vec<i32> {
    let mut family: Vec<i32> = processes
        .iter()
        .filter(|&&(pid, _, session)| pid == root || session == root)
        .map(|&(pid, _, _)| pid)
        .collect();
    let mut next = 0;
    while next < family.len() {
        let parent = family[next];
        next += 1;
        for &(pid, ppid, _) in processes {
            if ppid == parent && !family.contains(&pid) {
                family.push(pid);
            }
        }
    }
    family.sort_unstable();
    family
}

/// Reads the CPU clocks of processes; those that cannot be read are left out.
pub(crate) fn read_cpu(pids: &[i32]) -> CpuReading {
    let mut processes: Vec<ProcessReading> = pids
        .iter()
        .filter_map(|&pid| {
            let stat = Process::new(pid).ok()?.stat().ok()?;
            Some(ProcessReading {
                pid,
                started: stat.starttime,
                total_ns: profiler::process_cpu_ns(u32::try_from(pid).ok()?)?,
                user_ticks: stat.utime,
                system_ticks: stat.stime,
                threads: BTreeMap::new(),
            })
        })
        .collect();
    let at_ns = now_ns();
    // After the stamp: there may be many, and they are needed to a hundredth only.
    for process in &mut processes {
        process.threads = thread_clocks(process.pid).unwrap_or_default();
    }
    CpuReading { at_ns, processes }
}

/// CPU time of the threads of a process; `None` where the kernel does not tell, or where they are so many
/// that reading them would disturb the window.
fn thread_clocks(pid: i32) -> Option<BTreeMap<u32, u64>> {
    let tasks = Process::new(pid).ok()?.tasks().ok()?;
    let mut clocks = BTreeMap::new();
    for task in tasks {
        let task = task.ok()?;
        // A thread that has ended meanwhile is none that lived through the window.
        if let (Ok(tid), Ok(clock)) = (u32::try_from(task.tid), task.schedstat()) {
            clocks.insert(tid, clock.sum_exec_runtime);
        }
        if clocks.len() > MOST_THREADS {
            return None;
        }
    }
    Some(clocks)
}

/// Threads of one process that are read: a millisecond or two at each edge of a window.
const MOST_THREADS: usize = 128;

/// CPU time between two readings; `None` where a process of the first is missing in the second
/// (what it used after the first reading is gone with it), or where nothing could be read.
pub(crate) fn cpu_between(start: &CpuReading, end: &CpuReading) -> Option<ServerCpu> {
    if end.processes.is_empty() {
        return None;
    }
    let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
    let (mut total_ns, mut user_ticks, mut system_ticks) = (0, 0, 0);
    let mut threads = Vec::new();
    let mut by_process: BTreeMap<i32, u64> = BTreeMap::new();
    for process in &end.processes {
        by_process.insert(process.pid, process.total_ns);
        total_ns += process.total_ns;
        user_ticks += process.user_ticks;
        system_ticks += process.system_ticks;
    }
    for process in &start.processes {
        let same =
            |other: &&ProcessReading| other.pid == process.pid && other.started == process.started;
        let later = end.processes.iter().find(same)?;
        threads.extend(threads_between(process, later));
        total_ns -= process.total_ns;
        *by_process.get_mut(&process.pid)? -= process.total_ns;
        user_ticks -= process.user_ticks;
        system_ticks -= process.system_ticks;
    }
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.total_ns));
    Some(ServerCpu {
        window: Window {
            start_ns: start.at_ns,
            end_ns: end.at_ns,
        },
        total_ns,
        user_ns: Some(user_ticks * tick_ns),
        system_ns: Some(system_ticks * tick_ns),
        processes: u32::try_from(end.processes.len()).unwrap_or(u32::MAX),
        by_process: by_process
            .into_iter()
            .map(|(pid, total_ns)| ProcessCpu {
                pid: pid.cast_unsigned(),
                total_ns,
            })
            .collect(),
        threads,
    })
}

/// What the threads used that were there at both readings.
fn threads_between(start: &ProcessReading, end: &ProcessReading) -> Vec<ThreadCpu> {
    let Ok(pid) = u32::try_from(start.pid) else {
        return Vec::new();
    };
    let both = start.threads.iter().filter_map(|(&tid, before)| {
        let total_ns = end.threads.get(&tid)?.checked_sub(*before)?;
        Some(ThreadCpu { pid, tid, total_ns })
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(processes: &[(i32, u64, u64)]) -> CpuReading {
        let processes = processes
            .iter()
            .map(|&(pid, started, total_ns)| ProcessReading {
                pid,
                started,
                total_ns,
                user_ticks: 0,
                system_ticks: 0,
                threads: BTreeMap::from([(1, total_ns), (2, 2 * total_ns)]),
            })
            .collect();
        CpuReading {
            at_ns: 0,
            processes,
        }
    }

    /// Descendants are found through several generations, orphans through the session.
    #[test]
    fn family_has_grandchildren_and_orphans() {
        let processes = [
            (1, 0, 1),
            (5, 1, 5),
            (6, 5, 5),
            (7, 6, 7),
            (8, 1, 5),
            (9, 1, 9),
        ];
        assert_eq!(family(5, &processes), [5, 6, 7, 8]);
    }

    /// A process that began between the readings counts whole; one that ended makes it unknown.
    #[test]
    fn cpu_time_knows_its_processes() {
        let between =
            |a: &[_], b: &[_]| cpu_between(&reading(a), &reading(b)).map(|cpu| cpu.total_ns);
        assert_eq!(between(&[(1, 0, 10)], &[(1, 0, 15), (2, 3, 4)]), Some(9));
        assert_eq!(between(&[(1, 0, 10), (2, 0, 1)], &[(1, 0, 15)]), None);
        assert_eq!(between(&[(1, 0, 10)], &[(1, 9, 15)]), None);
        assert_eq!(between(&[], &[]), None);
    }

    /// The time of each process is told, and adds up to the whole.
    #[test]
    fn cpu_time_is_told_by_process() {
        let start = reading(&[(7, 0, 10), (6, 0, 3)]);
        let end = reading(&[(7, 0, 15), (6, 0, 3), (8, 3, 4)]);
        let cpu = cpu_between(&start, &end).expect("both were read");
        let processes = cpu.by_process.iter();
        let processes: Vec<(u32, u64)> = processes.map(|p| (p.pid, p.total_ns)).collect();
        assert_eq!(processes, [(6, 0), (7, 5), (8, 4)]);
        assert_eq!(cpu.total_ns, 9);
    }

    /// Threads that lived through the window are told, busiest first.
    #[test]
    fn cpu_time_is_told_by_thread() {
        let (start, end) = (reading(&[(7, 0, 10)]), reading(&[(7, 0, 15), (8, 3, 4)]));
        let cpu = cpu_between(&start, &end).expect("both were read");
        let threads: Vec<(u32, u32, u64)> = cpu
            .threads
            .iter()
            .map(|thread| (thread.pid, thread.tid, thread.total_ns))
            .collect();
        assert_eq!(threads, [(7, 2, 10), (7, 1, 5)]);
    }
}
