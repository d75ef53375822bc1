//! `whyfast diff`: what differs between two profiles, call by call.

use std::path::Path;

use recording::{Recording, exit_code};
use reports::diff::{Operand, Options, diff as difference};
use reports::{flame, html, markdown, text};

use crate::args::Format;
use crate::args_stored::DiffArgs;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::verbs::stored;

/// Compares two arms of one recording, or one arm of each of two.
pub(crate) fn diff(args: &DiffArgs) -> anyhow::Result<u8> {
    let output = Output::open(args.output.output.as_deref())?;
    let first = stored::read(&args.first)?;
    let second = args.second.as_deref().map(stored::read).transpose()?;
    let (a, b) = match &second {
        None => two_of_one(args, &first)?,
        Some(second) => one_of_each(args, &first, second)?,
    };
    let first_name = args.first.display().to_string();
    let second_name = args.second.as_deref().map(Path::display);
    let second_name = second_name.map_or_else(|| first_name.clone(), |name| name.to_string());
    let options = Options {
        per: args.per.map(Into::into),
        allowed: args.allow_mismatch.clone(),
    };
    let sides = [
        Operand {
            recording: &first,
            arm: &a,
            source: &first_name,
        },
        Operand {
            recording: second.as_ref().unwrap_or(&first),
            arm: &b,
            source: &second_name,
        },
    ];
    let found = difference(sides[0], sides[1], &options)
        .map_err(|error| Failure::with_code(error.exit_code(), error.to_string()))?;
    let style = output::style(&output);
    output.write(&match args.output.format {
        Format::Html => {
            let stacks = flame::Difference::of(sides[0], sides[1], Some(found.per));
            html::diff(&found, stacks.as_ref())
        }
        Format::Json => found.to_json(),
        Format::Markdown => markdown::diff(&found),
        Format::Text => text::diff(&found, &style),
    })?;
    Ok(exit_code::DONE)
}

/// The two arms of a recording that are meant.
fn two_of_one(args: &DiffArgs, recording: &Recording) -> anyhow::Result<(String, String)> {
    let names = names(recording);
    match (args.arm.as_slice(), names.as_slice()) {
        ([a, b], _) => Ok((known(recording, a)?, known(recording, b)?)),
        ([], [a, b]) => Ok((a.clone(), b.clone())),
        ([], [one]) => Err(Failure::usage(format!(
            "{} has one server, {one}; name a second recording to compare it with",
            args.first.display()
        ))),
        _ => Err(Failure::usage(format!(
            "{} has the servers {}; name two: --arm A --arm B",
            args.first.display(),
            names.join(", ")
        ))),
    }
}

/// The arm of each recording that is meant.
fn one_of_each(
    args: &DiffArgs,
    first: &Recording,
    second: &Recording,
) -> anyhow::Result<(String, String)> {
    let (a_names, b_names) = (names(first), names(second));
    let shared: Vec<&String> = a_names
        .iter()
        .filter(|name| b_names.contains(name))
        .collect();
    match (args.arm.as_slice(), a_names.as_slice(), b_names.as_slice()) {
        ([both], _, _) => Ok((known(first, both)?, known(second, both)?)),
        ([a, b], _, _) => Ok((known(first, a)?, known(second, b)?)),
        ([], [a], [b]) => Ok((a.clone(), b.clone())),
        ([], _, _) if shared.len() == 1 => Ok((shared[0].clone(), shared[0].clone())),
        _ => Err(Failure::usage(format!(
            "the recordings have the servers {} and {}; name one of both (--arm NAME), or one of each \
             (--arm A --arm B)",
            a_names.join(", "),
            b_names.join(", ")
        ))),
    }
}

fn known(recording: &Recording, arm: &str) -> anyhow::Result<String> {
    let names = names(recording);
    if names.iter().any(|name| name == arm) {
        return Ok(arm.to_owned());
    }
    Err(Failure::usage(format!(
        "--arm {arm}: no such server; there are {}",
        names.join(", ")
    )))
}

fn names(recording: &Recording) -> Vec<String> {
    recording.arms.iter().map(|arm| arm.name.clone()).collect()
}
