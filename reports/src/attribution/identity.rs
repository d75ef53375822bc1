//! The identity `X = m·U/D` between two sides, cut into parts that add up to the difference.

use std::collections::{BTreeMap, BTreeSet};

use recording::IdleCause;

use super::groups::CallGroup;
use super::side::{Side, Term};

/// A part of the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// More or fewer calls.
    Count(CallGroup),
    /// Dearer or cheaper calls.
    Unit(CallGroup),
    /// Any other CPU time.
    Demand(Term),
    /// The number of CPUs.
    Cpus,
    /// CPUs that were not used.
    Idle(IdleCause),
}

/// What a cause adds to the time per request of the second side, and to the log ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part {
    /// Of `1/X_b - 1/X_a`, ns.
    pub(super) delta_ns: f64,
    /// Of `ln(X_a/X_b)`.
    pub(super) log: f64,
    /// Of `D_b - D_a`, ns; 0 for what is no CPU time.
    pub(super) demand_ns: f64,
    /// Of `m_b/X_b - m_a/X_a`, ns; 0 for the number of CPUs, which is none of it.
    pub(super) occupied_ns: f64,
}

/// The parts of the difference between two sides. They add up to it exactly.
///
/// In time: `1/X = D·g` with `g = 1/(mU)`, so `Δ(1/X) = ΔD·mean(g) + Δg·mean(D)`, and ΔD and Δg are
/// sums of their terms. In logarithms: `ln X = ln m + ln U - ln D`, and a difference of logarithms
/// of sums is `Σ Δd/L(D_a, D_b)` with the logarithmic mean L.
pub(super) fn parts(a: &Side, b: &Side) -> BTreeMap<Cause, Part> {
    let mut parts = BTreeMap::new();
    let (used_a, used_b) = (a.utilisation(), b.utilisation());
    let gain = f64::midpoint(1.0 / (a.cpus * used_a), 1.0 / (b.cpus * used_b));
    let demand_log = log_mean(a.demand_ns, b.demand_ns);
    for (cause, delta) in demand_deltas(a, b) {
        parts.insert(
            cause,
            Part {
                delta_ns: delta * gain,
                log: delta / demand_log,
                demand_ns: delta,
                occupied_ns: delta,
            },
        );
    }
    let demand = f64::midpoint(a.demand_ns, b.demand_ns);
    let per_cpu = f64::midpoint(1.0 / a.cpus, 1.0 / b.cpus);
    let used_log = log_mean(used_a, used_b);
    for (label, delta) in idle_deltas(a, b) {
        let unused = |side: &Side| {
            let share = side.idle.get(&label).copied().unwrap_or(0.0);
            share * side.cpus * side.request_ns
        };
        parts.insert(
            Cause::Idle(label),
            Part {
                delta_ns: delta / (used_a * used_b) * per_cpu * demand,
                log: delta / used_log,
                demand_ns: 0.0,
                occupied_ns: unused(b) - unused(a),
            },
        );
    }
    let per_use = f64::midpoint(1.0 / used_a, 1.0 / used_b);
    parts.insert(
        Cause::Cpus,
        Part {
            delta_ns: (1.0 / b.cpus - 1.0 / a.cpus) * per_use * demand,
            log: (a.cpus / b.cpus).ln(),
            demand_ns: 0.0,
            occupied_ns: 0.0,
        },
    );
    parts
}

/// What each cause adds to the CPU time per request of the second side, ns.
fn demand_deltas(a: &Side, b: &Side) -> Vec<(Cause, f64)> {
    let terms: BTreeSet<Term> = a.terms.keys().chain(b.terms.keys()).copied().collect();
    let mut deltas = Vec::new();
    for term in terms {
        let of = |side: &Side| side.terms.get(&term).copied().unwrap_or(0.0);
        let Term::Calls(group) = term else {
            deltas.push((Cause::Demand(term), of(b) - of(a)));
            continue;
        };
        let count = |side: &Side| side.groups.get(&group).map_or(0.0, |calls| calls.count);
        let (counts, units) = count_and_unit((count(a), of(a)), (count(b), of(b)));
        deltas.push((Cause::Count(group), counts));
        deltas.push((Cause::Unit(group), units));
    }
    deltas
}

fn idle_deltas(a: &Side, b: &Side) -> Vec<(IdleCause, f64)> {
    let labels: BTreeSet<IdleCause> = a.idle.keys().chain(b.idle.keys()).copied().collect();
    let of = |side: &Side, label| side.idle.get(&label).copied().unwrap_or(0.0);
    labels
        .into_iter()
        .map(|label| (label, of(b, label) - of(a, label)))
        .collect()
}

/// The difference of two products of count and cost per call, given as (count, product): what
/// comes from the count and what from the cost, each at the mean of the other (the Shapley values
/// of two factors). A side without calls is given the cost of the other, so that all is count.
pub(super) fn count_and_unit(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let unit = |(count, product): (f64, f64)| (count > 0.0).then(|| product / count);
    match (unit(a), unit(b)) {
        (Some(unit_a), Some(unit_b)) => (
            (b.0 - a.0) * f64::midpoint(unit_a, unit_b),
            (unit_b - unit_a) * f64::midpoint(a.0, b.0),
        ),
        // Time without a call that returned (a thread inside all the time) has no cost per call.
        _ => (b.1 - a.1, 0.0),
    }
}

/// The logarithmic mean `(a - b)/ln(a/b)`, and `a` where both are equal.
pub(super) fn log_mean(a: f64, b: f64) -> f64 {
    let ratio = (a - b) / b;
    // ln(1+x)/x to the second order is exact in double precision this near to 1.
    if ratio.abs() < 1e-6 {
        b * (1.0 + ratio / 2.0 - ratio * ratio / 12.0)
    } else {
        (a - b) / ratio.ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::side::SideReceipt;
    use super::*;

    fn side(cpus: f64, used: f64, terms: &[(Term, f64)], idle: &[(IdleCause, f64)]) -> Side {
        let demand_ns = terms.iter().map(|(_, ns)| ns).sum::<f64>();
        let labelled: f64 = idle.iter().map(|(_, share)| share).sum();
        let mut idle: BTreeMap<_, _> = idle.iter().copied().collect();
        idle.insert(IdleCause::Unlabelled, 1.0 - used - labelled);
        Side {
            cpus,
            request_ns: demand_ns / (cpus * used),
            demand_ns,
            terms: terms.iter().copied().collect(),
            idle,
            groups: BTreeMap::new(),
            faults: None,
            slept_in: BTreeMap::new(),
            receipt: SideReceipt::default(),
        }
    }

    /// The example of two arms whose figures were invented to be easy to check: 7.19 and 12.13 us per
    /// request, of which idle time 1.92, user code 1.70, files 1.53 and so on; 38.9 % of the log
    /// ratio is utilisation.
    #[test]
    fn reproduces_an_example_computed_by_hand() {
        let terms = |user, receive, send, file, softirq, rest| {
            [
                (Term::User, user),
                (Term::Calls(CallGroup::Receive), receive),
                (Term::Calls(CallGroup::Send), send),
                (Term::Calls(CallGroup::Open), file),
                (Term::Softirq, softirq),
                (Term::Unexplained, rest),
            ]
        };
        let a = side(
            2.0,
            0.98,
            &terms(6000.0, 1800.0, 4100.0, 0.0, 1900.0, 300.0),
            &[],
        );
        let b = side(
            2.0,
            0.80,
            &terms(9000.0, 2400.0, 2200.0, 2700.0, 2200.0, 900.0),
            &[],
        );
        assert!((1e9 / a.request_ns - 139_007.0).abs() < 1.0);
        assert!((1e9 / b.request_ns - 82_474.0).abs() < 1.0);
        let parts = parts(&a, &b);
        let log_ratio = (b.request_ns / a.request_ns).ln();
        for (cause, us, percent) in [
            (Cause::Idle(IdleCause::Unlabelled), 1.92, 38.9),
            (Cause::Demand(Term::User), 1.70, 34.6),
            (Cause::Count(CallGroup::Open), 1.53, 31.1),
            (Cause::Count(CallGroup::Receive), 0.34, 6.9),
            (Cause::Count(CallGroup::Send), -1.08, -21.9),
            (Cause::Demand(Term::Softirq), 0.17, 3.5),
            (Cause::Demand(Term::Unexplained), 0.34, 6.9),
        ] {
            let part = parts[&cause];
            assert!(
                (part.delta_ns / 1e3 - us).abs() < 0.006,
                "{cause:?} {part:?}"
            );
            let share = part.log / log_ratio * 100.0;
            assert!((share - percent).abs() < 0.06, "{cause:?} {share}");
        }
    }

    /// Half the CPUs at equal demand and utilisation is ln 2 and nothing else.
    #[test]
    fn half_the_cpus_is_the_number_of_cpus() {
        let terms = [(Term::User, 1000.0)];
        let parts = parts(&side(4.0, 0.9, &terms, &[]), &side(2.0, 0.9, &terms, &[]));
        for (cause, part) in parts {
            let expected = if cause == Cause::Cpus {
                2.0_f64.ln()
            } else {
                0.0
            };
            assert!((part.log - expected).abs() < 1e-12, "{cause:?}");
        }
    }

    /// The logarithmic mean: equal arguments, a known value, and no jump between both formulas.
    #[test]
    fn log_mean_is_smooth() {
        assert!((log_mean(5.0, 5.0) - 5.0).abs() < 1e-12);
        assert!((log_mean(std::f64::consts::E, 1.0) - (std::f64::consts::E - 1.0)).abs() < 1e-12);
        let (below, above) = (log_mean(1.0 + 0.99e-6, 1.0), log_mean(1.0 + 1.01e-6, 1.0));
        assert!((above - below - 0.01e-6).abs() < 1e-14, "{below} {above}");
    }

    /// A call that only one side makes is all count; equal counts are all unit.
    #[test]
    fn count_and_unit_at_the_edges() {
        assert_eq!(count_and_unit((0.0, 0.0), (2.0, 10.0)), (10.0, 0.0));
        assert_eq!(count_and_unit((2.0, 10.0), (0.0, 0.0)), (-10.0, 0.0));
        assert_eq!(count_and_unit((3.0, 3.0), (3.0, 6.0)), (0.0, 3.0));
        assert_eq!(count_and_unit((1.0, 2.0), (3.0, 12.0)), (6.0, 4.0));
    }

    fn any_side() -> impl Strategy<Value = Side> {
        let terms = prop::collection::vec(0.0_f64..1e5, 5);
        let idle = prop::collection::vec(0.0_f64..0.2, 3);
        (1_u32..64, 0.01_f64..1.0, 1.0_f64..1e5, terms, idle).prop_map(
            |(cpus, used, user, terms, idle)| {
                let mut side = side(
                    f64::from(cpus),
                    used,
                    &[
                        (Term::User, user),
                        (Term::Calls(CallGroup::Receive), terms[0]),
                        (Term::Calls(CallGroup::Send), terms[1]),
                        (Term::Softirq, terms[2]),
                        (Term::Probes, terms[3] / 1e3),
                    ],
                    &[
                        (IdleCause::Blocked, idle[0]),
                        (IdleCause::Parked, idle[1]),
                        (IdleCause::Waiting, idle[2]),
                    ],
                );
                let calls = Calls {
                    count: terms[4] / 1e4,
                    ..Calls::default()
                };
                side.groups.insert(CallGroup::Receive, calls);
                side
            },
        )
    }

    use super::super::side::Calls;

    proptest! {
        /// Whatever the sides: the parts add up to both differences, and swapping the sides turns
        /// every sign.
        #[test]
        fn parts_add_up_and_are_symmetric(a in any_side(), b in any_side()) {
            let forth = parts(&a, &b);
            let back = parts(&b, &a);
            let sum: f64 = forth.values().map(|part| part.delta_ns).sum();
            let size: f64 = forth.values().map(|part| part.delta_ns.abs()).sum();
            let scale = size.max(a.request_ns).max(b.request_ns);
            prop_assert!((sum - (b.request_ns - a.request_ns)).abs() <= 1e-9 * scale);
            let logs: f64 = forth.values().map(|part| part.log).sum();
            let log_size: f64 = forth.values().map(|part| part.log.abs()).sum();
            let log_ratio = (b.request_ns / a.request_ns).ln();
            prop_assert!((logs - log_ratio).abs() <= 1e-9 * log_size.max(1.0));
            let occupied: f64 = forth.values().map(|part| part.occupied_ns).sum();
            let difference = b.cpus * b.request_ns - a.cpus * a.request_ns;
            let occupied_scale = scale.max(a.cpus * a.request_ns).max(b.cpus * b.request_ns);
            prop_assert!((occupied - difference).abs() <= 1e-9 * occupied_scale);
            for (cause, part) in &forth {
                prop_assert!((part.delta_ns + back[cause].delta_ns).abs() <= 1e-9 * scale);
            }
        }
    }
}
