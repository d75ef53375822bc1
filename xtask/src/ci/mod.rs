//! `cargo xtask ci`: what the workflows of this repository run, and nothing that only they could.
//!
//! Results go to `target/ci`, which the workflows keep. A step exits as whyfast does: 3 where exact
//! counts changed, 5 where there is nothing to compare with, 6 where the machine cannot count.

mod compare;
mod counts;
mod post;
mod replay;
mod report;
pub(crate) mod workflow;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use clap::Subcommand;
use recording::exit_code;

use crate::{command, tree};

/// Runs a step of continuous integration.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Builds whyfast and says what this machine can measure; exits with 6 where it cannot count.
    Preflight,
    /// Counts the calls of the built-in server, and holds them against syscalls.lock.
    Counts,
    /// Compares the built-in server of two revisions, interleaved on this machine.
    Compare(compare::Args),
    /// Puts what was found into one comment, or keeps the comment of a pull request up to date.
    Report(report::Args),
    /// Counts again and takes the counts over into syscalls.lock.
    Bless,
    /// Runs the steps of the workflows here, in their order.
    Replay,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = tree::root();
    let code = match &args.step {
        Step::Preflight => preflight(&root)?,
        Step::Counts => counts::check(&root)?,
        Step::Compare(args) => compare::run(&root, args)?,
        Step::Report(args) => report::run(&root, args)?,
        Step::Bless => counts::bless(&root)?,
        Step::Replay => replay::run(&root)?,
    };
    Ok(ExitCode::from(code))
}

/// Builds, and lets whyfast look at the machine.
fn preflight(root: &Path) -> Result<u8> {
    let whyfast = command::build(root, command::Optimised::No)?;
    status(Command::new(whyfast).arg("doctor"))
}

/// Runs whyfast for people to read, and returns its exit code.
fn status(command: &mut Command) -> Result<u8> {
    let line = command::describe(command);
    eprintln!("$ {line}");
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("failed to run {line}"))?;
    // Ended by a signal is failed.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(exit_code::FAILED))
}

/// A folder for the results of a step, emptied.
fn emptied(root: &Path, step: &str) -> Result<PathBuf> {
    let folder = results(root).join(step);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("failed to empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("failed to make {}", folder.display()))?;
    Ok(folder)
}

/// Where results go.
fn results(root: &Path) -> PathBuf {
    root.join("target/ci")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command's exit code is passed on; one that a signal ended has failed.
    #[test]
    fn exit_codes_are_passed_on() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            status(&mut command).expect("sh runs")
        };
        assert_eq!(shell("exit 3"), exit_code::LIMIT_BROKEN);
        assert_eq!(shell("kill -KILL $$"), exit_code::FAILED);
    }
}
