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
fn count_both(command: &[&str], detail: Detail) -> (Counts, Counts) {
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
    assert_eq!(profile.lost.total(), 0, "{:?}", profile.lost);
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

/// Every row equal, calls and errors, of commands with files, threads, children, pipes and signals.
#[test]
fn same_rows_as_strace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let numbers: Vec<String> = (0..20_000_u32).rev().map(|n| n.to_string()).collect();
    std::fs::write(path("numbers"), numbers.join("\n")).unwrap();
    std::fs::create_dir(path("repository")).unwrap();
    let repository = path("repository");
    let init = Command::new("git")
        .args(["init", "-q", &repository])
        .status();
    assert!(
        init.is_ok_and(|status| status.success()),
        "git (Debian: package git)"
    );
    std::fs::write(path("repository/file"), "text").unwrap();

    let numbers = path("numbers");
    let threads = "import threading, os; [t.start() or t.join() for t in [threading.Thread(\
                   target=os.listdir, args=('/',)) for _ in range(5)]]";
    let children = "import subprocess; subprocess.run(['/bin/true']); \
                    subprocess.run(['/no/such']) if False else None";
    let pipeline = format!("cat {numbers} | sort -n | head -3; ls /no/such || true");
    let signals = "trap 'echo caught' USR1; kill -USR1 $$; sleep 0.01 & wait";
    let commands: [&[&str]; 20] = [
        &["/bin/cp", &numbers, &path("copy")],
        &["/usr/bin/sort", "--parallel=4", "-n", &numbers],
        &["/usr/bin/python3", "-c", threads],
        &["/usr/bin/git", "-C", &repository, "status"],
        &["/bin/sh", "-c", &pipeline],
        &["/bin/sh", "-c", signals],
        &["/usr/bin/python3", "-c", children],
        &["/usr/bin/find", "/etc", "-name", "*.conf"],
        &["/bin/grep", "-r", "nameserver", "/etc/default"],
        &["/bin/tar", "cf", &path("tar"), &repository],
        &["/bin/gzip", "-k", &numbers],
        &["/usr/bin/wc", "-l", &numbers],
        &["/usr/bin/md5sum", &numbers],
        &[
            "/usr/bin/xargs",
            "-a",
            &numbers,
            "-n",
            "5000",
            "-P",
            "4",
            "/bin/echo",
        ],
        &["/bin/ls", "-lR", "/etc/default"],
        &["/bin/sed", "-i", "s/1/2/", &path("copy")],
        &["/usr/bin/awk", "{ s += $1 } END { print s }", &numbers],
        &[
            "/bin/dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=1",
            "count=2000",
        ],
        &["/usr/bin/timeout", "5", "/bin/true"],
        &["/usr/bin/stat", "/no/such/file"],
    ];
    for (index, command) in commands.into_iter().enumerate() {
        let detail = [Detail::Counts, Detail::Times, Detail::Sched][index % 3];
        let (ours, theirs) = count_both(command, detail);
        assert!(ours.contains_key("execve"), "{command:?} ran");
        assert_eq!(ours, theirs, "{command:?}");
    }
}

/// The one difference: strace counts the call that a fatal signal ends as a failed one, because a
/// traced thread first reports it. To us it is a call that the thread died in, as without strace.
#[test]
fn call_that_a_signal_ends() {
    let (ours, mut theirs) = count_both(
        &["/usr/bin/timeout", "0.05", "/bin/sleep", "10"],
        Detail::Counts,
    );
    assert_eq!(theirs.remove("clock_nanosleep"), Some((1, 1)));
    assert_eq!(ours, theirs);
}
