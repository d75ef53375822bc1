//! A recording against one of the past: which arms are compared, and what else has changed since.

use recording::{Recording, Warning};

use super::against;

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
                "the past run differs in more than its servers, and the bars contain that too: {}",
                differences.join(", ")
            ),
        });
    }
    count
}

/// What has to be equal for a difference to be that of the servers.
fn differences(recording: &Recording, past: &Recording) -> Vec<String> {
    let (now, then) = (&recording.host, &past.host);
    let mut differences = Vec::new();
    let mut differ = |what: &str, then: Option<String>, now: Option<String>| {
        if then != now {
            let word = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            differences.push(format!("{what} {}|{}", word(then), word(now)));
        }
    };
    differ(
        "kernel",
        Some(then.kernel.clone()),
        Some(now.kernel.clone()),
    );
    differ("CPU", then.cpu_model.clone(), now.cpu_model.clone());
    differ(
        "CPUs",
        Some(then.cpus.to_string()),
        Some(now.cpus.to_string()),
    );
    differ("governor", then.governor.clone(), now.governor.clone());
    differ(
        "clock source",
        then.clocksource.clone(),
        now.clocksource.clone(),
    );
    let scenario = |recording: &Recording| {
        let scenario = recording.scenario.as_ref()?;
        Some(format!(
            "{} with {} connections on CPUs {}",
            scenario.name,
            scenario.connections,
            scenario.server_cpus.as_deref().unwrap_or("any")
        ))
    };
    differ("load", scenario(past), scenario(recording));
    differences
}
