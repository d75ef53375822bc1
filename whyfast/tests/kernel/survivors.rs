//! Nothing outlives whyfast: no process, port, program or file, even when it is killed with -9.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use crate::proc::{capabilities, command_line, gave_up_privileges, stat_field, state, status_line};
use crate::whyfast::{Mortal, run, until, whyfast};

/// A comparison killed in the middle of a profiled round leaves nothing.
#[test]
fn nothing_survives_kill_9() {
    let programs_before = bpf_programs();
    let folder = tempfile::tempdir().unwrap();
    let child = whyfast()
        .args([
            "compare",
            "--pairs",
            "50",
            "--duration",
            "30s",
            "--warmup",
            "10ms",
            "--lock-step",
            "100000000",
        ])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    let root = child.0.id();
    let verbs = |pids: &BTreeSet<u32>| -> BTreeSet<String> {
        pids.iter()
            .filter_map(|&pid| command_line(pid)?.get(1).cloned())
            .collect()
    };
    let wanted: BTreeSet<String> = ["guard", "load", "profile", "testserver"]
        .map(str::to_owned)
        .into();
    until("a profiled round", || {
        wanted.is_subset(&verbs(&descendants(root))) && bpf_programs() > programs_before
    });
    let family = descendants(root);
    let identities: Vec<(u32, u64)> = family
        .iter()
        .filter_map(|&pid| Some((pid, started(pid)?)))
        .collect();
    assert!(identities.len() >= 4);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_some());

    child.0.kill().unwrap();
    child.0.wait().unwrap();
    until("the end of every process", || {
        identities
            .iter()
            .all(|&(pid, start)| started(pid) != Some(start))
    });
    until("the removal of every file", || {
        fs::read_dir(folder.path()).unwrap().next().is_none()
    });
    until("the detaching of every program", || {
        bpf_programs() <= programs_before
    });
}

/// A server that goes into the background is refused, and does not outlive the run.
#[test]
fn daemon_is_refused_and_ended() {
    if crate::missing("daemon_is_refused_and_ended", &["python3", "setsid"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let daemon = "daemon=cmd:(setsid python3 -m http.server {port} --bind 127.0.0.1 \
                  --directory {root} >/dev/null 2>&1 &); sleep 1000";
    let output = whyfast()
        .args([
            "compare",
            "testserver",
            daemon,
            "--pairs",
            "1",
            "--duration",
            "100ms",
        ])
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("background"), "{said}");
    let path = folder.path().to_str().unwrap();
    let left = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let line = command_line(entry.file_name().to_str()?.parse().ok()?)?;
            line.iter().any(|word| word.contains(path)).then_some(line)
        });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<Vec<String>>::new());
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

/// A comparison that ends by itself leaves nothing either.
#[test]
fn nothing_survives_the_end() {
    let programs_before = bpf_programs();
    let folder = tempfile::tempdir().unwrap();
    let output = whyfast()
        .args([
            "compare",
            "--pairs",
            "1",
            "--duration",
            "100ms",
            "--warmup",
            "10ms",
        ])
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert!(output.status.code().is_some());
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    // The kernel frees a program a moment after its last user is gone.
    until("the detaching of every program", || {
        bpf_programs() <= programs_before
    });
}

/// Load and servers do not run as root because whyfast does, and the profiler gives up its
/// capabilities once attached.
#[test]
fn only_the_profiler_is_privileged_and_not_for_long() {
    let child = whyfast()
        .args(["compare", "--lock-step", "100000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = Mortal(child);
    let root = child.0.id();
    let of = |verb: &str| {
        descendants(root).into_iter().find(|&pid| {
            command_line(pid).is_some_and(|line| line.get(1).is_some_and(|v| v == verb))
        })
    };
    until("a profiled round", || {
        of("load").is_some() && of("testserver").is_some() && of("profile").is_some()
    });
    for verb in ["load", "testserver"] {
        let uids = status_line(of(verb).unwrap(), "Uid:").unwrap();
        assert!(
            uids.split_whitespace().all(|uid| uid != "0"),
            "{verb} runs as {uids}"
        );
        assert_eq!(capabilities(of(verb).unwrap()), Some(0), "{verb}");
    }
    until("giving up capabilities", || {
        of("profile").is_some_and(gave_up_privileges)
    });
}

/// A profile that is killed leaves no program in the kernel.
#[test]
fn killed_profile_detaches() {
    let programs_before = bpf_programs();
    let child = whyfast()
        .args(["profile", "--pid", &std::process::id().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Mortal(child);
    until("attaching", || bpf_programs() > programs_before);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    until("detaching", || bpf_programs() <= programs_before);
    assert_eq!(run(&["list"]).status.code(), Some(0));
}

/// How many tracing programs the kernel holds that carry one of our names.
fn bpf_programs() -> usize {
    profiler::loaded_programs().expect("root may list programs")
}

fn descendants(root: u32) -> BTreeSet<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if let Some(parent) = stat_field(pid, 1) {
            parents.push((pid, u32::try_from(parent).unwrap_or(0)));
        }
    }
    let mut family = BTreeSet::from([root]);
    loop {
        let before = family.len();
        for &(pid, parent) in &parents {
            if family.contains(&parent) {
                family.insert(pid);
            }
        }
        if family.len() == before {
            family.remove(&root);
            return family;
        }
    }
}

/// When a process began, in ticks; `None` when it is gone or a zombie.
fn started(pid: u32) -> Option<u64> {
    if state(pid)? == 'Z' {
        return None;
    }
    stat_field(pid, 19)
}
