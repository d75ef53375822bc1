//! What an arm would reach without a cause, by the identity `X = mU/D`: the cause's CPU time is taken
//! out of D, or its idle time is given to the server, and all else is left as it is.
//!
//! It is arithmetic, not a promise: demand depends on load, and without one cause another may limit.

use recording::{Prediction, Recording};

use crate::attribution::{ArmDemand, of_arm};

/// A cause that cannot be taken out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// No arm has it.
    #[error("no arm has a cause or finding called {cause:?}; there are {known}")]
    Unknown {
        /// What was asked for.
        cause: String,
        /// What there is.
        known: String,
    },
    /// Nothing is left without it.
    #[error("{cause} is all that {arm} spends: nothing would be left")]
    Everything {
        /// What was asked for.
        cause: String,
        /// The arm.
        arm: String,
    },
}

/// The throughput of every arm that has the cause, without it. A cause is a part of the CPU time
/// (`user`, `send`, `softirq`), an idle label (`idle.blocked`), or the identifier of a finding.
pub fn without(recording: &Recording, cause: &str) -> Result<Vec<Prediction>, PredictError> {
    let mut known: Vec<String> = Vec::new();
    let mut predictions = Vec::new();
    for arm in &recording.arms {
        let Some(demand) = of_arm(recording, &arm.name) else {
            continue;
        };
        let findings = recording
            .findings
            .iter()
            .filter(|finding| finding.arm == arm.name);
        let costs: Vec<(&str, f64)> = findings
            .filter_map(|finding| Some((finding.id.as_str(), finding.cost_ns_per_request?)))
            .collect();
        let names = demand.terms.keys().chain(demand.idle.keys());
        let names = names.copied().chain(costs.iter().map(|(id, _)| *id));
        for name in names {
            if !known.iter().any(|other| other == name) {
                known.push(name.to_owned());
            }
        }
        // `send.count` and `send.unit` are both the sends of an arm.
        let part = cause.trim_end_matches(".count").trim_end_matches(".unit");
        let finding = costs.iter().find(|(id, _)| *id == cause).map(|(_, ns)| *ns);
        let removed_ns = finding.or_else(|| demand.terms.get(part).copied());
        let removed_idle = demand.idle.get(cause).copied();
        if removed_ns.is_none() && removed_idle.is_none() {
            continue;
        }
        predictions.push(predict(
            &arm.name,
            cause,
            &demand,
            removed_ns,
            removed_idle,
        )?);
    }
    if predictions.is_empty() {
        return Err(PredictError::Unknown {
            cause: cause.to_owned(),
            known: known.join(", "),
        });
    }
    Ok(predictions)
}

fn predict(
    arm: &str,
    cause: &str,
    demand: &ArmDemand,
    removed_ns: Option<f64>,
    removed_idle: Option<f64>,
) -> Result<Prediction, PredictError> {
    let used = demand.demand_ns / (demand.cpus * demand.request_ns);
    let left_ns = demand.demand_ns - removed_ns.unwrap_or(0.0);
    if left_ns <= 0.0 {
        return Err(PredictError::Everything {
            cause: cause.to_owned(),
            arm: arm.to_owned(),
        });
    }
    let idle = removed_idle.filter(|_| removed_ns.is_none());
    let used_then = (used + idle.unwrap_or(0.0)).min(1.0_f64.max(used));
    Ok(Prediction {
        arm: arm.to_owned(),
        without: cause.to_owned(),
        removed_ns,
        removed_idle: idle,
        throughput_rps: 1e9 / demand.request_ns,
        predicted_rps: demand.cpus * used_then / left_ns * 1e9,
    })
}
