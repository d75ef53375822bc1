//! The same run of a command, counted by us and by `strace -c -f`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use profiler::{Config, Target};
use recording::{Abi, Detail};

use crate::workload_process::{attach, await_until};

/// Calls and errors by name.
pub(crate) type Counts = BTreeMap<String, (u64, u64)>;

/// What `strace -c -f` counts of a command.
pub(crate) fn count(command: &[&str]) -> Counts {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("strace");
    let status = Command::new("strace")
        .args(["-c", "-f", "-o"])
        .arg(&output)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace (Debian: package strace)");
    assert!(status.code().is_some(), "strace was killed");
    parse(&std::fs::read_to_string(output).unwrap())
}

/// One run under both: a launcher stops itself, both attach, and then it becomes the command.
pub(crate) fn count_both(command: &[&str], detail: Detail) -> (Counts, Counts) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("strace");
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_kernel-workload"))
        .arg("stop-exec")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = launcher.id();
    await_until("the launcher to stop", || state(pid) == Some('T'));
    let mut session = attach(Config::new([Target::Pending(pid)], detail));
    session.open(false).unwrap();
    let mut strace = Command::new("strace")
        .args(["-c", "-f", "-o"])
        .arg(&output)
        .args(["-p", &pid.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("strace (Debian: package strace)");
    await_until("strace to attach", || {
        state(pid) == Some('t') || tracer(pid) == strace.id()
    });
    let id = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::CONT).unwrap();
    launcher.wait().unwrap();
    strace.wait().unwrap();
    await_until("the target to end", || session.target_ended());
    let profile = session.close(false).unwrap();
    let rows = profile
        .calls
        .iter()
        .filter(|row| row.abi == Abi::X86_64 && row.count > 0);
    // strace does not tell descriptors apart.
    let mut ours = Counts::new();
    for row in rows {
        let (count, errors) = ours.entry(row.name.clone()).or_default();
        *count += row.count;
        *errors += row.error_count();
    }
    assert_eq!(profile.lost.of_calls(), 0, "{:?}", profile.lost);
    let theirs = parse(&std::fs::read_to_string(output).unwrap());
    (ours, theirs)
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn tracer(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer
        .and_then(|tracer| tracer.trim().parse().ok())
        .unwrap_or(0)
}

/// The rows of the table, which has five or six columns.
fn parse(table: &str) -> Counts {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let calls = words.get(3)?.parse().ok()?;
        let errors = words.get(4)?.parse().unwrap_or(0);
        let name = *words.last()?;
        (name != "total").then(|| (name.to_owned(), (calls, errors)))
    });
    rows.collect()
}

/// To tell descriptors apart changes no sum: calls on every kind of them, by name, at every detail.
#[test]
fn kinds_add_up_to_strace() {
    let program = env!("CARGO_BIN_EXE_kernel-workload");
    for workload in ["kinds 20", "reuse", "same-pid", "poll-family"] {
        for detail in [Detail::Counts, Detail::Times, Detail::Sched] {
            let script = format!("printf .. | {program} {workload}");
            let (ours, theirs) = count_both(&["/bin/sh", "-c", &script], detail);
            assert_eq!(ours, theirs, "{workload} {detail:?}");
        }
    }
}

/// The one difference: strace counts the call that a fatal signal ends as a failed one, because a
/// traced thread first reports it. To us it is a call that the thread died in, as without strace.
#[test]
fn call_that_a_signal_ends() {
    let command = [env!("CARGO_BIN_EXE_kernel-workload"), "killed-in-call"];
    let (ours, mut theirs) = count_both(&command, Detail::Counts);
    assert_eq!(theirs.remove("pause"), Some((1, 1)));
    assert_eq!(ours, theirs);
}
