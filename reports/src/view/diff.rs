//! What the difference between two profiles says.

use recording::{
    CallDiff, DiffFigures, DiffSide, DiffTimes, DiffWord, Family, FamilyDiff, GateStatus,
    SyscallDiff,
};

use super::{ABSENT, Line, Table, name, or_absent, sentence};
use crate::clean::clean;
use crate::diff::word;
use crate::figures::{bytes, counted, grouped, micros, per_request, rate};
use crate::layout::Tone;

/// One side in one line.
pub(crate) fn side(diff: &SyscallDiff, side: &DiffSide) -> String {
    let mut parts = vec![name(&side.arm)];
    parts.extend(side.version.as_deref().map(name));
    parts.push(name(&side.source));
    let units = if side.units.fract() == 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive whole number; the cast saturates"
        )]
        grouped(side.units as u64)
    } else {
        rate(side.units)
    };
    parts.push(format!(
        "{}, {units} {}s",
        counted(side.rounds as usize, "round"),
        word(diff.per)
    ));
    parts.join("  ")
}

/// What the figures are.
pub(crate) fn heading(diff: &SyscallDiff) -> String {
    let exact = if diff.exact { ", exact" } else { "" };
    let times = match diff.times {
        DiffTimes::None => "no times",
        DiffTimes::Inside => "us inside calls, ours included",
        DiffTimes::Split => "us inside calls on and off the CPU, ours included",
    };
    format!(
        "per {}{exact}; {times}; largest difference first",
        word(diff.per)
    )
}

/// What the columns of figures are.
pub(crate) fn columns(diff: &SyscallDiff) -> Vec<&'static str> {
    let mut columns = vec!["n", "err", "B/call"];
    match diff.times {
        DiffTimes::None => {}
        DiffTimes::Inside => columns.push("us"),
        DiffTimes::Split => columns.extend(["on us", "off us"]),
    }
    columns
}

/// The figures of one side of a call, in the order of the columns.
pub(crate) fn cells(diff: &SyscallDiff, figures: &DiffFigures, waits: bool) -> Vec<String> {
    let count = |value: f64| per_request(value, diff.exact);
    let successful = figures.count - figures.errors;
    let per_call = figures.bytes.filter(|_| successful > 0.0);
    let mut cells = vec![
        count(figures.count),
        if figures.errors > 0.0 {
            count(figures.errors)
        } else {
            ABSENT.to_owned()
        },
        or_absent(per_call, |sum| bytes(sum / successful)),
    ];
    match diff.times {
        DiffTimes::None => {}
        DiffTimes::Inside if waits => cells.push("wait".to_owned()),
        DiffTimes::Inside => cells.push(or_absent(figures.inside_ns, micros)),
        DiffTimes::Split => {
            cells.push(or_absent(figures.on_cpu_ns, micros));
            cells.push(or_absent(figures.off_cpu_ns, micros));
        }
    }
    cells
}

/// The sum of one side: bytes per call mean nothing in it.
pub(crate) fn total_cells(diff: &SyscallDiff, figures: &DiffFigures) -> Vec<String> {
    let total = DiffFigures {
        bytes: None,
        ..*figures
    };
    cells(diff, &total, false)
}

/// The calls of a family that the rounds tell apart.
pub(crate) fn told(family: &FamilyDiff) -> impl Iterator<Item = &CallDiff> {
    let calls = family.calls.iter();
    calls.filter(|call| call.change != DiffWord::NotDistinguishable)
}

/// The calls that are folded; `None` where there are none.
pub(crate) fn folded(diff: &SyscallDiff) -> Option<String> {
    let calls = diff.families.iter().flat_map(|family| &family.calls);
    let names: Vec<String> = calls
        .filter(|call| call.change == DiffWord::NotDistinguishable)
        .map(|call| name(&call.call))
        .collect();
    if names.is_empty() {
        return None;
    }
    let shown = names[..names.len().min(FOLDED_NAMES)].join(", ");
    let more = match names.len().saturating_sub(FOLDED_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{}: {shown}{more}", counted(names.len(), "call")))
}

/// Calls that are named in the line of those folded.
const FOLDED_NAMES: usize = 8;

/// What a family is called.
pub(crate) fn family(family: Family) -> &'static str {
    match family {
        Family::Accept => "accept",
        Family::Close => "close",
        Family::Process => "process",
        Family::Control => "control",
        Family::Futex => "futex",
        Family::Memory => "memory",
        Family::Open => "open",
        Family::Other => "other",
        Family::Poll => "poll",
        Family::Receive => "receive",
        Family::Send => "send",
        Family::Signal => "signal",
        Family::Stat => "stat",
        Family::Time => "time",
    }
}

/// The word of a call.
pub(crate) fn change(call: &CallDiff) -> &'static str {
    match call.change {
        DiffWord::Changed => "changed",
        DiffWord::Gone => "gone",
        DiffWord::New => "new",
        DiffWord::NotDistinguishable => "not distinguishable",
    }
}

/// Checks that warn or were allowed, and what has to be known.
pub(crate) fn remarks(diff: &SyscallDiff) -> Vec<Line> {
    let mut lines = Vec::new();
    lines
        .extend(folded(diff).map(|text| Line::new("same", format!("not distinguishable: {text}"))));
    for gate in &diff.gates {
        let word = match gate.status {
            GateStatus::Allowed => "allowed",
            _ => "warning",
        };
        let text = format!(
            "{} {}: {}",
            name(&gate.id),
            name(&gate.title),
            sentence(&gate.value)
        );
        lines.push(Line::toned(word, text, Tone::Caution));
    }
    let notes = diff.notes.iter();
    lines.extend(notes.map(|note| Line::new("note", clean(note))));
    lines
}

/// All calls in one table, for formats that are wide.
pub(crate) fn table(diff: &SyscallDiff) -> Table {
    let mut header = vec!["call".to_owned(), "family".to_owned(), "what".to_owned()];
    for column in columns(diff) {
        header.extend([format!("{column} -"), format!("{column} +")]);
    }
    let both = |a: Vec<String>, b: Vec<String>| -> Vec<String> {
        a.into_iter().zip(b).flat_map(|(a, b)| [a, b]).collect()
    };
    let absent = || vec![ABSENT.to_owned(); columns(diff).len()];
    let mut rows = Vec::new();
    for of_family in &diff.families {
        for call in told(of_family) {
            let of = |figures: Option<DiffFigures>| {
                figures.map_or_else(absent, |figures| cells(diff, &figures, call.waits))
            };
            let mut row = vec![
                name(&call.call),
                family(of_family.family).to_owned(),
                change(call).to_owned(),
            ];
            row.extend(both(of(call.a), of(call.b)));
            rows.push(row);
        }
    }
    let mut all = vec!["all".to_owned(), String::new(), String::new()];
    let totals = (
        total_cells(diff, &diff.a.total),
        total_cells(diff, &diff.b.total),
    );
    all.extend(both(totals.0, totals.1));
    rows.push(all);
    Table {
        header,
        rows,
        left: vec![1, 2],
        optional: Vec::new(),
    }
}
