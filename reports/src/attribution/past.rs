//! A recording against one of the past: which arms are compared, and what else has changed since.

use recording::{FactWeight, Host, Recording, Warning};

use super::against;
use crate::fingerprint;
use crate::view::fingerprint::listed;

/// Adds an attribution of each arm against the arm of the same name in a past recording, and a warning
/// of what differs between both runs beyond the servers. Returns how many arms there were to compare.
pub fn add_past(recording: &mut Recording, past: &Recording) -> usize {
    let found: Vec<_> = recording
        .arms
        .iter()
        .filter(|arm| past.arms.iter().any(|old| old.name == arm.name))
        .filter_map(|arm| against(recording, &arm.name, past, &arm.name))
        .collect();
    let count = found.len();
    recording.attributions.extend(found);
    let differences = differences(recording, past);
    if count > 0 && !differences.is_empty() {
        recording.warnings.push(Warning {
            code: "past_differs".to_owned(),
            text: format!(
                "the past run differs in more than its servers, and the bars contain that too (then, now): {}",
                differences.join(", ")
            ),
        });
    }
    count
}

/// What has to be equal for a difference to be that of the servers: by their fingerprints, where both
/// runs have one.
fn differences(recording: &Recording, past: &Recording) -> Vec<String> {
    let mut differences = match (&past.fingerprint, &recording.fingerprint) {
        (Some(then), Some(now)) => {
            let mut found = fingerprint::differences(then, now);
            found.retain(|difference| difference.weight != FactWeight::Note);
            Vec::from_iter((!found.is_empty()).then(|| listed(&found)))
        }
        _ => of_hosts(&past.host, &recording.host),
    };
    let scenario = |recording: &Recording| {
        let scenario = recording.scenario.as_ref()?;
        Some(format!(
            "{} with {} connections on CPUs {}",
            scenario.name,
            scenario.connections,
            scenario.server_cpus.as_deref().unwrap_or("any")
        ))
    };
    differences.extend(differing("load", scenario(past), scenario(recording)));
    differences
}

/// What little is known without fingerprints.
fn of_hosts(then: &Host, now: &Host) -> Vec<String> {
    let number = |cpus: u32| Some(cpus.to_string());
    [
        differing(
            "kernel",
            Some(then.kernel.clone()),
            Some(now.kernel.clone()),
        ),
        differing("CPU", then.cpu_model.clone(), now.cpu_model.clone()),
        differing("CPUs", number(then.cpus), number(now.cpus)),
        differing("governor", then.governor.clone(), now.governor.clone()),
        differing(
            "clock source",
            then.clocksource.clone(),
            now.clocksource.clone(),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn differing(what: &str, then: Option<String>, now: Option<String>) -> Option<String> {
    let word = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
    (then != now).then(|| format!("{what} ({}, {})", word(then), word(now)))
}
