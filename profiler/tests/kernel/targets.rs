//! Targets of every kind: units, several at once, containers, many threads, and ones that never rest.

use std::process::{Child, Command, Stdio};

use profiler::{Config, ProfilerError, Session, Target};
use recording::{Detail, ProfiledProcess};

use crate::kernel_state::{ControlGroup, await_gone, programs_of};
use crate::sched::is_in_read;
use crate::workload_process::{PROGRAM, Workload, attach, await_until, profile_with, row};

/// All processes of a control group and of a group inside it, those that join later too, in each
/// version that is mounted.
#[test]
fn targets_by_control_group() {
    let mut tried = 0;
    for mount in [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/pids",
    ] {
        let name = format!("profiler-test-{}", std::process::id());
        let Some(group) = ControlGroup::create(mount, &name) else {
            continue;
        };
        tried += 1;
        assert_all_count(&Target::Cgroup(group.relative.clone().into()), &group);
    }
    assert!(tried > 0, "no control group can be made on this machine");
}

/// All processes of a unit, wherever systemd has put its group, and of groups made inside it later;
/// an instance by its name, and all instances by their template.
#[test]
fn targets_by_unit() {
    let mut tried = 0;
    for mount in [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/systemd",
    ] {
        let template = format!("profiler-test-{}", std::process::id());
        let Some(slice) = ControlGroup::create(mount, &format!("{template}.slice")) else {
            continue;
        };
        tried += 1;
        for unit in [
            format!("{template}@1"),
            format!("{template}@1.service"),
            format!("{template}@"),
            format!("{template}.slice"),
        ] {
            let service = slice.inner(&format!("{template}@1.service"));
            assert_all_count(&Target::Unit(unit), &service);
        }
    }
    assert!(tried > 0, "no control group can be made on this machine");
}

/// A process in the group and one that joins a group inside it later are the target, and say so.
fn assert_all_count(target: &Target, group: &ControlGroup) {
    let mut first = Workload::start(&["calls", "10"]);
    group.take(first.pid());
    let mut session = attach(Config::new([target.clone()], Detail::Counts));
    session.open(true).unwrap();
    let mut second = Workload::start(&["calls", "20"]);
    let inner = group.inner("inner");
    inner.take(second.pid());
    session.tick();
    for workload in [&mut first, &mut second] {
        workload.go();
        workload.await_byte();
    }
    let profile = session.close(true).unwrap();
    assert_eq!(row(&profile, "getppid").count, 30, "{target}");
    let label = target.to_string();
    let labels = profile.processes.iter().map(|process| &process.target);
    assert!(labels.eq([&Some(label.clone()), &Some(label)]), "{target}");
    // Before the groups, which must be empty to be removed.
    drop((first, second));
}

/// A process outside of the group wakes one inside: the wake-up is of the one that was woken.
#[test]
fn wake_ups_from_outside_of_the_group() {
    let name = format!("profiler-test-{}", std::process::id());
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let group = mounts
        .iter()
        .find_map(|mount| ControlGroup::create(mount, &name));
    let group = group.expect("a control group of version 2 can be made on this machine");
    let mut workload = Workload::start(&["takes", "100"]);
    group.take(workload.pid());
    let target = Target::Cgroup(group.relative.clone().into());
    let mut session = attach(Config::new([target], Detail::Sched));
    session.open(true).unwrap();
    for _ in 0..100 {
        // One that is being woken looks asleep: what woke it must be gone.
        await_until("the sleep", || {
            workload.has_read_all() && is_in_read(workload.pid())
        });
        workload.go();
    }
    // It wakes us once, which is no wake-up of the target.
    workload.await_byte();
    await_until("the last sleep", || is_in_read(workload.pid()));
    let profile = session.close(true).unwrap();
    assert_eq!(profile.processes.len(), 1, "{:?}", profile.processes);
    assert_eq!(row(&profile, "read(pipe)").split.unwrap().sleeps, Some(100));
    assert_eq!(profile.threads.as_ref().unwrap().wakeups, 100);
    assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
    drop(workload);
}

/// Of several targets, each process says to which it belongs, children with their parents; and a
/// second window has nothing of the first.
#[test]
fn several_targets_are_told_apart() {
    let mut parent = Workload::start(&["forks", "2", "10"]);
    let mut single = Workload::start(&["calls", "7"]);
    let targets = [Target::Pid(parent.pid()), Target::Pid(single.pid())];
    let labels = targets.each_ref().map(ToString::to_string);
    let mut session = attach(Config::new(targets, Detail::Counts));
    let found = session.targets();
    assert_eq!(found[&parent.pid()].as_ref(), Some(&labels[0]));
    assert_eq!(found[&single.pid()].as_ref(), Some(&labels[1]));

    session.open(true).unwrap();
    parent.go();
    parent.await_byte();
    session.tick();
    let first = session.close(true).unwrap();
    assert_eq!(row(&first, "getpid").count, 20);
    let is_child = |process: &&ProfiledProcess| process.parent == Some(parent.pid());
    for child in first.processes.iter().filter(is_child) {
        assert_eq!(child.target.as_ref(), Some(&labels[0]));
    }

    session.open(true).unwrap();
    single.go();
    single.await_byte();
    let second = session.close(true).unwrap();
    assert_eq!(row(&second, "getppid").count, 7);
    assert!(!second.calls.iter().any(|call| call.name == "getpid"));
    assert_eq!(second.processes.len(), 2, "{:?}", second.processes);
}

/// A child that waits when the profiler comes has the target of its parent.
#[test]
fn existing_children_have_the_target_of_their_parent() {
    let [parent, other] = [(); 2].map(|()| Workload::start(&["fork-idle"]));
    for workload in [&parent, &other] {
        workload.await_blocked(1);
    }
    let targets = [parent.pid(), other.pid()].map(Target::Pid);
    let labels = targets.each_ref().map(ToString::to_string);
    let session = attach(Config::new(targets, Detail::Counts));
    let found = session.targets();
    assert_eq!(found.len(), 4, "{found:?}");
    for label in &labels {
        let of_label = found.values().filter(|found| found.as_ref() == Some(label));
        assert_eq!(of_label.count(), 2, "{found:?}");
    }
}

/// Threads that sleep when the profiler comes, and threads that start later: all count.
#[test]
fn threads_before_and_after() {
    for (before, after) in [(64, 16), (10_000, 100)] {
        let mut workload =
            Workload::start(&["idle-threads", &before.to_string(), &after.to_string()]);
        workload.await_blocked(before + 1);
        let config = Config::new([Target::Pid(workload.pid())], Detail::Counts);
        let mut session = attach(config);
        session.open(true).unwrap();
        workload.go();
        workload.await_byte();
        let profile = session.close(true).unwrap();
        assert_eq!(row(&profile, "getppid").count, (before + after) as u64);
        // The first thread was in its read.
        assert_eq!(profile.in_flight_at_start.len(), before + 1);
        assert_eq!(profile.lost.of_calls(), 0);
    }
}

/// Not to follow children leaves threads in.
#[test]
fn threads_are_not_children() {
    let profile = profile_with(&["threads", "4", "100"], |pid| Config {
        follow: false,
        ..Config::new([Target::Pid(pid)], Detail::Counts)
    });
    assert_eq!(row(&profile, "getppid").count, 400);
}

/// The profiler leaves in the middle of a loop of vfork and exec, and the loop goes on.
#[test]
fn detaches_from_a_restless_target() {
    let mut workload = Workload::start(&["spawn-forever"]);
    let mut session = attach(Config::new([Target::Pid(workload.pid())], Detail::Times));
    let programs = programs_of(std::process::id());
    session.open(false).unwrap();
    workload.go();
    for _ in 0..20 {
        workload.await_byte();
    }
    let profile = session.close(false).unwrap();
    drop(session);
    await_gone(&programs);
    assert!(row(&profile, "execve").count >= 20);
    for _ in 0..20 {
        workload.await_byte();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", workload.pid())).unwrap();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
}

/// A process in PID and mount namespaces of its own is counted, with both of its ids.
#[test]
fn targets_in_containers() {
    let container = Container::start("exec $0 calls 10");
    let pid = container.await_workload();
    let mut session = attach(Config::new([Target::Pid(pid)], Detail::Counts));
    session.open(true).unwrap();
    container.go();
    await_until("the calls", || {
        session.tick();
        let slice = session.slice().unwrap();
        slice.calls.iter().any(|call| call.name == "write")
    });
    let profile = session.close(true).unwrap();
    assert_eq!(row(&profile, "getppid").count, 10);
    let process = &profile.processes[0];
    assert_eq!((process.pid, process.ns_pid), (pid, Some(1)));
}

/// An id that only a container knows is answered with the processes that have it there.
#[test]
fn ids_of_containers() {
    let inner = unused_pid();
    // The shell is the first process of the namespace, its child gets the id after the last one.
    let last = inner - 1;
    let script = format!("echo {last} > /proc/sys/kernel/ns_last_pid && $0 calls 1; exit");
    let container = Container::start(&script);
    let pid = container.await_workload();
    let error = Session::attach(Config::new([Target::Pid(inner)], Detail::Counts)).unwrap_err();
    let text = error.to_string();
    let ProfilerError::InnerPid { processes, .. } = error else {
        panic!("{text}");
    };
    assert_eq!(processes.len(), 1, "{text}");
    assert_eq!(processes[0].pid, pid);
    assert!(
        text.contains(&format!("--pid {pid}  kernel-workload")),
        "{text}"
    );
}

/// A process id that nobody has, and that the kernel will not give out soon: half a turn ahead.
fn unused_pid() -> u32 {
    let number = |path: &str| -> u32 {
        let text = std::fs::read_to_string(path).unwrap();
        let last = text.split_whitespace().last().unwrap();
        last.parse().unwrap()
    };
    let (last, pid_max) = (number("/proc/loadavg"), number("/proc/sys/kernel/pid_max"));
    let candidates = (0..pid_max).map(|step| (last + pid_max / 2 + step) % pid_max);
    let mut free = candidates.filter(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists());
    free.find(|&pid| pid > 1000).unwrap()
}

/// A shell, the first process of a PID namespace, in a mount namespace with its own `/proc`.
struct Container(Child);

impl Container {
    /// `$0` of the script is the workload.
    fn start(script: &str) -> Self {
        let child = Command::new("unshare")
            .args([
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
            ])
            .args([script, PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// The id, out here, of the workload inside once it waits.
    fn await_workload(&self) -> u32 {
        let mut found = None;
        await_until("the workload in the container", || {
            found = descendants(self.0.id()).into_iter().find(|pid| {
                let read = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
                read("comm").is_ok_and(|comm| comm == "kernel-workload\n")
                    && read("stat").is_ok_and(|stat| stat.contains(") S "))
            });
            found.is_some()
        });
        found.unwrap()
    }

    fn go(&self) {
        use std::io::Write as _;
        self.0.stdin.as_ref().unwrap().write_all(b".").unwrap();
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // unshare passes its death on to the first process inside, the kernel that one's to all.
        let _killed = self.0.kill();
        let _status = self.0.wait();
    }
}

fn descendants(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let mut found = Vec::new();
    for child in children.split_whitespace() {
        let child = child.parse().unwrap();
        found.push(child);
        found.extend(descendants(child));
    }
    found
}
