//! `cargo xtask selftest`: is the attribution right about costs that are known?
//!
//! The built-in server is given a cost, whose size it measures by itself, and compared with the same
//! server without it. A run is accepted if the bars that the cost belongs to cover it; most runs
//! have to be. The long form has every injection, pairs of them, and comparisons of a server with
//! itself and with one that is three margins slower.

mod comparison;
mod cost;
mod injection;
mod judge;
mod prediction;
mod quota;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use recording::{Probes, VerdictWord, exit_code};

use crate::{command, cpus, tree};
use comparison::Bench;
use injection::{Case, Expected};
use tally::{Row, Table};

/// Checks the attribution against known costs; fails with 3 where it is not right often enough.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Every injection twenty times, ten pairs, and 400 comparisons without a cost: some 2.5 hours.
    #[arg(long)]
    long: bool,
    /// Run a case that fails once more, and let that decide; both are printed. For machines that others
    /// may disturb.
    #[arg(long)]
    again: bool,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Runs of each case, instead of those of the form.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Another build of whyfast than the release build of this tree.
    #[arg(long, value_name = "FILE")]
    whyfast: Option<PathBuf>,
}

/// How often a case runs, and in how many of them it has to be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand {
    runs: u32,
    accepted_from: u32,
}

impl Demand {
    /// The same share of another number of runs.
    fn scaled(self, runs: Option<u32>) -> Self {
        let runs = runs.unwrap_or(self.runs);
        Self {
            runs,
            accepted_from: (runs * self.accepted_from).div_ceil(self.runs),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        command::is_root(),
        "the attribution needs the kernel's counters, so run it as root: sudo -E cargo xtask selftest"
    );
    let began = Instant::now();
    let (server_cpu, client_cpu) = cpus::apart()?;
    ensure!(
        server_cpu != client_cpu,
        "server and client need a CPU each, and this process may use CPU {server_cpu} alone"
    );
    let whyfast = match &args.whyfast {
        Some(path) => path.clone(),
        None => command::release_build(&tree::root())?,
    };
    let window = if args.long { LONG_WINDOW } else { SHORT_WINDOW };
    let bench = Bench::new(whyfast, server_cpu, window)?;
    let wanted = |name: &str| args.only.as_deref().is_none_or(|text| name.contains(text));
    let mut table = Table::default();
    for (case, demand) in cases(args.long) {
        if wanted(&case.name) {
            let demand = demand.scaled(args.runs);
            let row = repeat(&bench, &case, demand)?;
            let again = args.again && !row.passes();
            table.add(row);
            if again {
                eprintln!("{}: again, since it failed", case.name);
                table.add(repeat(&bench, &case, demand)?);
            }
        }
    }
    if args.long {
        for (name, knobs, slower) in [
            ("A/A", "spin-us=40", false),
            ("3 margins", "spin-us=43", true),
        ] {
            if wanted(name) {
                table.add(declare(&bench, name, knobs, slower, args.runs)?);
            }
        }
    }
    println!("{table}");
    println!("{:.0} s", began.elapsed().as_secs_f64());
    Ok(ExitCode::from(if table.passed() {
        exit_code::DONE
    } else {
        exit_code::LIMIT_BROKEN
    }))
}

fn cases(long: bool) -> Vec<(Case, Demand)> {
    let with = |cases: Vec<Case>, demand| cases.into_iter().map(move |case| (case, demand));
    if !long {
        return with(injection::singles(), SHORT)
            .chain(with(prediction::one_of_each(), ONCE))
            .collect();
    }
    with(injection::singles(), LONG)
        .chain(with(injection::changes(), LONG))
        .chain(with(injection::pairs(), PAIRED))
        .chain(with(injection::predictions(), PAIRED))
        .chain(with(prediction::cases(), PAIRED))
        .collect()
}

/// Runs one case as often as demanded, each time on two servers that are warm.
fn repeat(bench: &Bench, case: &Case, demand: Demand) -> Result<Row> {
    let mut row = Row::new(&case.name, demand.runs, demand.accepted_from);
    row.predicts = matches!(case.expected, Expected::Predicted { .. });
    let options = [&["--detail", "sched"], case.options].concat();
    for run in 0..demand.runs {
        let pair = bench.start(case)?;
        let recording = bench.compare(&pair, &options)?;
        let slices = pair.end()?;
        // Without costs nothing that was injected is covered.
        let costs = cost::costs(&recording, &slices, case.injections()).unwrap_or_default();
        let outcome = judge::judge(&recording, &case.expected, &costs);
        let word = if outcome.accepted { "found" } else { "missed" };
        let seen = outcome.seen.clone().unwrap_or_else(|| figures(&outcome));
        eprintln!(
            "{} {} of {}: {word}: {seen}",
            case.name,
            run + 1,
            demand.runs
        );
        row.push(
            outcome,
            matches!(case.expected, Expected::Attributed { .. }),
        );
    }
    Ok(row)
}

fn figures(outcome: &judge::Outcome) -> String {
    match (outcome.injected_ns, outcome.found_ns) {
        (Some(injected), Some(found)) => format!("{injected:.0} ns injected, {found:.0} ns found"),
        _ => "calls counted".to_owned(),
    }
}

/// Compares a server with one that is as fast, or slower by three margins, and counts verdicts with
/// a winner.
fn declare(
    bench: &Bench,
    name: &str,
    knobs: &'static str,
    slower: bool,
    runs: Option<u32>,
) -> Result<Row> {
    let case = Case::new(name, [&["spin-us=40"], &[knobs]], Expected::Limited(&[]));
    let pair = bench.start(&case)?;
    let demand = if slower { SLOWER } else { ALIKE }.scaled(runs);
    let mut row = Row::new(name, demand.runs, demand.accepted_from);
    for run in 0..demand.runs {
        let recording = bench.compare(&pair, &["--no-probes"])?;
        ensure!(
            recording
                .rounds
                .iter()
                .all(|round| round.probes == Probes::Off),
            "a comparison without probes had some"
        );
        let verdict = recording.verdict.as_ref();
        let winner = verdict
            .filter(|verdict| verdict.word == VerdictWord::Faster)
            .and_then(|verdict| verdict.winner.clone());
        let accepted = if slower {
            winner.as_deref() == Some("a")
        } else {
            winner.is_none()
        };
        let text = verdict.map_or("no verdict", |verdict| verdict.text.as_str());
        eprintln!("{name} {} of {}: {text}", run + 1, demand.runs);
        let outcome = judge::Outcome {
            accepted,
            ..judge::Outcome::default()
        };
        row.push(outcome, false);
    }
    Ok(row)
}

/// Rounds of the short form, which has to end within eight minutes, and of the long one.
const SHORT_WINDOW: &str = "300ms";
const LONG_WINDOW: &str = "500ms";

/// Of intervals at 95 % each run covers with that chance; fewer than 16 of 20 (6 of 8) are rarer than
/// one in a hundred.
const SHORT: Demand = Demand {
    runs: 8,
    accepted_from: 6,
};
const LONG: Demand = Demand {
    runs: 20,
    accepted_from: 16,
};
const PAIRED: Demand = Demand {
    runs: 8,
    accepted_from: 6,
};
/// A prediction is judged by the interval of its comparison.
const ONCE: Demand = Demand {
    runs: 1,
    accepted_from: 1,
};

/// At most five winners where there is none, and a difference of three margins nearly always.
const ALIKE: Demand = Demand {
    runs: 200,
    accepted_from: 195,
};
const SLOWER: Demand = Demand {
    runs: 200,
    accepted_from: 180,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Fewer runs keep the share that has to be accepted, rounded against the attribution.
    #[test]
    fn demands_keep_their_share() {
        let scaled = LONG.scaled(Some(8));
        assert_eq!((scaled.runs, scaled.accepted_from), (8, 7));
        assert_eq!(SHORT.scaled(None), SHORT);
    }

    /// The short form has four cases and a prediction of each cause, the long one all of them, ten pairs and
    /// five predictions.
    #[test]
    fn forms_have_their_cases() {
        assert_eq!(cases(false).len(), 4 + 3);
        assert_eq!(cases(true).len(), 4 + injection::changes().len() + 10 + 5);
    }
}
