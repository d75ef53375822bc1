//! The same run counted by `strace -c -f` and by whyfast: every row equal, calls and errors.
//!
//! The program is started stopped. strace seizes it, whyfast attaches, and only then it goes on, so
//! both see the same calls from the first one on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use recording::Profile;

use crate::missing;
use crate::proc::{state, tracer};
use crate::whyfast::{Mortal, ProfileHalf, until};

/// Calls and errors by name.
pub(crate) type Rows = BTreeMap<String, (u64, u64)>;

/// Twenty commands of different kinds: files, threads, forks, pipes, interpreters.
const COMMANDS: &[(&str, &str)] = &[
    ("true", "true"),
    ("cp", "cp -r in copy"),
    ("tar-create", "tar cf out.tar in"),
    ("tar-gzip", "tar czf out.tgz in"),
    ("sort-parallel", "sort --parallel=4 -S 1M big -o sorted"),
    (
        "python",
        "python3 -c 'import json, os; print(json.dumps(sorted(os.listdir(\"in\"))))'",
    ),
    ("git-status", "cd repo && git status"),
    ("pipeline", "cat big | grep 7 | sort -r | uniq | wc -l"),
    (
        "xargs-parallel",
        "ls in | xargs -P 4 -n 1 -I{} cp in/{} {}.x",
    ),
    ("gzip", "gzip -k big"),
    ("find", "find . -name '*.txt' -size +0"),
    ("grep-recursive", "grep -r line in"),
    ("sed", "sed -i s/line/LINE/ in/1.txt"),
    ("awk", "awk '{ n += NF } END { print n }' big"),
    ("dd", "dd if=big of=dd.out bs=7 count=3000"),
    ("sha256sum", "sha256sum big in/*.txt"),
    ("diff", "diff -r in in2"),
    ("ls", "ls -lR ."),
    (
        "perl",
        "perl -e 'for (1..50) { my $p = fork; exit 0 if !$p; waitpid $p, 0 }'",
    ),
    (
        "fifty-threads",
        "python3 -c 'import threading as t\nw = [t.Thread(target=lambda: open(\"big\").read(9)) \
         for _ in range(50)]\n[x.start() for x in w]\n[x.join() for x in w]'",
    ),
    (
        "failures",
        "cat nowhere; ls /nonexistent; mkdir in; rmdir in; kill -0 1; cd /nonexistent",
    ),
];

/// Every row of strace's table equals ours, calls and errors, for each command.
#[test]
fn counts_equal_strace() {
    if missing("counts_equal_strace", &["strace", "python3", "git", "perl"]) {
        return;
    }
    for (name, script) in COMMANDS {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let (strace, profile) = run_both(folder.path(), script);
        let ours = rows(&profile);
        let died: Vec<_> = profile
            .calls
            .iter()
            .filter(|row| row.died_in_call > 0)
            .collect();
        assert!(died.is_empty(), "{name}: calls killed in flight: {died:?}");
        assert_eq!(
            ours, strace,
            "{name}: ours on the left, strace's on the right"
        );
        assert_eq!(profile.lost.of_calls(), 0, "{name}");
        let ends: u64 = profile.calls.iter().map(|row| row.no_return).sum();
        assert!(ends > 0, "{name}: exit and exit_group are listed apart");
    }
}

/// The known counts of five commands, without strace.
#[test]
fn counts_equal_known_values() {
    if missing("counts_equal_known_values", &["python3"]) {
        return;
    }
    let count = |script: &str, call: &str| {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let profile = run_ours(folder.path(), script);
        rows(&profile).get(call).copied().unwrap_or((0, 0))
    };
    // dd reads and writes a block at a time; its statistics are one more write or two.
    assert_eq!(
        count(
            "exec dd if=/dev/zero of=/dev/null bs=1 count=500 status=none",
            "write"
        ),
        (500, 0)
    );
    assert_eq!(
        count(
            "for i in 1 2 3 4 5 6 7; do cd /nonexistent 2>/dev/null; done",
            "chdir"
        ),
        (7, 7)
    );
    assert_eq!(count("true & true & true & wait", "execve"), (0, 0));
    assert_eq!(
        count("/bin/true; /bin/true; exec /bin/true", "execve"),
        (3, 0)
    );
    // A call that does not exist is not taken for a return from a signal handler.
    let script =
        "exec python3 -c 'import ctypes; [ctypes.CDLL(None).syscall(-1) for _ in range(4)]'";
    assert_eq!(count(script, "syscall_0xffffffff"), (4, 4));
    // The shell asks for the mask (which takes setting and restoring it) before it sets it.
    assert_eq!(count("umask 022; umask 077; umask 000", "umask"), (9, 0));
}

/// A folder with something in it.
fn fill(folder: &Path) {
    for part in ["in", "in2"] {
        fs::create_dir(folder.join(part)).unwrap();
        for number in 0..20 {
            let text = format!("{part} line {number}\n").repeat(number * 7);
            fs::write(folder.join(part).join(format!("{number}.txt")), text).unwrap();
        }
    }
    let big: Vec<String> = (0..20_000)
        .map(|n| format!("{} {n}\n", (n * 7919) % 20_011))
        .collect();
    fs::write(folder.join("big"), big.concat()).unwrap();
    let repo = folder.join("repo");
    fs::create_dir(&repo).unwrap();
    fs::write(repo.join("file"), "content\n").unwrap();
    if crate::find("git").is_some() {
        let init = Command::new("git")
            .args(["init", "-q"])
            .current_dir(&repo)
            .status()
            .unwrap();
        assert!(init.success());
    }
}

/// A shell that stops itself and goes on with the script when it is continued.
fn stopped(folder: &Path, script: &str) -> Mortal {
    let child = Command::new("/bin/sh")
        .args(["-c", &format!("kill -STOP $$; {script}")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = Mortal(child);
    let pid = child.0.id();
    until("stopping", || state(pid) == Some('T'));
    child
}

fn run_both(folder: &Path, script: &str) -> (Rows, Profile) {
    let mut child = stopped(folder, script);
    let pid = child.0.id().to_string();
    let table = folder.join("strace.table");
    let strace = Command::new("strace")
        .args(["-c", "-f", "-p", &pid, "-o"])
        .arg(&table)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut strace = Mortal(strace);
    until("strace's attaching", || is_traced(child.0.id()));
    let profile = profile_to_end(&mut child);
    assert!(strace.0.wait().unwrap().code().is_some());
    (parse_table(&fs::read_to_string(table).unwrap()), profile)
}

fn run_ours(folder: &Path, script: &str) -> Profile {
    profile_to_end(&mut stopped(folder, script))
}

fn profile_to_end(child: &mut Mortal) -> Profile {
    let pid = child.0.id();
    let mut half = ProfileHalf::attach(&["--pid", &pid.to_string(), "--detail", "counts"]);
    half.open(false);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
        rustix::process::Signal::CONT,
    )
    .unwrap();
    child.0.wait().unwrap();
    half.close(true)
}

/// Whether a tracer has seized it and it stands still again.
pub(crate) fn is_traced(pid: u32) -> bool {
    let traced = tracer(pid).is_some_and(|tracer| tracer != 0);
    traced && state(pid).is_some_and(|state| matches!(state, 'T' | 't'))
}

/// Calls and errors by name, whatever a call was done to: strace does not tell descriptors apart.
pub(crate) fn rows(profile: &Profile) -> Rows {
    let mut rows = Rows::new();
    for row in profile.calls.iter().filter(|row| row.count > 0) {
        let (calls, errors) = rows.entry(row.name.clone()).or_default();
        *calls += row.count;
        *errors += row.error_count();
    }
    rows
}

/// `% time  seconds  usecs/call  calls  [errors]  syscall`.
pub(crate) fn parse_table(table: &str) -> Rows {
    table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (name, numbers) = fields.split_last()?;
            if *name == "total" || numbers.len() < 4 {
                return None;
            }
            let calls = numbers[3].parse().ok()?;
            let errors = numbers
                .get(4)
                .map_or(Some(0), |errors| errors.parse().ok())?;
            Some(((*name).to_owned(), (calls, errors)))
        })
        .collect()
}
