//! Why one arm is faster than another: the difference of their times per request as bars that add
//! up to it by construction.
//!
//! It owns the bars, their intervals and the receipt; how they are printed is the view's. A gate that
//! refuses leaves no attribution, since there is nothing that could be explained.

mod bars;
mod groups;
mod identity;
mod names;
mod past;
mod side;

pub use groups::CallGroup;
pub use past::add_past;

use std::collections::BTreeMap;

use recording::{Attribution, NotMeasured, Probes, Profile, Recording, Round};

use crate::gates::cpu_count;
use crate::metrics::{Metric, good_rounds, paired};
use crate::statistics::bootstrap::ROUNDS_FOR_RESAMPLING;
use crate::statistics::{paired_ratio, unpaired_ratio};
use crate::verdict::LEVEL;
use side::{Cost, Depth, Side, depth};

/// Level of the intervals of bars: detail, where the headline has 99 %.
pub const BAR_LEVEL: f64 = 0.95;

/// Why arm `b` needs another time per request than the reference `a` of the same recording; `None`
/// without a pair of good rounds whose throughput and CPU time are known.
pub fn attribute(recording: &Recording, a: &str, b: &str) -> Option<Attribution> {
    let (left, right) = (Rounds::of(recording, a), Rounds::of(recording, b));
    let common = left.common_pairs(&right);
    let depth = left.depth(&common).min(right.depth(&common));
    let cost = Cost::of(&left.profiles().chain(right.profiles()).collect::<Vec<_>>());
    let side = |rounds: &Rounds<'_>, pair| rounds.side(pair, depth, &cost);
    let sides: Vec<(Side, Side)> = common
        .iter()
        .filter_map(|pair| side(&left, *pair).zip(side(&right, *pair)))
        .collect();
    let (x_a, x_b) = paired(recording, Metric::Throughput, a, b);
    let interval = paired_ratio(&x_a, &x_b, LEVEL).and_then(|ratio| ratio.interval);
    let mut attribution = bars::paired(&sides, depth)?;
    a.clone_into(&mut attribution.a);
    b.clone_into(&mut attribution.b);
    finish(&mut attribution, interval, depth, &[&left, &right]);
    Some(attribution)
}

/// Why an arm needs another time per request than one of a past recording, which is the reference.
/// Their rounds form no pairs, so whatever changed in between on the machine is in the bars too.
pub fn against(
    recording: &Recording,
    arm: &str,
    past: &Recording,
    past_arm: &str,
) -> Option<Attribution> {
    let (left, right) = (Rounds::of(past, past_arm), Rounds::of(recording, arm));
    let (pairs_a, pairs_b) = (left.common_pairs(&left), right.common_pairs(&right));
    let depth = left.depth(&pairs_a).min(right.depth(&pairs_b));
    let (sides_a, sides_b) = (left.sides(&pairs_a, depth), right.sides(&pairs_b, depth));
    let speeds =
        |sides: &[Side]| -> Vec<f64> { sides.iter().map(|s| 1e9 / s.request_ns).collect() };
    let interval = unpaired_ratio(&speeds(&sides_a), &speeds(&sides_b), LEVEL)
        .and_then(|ratio| ratio.interval);
    let mut attribution = bars::unpaired(&sides_a, &sides_b, depth)?;
    past_arm.clone_into(&mut attribution.a);
    arm.clone_into(&mut attribution.b);
    attribution.baseline_unix_ns = Some(past.created_unix_ns);
    finish(&mut attribution, interval, depth, &[&left, &right]);
    Some(attribution)
}

/// Every other arm against the first one.
pub(crate) fn all(recording: &Recording) -> Vec<Attribution> {
    let Some((first, others)) = recording.arms.split_first() else {
        return Vec::new();
    };
    others
        .iter()
        .filter_map(|other| attribute(recording, &first.name, &other.name))
        .collect()
}

/// The mean CPU time per request of an arm's terms, and its idle shares, for predictions: the bars
/// of the arm alone.
pub(crate) fn of_arm(recording: &Recording, arm: &str) -> Option<ArmDemand> {
    let rounds = Rounds::of(recording, arm);
    let pairs = rounds.common_pairs(&rounds);
    let depth = rounds.depth(&pairs);
    bars::arm_demand(&rounds.sides(&pairs, depth))
}

/// What one arm spends, averaged over its rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArmDemand {
    pub(crate) request_ns: f64,
    pub(crate) demand_ns: f64,
    pub(crate) cpus: f64,
    /// CPU time per request by the identifier of its cause, without `.count` and `.unit`.
    pub(crate) terms: BTreeMap<&'static str, f64>,
    /// The same by the words that reports use.
    pub(crate) titled: BTreeMap<&'static str, f64>,
    /// Shares of the CPUs' time by the identifier of the cause.
    pub(crate) idle: BTreeMap<&'static str, f64>,
}

/// Good main rounds of one arm by pair.
struct Rounds<'a> {
    off: BTreeMap<u32, &'a Round>,
    on: BTreeMap<u32, &'a Round>,
    cpus: f64,
}

impl<'a> Rounds<'a> {
    fn of(recording: &'a Recording, arm: &'a str) -> Self {
        let by_pair = |probes| {
            let mut rounds = BTreeMap::new();
            for round in good_rounds(recording, arm, probes) {
                rounds.entry(round.pair).or_insert(round);
            }
            rounds
        };
        let pinned = recording.scenario.as_ref();
        let pinned = pinned.and_then(|scenario| cpu_count(scenario.server_cpus.as_deref()?));
        Self {
            off: by_pair(Probes::Off),
            on: by_pair(Probes::On),
            cpus: f64::from(pinned.unwrap_or(recording.host.cpus).max(1)),
        }
    }

    /// Pairs in which both arms have a round without probes; where some have one with probes as
    /// well, those.
    fn common_pairs(&self, other: &Self) -> Vec<u32> {
        let both = |pair: &u32| other.off.contains_key(pair);
        let off: Vec<u32> = self.off.keys().copied().filter(both).collect();
        let probed = |pair: &u32| self.on.contains_key(pair) && other.on.contains_key(pair);
        let on: Vec<u32> = off.iter().copied().filter(probed).collect();
        if on.is_empty() { off } else { on }
    }

    fn depth(&self, pairs: &[u32]) -> Depth {
        let depths = pairs.iter().map(|pair| depth(self.on.get(pair).copied()));
        depths.min().unwrap_or(Depth::Whole)
    }

    fn profiles(&self) -> impl Iterator<Item = &'a Profile> {
        self.on.values().filter_map(|round| round.profile.as_ref())
    }

    /// The sides of an arm by itself.
    fn sides(&self, pairs: &[u32], depth: Depth) -> Vec<Side> {
        let cost = Cost::of(&self.profiles().collect::<Vec<_>>());
        let sides = pairs
            .iter()
            .filter_map(|pair| self.side(*pair, depth, &cost));
        sides.collect()
    }

    fn side(&self, pair: u32, depth: Depth, cost: &Cost) -> Option<Side> {
        let off = self.off.get(&pair)?;
        Side::of(off, self.on.get(&pair).copied(), depth, self.cpus, cost)
    }
}

/// What depends on the rounds beyond the bars: whether the ratio is established, and what is missing.
fn finish(
    attribution: &mut Attribution,
    interval: Option<(f64, f64)>,
    depth: Depth,
    rounds: &[&Rounds<'_>],
) {
    attribution.established = interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
    if !attribution.established {
        for bar in &mut attribution.bars {
            bar.log_share = None;
            bar.log_share_interval = None;
        }
    }
    attribution.not_measured = missing(attribution, depth, rounds);
}

fn missing(attribution: &Attribution, depth: Depth, rounds: &[&Rounds<'_>]) -> Vec<NotMeasured> {
    let mut missing = Vec::new();
    let mut add = |what: &str, why: &str, remedy: Option<&str>| {
        missing.push(NotMeasured {
            what: what.to_owned(),
            why: why.to_owned(),
            remedy: remedy.map(str::to_owned),
        });
    };
    let probed = |rounds: &&&Rounds<'_>| !rounds.on.is_empty();
    match depth {
        Depth::Whole if rounds.iter().filter(probed).count() < rounds.len() => add(
            "what CPU time was spent on, and why CPUs were idle",
            "no good round with probes",
            Some("run as root (sudo)"),
        ),
        Depth::Whole => add(
            "CPU time of calls, of user code and of interrupts, and why CPUs were idle",
            "calls were counted, not timed",
            Some("--detail sched"),
        ),
        Depth::Times => add(
            "CPU time of user code, faults and interrupts, of calls that sleep, and why CPUs were idle",
            "calls were timed by the wall clock",
            Some("--detail sched"),
        ),
        Depth::Sched => {}
    }
    let profiles = || rounds.iter().flat_map(|rounds| rounds.profiles());
    if depth > Depth::Whole && profiles().any(|profile| profile.cost.calibration.is_none()) {
        add(
            "entry and exit of the kernel, and the cost of the probes",
            "not calibrated in every round; both are in the other bars",
            None,
        );
    }
    let faults = |profile: &Profile| {
        let threads = profile.threads.as_ref();
        threads.is_none_or(|threads| threads.page_fault_ns_estimate.is_none())
    };
    if depth == Depth::Sched && profiles().any(faults) {
        add(
            "page faults",
            "their cost could not be calibrated; it is in user code",
            None,
        );
    }
    if (attribution.pairs as usize) < ROUNDS_FOR_RESAMPLING {
        let why = format!("fewer than {ROUNDS_FOR_RESAMPLING} pairs of rounds");
        add("intervals of the bars", &why, Some("--pairs 10"));
    }
    missing
}
