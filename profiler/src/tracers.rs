//! Looks for tracers of others: processes that trace the target, users of perf, ftrace, and programs of
//! tracing types in the kernel. What we attach ourselves is not there yet when this looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use procfs::process::Process;
use recording::{NotMeasured, Tracer, TracerLook};

use crate::source::{Loaded, loaded};

/// Looks once. `pids` are the processes that are going to be measured, and that nobody else shall
/// trace; the rest concerns the whole machine.
pub fn look_for_tracers(pids: &[u32]) -> TracerLook {
    let mut look = TracerLook::default();
    match loaded() {
        Ok(programs) => sort(&programs, &mut look),
        Err(error) => {
            look.unseen = Some(unseen(format!(
                "programs in the kernel cannot be listed: {error}"
            )));
        }
    }
    let (users, closed) = perf_users(Path::new("/proc"));
    look.tracers.extend(users);
    if closed && look.unseen.is_none() {
        look.unseen = Some(unseen(
            "open files of other users' processes cannot be seen, and with them users of perf"
                .to_owned(),
        ));
    }
    look.tracers.extend(ftrace(Path::new("/sys/kernel")));
    look.tracers.extend(ptracers(pids));
    look
}

fn unseen(why: String) -> NotMeasured {
    NotMeasured {
        what: "other tracers".to_owned(),
        why,
        remedy: Some("run as root (sudo)".to_owned()),
    }
}

/// Sorts programs into tracers and others. One that no link attaches runs for an event of perf, whose
/// user is found by that, or is ours and on its way out.
fn sort(programs: &[Loaded], look: &mut TracerLook) {
    let mut others: BTreeMap<String, u32> = BTreeMap::new();
    for program in programs {
        let number = program.kind;
        let name = usize::try_from(number)
            .ok()
            .and_then(|index| KINDS.get(index))
            .map_or_else(|| format!("type {number}"), |name| (*name).to_owned());
        let by_the_kernel = OF_THE_KERNEL.contains(&program.name.as_str());
        let traces = TRACING.contains(&name.as_str()) && !by_the_kernel;
        if !traces {
            *others.entry(name).or_default() += 1;
        } else if program.attached {
            look.tracers.push(Tracer {
                kind: name,
                what: format!("program {} (id {})", program.name, program.id),
            });
        }
    }
    look.other_programs = Some(others);
}

/// Processes that hold events of perf open, and whether some could not be looked into.
fn perf_users(proc_root: &Path) -> (Vec<Tracer>, bool) {
    let own = std::process::id();
    let mut closed = false;
    let mut users = Vec::new();
    for entry in fs::read_dir(proc_root).into_iter().flatten().flatten() {
        let Some(pid) = pid_of(&entry.file_name()).filter(|&pid| pid != own) else {
            continue;
        };
        let files = match fs::read_dir(entry.path().join("fd")) {
            Ok(files) => files,
            Err(error) => {
                closed |= error.kind() == ErrorKind::PermissionDenied;
                continue;
            }
        };
        let is_event = |file: fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target == Path::new(PERF_EVENT))
        };
        if files.flatten().any(is_event) {
            users.push(Tracer {
                kind: "perf".to_owned(),
                what: named(proc_root, pid),
            });
        }
    }
    (users, closed)
}

/// Tracing by the kernel's own means, where its files are mounted.
fn ftrace(kernel: &Path) -> Option<Tracer> {
    let folder = ["tracing", "debug/tracing"]
        .map(|name| kernel.join(name))
        .into_iter()
        .find(|folder| folder.join("current_tracer").exists())?;
    let read = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
        text.trim().to_owned()
    };
    let tracer = read("current_tracer");
    let what = if !matches!(tracer.as_str(), "" | "nop") {
        format!("tracer {tracer}")
    } else if !matches!(read("events/enable").as_str(), "" | "0") {
        "events are enabled".to_owned()
    } else {
        return None;
    };
    Some(Tracer {
        kind: "ftrace".to_owned(),
        what,
    })
}

/// Who traces threads of these processes.
fn ptracers(pids: &[u32]) -> Vec<Tracer> {
    let tracer_of = |pid: u32| -> Option<BTreeSet<u32>> {
        let process = Process::new(pid.cast_signed()).ok()?;
        let tasks = process.tasks().ok()?;
        let tracers = tasks
            .flatten()
            .filter_map(|task| u32::try_from(task.status().ok()?.tracerpid).ok());
        Some(tracers.filter(|&tracer| tracer != 0).collect())
    };
    let all: BTreeSet<u32> = pids
        .iter()
        .copied()
        .filter_map(tracer_of)
        .flatten()
        .collect();
    all.into_iter()
        .map(|pid| Tracer {
            kind: "ptrace".to_owned(),
            what: named(Path::new("/proc"), pid),
        })
        .collect()
}

fn named(proc_root: &Path, pid: u32) -> String {
    let comm = fs::read_to_string(proc_root.join(format!("{pid}/comm")));
    let comm = comm.unwrap_or_else(|_| "a process that has ended".to_owned());
    format!("{} (pid {pid})", comm.trim())
}

fn pid_of(name: &std::ffi::OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

/// Programs that the kernel loads by itself at boot, and that run for no event of ours: that of HID-BPF, and
/// those that print maps and programs (`CONFIG_BPF_PRELOAD`).
const OF_THE_KERNEL: [&str; 3] = ["dump_bpf_map", "dump_bpf_prog", "hid_tail_call"];

/// The types that run on events of the kernel and of programs, and so slow down what they watch.
const TRACING: [&str; 6] = [
    "kprobe",
    "perf_event",
    "raw_tracepoint",
    "raw_tracepoint_writable",
    "tracepoint",
    "tracing",
];

/// `enum bpf_prog_type` of the kernel, which only grows at its end.
const KINDS: [&str; 33] = [
    "unspecified",
    "socket_filter",
    "kprobe",
    "sched_cls",
    "sched_act",
    "tracepoint",
    "xdp",
    "perf_event",
    "cgroup_skb",
    "cgroup_sock",
    "lwt_in",
    "lwt_out",
    "lwt_xmit",
    "sock_ops",
    "sk_skb",
    "cgroup_device",
    "sk_msg",
    "raw_tracepoint",
    "cgroup_sock_addr",
    "lwt_seg6local",
    "lirc_mode2",
    "sk_reuseport",
    "flow_dissector",
    "cgroup_sysctl",
    "raw_tracepoint_writable",
    "cgroup_sockopt",
    "tracing",
    "struct_ops",
    "ext",
    "lsm",
    "sk_lookup",
    "syscall",
    "netfilter",
];

/// What a descriptor of a perf event is a link to.
const PERF_EVENT: &str = "anon_inode:[perf_event]";

#[cfg(test)]
mod tests {
    use super::*;

    fn program(kind: u32, name: &str, id: u32) -> Loaded {
        Loaded {
            kind,
            name: name.to_owned(),
            id,
            attached: true,
        }
    }

    /// Programs that trace are tracers, those of systemd and of the kernel itself are only counted.
    #[test]
    fn programs_are_sorted() {
        let mut look = TracerLook::default();
        let programs = [
            program(15, "sd_devices", 3),
            program(15, "sd_devices", 4),
            program(26, "hid_tail_call", 2),
            program(17, "sys_enter", 9),
            program(2, "vfs_read", 10),
            program(99, "later", 11),
            Loaded {
                attached: false,
                ..program(17, "on_its_way_out", 12)
            },
        ];
        sort(&programs, &mut look);
        let found: Vec<&str> = look.tracers.iter().map(|t| t.kind.as_str()).collect();
        assert_eq!(found, ["raw_tracepoint", "kprobe"]);
        assert_eq!(look.tracers[0].what, "program sys_enter (id 9)");
        let others = look.other_programs.expect("they were listed");
        let expected = [("cgroup_device", 2), ("tracing", 1), ("type 99", 1)];
        assert_eq!(
            others,
            BTreeMap::from(expected.map(|(name, count)| (name.to_owned(), count)))
        );
    }

    /// A process with an open event of perf is found by the link, others are not.
    #[test]
    fn users_of_perf_are_found() {
        let root = tempfile::tempdir().unwrap();
        for (pid, comm, target) in [
            ("41", "perf", PERF_EVENT),
            ("42", "cat", "/dev/null"),
            ("self", "x", PERF_EVENT),
        ] {
            let folder = root.path().join(pid);
            fs::create_dir_all(folder.join("fd")).unwrap();
            fs::write(folder.join("comm"), format!("{comm}\n")).unwrap();
            std::os::unix::fs::symlink(target, folder.join("fd/3")).unwrap();
        }
        let (users, closed) = perf_users(root.path());
        let found: Vec<&str> = users.iter().map(|user| user.what.as_str()).collect();
        assert_eq!((found, closed), (vec!["perf (pid 41)"], false));
    }

    /// A tracer that is set and events that are enabled are found, in either place; nothing is neither.
    #[test]
    fn ftrace_is_found() {
        for folder in ["tracing", "debug/tracing"] {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join(folder);
            assert_eq!(ftrace(root.path()), None);
            fs::create_dir_all(folder.join("events")).unwrap();
            let what = |tracer: &str, events: &str| {
                fs::write(folder.join("current_tracer"), tracer).unwrap();
                fs::write(folder.join("events/enable"), events).unwrap();
                ftrace(root.path()).map(|tracer| tracer.what)
            };
            assert_eq!(what("nop\n", "0\n"), None);
            assert_eq!(what("nop\n", "X\n").unwrap(), "events are enabled");
            assert_eq!(what("function\n", "0\n").unwrap(), "tracer function");
        }
    }
}
