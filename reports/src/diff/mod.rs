//! The difference between two profiles in system calls: of two servers, versions or days.
//!
//! Both sides are divided by the same thing, which is named. What cannot be compared is refused with
//! what would make it so. `side` is one side, `compared` the arithmetic between two, `parity` whether
//! they may be compared at all.

mod compared;
mod parity;
mod side;

use recording::{DIFF_SCHEMA, Denominator, Gate, GateStatus, Recording, SyscallDiff, exit_code};

use crate::clean::clean;
use crate::flame::Difference;
use side::{Divided, Side};

/// One side as it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Name of the arm.
    pub arm: &'a str,
    /// Where the recording comes from, for people.
    pub source: &'a str,
}

/// What may be chosen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What to divide by; by default requests, where both sides have them, else seconds.
    pub per: Option<Denominator>,
    /// Mismatches that shall not refuse: gates (`G1`) or `scenario`.
    pub allowed: Vec<String>,
}

/// Two profiles that cannot be compared.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DiffError {
    /// A gate refuses, or several.
    #[error("not comparable: {}", refusals(.0))]
    Gates(Vec<Gate>),
    /// One side has no counts.
    #[error("{source_name}: {arm} has no counts of system calls: {why}")]
    NoCounts {
        /// The file.
        source_name: String,
        /// The arm.
        arm: String,
        /// Why, and what to do.
        why: String,
    },
    /// One side cannot be divided by what was asked for.
    #[error("{source_name}: {arm} cannot be given per {per}: {why}")]
    NoUnits {
        /// The file.
        source_name: String,
        /// The arm.
        arm: String,
        /// The denominator.
        per: &'static str,
        /// Why, and what to do.
        why: &'static str,
    },
    /// The machines have other system calls.
    #[error(
        "not comparable: {a} and {b} have different system calls; measure both on one architecture"
    )]
    Architectures {
        /// Of the first side.
        a: String,
        /// Of the second side.
        b: String,
    },
    /// The loads differ.
    #[error(
        "not comparable: the loads differ in {}; measure both under the same load{remedy}, or compare \
         them all the same with --allow-mismatch scenario",
        .differences.join(", ")
    )]
    Loads {
        /// What differs, with both values.
        differences: Vec<String>,
        /// How, as a part of the sentence.
        remedy: String,
    },
}

impl DiffError {
    /// The exit code that it deserves.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoCounts { .. } => exit_code::CANNOT_MEASURE,
            _ => exit_code::NOT_COMPARABLE,
        }
    }
}

/// The difference from `a` to `b`.
pub fn diff(a: Operand<'_>, b: Operand<'_>, options: &Options) -> Result<SyscallDiff, DiffError> {
    parity::architectures(a, b)?;
    let (one, other) = (Side::of(a)?, Side::of(b)?);
    let allowed = |what: &str| {
        options
            .allowed
            .iter()
            .any(|id| id.eq_ignore_ascii_case(what))
    };
    parity::loads(a, b).or_else(|error| {
        if allowed("scenario") {
            Ok(())
        } else {
            Err(error)
        }
    })?;
    let per = options.per.unwrap_or_else(|| {
        let counted = |side: &Side<'_>| side.units(Denominator::Request).is_some();
        if counted(&one) && counted(&other) {
            Denominator::Request
        } else {
            Denominator::Second
        }
    });
    let gates = parity::gates(a, b, &options.allowed);
    let refusing = |gate: &Gate| gate.status == GateStatus::Refuse;
    if gates.iter().any(refusing) {
        return Err(DiffError::Gates(
            gates.into_iter().filter(refusing).collect(),
        ));
    }
    let machines = parity::machines(a, b);
    let (one, other) = (one.divided(per)?, other.divided(per)?);
    let compared = compared::Compared::of(&one, &other, machines.is_empty());
    let mut notes = compared.notes(per);
    let counter = |side: &Divided<'_>| {
        let counter = side.counter()?;
        Some(format!(
            "requests of {}: {counter}",
            clean(side.operand.source)
        ))
    };
    notes.extend([&one, &other].into_iter().filter_map(counter));
    if !machines.is_empty() {
        notes.push(format!(
            "times are left out, because the machines differ: {}",
            machines.join(", ")
        ));
    }
    notes.extend(
        parity::circumstances(a, b).map(|what| format!("the two measurements differ in {what}")),
    );
    // Times of one machine say nothing about another.
    let stacks = Some(()).filter(|()| machines.is_empty());
    let stacks = stacks.and_then(|()| Difference::of(a, b, Some(per)));
    Ok(SyscallDiff {
        schema: DIFF_SCHEMA.to_owned(),
        per,
        exact: compared.exact,
        times: compared.times,
        a: compared.side(&one),
        b: compared.side(&other),
        families: compared.families,
        gates: gates
            .into_iter()
            .filter(|gate| matches!(gate.status, GateStatus::Warn | GateStatus::Allowed))
            .collect(),
        notes,
        functions: stacks.map_or_else(Vec::new, |stacks| stacks.functions()),
    })
}

/// The word for a denominator.
pub(crate) fn word(per: Denominator) -> &'static str {
    match per {
        Denominator::Connection => "connection",
        Denominator::Request => "request",
        Denominator::Second => "second",
    }
}

fn refusals(gates: &[Gate]) -> String {
    let texts = gates.iter().map(|gate| {
        format!(
            "{} {}: {}; {} (--allow-mismatch {} compares all the same)",
            clean(&gate.id),
            clean(&gate.title),
            clean(&gate.value),
            clean(&gate.fix),
            clean(&gate.id)
        )
    });
    texts.collect::<Vec<_>>().join("; ")
}
