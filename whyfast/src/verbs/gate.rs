//! `whyfast gate`: holds exact counts against a lock file, or takes them over into it.

use std::fs;
use std::io;

use anyhow::Context as _;
use recording::{BudgetCheck, BudgetOutcome, Recording};
use reports::budget::{Lock, bless, check};
use reports::{html, markdown, text};

use crate::args::Format;
use crate::args_stored::GateArgs;
use crate::identity;
use crate::output::{self, Output, note};
use crate::verbs::{render, stored};

/// Checks, prints what was found, and returns the exit code that it deserves.
pub(crate) fn gate(args: &GateArgs) -> anyhow::Result<u8> {
    let output = Output::open(args.output.output.as_deref())?;
    let lock = read_lock(args)?;
    let candidates: Vec<Recording> = args
        .candidates
        .iter()
        .map(|path| stored::read(path))
        .collect::<anyhow::Result<_>>()?;
    let found = if args.bless {
        let (blessed, found) = bless(&lock, &candidates);
        keep(args, &blessed, &found)?;
        found
    } else {
        check(&lock, &candidates)
    };
    let accept = accept(args);
    let style = output::style(&output);
    output.write(&match args.output.format {
        Format::Html => html::budget(&found, &accept),
        Format::Json => found.to_json(),
        Format::Markdown => markdown::budget(&found, &accept),
        Format::Text => text::budget(&found, &accept, &style),
    })?;
    Ok(found.outcome.exit_code())
}

/// The lock file; one that is to be made is empty.
fn read_lock(args: &GateArgs) -> anyhow::Result<Lock> {
    let name = args.lock.display();
    match fs::read_to_string(&args.lock) {
        Ok(text) => Lock::parse(&text).with_context(|| format!("failed to read {name}")),
        Err(error) if args.bless && error.kind() == io::ErrorKind::NotFound => Ok(Lock::default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error)
            .with_context(|| format!("failed to read {name}; make it with `{}`", accept(args))),
        Err(error) => Err(error).with_context(|| format!("failed to read {name}")),
    }
}

/// Writes the lock file, unless the counts cannot be taken over or break a limit.
fn keep(args: &GateArgs, blessed: &Lock, found: &BudgetCheck) -> anyhow::Result<()> {
    let name = args.lock.display();
    if found.outcome != BudgetOutcome::Unchanged {
        note(&format!("{name} was not written"));
        return Ok(());
    }
    output::write_whole(
        &args.lock,
        &blessed.to_string(),
        identity::caller().as_ref(),
    )
    .with_context(|| format!("failed to write {name}"))?;
    note(&format!("wrote {name}"));
    Ok(())
}

/// The command that takes over what was measured.
fn accept(args: &GateArgs) -> String {
    let words = ["whyfast", "gate", "--bless"].map(str::to_owned);
    let files = std::iter::once(&args.lock).chain(&args.candidates);
    let files = files.map(|path| path.display().to_string());
    render::shell_line(&words.into_iter().chain(files).collect::<Vec<_>>())
}
