//! What the script needs to compute the verdict again: the figures of each pair of rounds, the values of
//! Student's t, and what of the verdict does not depend on the rounds.
//!
//! The script repeats the arithmetic of `statistics::paired_ratio` and the rules of `verdict`; it never
//! measures or corrects anything. The t values come from here, so both use the same ones.

use std::collections::BTreeMap;

use recording::{GateStatus, Recording};
use serde::Serialize;

use super::verdict::LEVELS;
use crate::clean::clean;
use crate::metrics::{EQUAL_RATE, Metric, Pair, copy_pairs, equal_rates, main_pairs, rate_pairs};
use crate::statistics::t_quantile;
use crate::verdict::{pair_verdicts, plain_name};

/// Everything for the script.
#[derive(Serialize)]
pub(super) struct Controls {
    /// The margin that was asked for, as a fraction.
    margin: f64,
    /// What refused, where something did.
    refused: Option<String>,
    /// Two-sided values of t by level, from one degree of freedom on.
    t: BTreeMap<String, Vec<f64>>,
    /// The first arm and its copy.
    aa: Vec<Pair>,
    /// Every other arm against the first.
    arms: Vec<Against>,
}

/// One arm against the first.
#[derive(Serialize)]
struct Against {
    a: String,
    b: String,
    /// The metric that is judged: CPU time per request where the client was the limiter.
    judged: String,
    metrics: Vec<Compared>,
}

/// A metric of two arms.
#[derive(Serialize)]
struct Compared {
    metric: String,
    /// In words.
    name: &'static str,
    /// Whether less of it is better, and it can contradict a verdict.
    opposes: bool,
    /// Requests per second that both were asked for.
    rate_rps: Option<f64>,
    pairs: Vec<Pair>,
}

/// What the script of a comparison needs; `None` where there is no verdict on speed.
pub(super) fn controls(recording: &Recording) -> Option<Controls> {
    let verdict = recording.verdict.as_ref()?;
    let (first, others) = recording.arms.split_first()?;
    if recording.scenario.as_ref()?.lock_step_requests.is_some() {
        return None;
    }
    let refuses = |gate: &recording::Gate| gate.status == GateStatus::Refuse;
    let judged = pair_verdicts(recording);
    let arms: Vec<Against> = others
        .iter()
        .zip(&judged)
        .map(|(other, verdict)| Against {
            a: clean(&first.name),
            b: clean(&other.name),
            judged: verdict.metric.name().to_owned(),
            metrics: metrics(recording, &first.name, &other.name),
        })
        .collect();
    let aa = copy_pairs(recording);
    let metrics = arms.iter().flat_map(|arm| &arm.metrics);
    let most = metrics.map(|metric| metric.pairs.len()).max().unwrap_or(0);
    Some(Controls {
        margin: recording.scenario.as_ref()?.margin,
        refused: recording
            .gates
            .iter()
            .any(refuses)
            .then(|| clean(&verdict.text)),
        t: critical_values(most.max(aa.len())),
        aa,
        arms,
    })
}

fn critical_values(pairs: usize) -> BTreeMap<String, Vec<f64>> {
    LEVELS
        .into_iter()
        .map(|level| {
            let freedoms = std::iter::successors(Some(1.0), |freedom| Some(freedom + 1.0));
            let probability = f64::midpoint(1.0, level);
            let values = freedoms
                .take(pairs.saturating_sub(1))
                .map(|freedom| t_quantile(probability, freedom));
            (level.to_string(), values.collect())
        })
        .collect()
}

fn metrics(recording: &Recording, a: &str, b: &str) -> Vec<Compared> {
    let compared = |metric: Metric, rate_rps: Option<f64>| {
        let pairs = match rate_rps {
            None => main_pairs(recording, metric, a, b),
            Some(rate_rps) => rate_pairs(recording, metric, rate_rps, (a, b)),
        };
        let prefix = rate_rps.map_or("", |_| EQUAL_RATE);
        let metric_name = format!("{prefix}{}", metric.name());
        Compared {
            name: plain_name(&metric_name),
            opposes: rate_rps.is_some() || metric == Metric::ServerCpu,
            metric: metric_name,
            rate_rps,
            pairs,
        }
    };
    let mut found: Vec<Compared> = Metric::ALL.map(|metric| compared(metric, None)).into();
    for rate_rps in equal_rates(recording) {
        for metric in [Metric::ServerCpu, Metric::LatencyP50, Metric::LatencyP99] {
            found.push(compared(metric, Some(rate_rps)));
        }
    }
    found.retain(|compared| !compared.pairs.is_empty());
    found
}
