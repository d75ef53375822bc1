//! The processes of a target: which are known, alive, and what their CPU clocks showed.

use std::collections::{BTreeMap, BTreeSet};

use profiler_common::{ENDED, PENDING, TARGET, TARGETS_PER_ENTRY};
use recording::ProfiledProcess;

use crate::Target;
use crate::processes::{self, ProcessInfo};
use crate::source::Tables;
use crate::sys::process_cpu_ns;

/// All processes that were ever part of the target.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// Labels of the targets, in the order of the configuration.
    labels: Vec<String>,
    processes: BTreeMap<u32, TrackedProcess>,
    /// Processes that ended and whose id belongs to another process of the target by now.
    past: Vec<(u32, TrackedProcess)>,
    /// Whether a window is open: a process that is forked in it has all its CPU time in it.
    window_open: bool,
    /// Processes that ended so far: the number of the next one.
    ends: u64,
    /// Processes that ended in the window and were forgotten.
    unlisted: u64,
}

#[derive(Debug, Default)]
struct TrackedProcess {
    /// The targets that it belongs to, by their place in the configuration.
    targets: BTreeSet<usize>,
    origin: Option<Origin>,
    comm: Option<String>,
    threads: Option<u32>,
    container: Option<String>,
    ended: bool,
    /// Its place among those that ended.
    end_number: u64,
    ended_before_window: bool,
    /// CPU clock when the window was opened, or when the process joined.
    cpu_ns_from: u64,
    /// CPU clock when it was last read.
    cpu_ns_to: Option<u64>,
    /// Whether that was after the end: a process that its parent has not collected still has one.
    cpu_is_final: bool,
}

/// Where a process came from, which never changes while it is looked at.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// `None` for a process of the kernel or of another namespace's making.
    parent: Option<u32>,
    /// Its id in its own PID namespace, where that is not the initial one.
    ns_pid: Option<u32>,
}

impl Origin {
    fn of(info: &ProcessInfo) -> Self {
        Self {
            parent: Some(info.parent).filter(|&parent| parent != 0),
            ns_pid: processes::ids_in_namespaces(info.pid).pop(),
        }
    }
}

/// How a process became part of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It was there before and was found in `/proc`.
    Found,
    /// A target forked it.
    Forked,
}

impl Tracked {
    /// Nothing yet of these targets.
    pub(crate) fn new(targets: &[Target]) -> Self {
        Self {
            labels: targets.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    /// Adds a process, if it is not one that is known and alive.
    pub(crate) fn add(&mut self, pid: u32, joined: Joined) {
        if self.is_alive(pid) {
            return;
        }
        let mut process = TrackedProcess::default();
        process.look(pid);
        if joined == Joined::Found || !self.window_open {
            process.cpu_ns_from = process.cpu_ns_to.unwrap_or(0);
        }
        if let Some(past) = self.processes.insert(pid, process) {
            self.past.push((pid, past));
        }
        self.inherit(pid);
    }

    /// Notes that a process is meant by a target, given by its place in the configuration.
    pub(crate) fn choose(&mut self, pid: u32, target: usize) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.targets.insert(target);
        }
    }

    /// Gives the targets of their parents to those that have none yet: a child can be found before
    /// its parent is.
    pub(crate) fn inherit_all(&mut self) {
        let heirless = |(&pid, process): (&u32, &TrackedProcess)| {
            (process.targets.is_empty() && process.parent().is_some()).then_some(pid)
        };
        loop {
            let open: Vec<u32> = self.processes.iter().filter_map(heirless).collect();
            let inherited = open.into_iter().filter(|&pid| self.inherit(pid)).count();
            if inherited == 0 {
                return;
            }
        }
    }

    /// The processes that have not ended, each with the label of its targets.
    pub(crate) fn labels(&self) -> BTreeMap<u32, Option<String>> {
        let alive = self.processes.iter().filter(|(_, process)| !process.ended);
        alive
            .map(|(&pid, process)| (pid, self.label(process)))
            .collect()
    }

    fn label(&self, process: &TrackedProcess) -> Option<String> {
        if let [only] = self.labels.as_slice() {
            return Some(only.clone());
        }
        let labels = process.targets.iter().filter_map(|&at| self.labels.get(at));
        let labels: Vec<&str> = labels.map(String::as_str).collect();
        (!labels.is_empty()).then(|| labels.join(", "))
    }

    /// Whether it has targets of its parent now.
    fn inherit(&mut self, pid: u32) -> bool {
        let parent = self.processes.get(&pid).and_then(TrackedProcess::parent);
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let targets = parent.map(|parent| parent.targets.clone());
        let targets = targets.unwrap_or_default();
        let inherits = !targets.is_empty();
        if let Some(child) = self.processes.get_mut(&pid) {
            child.targets.extend(targets);
        }
        inherits
    }

    /// Takes over what the programs in the kernel know: children that joined, processes that ended.
    pub(crate) fn follow(&mut self, tables: &Tables<'_>) {
        for (first, entry) in (0_u32..)
            .step_by(TARGETS_PER_ENTRY as usize)
            .zip(tables.targets)
        {
            if entry.0.load(std::sync::atomic::Ordering::Relaxed) == 0 {
                continue;
            }
            for pid in first..first + TARGETS_PER_ENTRY {
                let flags = entry.load(pid);
                let is_known = self.processes.contains_key(&pid);
                // One that ended before it was seen alive is part of the target all the same.
                if flags & (TARGET | PENDING) != 0 || (flags != 0 && !is_known) {
                    self.add(pid, Joined::Forked);
                }
            }
        }
        self.inherit_all();
        for (&pid, process) in &mut self.processes {
            let flags = tables.flags(pid).unwrap_or(0);
            // Flags that are gone: the id belongs to another process by now.
            let ended = flags & ENDED != 0 || flags & (TARGET | PENDING) == 0;
            if ended && !process.ended {
                process.end(pid, flags & ENDED != 0);
                process.ended_before_window = !self.window_open;
                process.end_number = self.ends;
                self.ends += 1;
            }
        }
    }

    /// Begins a window: CPU time counts from now on.
    pub(crate) fn open_window(&mut self) {
        self.window_open = true;
        self.unlisted = 0;
        self.past.clear();
        for (&pid, process) in &mut self.processes {
            if process.ended {
                process.ended_before_window = true;
            } else {
                process.look(pid);
                process.cpu_ns_from = process.cpu_ns_to.unwrap_or(process.cpu_ns_from);
            }
        }
    }

    /// Forgets those that ended, but for the latest: at least `kept` and less than twice as many stay.
    pub(crate) fn forget_ended(&mut self, tables: &Tables<'_>, kept: usize) {
        let ended = self.processes.values().filter(|process| process.ended);
        let ended = ended.count() + self.past.len();
        if ended < 2 * kept {
            return;
        }
        let (ends, window_open) = (self.ends, self.window_open);
        let mut unlisted = 0;
        let mut is_old = |process: &TrackedProcess| {
            let is_old = process.ended && ends - process.end_number > kept as u64;
            unlisted += u64::from(is_old && window_open && !process.ended_before_window);
            is_old
        };
        self.past.retain(|(_, process)| !is_old(process));
        self.processes.retain(|&pid, process| {
            let is_old = is_old(process);
            if is_old {
                // Else it would be found again there.
                tables.forget_end(pid);
            }
            !is_old
        });
        self.unlisted += unlisted;
    }

    /// Processes of the window that ended and were forgotten.
    pub(crate) fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Reads name, threads and clock of all that are alive.
    pub(crate) fn look_again(&mut self) {
        for (&pid, process) in &mut self.processes {
            if !process.ended {
                process.look(pid);
            }
        }
    }

    /// Ends a window; its processes, and their CPU time if it is known of all of them.
    pub(crate) fn close_window(&mut self) -> (Vec<ProfiledProcess>, Option<u64>) {
        self.window_open = false;
        // The clocks of those that were forgotten are gone with them.
        let mut cpu_ns = (self.unlisted == 0).then_some(0);
        let mut processes = Vec::new();
        let past = self.past.iter().map(|(pid, process)| (pid, process));
        for (&pid, process) in past.chain(&self.processes) {
            if process.ended_before_window {
                continue;
            }
            let is_known = !process.ended || process.cpu_is_final;
            let own = process.cpu_ns_to.filter(|_| is_known);
            let own = own.map(|to| to.saturating_sub(process.cpu_ns_from));
            cpu_ns = cpu_ns.zip(own).map(|(sum, own)| sum + own);
            processes.push(ProfiledProcess {
                pid,
                comm: process.comm.clone(),
                threads: process.threads,
                container: process.container.clone(),
                ended: process.ended,
                target: self.label(process),
                ns_pid: process.origin.and_then(|origin| origin.ns_pid),
                parent: process.parent(),
            });
        }
        (processes, cpu_ns)
    }

    /// The processes that have not ended.
    pub(crate) fn alive(&self) -> BTreeSet<u32> {
        let alive = self.processes.iter().filter(|(_, process)| !process.ended);
        alive.map(|(&pid, _)| pid).collect()
    }

    /// Whether a target, given by its place in the configuration, has a process that is alive.
    pub(crate) fn has(&self, target: usize) -> bool {
        let only = self.labels.len() == 1;
        let mut alive = self.processes.values().filter(|process| !process.ended);
        alive.any(|process| only || process.targets.contains(&target))
    }

    /// The targets in the words of the command line.
    pub(crate) fn target_labels(&self) -> &[String] {
        &self.labels
    }

    /// The name that a process has, or had.
    pub(crate) fn comm(&self, pid: u32) -> Option<String> {
        self.processes.get(&pid)?.comm.clone()
    }

    /// Whether the process is known and has not ended.
    pub(crate) fn is_alive(&self, pid: u32) -> bool {
        self.processes
            .get(&pid)
            .is_some_and(|process| !process.ended)
    }
}

impl TrackedProcess {
    fn parent(&self) -> Option<u32> {
        self.origin.and_then(|origin| origin.parent)
    }

    /// Notes the end; `is_same` while the id still belongs to the process.
    fn end(&mut self, pid: u32, is_same: bool) {
        self.ended = true;
        let is_zombie = ProcessInfo::of(pid).is_some_and(|info| info.is_zombie);
        if is_same && is_zombie {
            let cpu_ns = process_cpu_ns(pid);
            self.cpu_is_final = cpu_ns.is_some();
            self.cpu_ns_to = cpu_ns.or(self.cpu_ns_to);
        }
    }

    /// Reads what can be read; what was seen before stays where the process has just ended.
    fn look(&mut self, pid: u32) {
        let Some(info) = ProcessInfo::of(pid) else {
            return;
        };
        self.origin.get_or_insert_with(|| Origin::of(&info));
        self.comm = Some(info.comm);
        self.threads = Some(info.threads);
        if self.container.is_none() {
            self.container = processes::container(pid);
        }
        self.cpu_ns_to = process_cpu_ns(pid).or(self.cpu_ns_to);
    }
}

#[cfg(test)]
mod tests {
    use profiler_common::TARGET;

    use super::*;
    use crate::source::CounterSource as _;
    use crate::source::replay::{PID_MAX, Replay};

    /// A child of ours that ends when it is dropped.
    struct Child(std::process::Child);

    impl Child {
        fn sleeping() -> Self {
            Self(
                std::process::Command::new("sleep")
                    .arg("1000")
                    .spawn()
                    .unwrap(),
            )
        }

        /// Ended, and not collected.
        fn become_zombie(&mut self) {
            self.0.kill().unwrap();
            let id = rustix::process::Pid::from_child(&self.0);
            let options =
                rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            rustix::process::waitid(rustix::process::WaitId::Pid(id), options).unwrap();
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            let _killed = self.0.kill();
            let _status = self.0.wait();
        }
    }

    /// The clock of a process that ended can be read until its parent collects it.
    #[test]
    fn cpu_time_of_a_zombie() {
        for collected in [false, true] {
            let mut child = Child::sleeping();
            let pid = child.0.id();
            let replay = Replay::new(PID_MAX);
            replay.tables().set_flags(pid, TARGET);
            let mut tracked = Tracked::default();
            tracked.follow(&replay.tables());
            tracked.open_window();
            child.become_zombie();
            if collected {
                child.0.wait().unwrap();
            }
            replay.tables().set_flags(pid, ENDED);
            tracked.follow(&replay.tables());
            assert!(tracked.alive().is_empty());
            let (processes, cpu_ns) = tracked.close_window();
            assert_eq!(cpu_ns.is_none(), collected);
            assert_eq!(processes.len(), 1);
            assert!(processes[0].ended && processes[0].comm.as_deref() == Some("sleep"));
        }
    }

    /// An id that is used again is another process; the one before stays listed for the window.
    #[test]
    fn reused_ids() {
        let child = Child::sleeping();
        let pid = child.0.id();
        let replay = Replay::new(PID_MAX);
        let mut tracked = Tracked::default();
        tracked.open_window();
        for flags in [TARGET, ENDED, TARGET] {
            replay.tables().set_flags(pid, flags);
            tracked.follow(&replay.tables());
        }
        assert!(tracked.is_alive(pid));
        let (processes, cpu_ns) = tracked.close_window();
        let ended: Vec<bool> = processes.iter().map(|process| process.ended).collect();
        assert_eq!(ended, [true, false]);
        assert_eq!(cpu_ns, None);
    }

    /// Children have the targets of their parents, whichever is found first; of a single target
    /// everybody is.
    #[test]
    fn targets_of_processes() {
        let [child, other] = [Child::sleeping(), Child::sleeping()];
        let (pid, own) = (child.0.id(), std::process::id());
        let mut tracked = Tracked::new(&[Target::Port(80), Target::Comm("worker".into())]);
        tracked.add(pid, Joined::Forked);
        tracked.add(other.0.id(), Joined::Found);
        tracked.choose(other.0.id(), 1);
        assert_eq!(tracked.labels()[&pid], None);
        tracked.add(own, Joined::Found);
        tracked.choose(own, 0);
        tracked.inherit_all();
        assert_eq!(tracked.labels()[&pid].as_deref(), Some("port 80"));
        assert_eq!(
            tracked.labels()[&other.0.id()].as_deref(),
            Some("comm worker")
        );
        tracked.choose(pid, 1);
        let (processes, _) = tracked.close_window();
        let found = processes.iter().find(|process| process.pid == pid).unwrap();
        assert_eq!(found.target.as_deref(), Some("port 80, comm worker"));
        assert_eq!((found.parent, found.ns_pid), (Some(own), None));
        let mut tracked = Tracked::new(&[Target::Port(80)]);
        tracked.add(pid, Joined::Forked);
        assert_eq!(tracked.labels()[&pid].as_deref(), Some("port 80"));
    }

    /// Of any number of short lives only so many are remembered, those that ended last; those that are
    /// alive all are, and the table does not bring the others back.
    #[test]
    fn churn_is_forgotten() {
        const LIVES: u32 = 20_000;
        const KEPT: usize = 100;
        let replay = Replay::new(PID_MAX);
        let child = Child::sleeping();
        replay.tables().set_flags(child.0.id(), TARGET);
        let mut tracked = Tracked::default();
        tracked.open_window();
        // Ids that no process has here: they end before anybody sees them.
        let ids = PID_MAX - 64 * 1024..;
        for (number, pid) in (1..=LIVES).zip(ids) {
            replay.tables().set_flags(pid, ENDED);
            if number % 64 == 0 {
                tracked.follow(&replay.tables());
                tracked.forget_ended(&replay.tables(), KEPT);
                assert!(tracked.processes.len() + tracked.past.len() <= 1 + 2 * KEPT + 64);
            }
        }
        tracked.follow(&replay.tables());
        assert!(tracked.is_alive(child.0.id()));
        let unlisted = tracked.unlisted();
        let (processes, cpu_ns) = tracked.close_window();
        assert_eq!(processes.len() as u64 + unlisted, u64::from(LIVES) + 1);
        assert!(unlisted > u64::from(LIVES) - 3 * KEPT as u64);
        assert_eq!(cpu_ns, None);
    }

    /// A process that came and went between two looks is listed, without a name.
    #[test]
    fn unseen_processes() {
        let replay = Replay::new(16);
        replay.tables().set_flags(9, ENDED);
        let mut tracked = Tracked::default();
        tracked.open_window();
        tracked.follow(&replay.tables());
        tracked.follow(&replay.tables());
        let (processes, cpu_ns) = tracked.close_window();
        assert_eq!(processes.len(), 1);
        assert!(processes[0].ended);
        assert_eq!(cpu_ns, None);
    }
}
