//! The built-in server as a child on one CPU.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};

use crate::command::Guarded;
use crate::cpus;

/// A built-in server that runs until this goes away.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    pub(crate) url: String,
    pub(crate) child: Guarded,
}

impl BuiltIn {
    /// Starts a server of this spec, serving a file, or one byte.
    pub(crate) fn start(whyfast: &Path, cpu: u32, spec: &str, file: Option<&Path>) -> Result<Self> {
        let mut command = cpus::pinned(cpu, whyfast);
        command
            .args(["testserver", "--style", spec])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(file) = file {
            command.arg("--file").arg(file);
        }
        let mut child = Guarded::spawn(&mut command)?;
        let stdout = child.child.stdout.take().context("stdout is a pipe")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http://"))
            .with_context(|| format!("whyfast testserver names no address: {line:?}"))?;
        Ok(Self {
            url: url.to_owned(),
            child,
        })
    }
}
