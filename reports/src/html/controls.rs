//! What the script needs to compute the verdict again: the figures of each pair of rounds, the values of
//! Student's t, and what of the verdict does not depend on the rounds.
//!
//! The script repeats the arithmetic of `statistics::paired_ratio` and the rules of `verdict`; it never
//! measures or corrects anything. The t values come from here, so both use the same ones.

use std::collections::BTreeMap;

use recording::{GateStatus, Probes, Recording, Round, RoundRole};
use serde::Serialize;

use super::verdict::LEVELS;
use crate::clean::clean;
use crate::metrics::{EQUAL_RATE, Metric, equal_rates, is_good, is_main};
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

/// The figures of both in one pair of rounds.
#[derive(Serialize)]
struct Pair {
    a: f64,
    b: f64,
    /// The rounds, by their order: without one of them the pair is not used.
    rounds: Vec<u32>,
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
    let throughput = Metric::Throughput;
    let own = by_pair(recording, throughput, |r| {
        is_main(r, &first.name, Probes::Off)
    });
    let copy = by_pair(recording, throughput, |r| {
        r.arm == first.name && r.role == RoundRole::Aa
    });
    let aa = matched(&own, &copy);
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
        let belongs = |round: &Round, arm: &str| match rate_rps {
            None => is_main(round, arm, Probes::Off),
            Some(rate_rps) => round.arm == arm && round.role == RoundRole::EqualRate { rate_rps },
        };
        let left = by_pair(recording, metric, |round| belongs(round, a));
        let right = by_pair(recording, metric, |round| belongs(round, b));
        let prefix = rate_rps.map_or("", |_| EQUAL_RATE);
        let metric_name = format!("{prefix}{}", metric.name());
        Compared {
            name: plain_name(&metric_name),
            opposes: rate_rps.is_some() || metric == Metric::ServerCpu,
            metric: metric_name,
            rate_rps,
            pairs: matched(&left, &right),
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

/// A figure by pair, with the rounds that it hangs on: as in `metrics`, a pair in which one of them
/// failed is left out, and of several the first counts.
fn by_pair(
    recording: &Recording,
    metric: Metric,
    belongs: impl Fn(&Round) -> bool,
) -> BTreeMap<u32, (f64, Vec<u32>)> {
    let mut pairs: BTreeMap<u32, Vec<&Round>> = BTreeMap::new();
    for round in recording.rounds.iter().filter(|round| belongs(round)) {
        pairs.entry(round.pair).or_default().push(round);
    }
    pairs
        .into_iter()
        .filter(|(_, rounds)| rounds.iter().all(|round| is_good(round)))
        .filter_map(|(pair, rounds)| {
            let value = rounds.iter().find_map(|round| metric.of(round))?;
            let orders = rounds.iter().map(|round| round.order).collect();
            Some((pair, (value, orders)))
        })
        .collect()
}

fn matched(
    left: &BTreeMap<u32, (f64, Vec<u32>)>,
    right: &BTreeMap<u32, (f64, Vec<u32>)>,
) -> Vec<Pair> {
    left.iter()
        .filter_map(|(pair, (a, rounds))| {
            let (b, others) = right.get(pair)?;
            Some(Pair {
                a: *a,
                b: *b,
                rounds: rounds.iter().chain(others).copied().collect(),
            })
        })
        .collect()
}
