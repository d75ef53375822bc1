//! `whyfast profile` as a child that is told when to begin and when to end.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use recording::Profile;
use recording::wire::{Command, Message, WIRE_VERSION};

use crate::command::{self, Guarded};
use crate::cpus;

/// Probes that are attached until this goes away.
#[derive(Debug)]
pub(crate) struct Attached {
    // Before the child, so that the pipe is closed first and the child ends by itself.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    child: Guarded,
}

impl Attached {
    /// Attaches to a process and returns when its calls are counted.
    pub(crate) fn to(whyfast: &Path, cpu: u32, detail: &str, pid: u32) -> Result<Self> {
        Self::with(whyfast, cpu, detail, pid, &[])
    }

    /// The same with further options.
    pub(crate) fn with(
        whyfast: &Path,
        cpu: u32,
        detail: &str,
        pid: u32,
        options: &[&str],
    ) -> Result<Self> {
        let mut command = if command::is_root() {
            cpus::pinned(cpu, whyfast)
        } else {
            let mut sudo = cpus::pinned(cpu, "sudo");
            sudo.args(["-n", "--"]).arg(whyfast);
            sudo
        };
        command
            .args([
                "profile",
                "--control",
                "--detail",
                detail,
                "--pid",
                &pid.to_string(),
            ])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Guarded::spawn(&mut command)?;
        let stdin = child.child.stdin.take();
        let stdout = child.child.stdout.take().context("stdout is a pipe")?;
        let mut attached = Self {
            stdin,
            lines: BufReader::new(stdout).lines(),
            child,
        };
        let Message::Hello { wire, .. } = attached.receive()? else {
            bail!("whyfast profile did not begin with hello");
        };
        ensure!(
            wire == WIRE_VERSION,
            "whyfast speaks version {wire}, not {WIRE_VERSION}"
        );
        attached.wait_for(|message| matches!(message, Message::Ready { .. }).then_some(()))?;
        attached.send(Command::Open { quiet: false })?;
        attached.wait_for(|message| matches!(message, Message::Opened { .. }).then_some(()))?;
        Ok(attached)
    }

    fn close(&mut self) -> Result<Profile> {
        self.send(Command::Close { quiet: false })?;
        self.wait_for(|message| match message {
            Message::ProfileDone(profile) => Some(*profile),
            _ => None,
        })
    }

    /// The memory that the profiler has now, bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.pid());
        let status = std::fs::read_to_string(&path).with_context(|| format!("no {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes.context("no VmRSS in the status")?.parse()?;
        Ok(kilobytes * 1024)
    }

    /// Ends the window, takes the probes away, and returns what was counted.
    pub(crate) fn detach(mut self) -> Result<Profile> {
        let profile = self.close()?;
        self.end()?;
        Ok(profile)
    }

    fn end(mut self) -> Result<()> {
        drop(self.stdin.take());
        let status = self.child.child.wait()?;
        ensure!(status.success(), "whyfast profile: {status}");
        Ok(())
    }

    fn send(&mut self, command: Command) -> Result<()> {
        let stdin = self.stdin.as_mut().context("not detached yet")?;
        let line = command.to_line();
        stdin
            .write_all(line.as_bytes())
            .context("whyfast profile does not listen any more")
    }

    /// Passes over messages until one is taken.
    fn wait_for<T>(&mut self, take: impl Fn(Message) -> Option<T>) -> Result<T> {
        loop {
            if let Some(taken) = take(self.receive()?) {
                return Ok(taken);
            }
        }
    }

    fn receive(&mut self) -> Result<Message> {
        let line = self.lines.next().context("whyfast profile ended early")??;
        let message = serde_json::from_str(&line)
            .with_context(|| format!("failed to read a message of whyfast: {line:?}"))?;
        match message {
            Message::Error { text, .. } => bail!("whyfast profile: {}", text.escape_debug()),
            message => Ok(message),
        }
    }
}
