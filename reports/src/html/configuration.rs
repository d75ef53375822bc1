//! What was compared: settings, answers and programs side by side, and configuration files as a diff.

use maud::{Markup, html};
use recording::{Arm, ArmKind, Recording};
use similar::{ChangeTag, TextDiff};

use super::element;
use crate::clean::{clean, clean_to};
use crate::gates::settings as all_settings;
use crate::view::{self, Table, compare as view_of, or_absent};

/// Everything about the arms.
pub(super) fn configuration(recording: &Recording) -> Markup {
    html! {
        p.small { "Rows that differ are marked ≠. What differs on purpose is what is compared; what differs by accident \
                   is a reason to doubt it (gates G1 to G4, G14)." }
        (element::table("Programs", &programs(recording)))
        (element::table("Settings", &settings(recording)))
        (element::table("What the servers answered", &answers(recording)))
        (files(recording))
        (element::table("Machine", &machine(recording)))
    }
}

/// A table with an arm per column, rows that are not equal marked.
fn side_by_side(recording: &Recording, rows: Vec<(String, Vec<String>)>) -> Table {
    let mut header = vec![String::new(), String::new()];
    header.extend(recording.arms.iter().map(|arm| view::name(&arm.name)));
    let rows = rows.into_iter().map(|(title, cells)| {
        let differs = cells.windows(2).any(|pair| pair[0] != pair[1]);
        let mut row = vec![title, if differs { "≠" } else { "" }.to_owned()];
        row.extend(cells);
        row
    });
    Table {
        left: (1..header.len()).collect(),
        optional: Vec::new(),
        header,
        rows: rows.collect(),
    }
}

fn each(recording: &Recording, cell: impl Fn(&Arm) -> Option<String>) -> Vec<String> {
    let arms = recording.arms.iter();
    arms.map(|arm| or_absent(cell(arm), |text| clean_to(&text, CELL)))
        .collect()
}

fn programs(recording: &Recording) -> Table {
    let kind = |arm: &Arm| {
        let word = match arm.kind {
            ArmKind::Command => "a command",
            ArmKind::Live => "a live server, not restarted",
            ArmKind::Recipe => "a recipe",
            ArmKind::Testserver => "the built-in server",
        };
        Some(word.to_owned())
    };
    let rows = [
        (
            "as asked for",
            each(recording, |arm| Some(arm.spec.clone())),
        ),
        ("kind", each(recording, kind)),
        ("version", each(recording, |arm| arm.version.clone())),
        ("sha256", each(recording, |arm| arm.binary_sha256.clone())),
        (
            "command",
            each(recording, |arm| {
                (!arm.command.is_empty()).then(|| arm.command.join(" "))
            }),
        ),
    ];
    let rows = rows.map(|(title, cells)| (title.to_owned(), cells));
    side_by_side(
        recording,
        rows.into_iter().chain(builds(recording)).collect(),
    )
}

/// What programs say of how they were built; of a chain hop by hop.
fn builds(recording: &Recording) -> Vec<(String, Vec<String>)> {
    let all = |arm: &Arm| {
        let own = arm
            .build
            .iter()
            .map(|fact| (fact.key.clone(), fact.value.clone()));
        let hops = arm.hops.iter().flat_map(|hop| {
            let build = hop.build.iter();
            build.map(|fact| (format!("{}: {}", hop.name, fact.key), fact.value.clone()))
        });
        own.chain(hops).collect::<Vec<_>>()
    };
    let arms: Vec<Vec<(String, String)>> = recording.arms.iter().map(all).collect();
    let mut keys: Vec<&String> = Vec::new();
    for (key, _) in arms.iter().flatten() {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let rows = keys.into_iter().map(|key| {
        let cells = arms.iter().map(|build| {
            let found = build.iter().find(|(other, _)| other == key);
            or_absent(found, |(_, value)| clean_to(value, CELL))
        });
        (view::name(key), cells.collect())
    });
    rows.collect()
}

fn settings(recording: &Recording) -> Table {
    let rows = all_settings(&recording.arms).into_iter().map(|row| {
        let cells = row.values.iter();
        let cells = cells.map(|value| or_absent(value.as_ref(), |text| clean_to(text, CELL)));
        (view::name(&row.key), cells.collect())
    });
    side_by_side(recording, rows.collect())
}

fn answers(recording: &Recording) -> Table {
    let seen = |cell: fn(&recording::ResponseShape) -> String| {
        each(recording, move |arm| arm.response.as_ref().map(cell))
    };
    if recording.arms.iter().all(|arm| arm.response.is_none()) {
        return Table::default();
    }
    let mut rows = vec![
        (
            "status".to_owned(),
            seen(|shape| {
                let statuses: Vec<String> = shape.statuses.keys().map(u16::to_string).collect();
                statuses.join(" ")
            }),
        ),
        (
            "body, bytes".to_owned(),
            seen(|shape| shape.body_bytes.to_string()),
        ),
        (
            "body, sha256".to_owned(),
            seen(|shape| shape.body_sha256.clone()),
        ),
        (
            "head, bytes".to_owned(),
            seen(|shape| shape.head_bytes.to_string()),
        ),
        (
            "body ends by".to_owned(),
            seen(|shape| shape.framing.clone()),
        ),
    ];
    let mut names: Vec<String> = Vec::new();
    let shapes = recording
        .arms
        .iter()
        .filter_map(|arm| arm.response.as_ref());
    for (name, _) in shapes.flat_map(|shape| &shape.headers) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name.clone());
        }
    }
    for name in names.iter().take(HEADERS) {
        let cells = each(recording, |arm| {
            let headers = &arm.response.as_ref()?.headers;
            let mut same = headers
                .iter()
                .filter(|(other, _)| other.eq_ignore_ascii_case(name));
            same.next().map(|(_, value)| value.clone())
        });
        rows.push((format!("header {}", view::name(name)), cells));
    }
    side_by_side(recording, rows)
}

fn machine(recording: &Recording) -> Table {
    let host = &recording.host;
    let text = |value: Option<&String>| or_absent(value, |text| view::sentence(text));
    let rows = [
        ("host", view::name(&host.hostname)),
        ("kernel", view::name(&host.kernel)),
        ("architecture", view::name(&host.arch)),
        ("CPUs", host.cpus.to_string()),
        ("CPU model", text(host.cpu_model.as_ref())),
        (
            "memory",
            or_absent(host.memory_bytes, |bytes| {
                crate::figures::bytes(bytes as f64)
            }),
        ),
        ("clock source", text(host.clocksource.as_ref())),
        ("frequency governor", text(host.governor.as_ref())),
        ("virtualization", text(host.virtualization.as_ref())),
        (
            "load average at the start",
            or_absent(host.load_average_centi, |centi| {
                format!("{:.2}", f64::from(centi) / 100.0)
            }),
        ),
    ];
    Table {
        header: vec![String::new(), "value".to_owned()],
        rows: rows
            .map(|(title, value)| vec![title.to_owned(), value])
            .into(),
        left: vec![1],
        optional: Vec::new(),
    }
}

/// Files of the same name as a diff against the first arm's, others whole.
fn files(recording: &Recording) -> Markup {
    let Some((first, others)) = recording.arms.split_first() else {
        return html! {};
    };
    let firsts = view::hops::files(first);
    let counterpart = |name: &str| {
        let mut files = firsts.iter();
        files.find_map(|(own, file)| (own == name).then_some(*file))
    };
    html! {
        @for (name, file) in &firsts {
            (whole(&view_of::config_title(recording, first, name, file), &file.text))
        }
        @for other in others {
            @for (name, file) in view::hops::files(other) {
                @let title = view_of::config_title(recording, other, &name, file);
                @match counterpart(&name) {
                    Some(own) if own.text == file.text => {
                        p { (title) ": equal to that of " (view::name(&first.name)) }
                    }
                    Some(own) => (diff(&format!("{title}, against {}", view::name(&first.name)), &own.text, &file.text)),
                    None => (whole(&title, &file.text)),
                }
            }
        }
    }
}

fn whole(title: &str, text: &str) -> Markup {
    html! {
        details {
            summary { (title) }
            pre tabindex="0" {
                @for line in text.lines().take(FILE_LINES) { (file_line(line)) "\n" }
                (cut(text.lines().count()))
            }
        }
    }
}

fn diff(title: &str, old: &str, new: &str) -> Markup {
    let changes = TextDiff::from_lines(old, new);
    html! {
        details open {
            summary { (title) }
            pre.diff tabindex="0" {
                @for change in changes.iter_all_changes().take(FILE_LINES) {
                    @let line = file_line(change.value().trim_end_matches(['\r', '\n']));
                    @match change.tag() {
                        ChangeTag::Equal => { (marked("  ", &line)) "\n" }
                        ChangeTag::Delete => del { (marked("- ", &line)) "\n" },
                        ChangeTag::Insert => ins { (marked("+ ", &line)) "\n" },
                    }
                }
                (cut(changes.iter_all_changes().count()))
            }
        }
    }
}

/// A line behind its marker, without white space at the end.
fn marked(marker: &str, line: &str) -> String {
    format!("{marker}{line}").trim_end().to_owned()
}

fn file_line(line: &str) -> String {
    clean_to(line.replace('\t', "    ").trim_end(), LINE)
}

fn cut(lines: usize) -> String {
    match lines.saturating_sub(FILE_LINES) {
        0 => String::new(),
        more => clean(&format!("({more} more lines, the recording has them)")),
    }
}

/// Characters of a cell.
const CELL: usize = 300;
/// Header fields that are shown.
const HEADERS: usize = 60;
/// Lines of a file that are shown.
const FILE_LINES: usize = 400;
/// Characters of a line.
const LINE: usize = 300;
