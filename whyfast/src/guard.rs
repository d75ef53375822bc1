//! Nothing outlives whyfast, even killed with -9.
//!
//! A guard process is started before anything else and told of every session and folder. When its
//! stdin closes, because whyfast is done or because it was killed, the guard ends what is left and
//! removes the folders. So the clean-up that follows a crash is the one that follows every run.
//!
//! A process is ours by its session (servers are started in one of their own) or, where a server
//! has left it, by the mark in its environment, by its working folder or by a file of ours that it
//! has open.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use procfs::process::{FDTarget, Process, all_processes};
use recording::hex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process};
use serde::{Deserialize, Serialize};

use crate::spawn::Program;

/// The variable that marks our servers.
pub(crate) const MARK: &str = "WHYFAST_RUN";

/// How long the guard goes on killing what does not end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the guard is told, one JSON line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Charge {
    /// Processes with this value of [`MARK`] are ours.
    Mark(String),
    /// Processes of this session are ours.
    Session(i32),
    /// The session has ended; its number may be somebody else's from now on.
    SessionEnded(i32),
    /// This folder is ours.
    Folder(PathBuf),
}

/// The connection to the guard.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    stdin: Option<ChildStdin>,
    mark: String,
}

impl Guard {
    /// Starts the guard.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut mark = [0_u8; 16];
        rustix::rand::getrandom(&mut mark, rustix::rand::GetRandomFlags::empty())?;
        let mark = hex(&mark);
        let mut command = Program::own(None)
            .context("failed to find this program's own file")?
            .command_without_death_signal();
        let mut child = command
            .arg("guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("failed to start the guard process")?;
        let stdin = child.stdin.take();
        let mut guard = Self { child, stdin, mark };
        guard.tell(&Charge::Mark(guard.mark.clone()))?;
        Ok(guard)
    }

    /// The process that must not be ended with the servers.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The value that servers carry in [`MARK`].
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Puts a session into the guard's care.
    pub(crate) fn add_session(&mut self, leader: u32) -> io::Result<()> {
        self.tell(&Charge::Session(leader.cast_signed()))
    }

    /// Takes a session out of it.
    pub(crate) fn session_ended(&mut self, leader: u32) -> io::Result<()> {
        self.tell(&Charge::SessionEnded(leader.cast_signed()))
    }

    /// Puts a folder into the guard's care.
    pub(crate) fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.tell(&Charge::Folder(folder.to_owned()))
    }

    fn tell(&mut self, charge: &Charge) -> io::Result<()> {
        let mut line = serde_json::to_string(charge)?;
        line.push('\n');
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    /// Lets the guard clean up and waits for it.
    fn drop(&mut self) {
        self.stdin = None;
        drop(self.child.wait());
    }
}

impl Program {
    /// The guard alone must survive its parent; it lives in a session of its own so that the
    /// terminal's signals do not reach it.
    fn command_without_death_signal(&self) -> std::process::Command {
        let mut command = std::process::Command::new(self.path());
        crate::spawn::detach(&mut command);
        command
    }
}

/// What is in the guard's care.
#[derive(Debug, Default)]
struct Care {
    mark: Option<Vec<u8>>,
    sessions: BTreeSet<i32>,
    folders: Vec<PathBuf>,
}

impl Care {
    fn take(&mut self, charge: Charge) {
        match charge {
            Charge::Mark(mark) => self.mark = Some(format!("{MARK}={mark}").into_bytes()),
            Charge::Session(session) => drop(self.sessions.insert(session)),
            Charge::SessionEnded(session) => drop(self.sessions.remove(&session)),
            Charge::Folder(folder) => self.folders.push(folder),
        }
    }
}

impl Care {
    /// Whether the process was started with our mark, and has not overwritten it.
    fn has_marked(&self, process: &Process) -> bool {
        self.mark.as_ref().is_some_and(|mark| {
            fs::read(format!("/proc/{}/environ", process.pid))
                .is_ok_and(|env| env.split(|&byte| byte == 0).any(|entry| entry == mark))
        })
    }

    /// Whether the process lives in a folder of ours or has a file of one open.
    fn is_used_by(&self, process: &Process) -> bool {
        let is_ours = |path: &Path| self.folders.iter().any(|folder| path.starts_with(folder));
        process.cwd().is_ok_and(|path| is_ours(&path))
            || process.fd().is_ok_and(|fds| {
                fds.flatten()
                    .any(|fd| matches!(fd.target, FDTarget::Path(path) if is_ours(&path)))
            })
    }
}

/// The guard process: waits for its stdin to close, then cleans up.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut care = Care::default();
    for line in io::stdin().lock().lines() {
        // A line that was cut by the death of the writer says nothing that can be relied on.
        let Some(charge) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
            break;
        };
        care.take(charge);
    }
    kill_all(&care);
    for folder in &care.folders {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("failed to remove {}", folder.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Ends the processes that were orphaned to this one, the subreaper: servers that went into the
/// background. `kept` are children that are meant to live.
pub(crate) fn kill_strays(kept: &[u32]) {
    let myself = rustix::process::getpid().as_raw_nonzero().get();
    for _pass in 0..STRAY_PASSES {
        let Ok(processes) = all_processes() else {
            return;
        };
        let strays = processes.flatten().filter_map(|process| {
            let stat = process.stat().ok()?;
            let is_kept = kept.contains(&stat.pid.unsigned_abs());
            (stat.ppid == myself && !is_kept).then_some(stat.pid)
        });
        let strays: Vec<Pid> = strays.filter_map(Pid::from_raw).collect();
        if strays.is_empty() {
            return;
        }
        // Killing one may orphan its children to us.
        for stray in strays {
            let _gone = kill_process(stray, Signal::KILL);
            let _status = rustix::process::waitpid(Some(stray), WaitOptions::empty());
        }
    }
}

/// How deep a tree of strays may be.
const STRAY_PASSES: usize = 64;

/// Ends every process of a server: of its session, and those that left the session but not its
/// folder.
pub(crate) fn kill_server(leader: i32, folder: &Path) {
    kill_all(&Care {
        sessions: BTreeSet::from([leader]),
        folders: vec![folder.to_owned()],
        ..Care::default()
    });
}

/// Kills until two passes in a row find nothing: a process may fork while it is being looked for.
fn kill_all(care: &Care) {
    let deadline = Instant::now() + PATIENCE;
    let mut passes_without_any = 0;
    while passes_without_any < 2 && Instant::now() < deadline {
        let found = ours(care);
        passes_without_any = if found.is_empty() {
            passes_without_any + 1
        } else {
            0
        };
        for pid in found {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended by itself since.
                let _gone = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The living processes in our care.
fn ours(care: &Care) -> Vec<i32> {
    let myself = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(processes) = all_processes() else {
        return Vec::new();
    };
    processes
        .filter_map(Result::ok)
        .filter(|process| process.pid != myself)
        .filter(|process| {
            let Ok(stat) = process.stat() else {
                return false;
            };
            if matches!(stat.state, 'Z' | 'X') {
                return false;
            }
            care.sessions.contains(&stat.session)
                || care.has_marked(process)
                || care.is_used_by(process)
        })
        .map(|process| process.pid)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that ended is no longer in the guard's care.
    #[test]
    fn ended_sessions_are_forgotten() {
        let mut care = Care::default();
        care.take(Charge::Session(7));
        care.take(Charge::Session(8));
        care.take(Charge::SessionEnded(7));
        assert_eq!(care.sessions, BTreeSet::from([8]));
    }
}
