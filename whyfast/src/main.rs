//! The binary people run: parses the command line, calls the verb, prints errors, exits.

mod args;
mod args_http;
mod args_profile;
mod args_scenario;
mod args_shape;
mod args_stored;
mod capabilities;
mod compare;
mod failure;
mod fingerprint;
mod guard;
mod half;
mod identity;
mod launch;
mod live;
mod machine;
mod machine_cpu;
mod output;
mod process_tree;
mod requests;
mod serve;
mod signals;
mod spawn;
mod verbs;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use recording::exit_code;

use crate::args::{Cli, Verb};

fn main() -> ExitCode {
    name_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() {
                exit_code::USAGE
            } else {
                exit_code::DONE
            };
            // Help that nobody reads any more is no error.
            drop(error.print());
            return code.into();
        }
    };
    match run(cli.verb) {
        Ok(code) => code.into(),
        Err(error) if failure::is_broken_pipe(&error) => exit_code::DONE.into(),
        Err(error) => {
            // Line breaks are ours (a list of choices), everything else is cleaned.
            let text = format!("error: {error:#}");
            let lines: Vec<String> = text.lines().map(reports::clean).collect();
            output::note(&lines.join("\n"));
            failure::exit_code_of(&error).into()
        }
    }
}

fn run(verb: Verb) -> anyhow::Result<u8> {
    capabilities::narrow(&verb)?;
    match verb {
        Verb::Compare(args) => compare::compare(&args),
        Verb::Profile(args) => verbs::profile::profile(&args),
        Verb::Load(args) => verbs::load::load(&args),
        Verb::Testserver(args) => verbs::testserver::testserver(&args),
        Verb::Report(args) => verbs::report::report(&args),
        Verb::Diff(args) => verbs::diff::diff(&args),
        Verb::Gate(args) => verbs::gate::gate(&args),
        Verb::Autopsy(args) => verbs::autopsy::autopsy(&args),
        Verb::Doctor(args) => verbs::doctor::doctor(&args),
        Verb::List(args) => verbs::list::list(&args),
        Verb::Man { verb } => {
            let mut page = Vec::new();
            clap_mangen::Man::new(described(verb.as_deref())?).render(&mut page)?;
            output::Output::Stdout.write(&String::from_utf8_lossy(&page))?;
            Ok(exit_code::DONE)
        }
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "whyfast", &mut script);
            output::Output::Stdout.write(&String::from_utf8_lossy(&script))?;
            Ok(exit_code::DONE)
        }
        Verb::Guard => guard::run().map(|()| exit_code::DONE),
        Verb::Probe(args) => verbs::probe::probe(&args),
        Verb::Tracers(args) => verbs::tracers::tracers(&args),
    }
}

/// What a manual page is about.
fn described(verb: Option<&str>) -> anyhow::Result<clap::Command> {
    let mut all = Cli::command();
    all.build();
    let Some(verb) = verb else { return Ok(all) };
    let known = all
        .find_subcommand(verb)
        .filter(|found| !found.is_hide_set());
    match known {
        Some(found) => Ok(found.clone()),
        None => Err(failure::Failure::usage(format!(
            "man {verb}: no such verb; `whyfast --help` lists them"
        ))),
    }
}

/// A program that was executed through a descriptor is called after the descriptor's number.
fn name_process() {
    drop::<io::Result<()>>(rustix::thread::set_name(c"whyfast").map_err(io::Error::from));
}
