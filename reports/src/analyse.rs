//! Fills the derived part of a recording (comparisons, gates, verdict) from its rounds.
//!
//! Everything here is a function of the rounds, the arms and the scenario, so running it twice, or
//! on a recording from a file, gives the same.

use recording::{Comparison, Estimate, Gate, GateStatus, Probes, Recording, RecordingKind};

use crate::attribution::{self, BAR_LEVEL};
use crate::findings;
use crate::gates;
use crate::join::join;
use crate::limiter;
use crate::metrics::{
    AA_THROUGHPUT, EQUAL_RATE, Metric, PROBES_THROUGHPUT, equal_rates, good_rounds, paired,
    paired_at_rate, paired_copies, paired_probes, paired_windows,
};
use crate::statistics::bootstrap::median_ratio;
use crate::statistics::fieller::ratio_of_means;
use crate::statistics::rank::{critical_rank_sum, hodges_lehmann};
use crate::statistics::{Ratio, paired_ratio, unpaired_ratio};
use crate::verdict::{LEVEL, verdict};

/// Computes comparisons, gates and verdict of a comparison; those of other recordings stay empty.
///
/// A gate that an earlier analysis marked `allowed` stays allowed: the mark in the recording is
/// the record of that decision.
pub fn analyse(recording: &mut Recording) {
    analyse_allowing(recording, &[]);
}

/// [`analyse`], with gates (by id, `G1`) that shall not refuse.
pub fn analyse_allowing(recording: &mut Recording, allowed: &[String]) {
    if recording.kind != RecordingKind::Compare {
        recording.comparisons.clear();
        recording.gates.clear();
        recording.verdict = None;
        recording.limiters.clear();
        recording.attributions.clear();
        recording.findings.clear();
        return;
    }
    let mut allowed = allowed.to_vec();
    let marked = recording
        .gates
        .iter()
        .filter(|gate| gate.status == GateStatus::Allowed);
    allowed.extend(marked.map(|gate| gate.id.clone()));

    recording.comparisons = comparisons(recording);
    recording.gates = gates::evaluate(recording, &join(recording), &allowed);
    recording.verdict = verdict(recording);
    let refused = |gate: &Gate| gate.status == GateStatus::Refuse;
    recording.limiters = limiter::limiters(recording);
    recording.attributions = if recording.gates.iter().any(refused) {
        Vec::new()
    } else {
        attribution::all(recording)
    };
    recording.findings = findings::find(recording);
}

/// Every metric of every arm against the first one, then the cost of the probes per arm.
fn comparisons(recording: &Recording) -> Vec<Comparison> {
    let Some((first, others)) = recording.arms.split_first() else {
        return Vec::new();
    };
    let mut comparisons = Vec::new();
    for other in others {
        for metric in Metric::ALL {
            let (a, b) = paired(recording, metric, &first.name, &other.name);
            let ratio = paired_ratio(&a, &b, LEVEL);
            comparisons.extend(ratio.map(|ratio| Comparison {
                metric: metric.name().to_owned(),
                others: other_methods(recording, metric, (&first.name, &a), (&other.name, &b)),
                ..comparison(&first.name, &other.name, &ratio, PAIRED)
            }));
        }
    }
    comparisons.extend(at_equal_rates(recording));
    let (own, copy) = paired_copies(recording);
    comparisons.extend(paired_ratio(&own, &copy, LEVEL).map(|ratio| Comparison {
        metric: AA_THROUGHPUT.to_owned(),
        ..comparison(&first.name, &first.name, &ratio, PAIRED)
    }));
    comparisons.extend(
        recording
            .arms
            .iter()
            .filter_map(|arm| probes(recording, &arm.name)),
    );
    comparisons
}

/// Latency and CPU time of every arm against the first one, all asked for the same rate.
fn at_equal_rates(recording: &Recording) -> Vec<Comparison> {
    let Some((first, others)) = recording.arms.split_first() else {
        return Vec::new();
    };
    let mut comparisons = Vec::new();
    for rate_rps in equal_rates(recording) {
        for other in others {
            for metric in [Metric::ServerCpu, Metric::LatencyP50, Metric::LatencyP99] {
                let names = (first.name.as_str(), other.name.as_str());
                let (a, b) = paired_at_rate(recording, metric, rate_rps, names);
                comparisons.extend(paired_ratio(&a, &b, LEVEL).map(|ratio| Comparison {
                    metric: format!("{EQUAL_RATE}{}", metric.name()),
                    rate_rps: Some(rate_rps),
                    ..comparison(&first.name, &other.name, &ratio, PAIRED)
                }));
            }
        }
    }
    comparisons
}

/// The ratio by methods that assume less, as far as so few pairs allow.
fn other_methods(
    recording: &Recording,
    metric: Metric,
    (a_name, a): (&str, &[f64]),
    (b_name, b): (&str, &[f64]),
) -> Vec<Estimate> {
    // Without an interval another ratio is of no use to anybody.
    let estimate = |method: &str, ratio: Option<Ratio>, level: f64| {
        let ratio = ratio.filter(|ratio| ratio.interval.is_some())?;
        Some(Estimate {
            method: method.to_owned(),
            ratio: ratio.ratio,
            interval: ratio.interval,
            level,
        })
    };
    let mut others = Vec::new();
    others.extend(estimate("fieller", ratio_of_means(a, b, LEVEL), LEVEL));
    // Six or seven pairs reach 95 % and not 99 %.
    let level = if critical_rank_sum(a.len(), LEVEL).is_some() {
        LEVEL
    } else {
        BAR_LEVEL
    };
    let ranks = hodges_lehmann(a, b, level);
    others.extend(estimate("hodges-lehmann-wilcoxon", ranks, level));
    if metric == Metric::Throughput {
        let (a, b) = paired_windows(recording, a_name, b_name);
        let medians = median_ratio(&a, &b, LEVEL);
        others.extend(estimate("hierarchical-bootstrap-median", medians, LEVEL));
    }
    others
}

/// Throughput of an arm with probes over without: by pair, or as two samples where rounds with and
/// without probes share no pair.
fn probes(recording: &Recording, arm: &str) -> Option<Comparison> {
    let (on, off) = paired_probes(recording, arm);
    let (ratio, method) = match paired_ratio(&on, &off, LEVEL) {
        Some(ratio) => (ratio, PAIRED),
        None => (unpaired_probes(recording, arm)?, UNPAIRED),
    };
    Some(Comparison {
        metric: PROBES_THROUGHPUT.to_owned(),
        ..comparison(arm, arm, &ratio, method)
    })
}

fn unpaired_probes(recording: &Recording, arm: &str) -> Option<Ratio> {
    let throughput = |probes| -> Vec<f64> {
        good_rounds(recording, arm, probes)
            .filter_map(|round| Metric::Throughput.of(round))
            .collect()
    };
    unpaired_ratio(&throughput(Probes::On), &throughput(Probes::Off), LEVEL)
}

fn comparison(a: &str, b: &str, ratio: &Ratio, method: &str) -> Comparison {
    Comparison {
        metric: String::new(),
        a: a.to_owned(),
        b: b.to_owned(),
        a_value: ratio.a_mean,
        b_value: ratio.b_mean,
        ratio: ratio.ratio,
        interval: ratio.interval,
        level: LEVEL,
        method: method.to_owned(),
        pairs: ratio.pairs,
        rate_rps: None,
        others: Vec::new(),
    }
}

/// Ratio of geometric means over pairs of rounds.
const PAIRED: &str = "paired-log-ratio-t";
/// The same over rounds without a partner.
const UNPAIRED: &str = "unpaired-log-welch";
