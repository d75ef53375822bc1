//! oha, which no distribution packages: built by cargo in a folder of its own, once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use serde::Deserialize;

use super::super::clients::{self, Run};
use super::super::cpus;
use crate::command;

/// What is taken of oha's report.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    summary: Summary,
    status_code_distribution: BTreeMap<String, f64>,
    error_distribution: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    requests_per_sec: f64,
}

/// Where oha is; it is built when it is not there.
pub(super) fn install(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/peers");
    let oha = folder.join("bin/oha");
    if command::version(&oha, "--version").as_deref() != Some(NAME_AND_VERSION) {
        let mut cargo = command::cargo(root);
        cargo
            .args(["install", "oha", "--locked", "--version"])
            .arg(NAME_AND_VERSION.replace("oha ", "="))
            .arg("--root")
            .arg(&folder)
            // Built like any other: not with what cargo has set for this program.
            .env_remove("CARGO_TARGET_DIR");
        command::run(&mut cargo)?;
    }
    Ok(oha)
}

/// oha with 64 connections.
pub(super) fn run(oha: &Path, cpu: u32, url: &str, seconds: u32) -> Result<Run> {
    let mut command = cpus::pinned(cpu, oha);
    command.args(["-c", "64", "-z", &format!("{seconds}s"), "--no-tui"]);
    command.args(["--output-format", "json", url]);
    let (output, cpu_seconds) = clients::run(&mut command)?;
    let achieved = parse(&output).map_err(|why| anyhow!("oha: {why}: {output:?}"))?;
    Ok(Run::of(achieved, cpu_seconds))
}

/// Completed requests, and requests per second. What the end of the time cut is no error.
fn parse(output: &str) -> Result<(f64, f64)> {
    let report: Report = serde_json::from_str(output)?;
    let is_cut = |error: &String| error == "aborted due to deadline";
    if let Some(error) = report
        .error_distribution
        .keys()
        .find(|error| !is_cut(error))
    {
        return Err(anyhow!("{error}"));
    }
    let answered = report.status_code_distribution.get("200").copied();
    Ok((answered.unwrap_or(0.0), report.summary.requests_per_sec))
}

/// The newest one when the limits were set, as it prints it.
pub(super) const NAME_AND_VERSION: &str = "oha 1.16.0";

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of oha, shortened; requests that were cut off are no errors, others are.
    #[test]
    fn reads_reports() {
        let report = r#"{"summary":{"successRate":1.0,"total":1.0,"requestsPerSec":29700.5},
            "statusCodeDistribution":{"200":29650},"errorDistribution":{"aborted due to deadline":64}}"#;
        assert_eq!(parse(report).unwrap(), (29_650.0, 29_700.5));
        let refused = report.replace("aborted due to deadline", "connection refused");
        assert!(parse(&refused).is_err());
    }
}
