//! What one comparison found of what was injected. Pure: a recording and known costs go in.

use std::collections::{BTreeMap, BTreeSet};

use recording::{Attribution, Bar, GateStatus, Recording};

use super::injection::{Calls, Expected, Injection};

/// The cost of an injection by itself, without probes, ns per request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) cpu_ns: f64,
    pub(super) sleep_ns: f64,
}

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
    /// What was seen instead, where something else was expected.
    pub(super) seen: Option<String>,
}

/// Judges a comparison of two arms, of which the second has the injections.
pub(super) fn judge(recording: &Recording, expected: &Expected, costs: &[Cost]) -> Outcome {
    match expected {
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

fn refused_instead(recording: &Recording) -> Outcome {
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
    costs: &[Cost],
) -> Outcome {
    let expected = Expectation::of(attribution, costs);
    let added = injections
        .iter()
        .map(|injection| injection.calls)
        .sum::<f64>()
        + calls.map_or(0.0, |calls| calls.added);
    let mut outcome = Outcome {
        accepted: calls.is_none_or(|calls| as_many(attribution, calls)),
        sum_error: attribution.receipt.sum_error.abs(),
        ..Outcome::default()
    };
    let mut own = BTreeSet::new();
    let (mut injected, mut found) = (0.0, 0.0);
    for (injection, cost) in injections.iter().zip(costs) {
        let bars = own_bars(attribution, injection, added);
        let expected_ns = expected.of_cost(*cost);
        let sum = Sum::of(&bars);
        outcome.accepted &= sum.covers(expected_ns);
        injected += expected_ns;
        found += sum.found_ns;
        own.extend(bars.into_iter().map(|(bar, _)| bar.cause.clone()));
    }
    if !injections.is_empty() {
        outcome.injected_ns = Some(injected);
        outcome.found_ns = Some(found);
    }
    if calls.is_none() {
        outcome.leaks = leaks(attribution, &own, injected);
    }
    outcome
}

/// How a cost shows in the time per request.
///
/// With `R` the time per request, `D` its CPU time and `s` the injected sleep, the second arm has
/// `D + c` and `R·(D + c)/D + s`: CPU time stretches with what else uses the CPU, sleep does not.
/// The bars split the difference by `Δ(1/X) = ΔD·mean(R/D) + Δ(R/D)·mean(D)`.
struct Expectation {
    /// `mean(R/D)`: what CPU time is multiplied with.
    stretch: f64,
    /// What all of the sleep is multiplied with.
    sleep_factor: f64,
}

impl Expectation {
    fn of(attribution: &Attribution, costs: &[Cost]) -> Self {
        let demand = demand(attribution);
        let cpu: f64 = costs.iter().map(|cost| cost.cpu_ns).sum();
        let sleep: f64 = costs.iter().map(|cost| cost.sleep_ns).sum();
        let before = attribution.a_ns / demand;
        let after = (attribution.a_ns * (demand + cpu) / demand + sleep) / (demand + cpu);
        let idle = (after - before) * (demand + cpu / 2.0);
        Self {
            stretch: f64::midpoint(before, after),
            sleep_factor: if sleep > 0.0 { idle / sleep } else { 0.0 },
        }
    }

    fn of_cost(&self, cost: Cost) -> f64 {
        cost.cpu_ns * self.stretch + cost.sleep_ns * self.sleep_factor
    }
}

/// CPU time per request of the first arm: each cause once, since the effect of a count and of a unit
/// have the same evidence.
fn demand(attribution: &Attribution) -> f64 {
    let by_cause: BTreeMap<&str, f64> = attribution
        .bars
        .iter()
        .filter_map(|bar| Some((group(bar), bar.evidence.demand_a_ns?)))
        .collect();
    by_cause.values().sum()
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
        own if injection.idle == Some(own) => Some(1.0),
        _ => None,
    };
    let bars = attribution.bars.iter();
    bars.filter_map(|bar| Some((bar, share(bar)?))).collect()
}

/// A sum of bars. Its interval comes from those of the bars, as if they were independent.
struct Sum {
    found_ns: f64,
    /// How far the interval reaches below and above, ns.
    reach: (f64, f64),
}

impl Sum {
    fn of(bars: &[(&Bar, f64)]) -> Self {
        let (mut found_ns, mut below, mut above) = (0.0, 0.0, 0.0);
        for (bar, share) in bars {
            let Some(delta) = bar.delta_ns else { continue };
            found_ns += delta * share;
            // Without an interval nothing is covered.
            let (low, high) = bar.interval_ns.unwrap_or((delta, delta));
            below += (share * (delta - low)).powi(2);
            above += (share * (high - delta)).powi(2);
        }
        Self {
            found_ns,
            reach: (below.sqrt(), above.sqrt()),
        }
    }

    fn covers(&self, expected_ns: f64) -> bool {
        let (below, above) = self.reach;
        (self.found_ns - below..=self.found_ns + above).contains(&expected_ns)
    }
}

/// Whether the second arm makes the calls of a group as often as it has to, within what a window
/// cuts at its edges.
fn as_many(attribution: &Attribution, calls: Calls) -> bool {
    attribution
        .bars
        .iter()
        .filter(|bar| group(bar) == calls.group)
        .filter_map(|bar| bar.evidence.n_b)
        .any(|count| (count / calls.per_request - 1.0).abs() <= EDGES)
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
            let share = bar.delta_ns.unwrap_or(0.0) / injected_ns;
            *leaks.entry(group(bar).to_owned()).or_default() += share;
        }
    }
    leaks
}

/// Requests in flight at the edges of a window, as a share.
const EDGES: f64 = 0.01;

#[cfg(test)]
mod tests {
    use recording::{BarKind, Evidence, Receipt};

    use super::super::injection::{GETPPID, SLEEP, SPIN};
    use super::*;

    fn bar(cause: &str, delta_ns: f64, demand_a_ns: Option<f64>) -> Bar {
        Bar {
            cause: cause.into(),
            kind: BarKind::User,
            title: String::new(),
            delta_ns: Some(delta_ns),
            interval_ns: Some((delta_ns - 100.0, delta_ns + 100.0)),
            log_part: None,
            log_share: None,
            log_share_interval: None,
            p_adjusted: None,
            demand_delta_ns: None,
            demand_interval_ns: None,
            distinguishable: None,
            evidence: Evidence {
                demand_a_ns,
                ..Evidence::default()
            },
        }
    }

    fn attribution(a_ns: f64, bars: Vec<Bar>) -> Attribution {
        Attribution {
            a: "a".into(),
            b: "b".into(),
            baseline_unix_ns: None,
            paired: true,
            pairs: 6,
            a_ns,
            b_ns: a_ns,
            delta_ns: 0.0,
            log_ratio: 0.0,
            established: true,
            level: 0.95,
            seed: 0,
            bars,
            receipt: Receipt::default(),
            not_measured: Vec::new(),
        }
    }

    fn cost(cpu_ns: f64, sleep_ns: f64) -> Cost {
        Cost { cpu_ns, sleep_ns }
    }

    /// A cost in its own bar is found, on a busy CPU stretched by what else runs there; elsewhere it
    /// is a leak.
    #[test]
    fn user_time_is_found_in_its_bar() {
        let judged = |user, control, a_ns| {
            let bars = vec![
                bar("user", user, Some(6000.0)),
                bar("control.unit", control, Some(4000.0)),
                bar("control.count", 0.0, Some(4000.0)),
            ];
            attributed(
                &attribution(a_ns, bars),
                &[SPIN],
                None,
                &[cost(5000.0, 0.0)],
            )
        };
        let good = judged(5050.0, 0.0, 10_000.0);
        assert!(good.accepted);
        assert_eq!(good.injected_ns, Some(5000.0));
        assert!(judged(7450.0, 0.0, 15_000.0).accepted);
        let bad = judged(4000.0, 1000.0, 10_000.0);
        assert!(!bad.accepted);
        assert!((bad.leaks["control"] - 0.2).abs() < 1e-12);
    }

    /// Entry and exit of the kernel are shared out by the calls that each injection adds.
    #[test]
    fn entry_and_exit_are_shared_out() {
        let bars = vec![
            bar("user", 0.0, Some(10_000.0)),
            bar("other.count", 600.0, Some(0.0)),
            bar("entry_exit", 1100.0, Some(0.0)),
            bar("sleep.count", 900.0, Some(0.0)),
            bar("idle.blocked", 99_000.0, None),
        ];
        let attribution = attribution(10_000.0, bars);
        let sum =
            |injection: &Injection| Sum::of(&own_bars(&attribution, injection, 11.0)).found_ns;
        assert!((sum(&GETPPID) - 1600.0).abs() < 1e-9);
        assert!((sum(&SLEEP) - 100_000.0).abs() < 1e-9);
    }

    /// CPU time and sleep together make the whole difference of the time per request.
    #[test]
    fn costs_add_up_to_the_difference() {
        let bars = vec![bar("user", 0.0, Some(8_000.0))];
        let costs = [cost(2_000.0, 100_000.0), cost(1_000.0, 0.0)];
        let expected = Expectation::of(&attribution(10_000.0, bars), &costs);
        let sum: f64 = costs.iter().map(|cost| expected.of_cost(*cost)).sum();
        // R·(D + c)/D + s - R
        let difference = 10_000.0 * 11.0 / 8.0 + 100_000.0 - 10_000.0;
        assert!((sum - difference).abs() < 1e-6, "{sum} {difference}");
    }

    /// A count is right within a percent.
    #[test]
    fn counts_are_exact_but_for_edges() {
        let with = |count| {
            let mut send = bar("send.count", 0.0, None);
            send.evidence.n_b = Some(count);
            let calls = Calls {
                group: "send",
                per_request: 5.0,
                added: 3.0,
            };
            as_many(&attribution(1.0, vec![send]), calls)
        };
        assert!(with(5.02));
        assert!(!with(4.0));
    }
}
