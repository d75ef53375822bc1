//! The arithmetic between two sides: families, calls, and what the rounds can tell apart.
//!
//! With several rounds on both sides a call is tested in number and in cost, and only within a
//! family that differs as a whole (Holm's adjustment among families, then among the calls of those).
//! Exact counts need no test: they differ or they do not. With a single round there is no test, and
//! nothing is folded that differs at all.

use std::collections::{BTreeMap, BTreeSet};

use recording::{
    CallDiff, Denominator, DiffFigures, DiffSide, DiffTimes, DiffWord, Family, FamilyDiff,
};

use super::side::{CallName, Divided, DividedRound};
use super::word;
use crate::budget::NOISE_PER_REQUEST;
use crate::statistics::holm::{holm, p_of_equal_means, p_of_zero_mean};

/// What was found.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) exact: bool,
    pub(super) times: DiffTimes,
    pub(super) families: Vec<FamilyDiff>,
    tested: bool,
    filtered: bool,
}

impl Compared {
    pub(super) fn of(a: &Divided<'_>, b: &Divided<'_>, same_machine: bool) -> Self {
        let times = if same_machine {
            a.times.min(b.times)
        } else {
            DiffTimes::None
        };
        let exact = a.lock_step && b.lock_step;
        let pair = Pair { a, b, times, exact };
        let tested = pair.is_tested();
        let mut compared = Self {
            exact,
            times,
            families: pair.families(),
            tested,
            filtered: a.filtered || b.filtered,
        };
        compared.sort();
        compared
    }

    /// One side with the sum of its calls, times as far as both sides have them.
    pub(super) fn side(&self, side: &Divided<'_>) -> DiffSide {
        let arms = side.operand.recording.arms.iter();
        let mut arms = arms.filter(|arm| arm.name == side.operand.arm);
        DiffSide {
            source: side.operand.source.to_owned(),
            arm: side.operand.arm.to_owned(),
            version: arms.next().and_then(|arm| arm.version.clone()),
            rounds: u32::try_from(side.rounds.len()).unwrap_or(u32::MAX),
            units: side.units,
            total: limited(side.sum(side.families.keys()), self.times),
        }
    }

    /// What has to be known to read it.
    pub(super) fn notes(&self, per: Denominator) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.tested {
            notes.push(
                "one round on a side: no interval, so a difference in time may be noise".to_owned(),
            );
        }
        if self.filtered {
            notes.push(
                "one side counted only some calls (--only): a call that it lacks is not gone"
                    .to_owned(),
            );
        }
        if per == Denominator::Second {
            notes.push(format!(
                "per {}: a busier server makes more of every call; compare per request where that \
                 was counted (of a live server: whyfast profile --requests-from log=FILE)",
                word(per)
            ));
        }
        notes
    }

    fn sort(&mut self) {
        for family in &mut self.families {
            family.calls.sort_by(|x, y| {
                let (x, y) = (rank(x), rank(y));
                y.0.cmp(&x.0)
                    .then(y.1.total_cmp(&x.1))
                    .then(y.2.total_cmp(&x.2))
            });
        }
        self.families.sort_by(|x, y| {
            let most = |family: &FamilyDiff| {
                let ranks = family.calls.iter().map(rank);
                ranks.fold((false, 0.0, 0.0), |sum, of_call| {
                    (sum.0 || of_call.0, sum.1 + of_call.1, sum.2 + of_call.2)
                })
            };
            let (x_most, y_most) = (most(x), most(y));
            y_most
                .0
                .cmp(&x_most.0)
                .then(y_most.1.total_cmp(&x_most.1))
                .then(y_most.2.total_cmp(&x_most.2))
                .then_with(|| x.family.cmp(&y.family))
        });
    }
}

/// Whether a call is told apart, by what cost, and by what number.
fn rank(call: &CallDiff) -> (bool, f64, f64) {
    let cost = |side: Option<DiffFigures>| {
        side.and_then(|figures| figures.cost_ns(call.waits))
            .unwrap_or(0.0)
    };
    let count = |side: Option<DiffFigures>| side.map_or(0.0, |figures| figures.count);
    (
        call.change != DiffWord::NotDistinguishable,
        (cost(call.b) - cost(call.a)).abs(),
        (count(call.b) - count(call.a)).abs(),
    )
}

struct Pair<'a, 'b> {
    a: &'a Divided<'b>,
    b: &'a Divided<'b>,
    times: DiffTimes,
    exact: bool,
}

impl Pair<'_, '_> {
    /// Whether both sides have replicates.
    fn is_tested(&self) -> bool {
        self.a.rounds.len() > 1 && self.b.rounds.len() > 1
    }

    fn families(&self) -> Vec<FamilyDiff> {
        let mut members: BTreeMap<Family, BTreeSet<&CallName>> = BTreeMap::new();
        for (call, family) in self.a.families.iter().chain(&self.b.families) {
            let made = |side: &Divided<'_>| side.figures(call).is_some();
            if made(self.a) || made(self.b) {
                members.entry(*family).or_default().insert(call);
            }
        }
        let probabilities: Vec<f64> = members
            .values()
            .map(|calls| self.probability(&calls.iter().copied().collect::<Vec<_>>()))
            .collect();
        let adjusted = holm(&probabilities);
        let differing: Vec<&CallName> = members
            .values()
            .zip(&adjusted)
            .filter(|(_, probability)| **probability <= ALPHA)
            .flat_map(|(calls, _)| calls.iter().copied())
            .collect();
        let of_calls: Vec<f64> = differing
            .iter()
            .map(|call| self.probability(&[*call]))
            .collect();
        let told: BTreeSet<&CallName> = differing
            .iter()
            .zip(holm(&of_calls))
            .filter(|(_, probability)| *probability <= ALPHA)
            .map(|(call, _)| *call)
            .collect();
        let families = members.into_iter();
        families
            .map(|(family, calls)| FamilyDiff {
                family,
                a: limited(self.a.sum(calls.iter().copied()), self.times),
                b: limited(self.b.sum(calls.iter().copied()), self.times),
                calls: calls
                    .iter()
                    .map(|call| self.call(call, told.contains(call)))
                    .collect(),
            })
            .collect()
    }

    fn call(&self, call: &CallName, told: bool) -> CallDiff {
        let of = |side: &Divided<'_>| side.figures(call).map(|f| limited(f, self.times));
        let (a, b) = (of(self.a), of(self.b));
        let count = |side: Option<DiffFigures>| side.map_or(0.0, |figures| figures.count);
        // A timer that fires once in a window is neither new nor gone.
        let rare = count(a).max(count(b)) < NOISE_PER_REQUEST;
        let waits = self.waits(call);
        let differs = if self.is_tested() && !self.exact {
            told
        } else {
            self.differs(a, b, waits)
        };
        let change = match (a, b) {
            (Some(_), None) if !rare => DiffWord::Gone,
            (None, Some(_)) if !rare => DiffWord::New,
            _ if differs => DiffWord::Changed,
            _ => DiffWord::NotDistinguishable,
        };
        CallDiff {
            abi: call.0,
            call: call.1.clone(),
            change,
            a,
            b,
            waits,
        }
    }

    fn waits(&self, call: &CallName) -> bool {
        self.a.waits(call) || self.b.waits(call)
    }

    /// Whether figures differ without a test: exact counts by more than what timers leave, other
    /// figures at all.
    fn differs(&self, a: Option<DiffFigures>, b: Option<DiffFigures>, waits: bool) -> bool {
        let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
        let far = |a: f64, b: f64, noise: f64| (a - b).abs() > noise;
        // Timers may add to exact counts, and then these are no whole numbers.
        let whole = [a.count, b.count].iter().all(|count| count.fract() == 0.0);
        let noise = if self.exact && !whole {
            NOISE_PER_REQUEST
        } else {
            ROUNDING
        };
        let bytes = |figures: DiffFigures| figures.bytes.unwrap_or(0.0);
        let counts = far(a.count, b.count, noise)
            || far(a.errors, b.errors, noise)
            || far(bytes(a), bytes(b), noise);
        let ns = |figures: DiffFigures| figures.cost_ns(waits).unwrap_or(0.0);
        counts || far(ns(a), ns(b), SMALL_NS)
    }

    /// The probability that calls cost and number the same on both sides, the smaller of both
    /// doubled; 1 where there is no test.
    fn probability(&self, calls: &[&CallName]) -> f64 {
        if !self.is_tested() {
            return 1.0;
        }
        let of = |figure: &dyn Fn(&CallName, &DiffFigures) -> f64| {
            let values = |side: &Divided<'_>| -> Vec<(u32, f64)> {
                let of_round = |round: &DividedRound| {
                    let made = calls
                        .iter()
                        .filter_map(|call| Some((*call, round.calls.get(*call)?)));
                    made.map(|(call, figures)| figure(call, &limited(*figures, self.times)))
                        .sum()
                };
                let rounds = side.rounds.iter();
                rounds.map(|round| (round.pair, of_round(round))).collect()
            };
            self.test(&values(self.a), &values(self.b))
        };
        let count = of(&|_, figures| figures.count);
        let cost = of(&|call, figures| figures.cost_ns(self.waits(call)).unwrap_or(0.0));
        (2.0 * count.min(cost)).min(1.0)
    }

    /// Rounds of one recording in the same pairs ran next to each other; others are two samples.
    fn test(&self, a: &[(u32, f64)], b: &[(u32, f64)]) -> f64 {
        let one_run = std::ptr::eq(self.a.operand.recording, self.b.operand.recording);
        let pairs = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0);
        let values = |side: &[(u32, f64)]| -> Vec<f64> { side.iter().map(|(_, v)| *v).collect() };
        let probability = if one_run && pairs {
            let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b.1 - a.1).collect();
            p_of_zero_mean(&differences)
        } else {
            p_of_equal_means(&values(a), &values(b))
        };
        probability.unwrap_or(1.0)
    }
}

/// Figures without the times that one side lacks.
fn limited(figures: DiffFigures, times: DiffTimes) -> DiffFigures {
    let keep = |value: Option<f64>, from: DiffTimes| value.filter(|_| times >= from);
    DiffFigures {
        inside_ns: keep(figures.inside_ns, DiffTimes::Inside),
        on_cpu_ns: keep(figures.on_cpu_ns, DiffTimes::Split),
        off_cpu_ns: keep(figures.off_cpu_ns, DiffTimes::Split),
        ..figures
    }
}

/// What a table may say falsely: 5 %.
const ALPHA: f64 = 0.05;
/// Less than one call in a billion requests is rounding.
const ROUNDING: f64 = 1e-9;
/// Less time per unit than this is not worth a line: a nanosecond.
const SMALL_NS: f64 = 1.0;
