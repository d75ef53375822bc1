//! One comparison of two warm servers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use recording::{Recording, exit_code};
use tempfile::TempDir;

use super::cost::{Slice, slices};
use super::injection::Case;
use super::quota::Quota;
use crate::built_in::BuiltIn;
use crate::command;

/// What all comparisons share.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) whyfast: PathBuf,
    pub(super) server_cpu: u32,
    /// Measured window of a round.
    pub(super) window: &'static str,
    folder: TempDir,
}

/// Two servers that run until this goes away.
#[derive(Debug)]
pub(super) struct Pair {
    servers: [BuiltIn; 2],
    /// After the servers, so that the group is empty when it is removed.
    _quota: Option<Quota>,
}

impl Bench {
    pub(super) fn new(whyfast: PathBuf, server_cpu: u32, window: &'static str) -> Result<Self> {
        Ok(Self {
            whyfast,
            server_cpu,
            window,
            folder: tempfile::tempdir().context("failed to make a temporary folder")?,
        })
    }

    /// Starts the servers of a case. Where injections are to be found, both time theirs.
    pub(super) fn start(&self, case: &Case) -> Result<Pair> {
        let timed = [OsStr::new("--time-injections")];
        let more: &[&OsStr] = if case.injections().is_empty() {
            &[]
        } else {
            &timed
        };
        let start = |arm| BuiltIn::start(&self.whyfast, self.server_cpu, &case.spec(arm), more);
        let servers = [start(0)?, start(1)?];
        let impose = |share| Quota::impose(servers[1].child.pid(), share);
        let quota = case.quota.map(impose).transpose()?;
        Ok(Pair {
            servers,
            _quota: quota,
        })
    }

    /// Compares the servers, and reads what was recorded.
    pub(super) fn compare(&self, pair: &Pair, options: &[&str]) -> Result<Recording> {
        let file = self.folder.path().join("recording.json");
        let mut command = Command::new(&self.whyfast);
        command.arg("compare");
        for (name, server) in ["a", "b"].iter().zip(&pair.servers) {
            command.arg(format!("{name}={},pid={}", server.url, server.child.pid()));
        }
        command
            .args(["--pairs", PAIRS, "--duration", self.window])
            .args(["--warmup", WARM_UP, "--format", "json", "--output"])
            .arg(&file)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let output = command
            .output()
            .with_context(|| format!("failed to run {}", command::describe(&command)))?;
        let measured = [
            exit_code::DONE,
            exit_code::INCONCLUSIVE,
            exit_code::NOT_COMPARABLE,
            exit_code::LIMIT_BROKEN,
        ];
        let code = output
            .status
            .code()
            .and_then(|code| u8::try_from(code).ok());
        ensure!(
            code.is_some_and(|code| measured.contains(&code)),
            "{}: {}: {}",
            command::describe(&command),
            output.status,
            String::from_utf8_lossy(&output.stderr)
                .trim()
                .escape_debug()
        );
        read(&file)
    }
}

impl Pair {
    /// Ends both servers, and returns what they measured of their injections.
    pub(super) fn end(self) -> Result<[Vec<Slice>; 2]> {
        let [a, b] = self.servers;
        Ok([slices(&a.end()?)?, slices(&b.end()?)?])
    }
}

fn read(file: &Path) -> Result<Recording> {
    let json = std::fs::read(file).context("the comparison left no recording")?;
    match Recording::parse(&json) {
        Ok(recording) => Ok(recording),
        Err(error) => bail!("{}: {error}", file.display()),
    }
}

/// As few as give intervals to bars.
const PAIRS: &str = "6";
/// The servers are warm; only the connections are new.
const WARM_UP: &str = "50ms";
