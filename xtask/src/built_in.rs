//! The built-in server as a child on one CPU.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{ChildStdout, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use crate::command::Guarded;
use crate::cpus;

/// A built-in server that runs until this goes away.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    pub(crate) url: String,
    pub(crate) child: Guarded,
    /// What it prints after its address.
    stdout: BufReader<ChildStdout>,
}

impl BuiltIn {
    /// Starts a server of this spec, with more options.
    pub(crate) fn start(whyfast: &Path, cpu: u32, spec: &str, more: &[&OsStr]) -> Result<Self> {
        let mut command = cpus::pinned(cpu, whyfast);
        command
            .args(["testserver", "--style", spec])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = Guarded::spawn(&mut command)?;
        let stdout = child.child.stdout.take().context("stdout is a pipe")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http://") || word.starts_with("https://"))
            .with_context(|| format!("whyfast testserver names no address: {line:?}"))?;
        Ok(Self {
            url: url.to_owned(),
            child,
            stdout,
        })
    }

    /// Ends it in good order, and returns what it printed at the end.
    pub(crate) fn end(mut self) -> Result<String> {
        self.child.ask(Signal::TERM)?;
        // Read before it is waited for, since it may print more than a pipe holds.
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest)?;
        self.child.child.wait()?;
        Ok(rest)
    }
}
