//! Measured counts against what is locked, and taking them over.

use std::collections::{BTreeMap, BTreeSet};

use recording::{
    BUDGET_SCHEMA, BudgetCheck, BudgetOutcome, CallChange, LimitCheck, LimitStatus, Recording,
    SectionCheck,
};

use super::limit::{Bound, Limit};
use super::measured::{Measured, Refusal, lock_step};
use super::{CallKey, Figures, Fixed, Key, Lock, NOISE_PER_REQUEST, Section};
use crate::view;

/// Holds the exact counts of recordings against a lock. A section of the same load and architecture
/// that was not measured is not passed over.
pub fn check(lock: &Lock, recordings: &[Recording]) -> BudgetCheck {
    let mut sections = check_measured(lock, recordings);
    for recording in recordings {
        sections.extend(missing(lock, recording, &sections));
    }
    summed_up(sections, recordings)
}

fn check_measured(lock: &Lock, recordings: &[Recording]) -> Vec<SectionCheck> {
    let mut sections = Vec::new();
    for recording in recordings {
        let arms = recording.arms.iter();
        sections.extend(arms.map(|arm| check_arm(lock, recording, &arm.name)));
        if recording.arms.is_empty() {
            let remedy = "measure with `whyfast compare --lock-step 1000 ARM...`";
            let refusal = Refusal::not_exact("the recording has no server", remedy);
            sections.push(refused("-", recording, &refusal));
        }
    }
    sections
}

fn summed_up(sections: Vec<SectionCheck>, recordings: &[Recording]) -> BudgetCheck {
    BudgetCheck {
        schema: BUDGET_SCHEMA.to_owned(),
        outcome: sections
            .iter()
            .map(|section| section.outcome)
            .max()
            .unwrap_or(BudgetOutcome::NotComparable),
        conditions: recordings.first().map_or(String::new(), conditions),
        sections,
    }
}

/// The lock with the counts of these recordings in place of what it has, and the check of them
/// against it: a limit is not lifted by being broken. Sections of others stay, and so do comments
/// and limits.
pub fn bless(lock: &Lock, recordings: &[Recording]) -> (Lock, BudgetCheck) {
    let mut blessed = lock.clone();
    for recording in recordings {
        for arm in &recording.arms {
            let Ok(measured) = measure(recording, &arm.name) else {
                // The check below says why.
                continue;
            };
            let section = blessed.sections.entry(measured.key.clone()).or_default();
            section.version.clone_from(&measured.version);
            section.calls = locked_calls(&measured);
        }
    }
    // What was not measured stays as it is locked.
    let check = summed_up(check_measured(&blessed, recordings), recordings);
    (blessed, check)
}

/// The calls that are of the requests.
fn locked_calls(measured: &Measured) -> BTreeMap<CallKey, Figures> {
    let calls: BTreeSet<&CallKey> = measured.calls().collect();
    calls
        .into_iter()
        .map(|call| (call.clone(), measured.mean(call)))
        .filter(|(_, figures)| figures.count.value() >= NOISE_PER_REQUEST)
        .collect()
}

fn measure(recording: &Recording, arm: &str) -> Result<Measured, Refusal> {
    let scenario = lock_step(recording)?;
    let key = Key::new(arm, &scenario.name, &recording.host.arch)
        .map_err(|error| Refusal::name(&error))?;
    Measured::of(recording, arm, &key)
}

fn check_arm(lock: &Lock, recording: &Recording, arm: &str) -> SectionCheck {
    let measured = match measure(recording, arm) {
        Ok(measured) => measured,
        Err(refusal) => return refused(arm, recording, &refusal),
    };
    let key = &measured.key;
    let Some(section) = lock.sections.get(key) else {
        let of_arch = |other: &Key| other.arch == key.arch;
        if !lock.sections.is_empty() && !lock.sections.keys().any(of_arch) {
            let found = format!("the lock has nothing measured on {}", key.arch);
            let remedy = "take over the counts of such a machine with `whyfast gate --bless`";
            return refused(arm, recording, &Refusal::not_exact(&found, remedy));
        }
        return check_section(&Section::default(), true, &measured);
    };
    check_section(section, false, &measured)
}

fn check_section(section: &Section, new: bool, measured: &Measured) -> SectionCheck {
    let mut changes = changes(section, measured);
    changes.sort_by(|a, b| {
        b.breaks
            .cmp(&a.breaks)
            .then_with(|| (&a.call, &a.on).cmp(&(&b.call, &b.on)))
    });
    let limits: Vec<LimitCheck> = section
        .limits
        .iter()
        .map(|limit| check_limit(limit, section, measured))
        .collect();
    let has = |status| limits.iter().any(|limit| limit.status == status);
    let outcome = if has(LimitStatus::Rejected) {
        BudgetOutcome::LimitRejected
    } else if new || has(LimitStatus::Broken) || changes.iter().any(|change| change.breaks) {
        BudgetOutcome::Broken
    } else {
        BudgetOutcome::Unchanged
    };
    SectionCheck {
        outcome,
        why: None,
        locked_version: section.version.clone(),
        version: measured.version.clone(),
        requests: Some(measured.requests()),
        repeats: u32::try_from(measured.repeats.len()).unwrap_or(u32::MAX),
        new,
        changes,
        limits,
        ..blank(&measured.key)
    }
}

/// Every call that differs in at least one repeat.
fn changes(section: &Section, measured: &Measured) -> Vec<CallChange> {
    let calls: BTreeSet<&CallKey> = section.calls.keys().chain(measured.calls()).collect();
    let mut changes = Vec::new();
    for call in calls {
        let locked = section.calls.get(call);
        let none = Figures::default();
        let repeats: Vec<&Figures> = measured
            .repeats
            .iter()
            .map(|repeat| repeat.calls.get(call).unwrap_or(&none))
            .collect();
        let allowance = allowance(section, call, locked);
        let seen = differing(locked.unwrap_or(&none), &repeats, allowance);
        if seen == 0 {
            continue;
        }
        let mean = measured.mean(call);
        changes.push(CallChange {
            call: call.name.clone(),
            on: call.on.clone(),
            locked: locked.map(Figures::to_budget),
            measured: (mean.count > Fixed::default()).then(|| mean.to_budget()),
            seen_in: u32::try_from(seen).unwrap_or(u32::MAX),
            breaks: seen == repeats.len(),
        });
    }
    changes
}

/// What a soft limit on the call allows, per request.
fn allowance(section: &Section, call: &CallKey, locked: Option<&Figures>) -> f64 {
    let limits = section.limits.iter();
    let percents = limits
        .filter(|limit| call.is_meant_by(&limit.metric))
        .filter_map(|limit| match limit.bound {
            Bound::Soft(percent) => Some(percent.value()),
            Bound::Hard(_) => None,
        });
    let count = locked.map_or(0.0, |figures| figures.count.value());
    percents.fold(0.0, f64::max) / 100.0 * count
}

/// How many repeats differ from what is locked, in number, errors or bytes.
fn differing(locked: &Figures, repeats: &[&Figures], allowance: f64) -> usize {
    let mut differs = vec![false; repeats.len()];
    let mut compare = |locked: Fixed, of: &dyn Fn(&Figures) -> Fixed, noise: f64, allowed: f64| {
        let values: Vec<Fixed> = repeats.iter().map(|figures| of(figures)).collect();
        let tolerance = tolerance(locked, &values, noise).max(allowed);
        for (differs, value) in differs.iter_mut().zip(values) {
            *differs |= (value.value() - locked.value()).abs() > tolerance;
        }
    };
    let number = |figures: &Figures| figures.count;
    compare(locked.count, &number, NOISE_PER_REQUEST, allowance);
    let names = repeats.iter().flat_map(|figures| figures.errors.keys());
    let names: BTreeSet<&String> = names.chain(locked.errors.keys()).collect();
    for name in names {
        let count = |figures: &Figures| figures.errors.get(name).copied().unwrap_or_default();
        compare(count(locked), &count, NOISE_PER_REQUEST, allowance);
    }
    // A call that is not there has no bytes; that it is not there is said by its number.
    let there = |figures: &&Figures| figures.count > Fixed::default();
    if there(&locked) && repeats.iter().all(there) {
        let bytes = |figures: &Figures| figures.bytes.unwrap_or_default();
        compare(bytes(locked), &bytes, NOISE_BYTES, 0.0);
    }
    differs.into_iter().filter(|differs| *differs).count()
}

/// What may differ: nothing where everything is a whole number and all repeats agree.
fn tolerance(locked: Fixed, values: &[Fixed], noise: f64) -> f64 {
    let spread = spread(values.iter().map(|value| value.value()));
    let exact = locked.is_whole() && spread == 0.0 && values.iter().all(|value| value.is_whole());
    if exact { 0.0 } else { noise.max(3.0 * spread) }
}

fn check_limit(limit: &Limit, section: &Section, measured: &Measured) -> LimitCheck {
    let values: Vec<f64> = measured
        .repeats
        .iter()
        .filter_map(|repeat| {
            if limit.is_noisy() {
                repeat.server_cpu_us
            } else {
                Some(of_metric(&limit.metric, &repeat.calls))
            }
        })
        .collect();
    let least = values.iter().copied().reduce(f64::min);
    let floor = floor(limit, &values, measured);
    let locked = of_metric(&limit.metric, &section.calls);
    let (allowed, finest) = match limit.bound {
        Bound::Hard(most) => (most.value(), most.value()),
        Bound::Soft(percent) => {
            let allowed = percent.value() / 100.0 * locked;
            (locked + allowed, allowed)
        }
    };
    // None at all is a limit that can be kept, where nothing varies.
    let none = limit.bound == Bound::Hard(Fixed::default());
    let status = match (least, floor) {
        (Some(_), Some(floor)) if finest < floor && !(none && floor_is_one(floor, measured)) => {
            LimitStatus::Rejected
        }
        (Some(least), Some(_)) if least > allowed + EPSILON => {
            if limit.is_noisy() {
                LimitStatus::Warned
            } else {
                LimitStatus::Broken
            }
        }
        (Some(least), Some(_)) if is_below(limit, least, locked, finest) => LimitStatus::Broken,
        (Some(_), Some(_)) => LimitStatus::Kept,
        _ => LimitStatus::NotMeasured,
    };
    LimitCheck {
        metric: limit.metric.clone(),
        limit: limit.to_string(),
        measured: least,
        floor,
        status,
    }
}

/// A soft limit holds in both directions: what vanished changed as well.
fn is_below(limit: &Limit, least: f64, locked: f64, allowed: f64) -> bool {
    matches!(limit.bound, Bound::Soft(_)) && least < locked - allowed - EPSILON
}

/// The least difference that can be told: one call in all requests, or how much repeats differ. What
/// depends on the clock needs a second repeat.
fn floor(limit: &Limit, values: &[f64], measured: &Measured) -> Option<f64> {
    let spread = spread(values.iter().copied());
    if limit.is_noisy() {
        return (values.len() > 1).then_some(spread);
    }
    Some(spread.max(1.0 / measured.requests().max(1) as f64))
}

/// Whether nothing but the number of requests makes the floor.
fn floor_is_one(floor: f64, measured: &Measured) -> bool {
    floor <= 1.0 / measured.requests().max(1) as f64
}

/// A metric that is a count, per request.
fn of_metric(metric: &str, calls: &BTreeMap<CallKey, Figures>) -> f64 {
    let errors = |figures: &Figures| -> f64 { figures.errors.values().map(|n| n.value()).sum() };
    calls
        .iter()
        .map(|(call, figures)| match metric {
            "syscalls" => figures.count.value(),
            "errors" => errors(figures),
            _ if call.is_meant_by(metric) => figures.count.value(),
            _ => 0.0,
        })
        .sum()
}

fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if high >= low { high - low } else { 0.0 }
}

/// Sections of the load and the machine that no recording has a server for.
fn missing(lock: &Lock, recording: &Recording, checked: &[SectionCheck]) -> Vec<SectionCheck> {
    let Ok(scenario) = lock_step(recording) else {
        return Vec::new();
    };
    let is_checked = |key: &Key| {
        let of = |section: &SectionCheck| {
            (&section.arm, &section.scenario, &section.arch) == (&key.arm, &key.scenario, &key.arch)
        };
        checked.iter().any(of)
    };
    lock.sections
        .iter()
        .filter(|(key, _)| key.scenario == scenario.name && key.arch == recording.host.arch)
        .filter(|(key, _)| !is_checked(key))
        .map(|(key, section)| SectionCheck {
            outcome: BudgetOutcome::NotComparable,
            why: Some(
                "it is in the lock and was not measured; measure it too, or delete its section"
                    .to_owned(),
            ),
            locked_version: section.version.clone(),
            ..blank(key)
        })
        .collect()
}

fn refused(arm: &str, recording: &Recording, refusal: &Refusal) -> SectionCheck {
    let scenario = recording.scenario.as_ref();
    SectionCheck {
        outcome: refusal.outcome,
        why: Some(refusal.why.clone()),
        ..blank(&Key {
            arm: arm.to_owned(),
            scenario: scenario.map_or_else(|| "-".to_owned(), |scenario| scenario.name.clone()),
            arch: recording.host.arch.clone(),
        })
    }
}

fn blank(key: &Key) -> SectionCheck {
    SectionCheck {
        arm: key.arm.clone(),
        scenario: key.scenario.clone(),
        arch: key.arch.clone(),
        outcome: BudgetOutcome::NotComparable,
        why: None,
        locked_version: None,
        version: None,
        requests: None,
        repeats: 0,
        new: false,
        changes: Vec::new(),
        limits: Vec::new(),
    }
}

/// The machine, and how much was asked for.
fn conditions(recording: &Recording) -> String {
    let requests = recording
        .scenario
        .as_ref()
        .and_then(|scenario| scenario.lock_step_requests);
    let load = requests.map_or("not in lock-step".to_owned(), |requests| {
        format!("{requests} requests one at a time")
    });
    format!("{}  {load}", view::machine(&recording.host))
}

/// Bytes that a call may move more or less where its bytes are no whole number.
const NOISE_BYTES: f64 = 1.0;
/// Less than the last decimal.
const EPSILON: f64 = 1e-6;
