//! One comparison of two warm servers, and what injections cost by themselves.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use recording::{Recording, exit_code};
use tempfile::TempDir;

use super::injection::{Case, Expected, spec};
use super::judge::Cost;
use super::quota::Quota;
use crate::built_in::BuiltIn;
use crate::command;
use crate::cpus;

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

    /// Starts the servers of a case.
    pub(super) fn start(&self, case: &Case) -> Result<Pair> {
        let [a, b] = &case.knobs;
        let start =
            |knobs: &[&str]| BuiltIn::start(&self.whyfast, self.server_cpu, &spec(knobs), &[]);
        let servers = [start(a)?, start(b)?];
        let impose = |share| Quota::impose(servers[1].child.pid(), share);
        let quota = case.quota.map(impose).transpose()?;
        Ok(Pair {
            servers,
            _quota: quota,
        })
    }

    /// What each injection of a case costs by itself, measured by the server.
    pub(super) fn costs(&self, case: &Case) -> Result<Vec<Cost>> {
        let Expected::Attributed { injections, .. } = &case.expected else {
            return Ok(Vec::new());
        };
        let base_ns = self.time_in_requests(&spec(&[]))?;
        let costs = injections.iter().map(|injection| {
            let knobs = spec(&[injection.knob]);
            let added_ns = self.time_in_requests(&knobs)? - base_ns;
            // Without a sleep all of it is CPU time.
            let sleep_ns = match injection.idle {
                Some(_) => self.sleep_ns(&knobs)?,
                None => 0.0,
            };
            Ok(Cost {
                cpu_ns: added_ns - sleep_ns,
                sleep_ns,
            })
        });
        costs.collect()
    }

    /// What the injections of a request take while the server answers as in a comparison, ns.
    fn time_in_requests(&self, spec: &str) -> Result<f64> {
        let more = [OsStr::new("--time-injections")];
        let server = BuiltIn::start(&self.whyfast, self.server_cpu, spec, &more)?;
        let mut command = Command::new(&self.whyfast);
        command
            .args(["load", &server.url, "--connections", "64"])
            .args(["--duration", self.window, "--warmup", WARM_UP]);
        command::output(&mut command)?;
        figure(&server.end()?, "injected_ns")
    }

    /// How long the injections of a request sleep, ns: time on the wall less CPU time, in a loop of
    /// their own.
    fn sleep_ns(&self, spec: &str) -> Result<f64> {
        let mut command = cpus::pinned(self.server_cpu, &self.whyfast);
        command.args(["testserver", "--measure-injections", "--style", spec]);
        let printed = String::from_utf8(command::output(&mut command)?)?;
        Ok(figure(&printed, "wall_ns")? - figure(&printed, "cpu_ns")?)
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

/// A number after a name, on a line of its own.
fn figure(printed: &str, name: &str) -> Result<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|text| text.trim().parse().ok())
        .with_context(|| format!("the server names no {name}: {printed:?}"))
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
