//! What one comparison found of what was injected. Pure: a recording and known costs go in.

use std::collections::{BTreeMap, BTreeSet};

use recording::{Attribution, Bar, GateStatus, Recording};

use super::injection::{Calls, Expected, Injection};
use super::prediction::{self, Removal};

/// What one comparison found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Everything that was expected was found.
    pub(super) accepted: bool,
    /// Injected and found time per request, ns, summed over the injections.
    pub(super) injected_ns: Option<f64>,
    pub(super) found_ns: Option<f64>,
    /// By how much the bars miss the difference that they add up to, as a share of it.
    pub(super) sum_error: f64,
    /// What bars say that nothing was injected into, as a share of what was injected.
    pub(super) leaks: BTreeMap<String, f64>,
    /// Of a prediction: what was measured and what was said before.
    pub(super) removal: Option<Removal>,
    /// What was seen instead, where something else was expected.
    pub(super) seen: Option<String>,
}

/// Judges a comparison of two arms, of which the second has the injections: `costs` is what each of
/// them takes of a request by itself, pair by pair, ns.
pub(super) fn judge(recording: &Recording, expected: &Expected, costs: &[Vec<f64>]) -> Outcome {
    match expected {
        Expected::Predicted { without } => prediction::judge(recording, without),
        Expected::Attributed { injections, calls } => match recording.attributions.first() {
            Some(attribution) => attributed(attribution, injections, *calls, costs),
            None => refused_instead(recording),
        },
        Expected::Limited(expected) => {
            let limiter = recording.limiters.iter().find(|limiter| {
                recording
                    .arms
                    .get(1)
                    .is_some_and(|arm| arm.name == limiter.arm)
            });
            Outcome {
                accepted: limiter.is_some_and(|limiter| expected.contains(&limiter.limit)),
                seen: limiter.map(|limiter| format!("{:?}: {}", limiter.limit, limiter.why)),
                ..Outcome::default()
            }
        }
        Expected::Refused(gates) => {
            let refusing = refusing(recording);
            let refused = refusing.iter().any(|id| gates.contains(&id.as_str()));
            Outcome {
                accepted: refused && recording.attributions.is_empty(),
                seen: Some(format!("refused by {refusing:?}")),
                ..Outcome::default()
            }
        }
    }
}

/// What is said where a gate or a failed round left nothing to judge.
pub(super) fn refused_instead(recording: &Recording) -> Outcome {
    let refusing = refusing(recording);
    let mut failed = recording
        .rounds
        .iter()
        .filter_map(|round| round.failed.clone());
    Outcome {
        seen: failed
            .next_back()
            .or(Some(format!("no attribution, refused by {refusing:?}"))),
        ..Outcome::default()
    }
}

fn refusing(recording: &Recording) -> Vec<String> {
    let gates = recording.gates.iter();
    gates
        .filter(|gate| gate.status == GateStatus::Refuse)
        .map(|gate| gate.id.clone())
        .collect()
}

fn attributed(
    attribution: &Attribution,
    injections: &[Injection],
    calls: Option<Calls>,
    costs: &[Vec<f64>],
) -> Outcome {
    let added = injections
        .iter()
        .map(|injection| injection.calls)
        .sum::<f64>()
        + calls.map_or(0.0, |calls| calls.added);
    let mut outcome = Outcome {
        accepted: calls.is_none_or(|calls| is_as_many(counted(attribution, calls), calls)),
        seen: calls.filter(|_| injections.is_empty()).map(|calls| {
            let found = counted(attribution, calls).unwrap_or(0.0);
            format!(
                "{found:.3} calls per request, {} expected",
                calls.per_request
            )
        }),
        sum_error: attribution.receipt.sum_error.abs(),
        ..Outcome::default()
    };
    let mut own = BTreeSet::new();
    let (mut injected, mut found) = (0.0, 0.0);
    for (injection, cost) in injections.iter().zip(costs) {
        let bars = own_bars(attribution, injection, added);
        let sums = sums(&bars, attribution.pairs as usize);
        let missed: Vec<f64> = sums
            .iter()
            .zip(cost)
            .map(|(sum, cost)| sum - cost)
            .collect();
        // A round that failed has left one of both without a pair.
        outcome.accepted &= sums.len() == cost.len()
            && contains_zero(&missed, &beyond_calibration(attribution, injection, added));
        injected += mean(cost);
        found += mean(&sums);
        own.extend(bars.into_iter().map(|(bar, _)| bar.cause.clone()));
    }
    if !injections.is_empty() {
        outcome.injected_ns = Some(injected);
        outcome.found_ns = Some(found);
        outcome.accepted &= costs.len() == injections.len();
    }
    if calls.is_none() {
        outcome.leaks = leaks(attribution, &own, injected);
    }
    outcome
}

/// The first part of a bar's identifier, without the effect.
fn group(bar: &Bar) -> &str {
    let cause = bar.cause.as_str();
    cause
        .strip_suffix(".count")
        .or(cause.strip_suffix(".unit"))
        .unwrap_or(cause)
}

/// The bars that an injection belongs to, each with the share of it that is its own: entry and exit
/// of the kernel are shared out by calls.
fn own_bars<'a>(
    attribution: &'a Attribution,
    injection: &Injection,
    added_calls: f64,
) -> Vec<(&'a Bar, f64)> {
    let share = |bar: &Bar| match group(bar) {
        "user" if injection.user => Some(1.0),
        "entry_exit" if injection.calls > 0.0 => Some(injection.calls / added_calls),
        own if injection.groups.contains(&own) => Some(1.0),
        own if injection.idle.contains(&own) => Some(1.0),
        _ => None,
    };
    let bars = attribution.bars.iter();
    bars.filter_map(|bar| Some((bar, share(bar)?))).collect()
}

/// What bars add to the CPU time that a request occupies, pair by pair, ns.
fn sums(bars: &[(&Bar, f64)], pairs: usize) -> Vec<f64> {
    let mut sums = vec![0.0; pairs];
    for (bar, share) in bars {
        let by_pair = bar.by_pair_ns.iter().flatten();
        for (sum, ns) in sums.iter_mut().zip(by_pair) {
            *sum += share * ns;
        }
    }
    sums
}

/// What probes cost beyond their calibration, pair by pair, in the share of an injection of the calls
/// that were added, or all of it beside a sleep, ns. It is a bar of its own, since nobody knows whether
/// it lies inside of calls or between them; so it is an uncertainty of bars of calls and of sleep.
fn beyond_calibration(attribution: &Attribution, injection: &Injection, added: f64) -> Vec<f64> {
    let share = if injection.calls > 0.0 {
        injection.calls / added
    } else if !injection.idle.is_empty() {
        // The longer a thread slept, the colder are the caches in which programs see it wake up, before
        // its sleep ends.
        1.0
    } else {
        0.0
    };
    let probes: Vec<(&Bar, f64)> = attribution
        .bars
        .iter()
        .filter(|bar| bar.cause == "probes")
        .map(|bar| (bar, share))
        .collect();
    sums(&probes, attribution.pairs as usize)
}

/// Whether nothing lies in the 95 % interval of the mean by Student's t, or between it and that with
/// the uncertain part added.
fn contains_zero(values: &[f64], uncertain: &[f64]) -> bool {
    let with: Vec<f64> = values.iter().zip(uncertain).map(|(x, y)| x + y).collect();
    let (Some((low, high)), Some((low_with, high_with))) = (interval(values), interval(&with))
    else {
        return false;
    };
    low.min(low_with) <= 0.0 && high.max(high_with) >= 0.0
}

/// The 95 % interval of the mean by Student's t.
pub(super) fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let t = T_95.get(values.len().checked_sub(2)?)?;
    let center = mean(values);
    let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
    let reach = t * (squares / (count - 1.0) / count).sqrt();
    Some((center - reach, center + reach))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Whether the second arm makes the calls of a group as often as it has to, within what a window
/// cuts at its edges.
fn is_as_many(found: Option<f64>, calls: Calls) -> bool {
    found.is_some_and(|count| (count / calls.per_request - 1.0).abs() <= EDGES)
}

/// Calls per request of the second arm in a group.
fn counted(attribution: &Attribution, calls: Calls) -> Option<f64> {
    let own = |bar: &&Bar| group(bar) == calls.group;
    let bars = attribution.bars.iter().filter(own);
    bars.filter_map(|bar| bar.evidence.n_b).reduce(f64::max)
}

/// What the other bars say. Bars about the machine rather than the server are left out: other tasks
/// come and go whatever is injected.
fn leaks(
    attribution: &Attribution,
    own: &BTreeSet<String>,
    injected_ns: f64,
) -> BTreeMap<String, f64> {
    let mut leaks = BTreeMap::new();
    for bar in &attribution.bars {
        let machine = ["idle.other_tasks", "idle.interrupts"].contains(&bar.cause.as_str());
        if !machine && !own.contains(&bar.cause) {
            let ns = bar.by_pair_ns.as_deref().map_or(0.0, mean);
            *leaks.entry(claims(bar).to_owned()).or_default() += ns / injected_ns;
        }
    }
    leaks
}

/// What a bar is a claim about. What probes cost beyond their calibration lies between calls for the
/// most part, where it passes for user code; so both bars together are the claim about user code.
fn claims(bar: &Bar) -> &str {
    match group(bar) {
        "user" | "probes" => "user + probes",
        other => other,
    }
}

/// Requests in flight at the edges of a window, as a share.
const EDGES: f64 = 0.01;

/// 97.5 % points of Student's t with 1, 2, ... degrees of freedom.
const T_95: [f64; 11] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201,
];

#[cfg(test)]
mod tests {
    use recording::{BarKind, Evidence, Receipt};

    use super::super::injection::{GETPPID, OPEN, SLEEP, SPIN};
    use super::*;

    fn bar(cause: &str, by_pair_ns: &[f64]) -> Bar {
        Bar {
            cause: cause.into(),
            kind: BarKind::User,
            title: String::new(),
            // Throughput stretches CPU time; nothing may depend on by how much.
            delta_ns: Some(12_345.0),
            interval_ns: Some((12_344.0, 12_346.0)),
            log_part: None,
            log_share: None,
            log_share_interval: None,
            p_adjusted: None,
            demand_delta_ns: None,
            demand_interval_ns: None,
            by_pair_ns: Some(by_pair_ns.to_vec()),
            distinguishable: None,
            evidence: Evidence::default(),
        }
    }

    fn attribution(bars: Vec<Bar>) -> Attribution {
        Attribution {
            a: "a".into(),
            b: "b".into(),
            baseline_unix_ns: None,
            paired: true,
            pairs: 3,
            a_ns: 10_000.0,
            b_ns: 15_000.0,
            delta_ns: 5_000.0,
            log_ratio: 0.0,
            established: true,
            level: 0.95,
            seed: 0,
            bars,
            receipt: Receipt::default(),
            not_measured: Vec::new(),
        }
    }

    /// A cost in its own bar is found, where the pairs differ by more than what is missing; elsewhere
    /// it is a leak. What varies from pair to pair in both is no doubt about either.
    #[test]
    fn user_time_is_found_in_its_bar() {
        let judged = |user: [f64; 3], control: f64, injected: [f64; 3]| {
            let bars = vec![
                bar("user", &user),
                bar("control.unit", &[control; 3]),
                bar("control.count", &[0.0; 3]),
            ];
            attributed(&attribution(bars), &[SPIN], None, &[injected.to_vec()])
        };
        let good = judged([5000.0, 5060.0, 5090.0], 0.0, [5040.0; 3]);
        assert!(good.accepted);
        assert_eq!(good.injected_ns, Some(5040.0));
        assert!((good.found_ns.unwrap_or(0.0) - 5050.0).abs() < 1e-9);
        // 10 too much in every pair, whatever the pair.
        let steady = judged([5010.0, 5210.0, 5111.0], 0.0, [5000.0, 5200.0, 5100.0]);
        assert!(!steady.accepted);
        let bad = judged([4000.0, 4010.0, 3990.0], 1000.0, [5000.0; 3]);
        assert!(!bad.accepted);
        assert!((bad.leaks["control"] - 0.2).abs() < 1e-12);
    }

    /// Without the server's own times nothing is found.
    #[test]
    fn nothing_is_found_without_a_cost() {
        let bars = vec![bar("user", &[0.0; 3])];
        let outcome = attributed(&attribution(bars), &[SPIN], None, &[]);
        assert!(!outcome.accepted);
    }

    /// Student's t: of 1 to 6 the mean is 3.5 and half the width of the interval 1.963.
    #[test]
    fn the_interval_is_students() {
        let moved = |by: f64| (1..=6).map(|n| f64::from(n) - 3.5 + by).collect::<Vec<_>>();
        let contains = |by| contains_zero(&moved(by), &[0.0; 6]);
        assert!(contains(1.96) && contains(-1.96));
        assert!(!contains(1.97) && !contains(-1.97));
        assert!(!contains_zero(&[0.0], &[0.0]));
    }

    /// What probes cost beyond their calibration is an uncertainty of calls, from none of it to all.
    #[test]
    fn calls_are_uncertain_by_the_error_of_the_calibration() {
        let accepted = |other: f64, probes: f64| {
            let bars = vec![
                bar("other.count", &[other, other + 1.0, other - 1.0]),
                bar("probes", &[probes; 3]),
            ];
            let attribution = attribution(bars);
            attributed(&attribution, &[GETPPID], None, &[vec![1000.0; 3]]).accepted
        };
        assert!(accepted(1000.0, 0.0) && !accepted(1100.0, 0.0));
        assert!(accepted(1100.0, -100.0) && accepted(1100.0, -300.0));
        assert!(!accepted(1100.0, -90.0) && !accepted(1100.0, 100.0));
        let spin = attributed(
            &attribution(vec![
                bar("user", &[5100.0, 5101.0, 5099.0]),
                bar("probes", &[-100.0; 3]),
            ]),
            &[SPIN],
            None,
            &[vec![5000.0; 3]],
        );
        assert!(!spin.accepted, "it adds no calls");
    }

    /// Entry and exit of the kernel are shared out by the calls that each injection adds.
    #[test]
    fn entry_and_exit_are_shared_out() {
        let attribution = attribution(vec![
            bar("user", &[0.0; 3]),
            bar("other.count", &[600.0; 3]),
            bar("open.count", &[900.0; 3]),
            bar("entry_exit", &[1300.0; 3]),
            bar("sleep.count", &[900.0; 3]),
            bar("idle.blocked", &[99_000.0, 98_000.0, 100_000.0]),
        ]);
        let of = |injection: &Injection| sums(&own_bars(&attribution, injection, 13.0), 3);
        assert_eq!(of(&GETPPID), [1600.0; 3]);
        assert_eq!(of(&OPEN), [1200.0; 3]);
        assert_eq!(of(&SLEEP), [99_900.0, 98_900.0, 100_900.0]);
    }

    /// A count is right within a percent, and whatever else it is, it is said.
    #[test]
    fn counts_are_exact_but_for_edges() {
        let with = |count| {
            let mut send = bar("send.count", &[]);
            send.evidence.n_b = Some(count);
            let calls = Calls {
                group: "send",
                per_request: 5.0,
                added: 3.0,
            };
            attributed(&attribution(vec![send]), &[], Some(calls), &[])
        };
        assert!(with(5.02).accepted);
        let fewer = with(4.0);
        assert!(!fewer.accepted);
        let seen = fewer.seen.expect("it says what it saw");
        assert_eq!(seen, "4.000 calls per request, 5 expected");
    }
}
