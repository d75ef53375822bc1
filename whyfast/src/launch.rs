//! A command that is held back between fork and exec until the probes are attached, so that its
//! very first system call that counts is the `execve`.
//!
//! The thread that spawns it also waits for it: a parent-death signal is tied to the thread.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::capabilities;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::spawn::{Birth, Program, bear, find_program, hold_back};

/// A command that was forked and waits.
#[derive(Debug)]
pub(crate) struct Launched {
    pid: Pid,
    name: String,
    go: Option<PipeWriter>,
    ended: Receiver<io::Result<ExitStatus>>,
    /// Dropped with this: then the command is collected.
    _collect: Sender<()>,
}

impl Launched {
    /// Forks the command and holds it back.
    pub(crate) fn hold(
        program: &OsString,
        arguments: &[OsString],
        identity: Option<Identity>,
    ) -> anyhow::Result<Self> {
        let name = program.to_string_lossy().into_owned();
        let path = find_program(program).ok_or_else(|| {
            let what = if Path::new(program).exists() {
                "not a program that can be executed"
            } else {
                "no such program on PATH; give its path"
            };
            Failure::usage(format!("{name}: {what}"))
        })?;
        let file = Program::at(&path, identity.as_ref())?;
        let (mut pid_reader, pid_writer) = io::pipe()?;
        let (go_reader, go_writer) = io::pipe()?;
        let mut command = Command::new(file.path());
        command.arg0(program).args(arguments);
        if let Some(identity) = &identity {
            command
                .env("HOME", &identity.home)
                .env("LOGNAME", &identity.name)
                .env("USER", &identity.name);
        }
        bear(
            &mut command,
            &Birth {
                identity,
                cpus: None,
                session: false,
            },
        );
        hold_back(&mut command, pid_writer.into(), go_reader.into());
        let (sender, ended) = channel();
        let (collect, done) = channel();
        std::thread::spawn(move || {
            let _file = file;
            let child = command.spawn();
            // All that is left to do for the thread is to wait for its child.
            capabilities::give_up();
            let mut child = match child {
                Ok(child) => child,
                Err(error) => return drop(sender.send(Err(error))),
            };
            // Whoever asked may have given up.
            drop(sender.send(status_of(&child)));
            // Until it is collected, its CPU time can still be read.
            let _dropped = done.recv();
            drop(child.wait());
        });
        let mut pid = [0; 4];
        if pid_reader.read_exact(&mut pid).is_err() {
            let error = ended.recv().map_or_else(io::Error::other, |status| {
                status
                    .err()
                    .unwrap_or_else(|| io::Error::other("it ended at once"))
            });
            return Err(error).with_context(|| format!("failed to start {name}"));
        }
        let pid = Pid::from_raw(i32::from_ne_bytes(pid)).context("a child has a process id")?;
        Ok(Self {
            pid,
            name,
            go: Some(go_writer),
            ended,
            _collect: collect,
        })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Lets it go.
    pub(crate) fn release(&mut self) -> anyhow::Result<()> {
        let mut go = self.go.take().context("a command is released once")?;
        go.write_all(b"!")
            .with_context(|| format!("failed to start {}", self.name))
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn try_wait(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        match self.ended.try_recv() {
            Ok(status) => status
                .map(Some)
                .with_context(|| format!("failed to run {}", self.name)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }

    /// Collects it. One that has not ended is asked to end, then forced to.
    pub(crate) fn end(self, status: Option<ExitStatus>) -> anyhow::Result<Option<ExitStatus>> {
        if status.is_some() {
            return Ok(status);
        }
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            // It may be gone already.
            let _gone = kill_process(self.pid, signal);
            match self.ended.recv_timeout(PATIENCE) {
                Ok(status) => {
                    return status
                        .map(Some)
                        .with_context(|| format!("failed to run {}", self.name));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(None)
    }
}

/// Waits for the end of a child without collecting it.
fn status_of(child: &Child) -> io::Result<ExitStatus> {
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = match waitid(WaitId::Pid(pid), options) {
            Err(rustix::io::Errno::INTR) => continue,
            status => status?.ok_or(io::ErrorKind::NotFound)?,
        };
        // The encoding of wait(2).
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => (code & 0xff) << 8,
            (None, signal) => signal.unwrap_or(0),
        };
        return Ok(ExitStatus::from_raw(raw));
    }
}

/// How long a signalled command may take to end before the next signal.
const PATIENCE: Duration = Duration::from_secs(1);
