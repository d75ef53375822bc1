//! From sides to bars: means over pairs of rounds, intervals by resampling, and the receipt.

use std::collections::{BTreeMap, BTreeSet};

use recording::{Attribution, Bar, BarKind, Evidence, IdleCause, Receipt};

use super::groups::CallGroup;
use super::identity::{Cause, Part, parts};
use super::names::{cause_id, kind, term_id, term_title, title};
use super::side::{Depth, Side, SideReceipt, Term};
use super::{ArmDemand, BAR_LEVEL};
use crate::statistics::bootstrap::{Replicates, SEED};
use crate::statistics::holm::{holm, p_of_zero_mean};

/// The attribution over pairs of sides: the mean over the pairs, whose intervals come from
/// resampling pairs. `None` without a pair.
pub(super) fn paired(sides: &[(Side, Side)], depth: Depth) -> Option<Attribution> {
    let each: Vec<BTreeMap<Cause, Part>> = sides.iter().map(|(a, b)| parts(a, b)).collect();
    let causes: Vec<Cause> = each
        .iter()
        .flat_map(BTreeMap::keys)
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let rows: Vec<Vec<Part>> = each
        .iter()
        .map(|parts| {
            let part = |cause| parts.get(cause).copied().unwrap_or_default();
            causes.iter().map(part).collect()
        })
        .collect();
    let means = mean_parts(rows.iter().map(Vec::as_slice), causes.len());
    let replicates = Replicates::draw(&[rows.len()], |drawn, figures| {
        let drawn = drawn[0].iter().map(|&row| rows[row].as_slice());
        lay_out(&mean_parts(drawn, causes.len()), figures);
    });
    let (a, b): (Vec<&Side>, Vec<&Side>) = sides.iter().map(|(a, b)| (a, b)).unzip();
    let bars = Bars {
        causes: &causes,
        means: &means,
        rows: Some(&rows),
        replicates: replicates.as_ref(),
    };
    let mut attribution = assemble(&bars, &a, &b, true, depth)?;
    adjust(&mut attribution, &causes, &rows);
    Some(attribution)
}

/// The probability of each bar without a difference, adjusted for the bars that there are.
fn adjust(attribution: &mut Attribution, causes: &[Cause], rows: &[Vec<Part>]) {
    let of = |bar: &Bar| {
        let column = causes
            .iter()
            .position(|cause| cause_id(*cause) == bar.cause)?;
        let deltas: Vec<f64> = rows.iter().map(|row| row[column].delta_ns).collect();
        p_of_zero_mean(&deltas)
    };
    let found: Option<Vec<f64>> = attribution
        .bars
        .iter()
        .filter(|bar| bar.delta_ns.is_some())
        .map(of)
        .collect();
    let Some(found) = found else { return };
    let measured = attribution
        .bars
        .iter_mut()
        .filter(|bar| bar.delta_ns.is_some());
    for (bar, p) in measured.zip(holm(&found)) {
        bar.p_adjusted = Some(p);
    }
}

/// The attribution over rounds without partners: of the mean side of each arm, whose intervals come
/// from resampling the rounds of both arms on their own.
pub(super) fn unpaired(a: &[Side], b: &[Side], depth: Depth) -> Option<Attribution> {
    let whole = |sides: &[Side]| (0..sides.len()).collect::<Vec<_>>();
    let parts_of = |drawn_a: &[usize], drawn_b: &[usize]| -> Option<BTreeMap<Cause, Part>> {
        Some(parts(&mean_side(a, drawn_a)?, &mean_side(b, drawn_b)?))
    };
    let found = parts_of(&whole(a), &whole(b))?;
    let (causes, means): (Vec<Cause>, Vec<Part>) = found.into_iter().unzip();
    let replicates = Replicates::draw(&[a.len(), b.len()], |drawn, figures| {
        let drawn = parts_of(&drawn[0], &drawn[1]).unwrap_or_default();
        let part = |cause| drawn.get(cause).copied().unwrap_or_default();
        let drawn: Vec<Part> = causes.iter().map(part).collect();
        lay_out(&drawn, figures);
    });
    let bars = Bars {
        causes: &causes,
        means: &means,
        rows: None,
        replicates: replicates.as_ref(),
    };
    let (a, b): (Vec<&Side>, Vec<&Side>) = (a.iter().collect(), b.iter().collect());
    assemble(&bars, &a, &b, false, depth)
}

/// The terms of one arm, averaged over its rounds.
pub(super) fn arm_demand(sides: &[Side]) -> Option<ArmDemand> {
    let drawn: Vec<usize> = (0..sides.len()).collect();
    let mean = mean_side(sides, &drawn)?;
    let term = |(term, ns): (&Term, &f64)| (term_id(*term), *ns);
    let titled = |(term, ns): (&Term, &f64)| (term_title(*term), *ns);
    let idle = |(label, share): (&IdleCause, &f64)| (label.cause(), *share);
    Some(ArmDemand {
        request_ns: mean.request_ns,
        demand_ns: mean.demand_ns,
        cpus: mean.cpus,
        terms: mean.terms.iter().map(term).collect(),
        titled: mean.terms.iter().map(titled).collect(),
        idle: mean.idle.iter().map(idle).collect(),
    })
}

/// Causes with what they add, and what they add in each resample.
struct Bars<'a> {
    causes: &'a [Cause],
    means: &'a [Part],
    /// What they add in each pair of rounds, where rounds form pairs.
    rows: Option<&'a [Vec<Part>]>,
    replicates: Option<&'a Replicates>,
}

/// One row of a replicate: times, then logs, then the sum of the logs, then CPU times.
fn lay_out(parts: &[Part], figures: &mut Vec<f64>) {
    figures.extend(parts.iter().map(|part| part.delta_ns));
    figures.extend(parts.iter().map(|part| part.log));
    figures.push(parts.iter().map(|part| part.log).sum());
    figures.extend(parts.iter().map(|part| part.demand_ns));
}

#[expect(
    single_use_lifetimes,
    reason = "an anonymous lifetime in impl Trait is unstable"
)]
fn mean_parts<'a>(rows: impl Iterator<Item = &'a [Part]>, width: usize) -> Vec<Part> {
    let mut sums = vec![Part::default(); width];
    let mut count = 0.0;
    for row in rows {
        count += 1.0;
        for (sum, part) in sums.iter_mut().zip(row) {
            sum.delta_ns += part.delta_ns;
            sum.log += part.log;
            sum.demand_ns += part.demand_ns;
        }
    }
    for sum in &mut sums {
        sum.delta_ns /= count;
        sum.log /= count;
        sum.demand_ns /= count;
    }
    sums
}

/// The mean of some sides as a side of its own, on which the identity holds: CPU time and idle shares
/// are averaged, and the time per request follows from them.
fn mean_side(sides: &[Side], drawn: &[usize]) -> Option<Side> {
    let count = drawn.len() as f64;
    let mut mean = sides.get(*drawn.first()?)?.clone();
    let average = |figure: &dyn Fn(&Side) -> f64| -> f64 {
        drawn.iter().map(|&at| figure(&sides[at])).sum::<f64>() / count
    };
    let terms: BTreeSet<Term> = sides.iter().flat_map(|s| s.terms.keys().copied()).collect();
    let labels: BTreeSet<IdleCause> = sides.iter().flat_map(|s| s.idle.keys().copied()).collect();
    let groups: BTreeSet<CallGroup> = sides
        .iter()
        .flat_map(|s| s.groups.keys().copied())
        .collect();
    let used = average(&|side| side.utilisation());
    mean.cpus = average(&|side| side.cpus);
    mean.demand_ns = average(&|side| side.demand_ns);
    mean.request_ns = mean.demand_ns / (mean.cpus * used);
    mean.terms = terms
        .into_iter()
        .map(|term| (term, average(&|side| value(side.terms.get(&term)))))
        .collect();
    mean.idle = labels
        .into_iter()
        .map(|label| (label, average(&|side| value(side.idle.get(&label)))))
        .collect();
    for group in groups {
        let count = average(&|side| side.groups.get(&group).map_or(0.0, |calls| calls.count));
        mean.groups.entry(group).or_default().count = count;
    }
    Some(mean)
}

fn value(figure: Option<&f64>) -> f64 {
    figure.copied().unwrap_or(0.0)
}

fn assemble(
    found: &Bars<'_>,
    a: &[&Side],
    b: &[&Side],
    paired: bool,
    depth: Depth,
) -> Option<Attribution> {
    let evidence = SidePair {
        a,
        b,
        timed: depth > Depth::Whole,
    };
    let mut bars = bars(found, &evidence);
    bars.extend(evidence.counted_only());
    let size = |bar: &Bar| bar.delta_ns.map_or(-1.0, f64::abs);
    bars.sort_by(|x, y| size(y).total_cmp(&size(x)).then(x.cause.cmp(&y.cause)));
    let sum: f64 = bars.iter().filter_map(|bar| bar.delta_ns).sum();
    let logs: f64 = bars.iter().filter_map(|bar| bar.log_part).sum();
    let (a_ns, b_ns, log_ratio) = if paired {
        let logs = a
            .iter()
            .zip(b)
            .map(|(a, b)| (b.request_ns / a.request_ns).ln());
        (
            mean(a, |side| side.request_ns)?,
            mean(b, |side| side.request_ns)?,
            logs.sum::<f64>() / a.len() as f64,
        )
    } else {
        // The time per request that belongs to mean CPU time and mean utilisation.
        let of = |sides: &[&Side]| {
            let used = mean(sides, Side::utilisation)?;
            Some(mean(sides, |s| s.demand_ns)? / (mean(sides, |s| s.cpus)? * used))
        };
        let (a_ns, b_ns) = (of(a)?, of(b)?);
        (a_ns, b_ns, (b_ns / a_ns).ln())
    };
    Some(Attribution {
        a: String::new(),
        b: String::new(),
        baseline_unix_ns: None,
        paired,
        pairs: u32::try_from(a.len().min(b.len())).ok()?,
        a_ns,
        b_ns,
        delta_ns: b_ns - a_ns,
        log_ratio,
        established: false,
        level: BAR_LEVEL,
        seed: SEED,
        receipt: Receipt {
            sum_error: (sum - (b_ns - a_ns)) / a_ns.max(b_ns),
            log_sum_error: logs - log_ratio,
            ..evidence.receipt()
        },
        bars,
        not_measured: Vec::new(),
    })
}

fn bars(found: &Bars<'_>, evidence: &SidePair<'_>) -> Vec<Bar> {
    let total: f64 = found.means.iter().map(|part| part.log).sum();
    let width = found.causes.len();
    let causes = found.causes.iter().zip(found.means).enumerate();
    causes
        .filter(|(_, (cause, part))| !is_nothing(**cause, part, evidence))
        .map(|(index, (&cause, part))| {
            let interval_ns = found
                .replicates
                .and_then(|replicates| replicates.interval(index, BAR_LEVEL));
            Bar {
                cause: cause_id(cause),
                kind: kind(cause),
                title: title(cause),
                delta_ns: Some(part.delta_ns),
                interval_ns,
                demand_delta_ns: of_demand(cause).then_some(part.demand_ns),
                demand_interval_ns: found
                    .replicates
                    .filter(|_| of_demand(cause))
                    .and_then(|all| all.interval(2 * width + 1 + index, BAR_LEVEL)),
                by_pair_ns: found
                    .rows
                    .filter(|_| cause != Cause::Cpus)
                    .map(|rows| rows.iter().map(|row| row[index].occupied_ns).collect()),
                log_part: Some(part.log),
                log_share: (total != 0.0).then(|| part.log / total),
                log_share_interval: found.replicates.and_then(|replicates| {
                    replicates.share_interval(width + index, 2 * width, BAR_LEVEL)
                }),
                distinguishable: interval_ns.map(|(low, high)| low > 0.0 || high < 0.0),
                p_adjusted: None,
                evidence: evidence.of(cause),
            }
        })
        .collect()
}

/// Whether a cause is CPU time.
fn of_demand(cause: Cause) -> bool {
    !matches!(cause, Cause::Cpus | Cause::Idle(_))
}

/// Bars that cannot be anything: the number of CPUs where it is equal, labels that never occur.
fn is_nothing(cause: Cause, part: &Part, evidence: &SidePair<'_>) -> bool {
    let nothing = part.delta_ns == 0.0 && part.log == 0.0;
    match cause {
        Cause::Demand(
            Term::Demand | Term::OutsideCalls | Term::Probes | Term::Unexplained | Term::User,
        ) => false,
        Cause::Count(_) | Cause::Unit(_) => nothing && evidence.timed,
        _ => nothing,
    }
}

/// Both arms with all their rounds.
struct SidePair<'a> {
    a: &'a [&'a Side],
    b: &'a [&'a Side],
    timed: bool,
}

impl SidePair<'_> {
    /// The figures behind a bar.
    fn of(&self, cause: Cause) -> Evidence {
        let demand = |term: Term| {
            let of = move |side: &Side| value(side.terms.get(&term));
            (mean(self.a, of), mean(self.b, of))
        };
        match cause {
            Cause::Count(group) | Cause::Unit(group) => {
                let (of_a, of_b) = demand(Term::Calls(group));
                let calls = self.calls(group);
                let unit = |ns: Option<f64>, n: Option<f64>| {
                    ns.zip(n).filter(|(_, n)| *n > 0.0).map(|(ns, n)| ns / n)
                };
                Evidence {
                    t_a_ns: unit(of_a, calls.n_a),
                    t_b_ns: unit(of_b, calls.n_b),
                    demand_a_ns: of_a,
                    demand_b_ns: of_b,
                    ..calls
                }
            }
            Cause::Demand(term) => {
                let (of_a, of_b) = demand(term);
                let faults = |sides| {
                    mean(sides, |side: &Side| side.faults.unwrap_or(0.0))
                        .filter(|_| term == Term::Faults)
                };
                Evidence {
                    n_a: faults(self.a),
                    n_b: faults(self.b),
                    demand_a_ns: of_a,
                    demand_b_ns: of_b,
                    ..Evidence::default()
                }
            }
            Cause::Cpus => Evidence {
                n_a: mean(self.a, |side| side.cpus),
                n_b: mean(self.b, |side| side.cpus),
                ..Evidence::default()
            },
            Cause::Idle(label) => {
                let of = |side: &Side| value(side.idle.get(&label));
                Evidence {
                    idle_a: mean(self.a, of),
                    idle_b: mean(self.b, of),
                    idle: Some(label),
                    calls: self.slept_in(label),
                    ..Evidence::default()
                }
            }
        }
    }

    /// Calls per request of a group, and their names, the most frequent first.
    fn calls(&self, group: CallGroup) -> Evidence {
        let count = |side: &Side| side.groups.get(&group).map_or(0.0, |calls| calls.count);
        let labels = self.a.iter().chain(self.b).flat_map(|side| {
            let calls = side.groups.get(&group).into_iter();
            calls.flat_map(|calls| calls.labels.iter())
        });
        Evidence {
            n_a: mean(self.a, count),
            n_b: mean(self.b, count),
            calls: by_weight(labels),
            ..Evidence::default()
        }
    }

    /// Calls in which threads slept, for the label that speaks of them.
    fn slept_in(&self, label: IdleCause) -> Vec<String> {
        let sides = self.a.iter().chain(self.b);
        let futex = |name: &str| name.starts_with("futex");
        let labels = sides.flat_map(|side| &side.slept_in);
        match label {
            IdleCause::Blocked => by_weight(labels.filter(|(name, _)| !futex(name))),
            IdleCause::Parked => by_weight(labels.filter(|(name, _)| futex(name))),
            _ => Vec::new(),
        }
    }

    /// Groups that were counted and not timed: bars without a length.
    fn counted_only(&self) -> Vec<Bar> {
        let sides = || self.a.iter().chain(self.b);
        let groups: BTreeSet<CallGroup> = sides()
            .flat_map(|side| side.groups.keys().copied())
            .filter(|group| !sides().any(|side| side.terms.contains_key(&Term::Calls(*group))))
            .collect();
        groups
            .into_iter()
            .map(|group| Bar {
                cause: cause_id(Cause::Count(group)),
                kind: BarKind::SyscallCount,
                title: title(Cause::Count(group)),
                delta_ns: None,
                interval_ns: None,
                demand_delta_ns: None,
                demand_interval_ns: None,
                by_pair_ns: None,
                log_part: None,
                log_share: None,
                log_share_interval: None,
                distinguishable: None,
                p_adjusted: None,
                evidence: self.calls(group),
            })
            .collect()
    }

    /// The receipt without the sums.
    fn receipt(&self) -> Receipt {
        let worst = |figure: fn(&SideReceipt) -> Option<f64>| {
            let of = |sides| mean_measured(sides, figure);
            let both = [of(self.a), of(self.b)].into_iter().flatten();
            both.max_by(|x, y| x.abs().total_cmp(&y.abs()))
        };
        Receipt {
            cpu_disagreement: worst(|side| side.cpu_disagreement),
            unexplained_share: worst(|side| side.unexplained_share),
            lost: self.a.iter().chain(self.b).map(|s| s.receipt.lost).sum(),
            probes_a_ns: mean_measured(self.a, |side| side.probes_ns),
            probes_b_ns: mean_measured(self.b, |side| side.probes_ns),
            probed_demand_a: mean_measured(self.a, |side| side.probed_demand),
            probed_demand_b: mean_measured(self.b, |side| side.probed_demand),
            ..Receipt::default()
        }
    }
}

fn mean(sides: &[&Side], figure: impl Fn(&Side) -> f64) -> Option<f64> {
    let sum: f64 = sides.iter().map(|side| figure(side)).sum();
    (!sides.is_empty()).then(|| sum / sides.len() as f64)
}

/// The mean where every side has the figure.
fn mean_measured(sides: &[&Side], figure: fn(&SideReceipt) -> Option<f64>) -> Option<f64> {
    let figures: Option<Vec<f64>> = sides.iter().map(|side| figure(&side.receipt)).collect();
    figures
        .filter(|figures| !figures.is_empty())
        .map(|figures| figures.iter().sum::<f64>() / figures.len() as f64)
}

/// Names by the sum of their weights, heaviest first.
fn by_weight<'a>(names: impl Iterator<Item = (&'a String, &'a f64)>) -> Vec<String> {
    let mut sums: BTreeMap<&String, f64> = BTreeMap::new();
    for (name, weight) in names {
        *sums.entry(name).or_default() += weight;
    }
    let mut sums: Vec<(&String, f64)> = sums.into_iter().filter(|(_, sum)| *sum > 0.0).collect();
    sums.sort_by(|x, y| y.1.total_cmp(&x.1));
    sums.into_iter().map(|(name, _)| name.clone()).collect()
}
