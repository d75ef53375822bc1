//! Whether two profiles may be compared: architecture, load, and the gates of a comparison.

use recording::{
    FactWeight, Fingerprint, Gate, Recording, RecordingKind, Round, RoundRole, Scenario,
};

use super::{DiffError, Operand};
use crate::clean::clean;
use crate::fingerprint::{Difference, differences, same_machine};
use crate::gates;
use crate::join::join;
use crate::view::fingerprint::listed;

/// Numbers mean other calls, and calls have other names.
pub(super) fn architectures(a: Operand<'_>, b: Operand<'_>) -> Result<(), DiffError> {
    let (a, b) = (&a.recording.host.arch, &b.recording.host.arch);
    if a == b {
        return Ok(());
    }
    Err(DiffError::Architectures {
        a: clean(a),
        b: clean(b),
    })
}

/// The loads, where both sides had one.
pub(super) fn loads(a: Operand<'_>, b: Operand<'_>) -> Result<(), DiffError> {
    let (Some(one), Some(other)) = (&a.recording.scenario, &b.recording.scenario) else {
        return Ok(());
    };
    let rows = [
        ("scenario", scenario_name(one), scenario_name(other)),
        (
            "protocol",
            format!("{:?}", one.protocol),
            format!("{:?}", other.protocol),
        ),
        ("body bytes", shown(one.body_bytes), shown(other.body_bytes)),
        (
            "connections",
            one.connections.to_string(),
            other.connections.to_string(),
        ),
        (
            "requests per connection",
            shown(one.requests_per_connection),
            shown(other.requests_per_connection),
        ),
        ("way of sending", way(one), way(other)),
    ];
    let differences: Vec<String> = rows
        .iter()
        .filter(|(_, one, other)| one != other)
        .map(|(what, one, other)| format!("{what} ({one}, {other})"))
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    let lock_step = one.lock_step_requests.map_or_else(
        || format!(" -c {}", one.connections),
        |requests| format!(" --lock-step {requests}"),
    );
    Err(DiffError::Loads {
        differences,
        remedy: format!(
            " (the first had `whyfast compare --scenario {}{lock_step}`)",
            scenario_name(one)
        ),
    })
}

fn scenario_name(scenario: &Scenario) -> String {
    clean(&scenario.name)
}

fn shown(value: Option<u64>) -> String {
    value.map_or_else(|| "any".to_owned(), |value| value.to_string())
}

fn way(scenario: &Scenario) -> String {
    match scenario.lock_step_requests {
        Some(_) => "one request at a time",
        None => "many at a time",
    }
    .to_owned()
}

/// The gates of a comparison of both sides, as if they had been measured in one run.
pub(super) fn gates(a: Operand<'_>, b: Operand<'_>, allowed: &[String]) -> Vec<Gate> {
    let joint = joint(a, b);
    gates::evaluate(&joint, &join(&joint), allowed)
}

fn joint(a: Operand<'_>, b: Operand<'_>) -> Recording {
    let second = if a.arm == b.arm {
        format!("{}#2", b.arm)
    } else {
        b.arm.to_owned()
    };
    let arm = |operand: Operand<'_>, name: &str| {
        let mut arms = operand.recording.arms.iter();
        let mut arm = arms.find(|arm| arm.name == operand.arm)?.clone();
        name.clone_into(&mut arm.name);
        Some(arm)
    };
    let rounds = |operand: Operand<'_>, name: &str| -> Vec<Round> {
        let main = |round: &&Round| round.arm == operand.arm && round.role == RoundRole::Main;
        let rounds = operand.recording.rounds.iter().filter(main);
        rounds
            .map(|round| Round {
                arm: name.to_owned(),
                ..round.clone()
            })
            .collect()
    };
    let recording = a.recording;
    let tracers = recording
        .tracers
        .iter()
        .chain(&b.recording.tracers)
        .flatten();
    Recording {
        scenario: recording.scenario.clone(),
        arms: [arm(a, a.arm), arm(b, &second)]
            .into_iter()
            .flatten()
            .collect(),
        rounds: [rounds(a, a.arm), rounds(b, &second)].concat(),
        tracers: (recording.tracers.is_some() && b.recording.tracers.is_some())
            .then(|| tracers.cloned().collect()),
        ..Recording::empty(
            RecordingKind::Compare,
            recording.tool.clone(),
            recording.host.clone(),
        )
    }
}

/// What differs between the machines, so that times of one say nothing about the other: by their
/// fingerprints, where both sides have one.
pub(super) fn machines(a: Operand<'_>, b: Operand<'_>) -> Vec<String> {
    if let Some((one, other)) = fingerprints(a, b) {
        if same_machine(one, other) {
            return Vec::new();
        }
        let mut found = differences(one, other);
        found.retain(makes_another_machine);
        return vec![listed(&found)];
    }
    let (one, other) = (&a.recording.host, &b.recording.host);
    let model = |model: &Option<String>| model.as_deref().map_or("unknown".to_owned(), clean);
    let rows = [
        ("kernel", clean(&one.kernel), clean(&other.kernel)),
        ("CPU", model(&one.cpu_model), model(&other.cpu_model)),
        ("CPUs", one.cpus.to_string(), other.cpus.to_string()),
    ];
    rows.iter()
        .filter(|(_, one, other)| one != other)
        .map(|(what, one, other)| format!("{what} ({one}, {other})"))
        .collect()
}

/// What else differs, of the machines and of the server where it is the same one; `None` where nothing does,
/// or where it is not known.
pub(super) fn circumstances(a: Operand<'_>, b: Operand<'_>) -> Option<String> {
    let (one, other) = fingerprints(a, b)?;
    let mut found = differences(one, other);
    found.retain(|difference| {
        let of_both = |arm: &String| arm == a.arm && arm == b.arm;
        difference.weight != FactWeight::Note
            && !makes_another_machine(difference)
            && difference.arm.as_ref().is_none_or(of_both)
    });
    (!found.is_empty()).then(|| listed(&found))
}

fn makes_another_machine(difference: &Difference) -> bool {
    let of_machine = difference.arm.is_none();
    of_machine && difference.weight == FactWeight::Hard && difference.is_certain()
}

fn fingerprints<'a>(a: Operand<'a>, b: Operand<'a>) -> Option<(&'a Fingerprint, &'a Fingerprint)> {
    let (one, other) = (&a.recording.fingerprint, &b.recording.fingerprint);
    one.as_ref().zip(other.as_ref())
}
