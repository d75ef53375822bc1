//! `cargo xtask bench`: what the probes, the load generator and large reports cost, against limits.
//!
//! Every figure is the median over interleaved repetitions: all arms of a repetition run next to
//! each other, in an order that turns from one repetition to the next, and ratios are taken within
//! a repetition. It measures the release build of `whyfast` as a user would run it.

mod clients;
mod load;
mod origin;
mod peers;
mod probes;
mod profiler;
mod rendering;
mod report;
mod servers;
mod stacks;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use crate::{command, cpus, tree};
use origin::Origin;
use report::Report;

/// Measures what probes, load and reports cost, and fails with 3 when a limit does not hold.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum)]
    what: Benchmark,
    /// Interleaved repetitions of each arm.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    repetitions: u32,
    /// A table, or JSON.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Another build of whyfast than the release build of this tree.
    #[arg(long, value_name = "FILE")]
    whyfast: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// CPU time, throughput and memory of the load generator, against wrk, oha and h2load.
    Load,
    /// Time that probes add to a system call, and throughput that a profiled server keeps.
    Probes,
    /// Time and memory that a report of a large recording takes.
    Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Text,
}

/// What every benchmark needs.
#[derive(Debug)]
struct Setting {
    whyfast: PathBuf,
    repetitions: u32,
    /// The CPU of the server or the workload.
    server_cpu: u32,
    /// The CPU of the client or the profiler; the same one on a machine with one CPU.
    client_cpu: u32,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (server_cpu, client_cpu) = cpus::apart()?;
    let setting = Setting {
        whyfast: match &args.whyfast {
            Some(path) => path.clone(),
            None => command::release_build(&tree::root())?,
        },
        repetitions: args.repetitions,
        server_cpu,
        client_cpu,
    };
    // Of another build than that of this tree, the commit is unknown.
    let tree = args.whyfast.is_none().then(tree::root);
    let origin = Origin::new(tree.as_deref(), PROGRAMS);
    let mut report = Report::new(args.what.name(), args.repetitions, origin);
    if args.repetitions < ENOUGH {
        report.warn(format!(
            "fewer than {ENOUGH} repetitions: limits are indicative"
        ));
    }
    if server_cpu == client_cpu {
        report.warn("only one CPU: server and client share it");
    }
    match args.what {
        Benchmark::Load => load::measure(&setting, &mut report)?,
        Benchmark::Probes => probes::measure(&setting, &mut report)?,
        Benchmark::Report => {
            rendering::measure(&setting, &mut report)?;
            stacks::measure(&setting, &mut report)?;
        }
    }
    match args.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Format::Text => print!("{report}"),
    }
    Ok(ExitCode::from(report.exit_code()))
}

impl Benchmark {
    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Probes => "probes",
            Self::Report => "report",
        }
    }
}

/// The arms in the order of one repetition: each one begins once in as many repetitions.
fn rotated<T: Copy>(arms: &[T], repetition: u32) -> Vec<T> {
    let mut order = arms.to_vec();
    order.rotate_left(repetition as usize % arms.len());
    order
}

/// Repetitions that limits are meant for.
const ENOUGH: u32 = 10;
/// What may take part, and how it says its version.
const PROGRAMS: &[(&str, &str)] = &[("nginx", "-v"), ("wrk", "-v"), ("h2load", "--version")];

#[cfg(test)]
mod tests {
    use super::*;

    /// Every arm is at every position equally often.
    #[test]
    fn orders_turn() {
        let orders: Vec<Vec<u8>> = (0..4).map(|index| rotated(&[1, 2, 3], index)).collect();
        assert_eq!(
            orders,
            [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]].map(Vec::from)
        );
    }
}
