//! The scalar figures of one round, and their pairing over the rounds of two arms.
//!
//! It owns which rounds may be used, and why there is none: a failed round removes its pair from every
//! statistic. It draws no conclusion.

use std::collections::BTreeMap;

use recording::{LatencyHistogram, Probes, Recording, Round, RoundRole};
use serde::Serialize;

use crate::clean::clean;

/// A figure of a round that arms are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Median latency of ok requests, ns.
    LatencyP50,
    /// 99th percentile of the latency of ok requests, ns.
    LatencyP99,
    /// CPU time of the server per completed request, ns.
    ServerCpu,
    /// Ok responses per second of the measured window.
    Throughput,
}

/// The figures of both sides in one pair of rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Pair {
    /// Of the first side.
    pub(crate) a: f64,
    /// Of the second side.
    pub(crate) b: f64,
    /// The rounds that they hang on, by their order: without one of them the pair is not used.
    pub(crate) rounds: Vec<u32>,
}

/// A figure of one side in one pair, and the rounds that it hangs on.
type OneSide = BTreeMap<u32, (f64, Vec<u32>)>;

impl Metric {
    /// Every metric, in the order of the tables.
    pub const ALL: [Self; 4] = [
        Self::Throughput,
        Self::ServerCpu,
        Self::LatencyP50,
        Self::LatencyP99,
    ];

    /// The name in a recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::LatencyP50 => "latency_p50_ns",
            Self::LatencyP99 => "latency_p99_ns",
            Self::ServerCpu => "server_cpu_ns_per_request",
            Self::Throughput => "throughput_rps",
        }
    }

    /// The figure of one round; `None` where it was not measured, or where the round has too few
    /// requests to support a quantile.
    pub fn of(self, round: &Round) -> Option<f64> {
        let load = round.load.as_ref()?;
        match self {
            Self::LatencyP50 => supported_quantile(load.latency.as_ref()?, 0.5),
            Self::LatencyP99 => supported_quantile(load.latency.as_ref()?, 0.99),
            Self::ServerCpu => {
                let requests = requests_under_cpu(round)?;
                Some(round.server_cpu.as_ref()?.total_ns as f64 / requests)
            }
            Self::Throughput => {
                let seconds = load.window.seconds();
                (seconds > 0.0).then(|| load.ledger.ok as f64 / seconds)
            }
        }
    }
}

/// The name under which the cost of the probes is compared: throughput with them over without.
pub const PROBES_THROUGHPUT: &str = "probes_throughput";

/// The name under which the first arm is compared with its copy: the A/A control.
pub const AA_THROUGHPUT: &str = "aa_throughput";

/// What the name of a metric begins with where every arm was asked for the same rate.
pub const EQUAL_RATE: &str = "equal_rate_";

/// A quantile in ns, where at least `10 / (1 - q)` values support it (and ten for the lower half).
pub fn supported_quantile(latency: &LatencyHistogram, quantile: f64) -> Option<f64> {
    if (latency.count as f64) < quantile_support(quantile) {
        return None;
    }
    let histogram = latency.to_hdr().ok()?;
    Some(histogram.value_at_quantile(quantile) as f64)
}

/// Values that a published quantile needs.
pub fn quantile_support(quantile: f64) -> f64 {
    // Rounded: 1 - 0.999 is not exactly a thousandth.
    (10.0 / (1.0 - quantile)).round()
}

/// Whether statistics may use a round.
pub fn is_good(round: &Round) -> bool {
    round.failed.is_none() && round.excluded.is_none()
}

/// Good main rounds of an arm with probes on or off.
pub fn good_rounds<'a>(
    recording: &'a Recording,
    arm: &'a str,
    probes: Probes,
) -> impl Iterator<Item = &'a Round> {
    recording
        .rounds
        .iter()
        .filter(move |round| is_main(round, arm, probes) && is_good(round))
}

/// Why an arm has no good round with probes, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Every round failed.
    Failed(String),
    /// It could not be measured; with the remedy, where there is one.
    NotMeasured(String),
}

/// Why an arm has no good round with probes, as far as the recording says.
pub(crate) fn why_no_probed_round(recording: &Recording, arm: &str) -> Option<Missing> {
    let mut rounds = recording.rounds.iter();
    let failed = rounds.find_map(|round| {
        let of_arm = is_main(round, arm, Probes::On);
        round.failed.as_deref().filter(|_| of_arm)
    });
    if let Some(why) = failed {
        return Some(Missing::Failed(format!(
            "every round failed: {}",
            clean(why)
        )));
    }
    let missing = recording.not_measured.first()?;
    let remedy = missing
        .remedy
        .as_deref()
        .map_or(String::new(), |remedy| format!("; {}", clean(remedy)));
    Some(Missing::NotMeasured(format!(
        "{}{remedy}",
        clean(&missing.why)
    )))
}

/// The figures of two arms, pair by pair: probes off, both rounds good, both figures measured.
pub fn paired(recording: &Recording, metric: Metric, a: &str, b: &str) -> (Vec<f64>, Vec<f64>) {
    split(&main_pairs(recording, metric, a, b))
}

/// The pairs of [`paired`].
pub(crate) fn main_pairs(recording: &Recording, metric: Metric, a: &str, b: &str) -> Vec<Pair> {
    let left = by_pair(recording, metric, a, Probes::Off);
    let right = by_pair(recording, metric, b, Probes::Off);
    match_pairs(&left, &right)
}

/// Throughput of the sub-windows of each round of two arms, in requests per second, for the pairs of
/// [`paired`].
pub(crate) fn paired_windows(
    recording: &Recording,
    a: &str,
    b: &str,
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let of = |arm: &str| -> BTreeMap<u32, Vec<f64>> {
        let good = by_pair(recording, Metric::Throughput, arm, Probes::Off);
        good_rounds(recording, arm, Probes::Off)
            .filter(|round| good.contains_key(&round.pair))
            .filter_map(|round| {
                let slices = round.load.as_ref()?.slices.iter();
                let rates = slices
                    .filter(|slice| slice.window.length_ns() > 0)
                    .map(|slice| slice.ok as f64 / slice.window.seconds());
                Some((round.pair, rates.collect()))
            })
            .collect()
    };
    let (left, mut right) = (of(a), of(b));
    left.into_iter()
        .filter_map(|(pair, a)| Some((a, right.remove(&pair)?)))
        .unzip()
}

/// Throughput of one arm with probes on and off, pair by pair.
pub fn paired_probes(recording: &Recording, arm: &str) -> (Vec<f64>, Vec<f64>) {
    let on = by_pair(recording, Metric::Throughput, arm, Probes::On);
    let off = by_pair(recording, Metric::Throughput, arm, Probes::Off);
    split(&match_pairs(&on, &off))
}

/// Responses that the CPU time of a round was spent on; `None` where it was not read, or where
/// nothing completed.
pub(crate) fn requests_under_cpu(round: &Round) -> Option<f64> {
    let load = round.load.as_ref()?;
    let window = round.server_cpu.as_ref()?.window;
    // By count nothing is in flight at either edge, so the ledger is exact; so it is where both
    // windows are the same. Else the timeline says what completed while CPU time was read.
    let by_count = load.plan.requests.is_some();
    let requests = if by_count || window == load.window || load.timeline.completed.is_empty() {
        load.ledger.ok as f64
    } else {
        load.timeline.completed_in(window)
    };
    (requests > 0.0).then_some(requests)
}

/// Values of main rounds by pair.
fn by_pair(recording: &Recording, metric: Metric, arm: &str, probes: Probes) -> OneSide {
    by_pair_of(recording, metric, |round| is_main(round, arm, probes))
}

/// Values by pair of the rounds that a test holds for. A pair in which one of them failed is left out;
/// of several rounds of one pair the first counts.
fn by_pair_of(recording: &Recording, metric: Metric, test: impl Fn(&Round) -> bool) -> OneSide {
    let mut pairs: BTreeMap<u32, Vec<&Round>> = BTreeMap::new();
    for round in recording.rounds.iter().filter(|round| test(round)) {
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

/// Throughput of the first arm and of its copy, pair by pair.
pub(crate) fn paired_copies(recording: &Recording) -> (Vec<f64>, Vec<f64>) {
    split(&copy_pairs(recording))
}

/// The pairs of [`paired_copies`].
pub(crate) fn copy_pairs(recording: &Recording) -> Vec<Pair> {
    let Some(first) = recording.arms.first() else {
        return Vec::new();
    };
    let own = by_pair(recording, Metric::Throughput, &first.name, Probes::Off);
    let copy = by_pair_of(recording, Metric::Throughput, |round| {
        round.arm == first.name && round.role == RoundRole::Aa
    });
    match_pairs(&own, &copy)
}

/// The rates of the rounds at equal rate, requests per second, rising.
pub(crate) fn equal_rates(recording: &Recording) -> Vec<f64> {
    let mut rates: Vec<f64> = recording
        .rounds
        .iter()
        .filter_map(|round| match round.role {
            RoundRole::EqualRate { rate_rps } => Some(rate_rps),
            _ => None,
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

/// A figure of two arms at the same rate, pair by pair. A round that did not keep the rate says nothing about
/// it, and its pair is left out.
pub(crate) fn paired_at_rate(
    recording: &Recording,
    metric: Metric,
    rate_rps: f64,
    arms: (&str, &str),
) -> (Vec<f64>, Vec<f64>) {
    split(&rate_pairs(recording, metric, rate_rps, arms))
}

/// The pairs of [`paired_at_rate`].
pub(crate) fn rate_pairs(
    recording: &Recording,
    metric: Metric,
    rate_rps: f64,
    (a, b): (&str, &str),
) -> Vec<Pair> {
    let of = |arm: &str| {
        by_pair_of(recording, metric, |round| {
            round.arm == arm && round.role == RoundRole::EqualRate { rate_rps } && keeps_rate(round)
        })
    };
    match_pairs(&of(a), &of(b))
}

/// Whether the client sent as many requests as the rate asked for.
fn keeps_rate(round: &Round) -> bool {
    let load = round.load.as_ref();
    let schedule = load.and_then(|load| load.measures.as_ref()?.schedule.as_ref());
    schedule.is_none_or(|schedule| schedule.share() >= RATE_SHARE)
}

/// Share of the requests that were due which have to be sent.
const RATE_SHARE: f64 = 0.99;

/// Whether a round is one of those that headline, tables and attribution are made from.
pub(crate) fn is_main(round: &Round, arm: &str, probes: Probes) -> bool {
    round.arm == arm && round.probes == probes && round.role == RoundRole::Main
}

fn match_pairs(left: &OneSide, right: &OneSide) -> Vec<Pair> {
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

/// The figures alone, side by side.
fn split(pairs: &[Pair]) -> (Vec<f64>, Vec<f64>) {
    pairs.iter().map(|pair| (pair.a, pair.b)).unzip()
}
