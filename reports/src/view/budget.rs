//! What a check of exact counts against a lock says.

use recording::{BudgetCheck, BudgetOutcome, CallBudget, CallChange, LimitStatus, SectionCheck};

use super::{ABSENT, Line, Table, name, or_absent};
use crate::budget::Fixed;
use crate::clean::clean;
use crate::figures::counted;
use crate::layout::Tone;

/// The outcome in one sentence that stands alone, in the subject of an e-mail too.
pub(crate) fn headline(check: &BudgetCheck) -> (String, Tone) {
    let servers = counted(check.sections.len(), "server");
    match check.outcome {
        BudgetOutcome::Unchanged => (format!("unchanged, {servers}"), Tone::Good),
        BudgetOutcome::Broken => (format!("changed: {}", first_change(check)), Tone::Bad),
        BudgetOutcome::LimitRejected => (
            "a limit is finer than the counts can tell".to_owned(),
            Tone::Bad,
        ),
        BudgetOutcome::NotComparable => {
            (format!("not comparable{}", first_reason(check)), Tone::Bad)
        }
        BudgetOutcome::Failed => (format!("failed{}", first_reason(check)), Tone::Bad),
        BudgetOutcome::CannotMeasure => (
            format!("not measured{}", first_reason(check)),
            Tone::Caution,
        ),
    }
}

/// Everything that differs, calls that break the lock first.
pub(crate) fn changes(check: &BudgetCheck) -> Table {
    let header = ["server", "per request", "locked", "now", "what", "seen in"];
    let rows = check.sections.iter().flat_map(|section| {
        section.changes.iter().map(move |change| {
            vec![
                server(section),
                call(change),
                per_request(change.locked.as_ref()),
                per_request(change.measured.as_ref()),
                what(change),
                seen(section, change),
            ]
        })
    });
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        left: vec![1, 4, 5],
        optional: Vec::new(),
    }
}

/// The limits that are not simply kept.
pub(crate) fn limits(check: &BudgetCheck) -> Table {
    let header = ["server", "limit", "measured", "floor", "outcome"];
    let figure = |value: Option<f64>| or_absent(value, |value| Fixed::of(value).to_string());
    let rows = check.sections.iter().flat_map(|section| {
        let told = section
            .limits
            .iter()
            .filter(|limit| limit.status != LimitStatus::Kept);
        told.map(move |limit| {
            vec![
                server(section),
                clean(&limit.limit),
                figure(limit.measured),
                figure(limit.floor),
                limit_outcome(limit.status).to_owned(),
            ]
        })
    });
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        left: vec![1, 4],
        optional: Vec::new(),
    }
}

/// What could not be checked, what is new, and other versions.
pub(crate) fn remarks(check: &BudgetCheck) -> Vec<Line> {
    let mut lines = Vec::new();
    for section in &check.sections {
        if let Some(why) = &section.why {
            let text = format!("{}: {}", server(section), clean(why));
            lines.push(Line::toned("missing", text, Tone::Bad));
        }
        if section.new {
            let text = format!("{} is not in the lock yet", server(section));
            lines.push(Line::toned("new", text, Tone::Caution));
        }
        if let (Some(locked), Some(version)) = (&section.locked_version, &section.version)
            && locked != version
        {
            let text = format!(
                "{}: {} was locked, {} was measured",
                server(section),
                name(locked),
                name(version)
            );
            lines.push(Line::toned("version", text, Tone::Caution));
        }
    }
    lines
}

/// How much was measured.
pub(crate) fn conditions(check: &BudgetCheck) -> String {
    let repeats = check.sections.iter().map(|section| section.repeats).max();
    let repeats = usize::try_from(repeats.unwrap_or(0)).unwrap_or(usize::MAX);
    format!(
        "{}, {}",
        clean(&check.conditions),
        counted(repeats, "repeat")
    )
}

/// What to do about what changed; `None` where nothing did.
pub(crate) fn next(check: &BudgetCheck, accept: &str) -> Option<Line> {
    match check.outcome {
        BudgetOutcome::Broken => Some(Line::new(
            "accept",
            format!("where it is meant: {}", clean(accept)),
        )),
        BudgetOutcome::LimitRejected => Some(Line::new(
            "remedy",
            "raise the limit to the floor, or measure more: a larger --lock-step, or steadier repeats",
        )),
        _ => None,
    }
}

fn server(section: &SectionCheck) -> String {
    format!(
        "{} {} {}",
        name(&section.arm),
        name(&section.scenario),
        name(&section.arch)
    )
}

fn call(change: &CallChange) -> String {
    match &change.on {
        Some(on) => format!("{}({})", name(&change.call), name(on)),
        None => name(&change.call),
    }
}

fn per_request(budget: Option<&CallBudget>) -> String {
    or_absent(budget, |budget| Fixed::of(budget.per_request).to_string())
}

fn seen(section: &SectionCheck, change: &CallChange) -> String {
    let seen = format!("{} of {}", change.seen_in, section.repeats);
    if change.breaks {
        seen
    } else {
        format!("{seen}, so it breaks nothing")
    }
}

/// In which way a call changed.
fn what(change: &CallChange) -> String {
    let (Some(locked), Some(measured)) = (&change.locked, &change.measured) else {
        return if change.locked.is_none() {
            "new"
        } else {
            "gone"
        }
        .to_owned();
    };
    let mut parts = Vec::new();
    let fixed = Fixed::of;
    if fixed(locked.per_request) < fixed(measured.per_request) {
        parts.push("more".to_owned());
    } else if fixed(locked.per_request) > fixed(measured.per_request) {
        parts.push("fewer".to_owned());
    }
    let names = locked.errors_per_request.keys();
    let mut names: Vec<&String> = names.chain(measured.errors_per_request.keys()).collect();
    names.sort();
    names.dedup();
    for error in names {
        let of = |budget: &CallBudget| {
            let count = budget.errors_per_request.get(error);
            fixed(count.copied().unwrap_or(0.0))
        };
        if of(locked) != of(measured) {
            parts.push(format!(
                "{} {} -> {}",
                name(error),
                of(locked),
                of(measured)
            ));
        }
    }
    let bytes = |budget: &CallBudget| budget.bytes_per_call.map(fixed);
    if bytes(locked) != bytes(measured) {
        let print = |bytes: Option<Fixed>| or_absent(bytes, Fixed::short);
        parts.push(format!(
            "bytes/call {} -> {}",
            print(bytes(locked)),
            print(bytes(measured))
        ));
    }
    parts.join(", ")
}

fn limit_outcome(status: LimitStatus) -> &'static str {
    match status {
        LimitStatus::Kept => "kept",
        LimitStatus::Broken => "broken",
        LimitStatus::Warned => "exceeded; this metric is too noisy to fail a build",
        LimitStatus::Rejected => "below the floor: no measurement can tell",
        LimitStatus::NotMeasured => "not measured",
    }
}

/// The first thing that breaks the lock, in words.
fn first_change(check: &BudgetCheck) -> String {
    let broken = check
        .sections
        .iter()
        .filter(|section| section.outcome == BudgetOutcome::Broken);
    let all: Vec<String> = broken.map(first_of).collect();
    match all.as_slice() {
        [] => ABSENT.to_owned(),
        [one] => one.clone(),
        [one, others @ ..] => format!("{one}; {} more", counted(others.len(), "server")),
    }
}

fn first_of(section: &SectionCheck) -> String {
    let arm = name(&section.arm);
    if section.new {
        return format!("{arm} is not in the lock");
    }
    let breaking: Vec<&CallChange> = section.changes.iter().filter(|c| c.breaks).collect();
    let Some(first) = breaking.first() else {
        let limits = section.limits.iter();
        let broken = limits.filter(|limit| limit.status == LimitStatus::Broken);
        let limits: Vec<String> = broken.map(|limit| clean(&limit.limit)).collect();
        return format!("{arm} breaks {}", limits.join(", "));
    };
    let figure = |budget: Option<&CallBudget>| {
        budget.map_or("0".to_owned(), |budget| {
            Fixed::of(budget.per_request).to_string()
        })
    };
    let others = match breaking.len() - 1 {
        0 => String::new(),
        others => format!(", and {}", counted(others, "other call")),
    };
    format!(
        "{arm}: {} {} -> {} per request ({}){others}",
        call(first),
        figure(first.locked.as_ref()),
        figure(first.measured.as_ref()),
        what(first)
    )
}

fn first_reason(check: &BudgetCheck) -> String {
    let mut reasons = check
        .sections
        .iter()
        .filter(|section| section.outcome == check.outcome);
    let told = |section: &SectionCheck| {
        let why = section.why.as_deref()?;
        Some(format!(": {}: {}", name(&section.arm), clean(why)))
    };
    reasons.find_map(told).unwrap_or_default()
}
