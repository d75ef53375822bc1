//! `cargo xtask suite`: the five published benchmarks, repeated here with real servers.
//!
//! Scenarios and recipes are read from their files in this repository, whyfast runs them, and what the
//! recordings say becomes one table. A gate that refuses is a failure, unless it is known to refuse here
//! and why.

mod gallery;
mod needs;
mod refusal;
mod scenario;
mod strace;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use recording::{Recording, exit_code};

use crate::command::{self, Optimised};
use crate::tree;
use needs::Needs;
use scenario::Scenario;
use strace::Agreement;
use summary::{Row, Table};

/// Repeats published benchmarks with real servers; fails where a gate refuses for no known reason, or
/// counts do not agree with strace.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Args {
    /// The scenarios, by name; all of them by default.
    #[arg(value_name = "NAME|all")]
    names: Vec<String>,
    /// The sizes of the publications: up to half an hour each.
    #[arg(long)]
    full: bool,
    /// As it was published, with what is no fair comparison in it.
    #[arg(long)]
    as_published: bool,
    /// With a build without optimisation and one short pair: does it all work? Its figures mean nothing.
    #[arg(long, conflicts_with_all = ["full", "gallery"])]
    check: bool,
    /// First install the servers that are missing (apt-get; modules of Node.js into target/suite).
    #[arg(long)]
    install: bool,
    /// Count against strace only, without a comparison.
    #[arg(long, conflicts_with_all = ["full", "gallery", "no_strace"])]
    strace: bool,
    /// Do not count against strace.
    #[arg(long)]
    no_strace: bool,
    /// Where recordings and pages go; a folder of an earlier run is replaced.
    #[arg(long, value_name = "DIR", default_value = "target/suite/results")]
    out: PathBuf,
    /// Write a page for each scenario into docs/gallery.
    #[arg(long)]
    gallery: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = tree::root();
    let scenarios = scenario::wanted(&root, &args.names)?;
    let mut needs = Needs::of(&root, &scenarios, args.as_published)?;
    if args.install {
        needs.install()?;
        needs = Needs::of(&root, &scenarios, args.as_published)?;
    }
    print!("{}", needs.describe());
    let optimised = if args.check {
        Optimised::No
    } else {
        Optimised::Yes
    };
    let bench = Bench {
        args,
        whyfast: command::build(&root, optimised)?,
        out: root.join(&args.out),
        node_path: needs.node_path(),
        root,
    };
    let mut table = Table::default();
    for scenario in &scenarios {
        let began = Instant::now();
        eprintln!("\n-- {}", scenario.name);
        let (required, optional) = scenario.arms(args.as_published);
        let lacking = needs.lacking(&required);
        let row = if lacking.is_empty() {
            let here = optional.into_iter().filter(|arm| needs.has(arm));
            let arms: Vec<String> = required.into_iter().chain(here).collect();
            // One that cannot be run does not keep the others from it.
            let done = bench.scenario(scenario, &arms, &needs);
            done.unwrap_or_else(|error| Row::broken(&scenario.name, &error))
        } else {
            Row::lacking(&scenario.name, &lacking)
        };
        table.push(row.took(began.elapsed()));
    }
    println!("\n{table}");
    Ok(ExitCode::from(table.exit_code()))
}

/// What every scenario is run with.
struct Bench<'a> {
    args: &'a Args,
    root: PathBuf,
    whyfast: PathBuf,
    out: PathBuf,
    /// Where Node.js finds its modules.
    node_path: OsString,
}

impl Bench<'_> {
    /// Compares and counts.
    fn scenario(&self, scenario: &Scenario, arms: &[String], needs: &Needs) -> Result<Row> {
        let mut row = Row::new(&scenario.name);
        if !self.args.strace {
            let (recording, code) = self.compare(scenario, arms)?;
            row.compared(&recording, code, self.args.check);
            if self.args.gallery {
                gallery::write(&self.whyfast, &self.root, &scenario.name, &recording)?;
            }
        }
        if !self.args.no_strace {
            let agreements: Result<Vec<Agreement>> = arms
                .iter()
                .map(|arm| {
                    let began = Instant::now();
                    let programs = needs.programs(arm)?;
                    let counted = strace::count(&self.command(), scenario, arm, &programs);
                    eprintln!(
                        "counted {arm} under strace in {:.0} s",
                        began.elapsed().as_secs_f64()
                    );
                    counted.inspect(|agreement| print!("{}", agreement.table()))
                })
                .collect();
            row.counted(agreements?);
        }
        Ok(row)
    }

    /// Runs the comparison, and keeps recording and page.
    fn compare(&self, scenario: &Scenario, arms: &[String]) -> Result<(Recording, u8)> {
        let folder = self.out.join(&scenario.name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("failed to empty {}", folder.display()))?;
        }
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("failed to make {}", self.out.display()))?;
        let mut compare = self.command().command();
        compare.args(["compare", "--scenario", &scenario.name]);
        compare.args(arms);
        if self.args.full {
            compare.arg("--full");
        } else {
            compare.args(scenario.quick(self.args.check));
        }
        if self.args.as_published {
            compare.arg("--as-published");
        }
        compare.args(["--format", "html", "--out"]).arg(&folder);
        let page = self.out.join(format!("{}.html", scenario.name));
        compare.arg("--output").arg(&page);
        let line = command::describe(&compare);
        eprintln!("$ {line}");
        let status = compare
            .status()
            .with_context(|| format!("failed to run {line}"))?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        let code = code.unwrap_or(exit_code::FAILED);
        let file = folder.join("recording.json");
        let stored = std::fs::read(&file).with_context(|| {
            format!(
                "{} exited with {code} and left no {}",
                scenario.name,
                file.display()
            )
        })?;
        let recording = Recording::parse(&stored)
            .with_context(|| format!("failed to read {}", file.display()))?;
        println!("page: {}", page.display());
        Ok((recording, code))
    }

    fn command(&self) -> Whyfast {
        Whyfast {
            program: self.whyfast.clone(),
            node_path: self.node_path.clone(),
        }
    }
}

/// The program, with what it needs to find.
#[derive(Clone, Debug)]
struct Whyfast {
    program: PathBuf,
    node_path: OsString,
}

impl Whyfast {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("NODE_PATH", &self.node_path)
            .stdin(Stdio::null());
        command
    }
}
