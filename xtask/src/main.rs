//! Automation of this repository: `cargo xtask COMMAND`.
//!
//! One file or folder per command. It runs other programs and reads recordings; of the crates of
//! this workspace it links `recording` alone.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the command line"
)]

mod bench;
mod built_in;
mod ci;
mod command;
mod cpus;
mod ebpf;
mod fuzz;
mod packages;
mod selftest;
mod suite;
mod test;
mod tidy;
mod tree;
mod workload;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Automation of the whyfast repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures what probes and load cost, and fails with 3 when a limit does not hold.
    Bench(bench::Args),
    /// Runs the steps of continuous integration: counts against syscalls.lock, comparisons, the comment.
    Ci(ci::Args),
    /// Builds the object of the kernel programs, or checks that the committed one is current.
    Ebpf(ebpf::Args),
    /// Runs the fuzz targets for a short time.
    Fuzz(fuzz::Args),
    /// Checks the attribution against known costs, and fails with 3 where it is not right.
    Selftest(selftest::Args),
    /// Repeats the published benchmarks with real servers; fails with 3 where something is not right.
    Suite(suite::Args),
    /// Runs the tests, tier by tier, and counts what ran.
    Test(test::Args),
    /// Checks the rules of this repository that a program can check.
    Tidy,
    /// Makes a known number of system calls; the target of `bench probes`.
    #[command(hide = true)]
    Workload(workload::Args),
}

fn main() -> ExitCode {
    let outcome = run(&Args::parse());
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(recording::exit_code::FAILED)
    })
}

fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Bench(args) => bench::run(args),
        Command::Ci(args) => ci::run(args),
        Command::Ebpf(args) => ebpf::run(args),
        Command::Fuzz(args) => fuzz::run(args),
        Command::Selftest(args) => selftest::run(args),
        Command::Suite(args) => suite::run(args),
        Command::Test(args) => test::run(args),
        Command::Tidy => tidy::run(),
        Command::Workload(args) => workload::run(args),
    }
}

/// Whether words are a command line of this program.
fn is_command(words: &[&str]) -> bool {
    Args::try_parse_from(std::iter::once("cargo xtask").chain(words.iter().copied())).is_ok()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The definition of the command line is consistent.
    #[test]
    fn command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
