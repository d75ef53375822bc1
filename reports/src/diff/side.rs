//! One side of a difference: its calls round by round, per unit of the denominator.

use std::collections::{BTreeMap, BTreeSet};

use recording::{
    Abi, CallRow, Denominator, Detail, DiffFigures, DiffTimes, Family, Probes, Profile, Recording,
    RequestCount, Round,
};

use super::{DiffError, Operand, word};
use crate::clean::clean;
use crate::gates::LOST_SHARE_LIMIT;
use crate::metrics::{Missing, good_rounds, why_no_probed_round};
use crate::view::profile::counter;

/// A call: its table, and its name with what it was done to.
pub(super) type CallName = (Abi, String);

/// The profiled rounds of one arm.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) operand: Operand<'a>,
    rounds: Vec<(&'a Round, &'a Profile)>,
}

/// A side with its denominator.
#[derive(Debug)]
pub(super) struct Divided<'a> {
    pub(super) operand: Operand<'a>,
    pub(super) rounds: Vec<DividedRound>,
    /// Of all rounds.
    pub(super) units: f64,
    /// Which times every round has.
    pub(super) times: DiffTimes,
    /// Calls that wait for events.
    pub(super) waits: BTreeSet<CallName>,
    pub(super) families: BTreeMap<CallName, Family>,
    /// Whether the denominator are requests that were sent one at a time.
    pub(super) lock_step: bool,
    /// Who counted the requests that it is divided by, where the load did not.
    counter: Option<RequestCount>,
    /// Whether only some calls were counted.
    pub(super) filtered: bool,
}

/// The calls of one round, per unit.
#[derive(Debug)]
pub(super) struct DividedRound {
    pub(super) pair: u32,
    units: f64,
    pub(super) calls: BTreeMap<CallName, DiffFigures>,
}

impl<'a> Side<'a> {
    pub(super) fn of(operand: Operand<'a>) -> Result<Self, DiffError> {
        let Operand { recording, arm, .. } = operand;
        let good = good_rounds(recording, arm, Probes::On);
        let rounds: Vec<(&Round, &Profile)> = good
            .filter_map(|round| Some((round, round.profile.as_ref()?)))
            .filter(|(_, profile)| profile.detail >= Detail::Counts)
            .collect();
        let no_counts = |why: String| DiffError::NoCounts {
            source_name: clean(operand.source),
            arm: clean(arm),
            why,
        };
        if rounds.is_empty() {
            return Err(no_counts(why_no_counts(recording, arm)));
        }
        let (mut seen, mut lost) = (0_u64, 0_u64);
        for (_, profile) in &rounds {
            lost = lost.saturating_add(profile.lost.of_calls());
            for row in &profile.calls {
                seen = seen.saturating_add(row.count);
            }
        }
        if lost as f64 > LOST_SHARE_LIMIT * seen.saturating_add(lost) as f64 {
            return Err(no_counts(format!(
                "{lost} events were lost beside {seen} calls; measure again on a quieter machine, or \
                 with --detail counts"
            )));
        }
        Ok(Self { operand, rounds })
    }

    /// Units of each round; `None` where one round has none.
    pub(super) fn units(&self, per: Denominator) -> Option<Vec<f64>> {
        let of = |(round, profile): &(&Round, &Profile)| match per {
            Denominator::Connection => Some(accepted(profile)),
            Denominator::Request => round.requests_under_probes(),
            Denominator::Second => Some(profile.window.seconds()),
        };
        let units: Option<Vec<f64>> = self.rounds.iter().map(of).collect();
        units.filter(|units| units.iter().all(|units| units.is_finite() && *units > 0.0))
    }

    pub(super) fn divided(self, per: Denominator) -> Result<Divided<'a>, DiffError> {
        let units = self.units(per).ok_or_else(|| DiffError::NoUnits {
            source_name: clean(self.operand.source),
            arm: clean(self.operand.arm),
            per: word(per),
            why: match per {
                Denominator::Connection => {
                    "no connection was accepted in a window; use --per second"
                }
                Denominator::Request => {
                    "no request was counted; measure it with `whyfast compare`, or a live server with `whyfast \
                     profile --requests-from log=FILE`, or use --per second"
                }
                Denominator::Second => "a window has no length; measure again",
            },
        })?;
        let profiles = || self.rounds.iter().map(|(_, profile)| *profile);
        let waits = profiles().flat_map(|profile| &profile.waits);
        let rows = || profiles().flat_map(|profile| &profile.calls);
        let scenario = self.operand.recording.scenario.as_ref();
        let lock_step = scenario.is_some_and(|scenario| scenario.lock_step_requests.is_some());
        let times = profiles().map(times).min().unwrap_or(DiffTimes::None);
        let rounds = self.rounds.iter().zip(&units);
        Ok(Divided {
            operand: self.operand,
            rounds: rounds
                .map(|((round, profile), units)| DividedRound {
                    pair: round.pair,
                    units: *units,
                    calls: calls(profile, *units, times),
                })
                .collect(),
            units: units.iter().sum(),
            times,
            waits: waits.map(|row| (row.abi, row.name.clone())).collect(),
            families: rows()
                .map(|row| ((row.abi, row.label()), row.family))
                .collect(),
            lock_step: lock_step && per == Denominator::Request,
            counter: profiles()
                .find_map(|profile| profile.requests.clone())
                .filter(|_| per == Denominator::Request),
            filtered: profiles().any(|profile| {
                let mut missing = profile.not_measured.iter();
                missing.any(|missing| missing.why.contains("--only"))
            }),
        })
    }
}

impl Divided<'_> {
    /// Who counted the requests of a live server, where somebody did.
    pub(super) fn counter(&self) -> Option<String> {
        self.counter.as_ref().map(counter)
    }

    /// A call over all rounds: sums over sums, never a mean of ratios.
    pub(super) fn figures(&self, call: &CallName) -> Option<DiffFigures> {
        let rounds = self.rounds.iter();
        rounds
            .filter_map(|round| Some(scaled(round.calls.get(call)?, round.units / self.units)))
            .reduce(|sum, more| plus(&sum, &more))
    }

    /// Several calls over all rounds; the sleep of those that wait for events is in no sum.
    #[expect(
        single_use_lifetimes,
        reason = "an anonymous lifetime in impl Trait is unstable"
    )]
    pub(super) fn sum<'c>(&self, calls: impl Iterator<Item = &'c CallName>) -> DiffFigures {
        calls
            .filter_map(|call| {
                let figures = self.figures(call)?;
                if !self.waits(call) {
                    return Some(figures);
                }
                Some(DiffFigures {
                    inside_ns: None,
                    off_cpu_ns: None,
                    ..figures
                })
            })
            .reduce(|sum, more| plus(&sum, &more))
            .unwrap_or_default()
    }

    /// Whether it waits for events.
    pub(super) fn waits(&self, (abi, call): &CallName) -> bool {
        let name = call.split('(').next().unwrap_or(call);
        self.waits.contains(&(*abi, name.to_owned()))
    }
}

/// Everything of two calls.
fn plus(one: &DiffFigures, other: &DiffFigures) -> DiffFigures {
    let add = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
    };
    DiffFigures {
        count: one.count + other.count,
        errors: one.errors + other.errors,
        bytes: add(one.bytes, other.bytes),
        inside_ns: add(one.inside_ns, other.inside_ns),
        on_cpu_ns: add(one.on_cpu_ns, other.on_cpu_ns),
        off_cpu_ns: add(one.off_cpu_ns, other.off_cpu_ns),
    }
}

fn scaled(figures: &DiffFigures, factor: f64) -> DiffFigures {
    let scale = |value: Option<f64>| value.map(|value| value * factor);
    DiffFigures {
        count: figures.count * factor,
        errors: figures.errors * factor,
        bytes: scale(figures.bytes),
        inside_ns: scale(figures.inside_ns),
        on_cpu_ns: scale(figures.on_cpu_ns),
        off_cpu_ns: scale(figures.off_cpu_ns),
    }
}

fn calls(profile: &Profile, units: f64, times: DiffTimes) -> BTreeMap<CallName, DiffFigures> {
    let mut calls: BTreeMap<CallName, DiffFigures> = BTreeMap::new();
    for row in profile.calls.iter().filter(|row| row.count > 0) {
        let figures = scaled(&figures(row, times), 1.0 / units);
        let sum = calls.entry((row.abi, row.label())).or_default();
        *sum = plus(sum, &figures);
    }
    calls
}

fn figures(row: &CallRow, times: DiffTimes) -> DiffFigures {
    let split = row.split.filter(|_| times == DiffTimes::Split);
    DiffFigures {
        count: row.count as f64,
        errors: row.error_count() as f64,
        bytes: row.bytes.map(|bytes| bytes as f64),
        inside_ns: row
            .time
            .as_ref()
            .filter(|_| times > DiffTimes::None)
            .map(|time| time.ns_total as f64),
        on_cpu_ns: split.map(|split| split.on_cpu_ns as f64),
        off_cpu_ns: split.map(|split| split.off_cpu_ns as f64),
    }
}

fn times(profile: &Profile) -> DiffTimes {
    match profile.detail {
        Detail::Floor | Detail::Counts => DiffTimes::None,
        Detail::Times => DiffTimes::Inside,
        Detail::Sched | Detail::Stacks => DiffTimes::Split,
    }
}

/// Connections that the server took during the window.
fn accepted(profile: &Profile) -> f64 {
    let rows = profile
        .calls
        .iter()
        .filter(|row| row.family == Family::Accept);
    rows.map(|row| row.count as f64 - row.error_count() as f64)
        .sum()
}

fn why_no_counts(recording: &Recording, arm: &str) -> String {
    if !recording.arms.iter().any(|known| known.name == arm) {
        let arms: Vec<String> = recording.arms.iter().map(|arm| clean(&arm.name)).collect();
        return format!("the recording has no such arm; it has {}", arms.join(", "));
    }
    match why_no_probed_round(recording, arm) {
        Some(Missing::Failed(why) | Missing::NotMeasured(why)) => why,
        None => {
            "no round was profiled; measure with `whyfast profile`, or with `whyfast compare` as root"
                .to_owned()
        }
    }
}
