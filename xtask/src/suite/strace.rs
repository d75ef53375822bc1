//! Counts of real servers against strace: every program of an arm is started under `strace -c -f`.
//!
//! strace counts a server's whole life, and whyfast a window of it. So there are two runs of different
//! length, one request at a time: start, warm-up and end are the same in both, and what the longer one has
//! more is the requests' alone, for either of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use recording::Recording;

use super::Whyfast;
use super::scenario::Scenario;
use crate::command;

/// Calls by name.
type Counts = BTreeMap<String, u64>;

/// What both say of an arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agreement {
    arm: String,
    /// Calls that were compared, summed over the requests: ours and strace's.
    compared: BTreeMap<String, (i64, i64)>,
}

impl Agreement {
    /// Of the counts of a short and a long run.
    fn of(arm: &str, ours: [&Counts; 2], theirs: [&Counts; 2]) -> Self {
        let more = |[short, long]: [&Counts; 2], name: &str| {
            let count = |counts: &Counts| counts.get(name).copied().unwrap_or(0).cast_signed();
            count(long) - count(short)
        };
        let names: BTreeSet<&String> = ours
            .into_iter()
            .chain(theirs)
            .flat_map(Counts::keys)
            .collect();
        let compared = names
            .into_iter()
            .filter(|name| !TRACERS_OWN.contains(&name.as_str()))
            .map(|name| (name.clone(), (more(ours, name), more(theirs, name))))
            .filter(|(_, (ours, theirs))| (*ours).max(*theirs) >= RARE)
            .collect();
        Self {
            arm: arm.to_owned(),
            compared,
        }
    }

    /// Calls that the two count differently.
    fn differing(&self) -> impl Iterator<Item = (&String, &(i64, i64))> {
        self.compared.iter().filter(|(name, (ours, theirs))| {
            let larger = (*ours).max(*theirs);
            let allowed = if WAITS.contains(&name.as_str()) {
                (larger / 2).max(RARE)
            } else {
                (larger / TOLERANCE).max(AT_EDGES)
            };
            (ours - theirs).abs() > allowed
        })
    }

    /// What makes the suite fail.
    pub(super) fn fault(&self) -> Option<String> {
        let differing: Vec<String> = self
            .differing()
            .map(|(name, (ours, theirs))| format!("{name} {ours} here and {theirs} there"))
            .collect();
        if self.compared.is_empty() {
            Some(format!(
                "{}: neither whyfast nor strace counted a call",
                self.arm
            ))
        } else {
            (!differing.is_empty()).then(|| {
                format!(
                    "{}: strace counts otherwise: {}",
                    self.arm,
                    differing.join(", ")
                )
            })
        }
    }
}

impl Agreement {
    /// A line for each call: server, call, ours, strace's, and how they are held against each other.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for (name, (ours, theirs)) in &self.compared {
            let held = if WAITS.contains(&name.as_str()) {
                "alike: depends on time"
            } else if ours == theirs {
                "equal"
            } else {
                "differs"
            };
            writeln!(
                text,
                "{:<24} {name:<20} {ours:>8} {theirs:>8}  {held}",
                self.arm
            )
            .expect("a string can grow");
        }
        text
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&(i64, i64)) -> i64| self.compared.values().map(of).sum::<i64>();
        write!(
            f,
            "{}: {} kinds of calls, {} by whyfast and {} by strace in {} requests",
            self.arm,
            self.compared.len(),
            sum(|counts| counts.0),
            sum(|counts| counts.1),
            LONG - SHORT
        )
    }
}

/// Counts an arm both ways.
pub(super) fn count(
    whyfast: &Whyfast,
    scenario: &Scenario,
    arm: &str,
    programs: &BTreeSet<String>,
) -> Result<Agreement> {
    let strace =
        command::find("strace", &[]).context("strace is not installed (apt-get install strace)")?;
    let run = |requests: u64| one_run(whyfast, scenario, arm, programs, &strace, requests);
    let (short, long) = (run(SHORT)?, run(LONG)?);
    Ok(Agreement::of(arm, [&short.0, &long.0], [&short.1, &long.1]))
}

/// Our counts of the window, and strace's of everything.
fn one_run(
    whyfast: &Whyfast,
    scenario: &Scenario,
    arm: &str,
    programs: &BTreeSet<String>,
    strace: &Path,
    requests: u64,
) -> Result<(Counts, Counts)> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let (bin, tables) = (folder.path().join("bin"), folder.path().join("tables"));
    for (path, mode) in [(&bin, 0o755), (&tables, 0o1777)] {
        fs::create_dir(path).with_context(|| format!("failed to make {}", path.display()))?;
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    // Servers do not run as root.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    for program in programs {
        let path = bin.join(program);
        let real = command::find(program, &super::needs::SYSTEM.map(Into::into))
            .with_context(|| format!("{program} is not installed"))?;
        fs::write(&path, wrapper(strace, &tables, &real))
            .with_context(|| format!("failed to write {}", path.display()))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    let file = folder.path().join("recording.json");
    let mut compare = whyfast.command();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(bin).chain(std::env::split_paths(&path));
    compare
        .env("PATH", std::env::join_paths(path)?)
        .args([
            "compare",
            arm,
            "--scenario",
            &scenario.name,
            "--detail",
            "counts",
        ])
        .args([
            "--lock-step",
            &requests.to_string(),
            "--format",
            "json",
            "--output",
        ])
        .arg(&file);
    command::output(&mut compare)?;
    let stored = fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
    let recording = Recording::parse(&stored).context("failed to read the recording")?;
    Ok((ours(&recording)?, read_tables(&tables)?))
}

/// A program that is another one under strace. Told to end, strace ends the server, and writes its table.
fn wrapper(strace: &Path, tables: &Path, real: &Path) -> String {
    format!(
        "#!/bin/sh\nexec '{}' -I2 -c -U calls,name -f -o '{}'/\"$$\" -- '{}' \"$@\"\n",
        strace.display(),
        tables.display(),
        real.display()
    )
}

fn ours(recording: &Recording) -> Result<Counts> {
    let mut counts = Counts::new();
    for round in &recording.rounds {
        if let Some(why) = &round.failed {
            bail!("a round of {} failed under strace: {why}", round.arm);
        }
        for row in round.profile.iter().flat_map(|profile| &profile.calls) {
            *counts.entry(row.name.clone()).or_default() += row.count;
        }
    }
    Ok(counts)
}

/// The sum of all tables.
fn read_tables(folder: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        for (name, count) in read_table(&text) {
            *counts.entry(name).or_default() += count;
        }
    }
    ensure!(!counts.is_empty(), "strace left no table");
    Ok(counts)
}

/// The rows of `strace -c -U calls,name`.
fn read_table(text: &str) -> Counts {
    let row = |line: &str| {
        let (calls, name) = line.trim().split_once(' ')?;
        let (calls, name) = (calls.parse().ok()?, name.trim());
        (name != "total").then(|| (name.to_owned(), calls))
    };
    text.lines().filter_map(row).collect()
}

/// Requests of the two runs.
const SHORT: u64 = 20;
const LONG: u64 = 220;
/// Calls that are fewer belong to timers and the like, not to requests.
const RARE: i64 = 20;
/// The two may differ by a twentieth: what a runtime does besides requests differs from run to run.
const TOLERANCE: i64 = 20;
/// Or by so many calls, of timers between the edges of the windows.
const AT_EDGES: i64 = 10;
/// Waits, and what wakes them: their number is that of turns of a loop and of timers, in and outside of the
/// window, so that the two are only alike.
const WAITS: [&str; 12] = [
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_wait",
    "futex",
    "madvise",
    "nanosleep",
    "poll",
    "restart_syscall",
    "rt_sigreturn",
    "sched_yield",
    "select",
    "tgkill",
];
/// Calls that strace makes itself while it watches: it belongs to the server that it started, for whyfast.
const TRACERS_OWN: [&str; 4] = ["process_vm_readv", "ptrace", "rt_sigprocmask", "wait4"];

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rows: &[(&str, u64)]) -> Counts {
        rows.iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    /// A table of strace 6.1 is read without its frame and its sum.
    #[test]
    fn tables_are_read() {
        let table = "    calls syscall\n--------- ----------------\n      550 recvfrom\n        3 brk\n\
                     --------- ----------------\n      553 total\n";
        assert_eq!(read_table(table), counts(&[("brk", 3), ("recvfrom", 550)]));
        assert_eq!(read_table("sh: no strace\n"), Counts::new());
    }

    /// What start and end take is not compared; what requests take is, and a difference is a fault.
    #[test]
    fn only_requests_are_compared() {
        let short = counts(&[("recvfrom", 50), ("wait4", 900)]);
        let long = counts(&[("recvfrom", 550), ("wait4", 9_000)]);
        let theirs = |recvfrom| counts(&[("recvfrom", recvfrom), ("brk", 70), ("mmap", 400)]);
        let equal = Agreement::of("nginx", [&short, &long], [&theirs(155), &theirs(655)]);
        assert_eq!(
            equal.compared,
            BTreeMap::from([("recvfrom".to_owned(), (500, 500))])
        );
        assert_eq!(equal.fault(), None);
        let words = |agreement: &Agreement| {
            let table = agreement.table();
            table
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&equal), ["nginx", "recvfrom", "500", "500", "equal"]);
        let fewer = Agreement::of("nginx", [&short, &long], [&theirs(155), &theirs(600)]);
        assert_eq!(
            words(&fewer),
            ["nginx", "recvfrom", "500", "445", "differs"]
        );
        assert!(
            fewer
                .fault()
                .unwrap()
                .contains("recvfrom 500 here and 445 there")
        );
        let [short, long] = [(100, 800), (140, 1_200)].map(|(waits, sleeps)| {
            counts(&[
                ("recvfrom", waits * 5),
                ("futex", waits),
                ("nanosleep", sleeps),
            ])
        });
        let runtime = Agreement::of("caddy", [&Counts::new(), &short], [&Counts::new(), &long]);
        let fault = runtime.fault().unwrap();
        assert!(
            fault.contains("recvfrom") && !fault.contains("futex"),
            "{fault}"
        );
        let nothing = Agreement::of("nginx", [&short, &short], [&theirs(1), &theirs(1)]);
        assert!(nothing.fault().is_some());
    }

    /// A program under the wrapper keeps its arguments, and what strace writes of it is found and added up.
    #[test]
    fn wrapped_programs_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let tables = folder.path().join("tables");
        fs::create_dir(&tables).unwrap();
        // Takes the options of strace that are used, writes a table, and runs the program.
        let strace = folder.path().join("strace");
        let script = "#!/bin/sh\n\
            test \"$1 $2 $3 $4 $5 $6\" = '-I2 -c -U calls,name -f -o' || exit 9\n\
            printf '    calls syscall\\n        3 umask\\n        3 total\\n' >\"$7\"\n\
            shift 8\nexec \"$@\"\n";
        fs::write(&strace, script).unwrap();
        fs::set_permissions(&strace, Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("program");
        fs::write(&program, wrapper(&strace, &tables, Path::new("/bin/sh"))).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        for _run in 0..2 {
            let mut run = std::process::Command::new("sh");
            run.arg(&program)
                .args(["-c", "test \"$1\" = 'a b'", "sh", "a b"]);
            assert!(run.status().unwrap().success());
        }
        assert_eq!(read_tables(&tables).unwrap(), counts(&[("umask", 6)]));
    }
}
