//! Runs a workload and profiles it; the process is gone when the test is, failed or not.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use profiler::{Config, Session, Target};
use recording::{CallRow, Detail, Profile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A workload that waits for its first byte.
pub(crate) struct Workload {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
}

impl Workload {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(&mut Command::new(PROGRAM), args)
    }

    /// Under another name: as a link to it.
    pub(crate) fn start_as(link: &Path, args: &[&str]) -> Self {
        if !link.is_symlink() {
            std::os::unix::fs::symlink(PROGRAM, link).unwrap();
        }
        Self::spawn(&mut Command::new(link), args)
    }

    /// As a user who may not look into the build folder: from an open descriptor.
    pub(crate) fn start_as_nobody(args: &[&str]) -> Self {
        let program = std::fs::File::open(PROGRAM).unwrap();
        let path = format!("/proc/self/fd/{}", program.as_raw_fd());
        Self::spawn(Command::new(path).uid(65534).gid(65534), args)
    }

    /// Another program that behaves like one.
    pub(crate) fn spawn(command: &mut Command, args: &[&str]) -> Self {
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().unwrap(),
            child,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b".").unwrap();
    }

    /// Whether it has taken every byte that it was sent.
    pub(crate) fn has_read_all(&self) -> bool {
        rustix::io::ioctl_fionread(self.stdin.as_ref().unwrap()).unwrap() == 0
    }

    /// Waits until it says that it is done.
    pub(crate) fn await_byte(&mut self) {
        let mut byte = [0];
        self.stdout.read_exact(&mut byte).unwrap();
    }

    /// Reads the number of the port that it listens on.
    pub(crate) fn port(&mut self) -> u16 {
        let mut bytes = [0; 2];
        self.stdout.read_exact(&mut bytes).unwrap();
        u16::from_ne_bytes(bytes)
    }

    /// Waits for a line of numbers, which it tells.
    pub(crate) fn await_numbers(&mut self) -> Vec<u64> {
        let mut line = String::new();
        loop {
            let mut byte = [0];
            self.stdout.read_exact(&mut byte).unwrap();
            if byte == *b"\n" {
                break;
            }
            line.push(char::from(byte[0]));
        }
        let words = line.split_ascii_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    }

    /// Whether it has said that it is done.
    pub(crate) fn is_done(&self) -> bool {
        let mut stdout = [PollFd::new(&self.stdout, PollFlags::IN)];
        poll(&mut stdout, Some(&Timespec::default())).unwrap() > 0
    }

    /// Waits until it has ended.
    pub(crate) fn await_end(&mut self) {
        self.child.wait().unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until every thread is blocked, so that a window begins with nothing on its way.
    pub(crate) fn await_blocked(&self, threads: usize) {
        await_until("all threads to block", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            let states = tasks.flatten().map(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ")
                    .next()
                    .unwrap_or_default()
                    .starts_with('S')
            });
            let states: Vec<bool> = states.collect();
            states.len() == threads && states.iter().all(|&blocked| blocked)
        });
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // The end of stdin ends a workload of another user too, which we may not be allowed to kill.
        drop(self.stdin.take());
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Profiles one go of a workload that says when it is done.
pub(crate) fn profile(args: &[&str], detail: Detail) -> Profile {
    profile_with(args, |pid| Config::new([Target::Pid(pid)], detail))
}

/// Profiles with a configuration made for the process.
pub(crate) fn profile_with(args: &[&str], config: impl FnOnce(u32) -> Config) -> Profile {
    let mut workload = Workload::start(args);
    let mut session = attach(config(workload.pid()));
    session.open(true).unwrap();
    workload.go();
    workload.await_byte();
    session.close(true).unwrap()
}

/// Attaches, or fails the test with what is missing.
pub(crate) fn attach(config: Config) -> Session {
    Session::attach(config).unwrap_or_else(|error| panic!("{error}"))
}

/// Profiles a workload that ends by itself.
pub(crate) fn profile_to_end(args: &[&str], threads: usize, config: fn(u32) -> Config) -> Profile {
    let mut workload = Workload::start(args);
    workload.await_blocked(threads);
    let mut session = attach(config(workload.pid()));
    session.open(true).unwrap();
    workload.go();
    workload.await_end();
    await_until("the target to end", || session.target_ended());
    session.close(false).unwrap()
}

/// The row of a call that must be there, alone or as `read(pipe)` where it is told apart.
pub(crate) fn row<'a>(profile: &'a Profile, name: &str) -> &'a CallRow {
    let is_it = |row: &&CallRow| row.label() == name || row.name == name;
    let rows: Vec<&CallRow> = profile.calls.iter().filter(is_it).collect();
    assert_eq!(rows.len(), 1, "rows of {name} among {:?}", labels(profile));
    rows[0]
}

/// Every call that returned, with its count, whatever it was done to.
pub(crate) fn counts(profile: &Profile) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for row in profile.calls.iter().filter(|row| row.count > 0) {
        *counts.entry(row.name.as_str()).or_default() += row.count;
    }
    counts
}

/// Every call that returned, with its count, told apart by what it was done to.
pub(crate) fn labels(profile: &Profile) -> BTreeMap<String, u64> {
    let made = profile.calls.iter().filter(|row| row.count > 0);
    made.map(|row| (row.label(), row.count)).collect()
}

/// Every error, by call and name.
pub(crate) fn errors(profile: &Profile) -> BTreeMap<(&str, &str), u64> {
    let mut errors = BTreeMap::new();
    for row in &profile.calls {
        for (error, &count) in &row.errors {
            *errors
                .entry((row.name.as_str(), error.as_str()))
                .or_default() += count;
        }
    }
    errors
}

/// Waits for a condition that is certain to come; fails loudly if it does not.
pub(crate) fn await_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed().as_secs() < 60, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kernel-workload");
