//! What a report says, before any format lays it out.
//!
//! Text and Markdown print the same figures because both take them from here. Everything that
//! leaves this module is clean: no format has to remember to sanitise, only to escape.

pub(crate) mod autopsy;
pub(crate) mod below;
pub(crate) mod budget;
pub(crate) mod compare;
pub(crate) mod control;
pub(crate) mod diff;
pub(crate) mod environment;
pub(crate) mod fingerprint;
pub(crate) mod flame;
pub(crate) mod hops;
pub(crate) mod judgement;
pub(crate) mod load;
mod measures;
mod processes;
pub(crate) mod profile;
pub(crate) mod published;
pub(crate) mod syscalls;
pub(crate) mod threads;
pub(crate) mod tls;
mod transport;
pub(crate) mod why;

use recording::{Host, NotMeasured, Recording, Warning};

use crate::clean::{clean, clean_to};
use crate::layout::Tone;

/// A table of what parts of a request cost, and what is to be said of it.
pub(crate) struct PerRequest {
    pub(crate) heading: &'static str,
    pub(crate) table: Table,
    pub(crate) notes: Vec<Line>,
}

/// A line with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// One short word.
    pub(crate) label: &'static str,
    /// The rest.
    pub(crate) text: String,
    /// How it is to be read.
    pub(crate) tone: Option<Tone>,
}

impl Line {
    pub(crate) fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self {
            label,
            text: text.into(),
            tone: None,
        }
    }

    pub(crate) fn toned(label: &'static str, text: impl Into<String>, tone: Tone) -> Self {
        Self {
            label,
            text: text.into(),
            tone: Some(tone),
        }
    }
}

/// A table whose cells are ready to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Columns that are aligned to the left, besides the first.
    pub(crate) left: Vec<usize>,
    /// Columns that may go where there is no room, the first one first.
    pub(crate) optional: Vec<usize>,
}

impl Table {
    /// The table without as many optional columns as it takes to fit a width.
    pub(crate) fn narrowed(mut self, width: usize) -> Self {
        while self.width() > width && !self.optional.is_empty() {
            let gone = self.optional.remove(0);
            self.header.remove(gone);
            for row in &mut self.rows {
                row.remove(gone);
            }
            self.left.retain(|&column| column != gone);
            for column in self.left.iter_mut().chain(&mut self.optional) {
                *column -= usize::from(*column > gone);
            }
        }
        self
    }

    /// Columns of text that it fills: a blank on either side of each column, none at the end.
    fn width(&self) -> usize {
        let rows = || self.rows.iter().chain([&self.header]);
        let cells = |column: usize| rows().map(|row| row[column].chars().count()).max();
        let columns: usize = (0..self.header.len())
            .filter_map(cells)
            .map(|cells| cells + 2)
            .sum();
        columns.saturating_sub(1)
    }
}

/// A name that somebody else chose, fit for a table cell.
pub(crate) fn name(text: &str) -> String {
    clean_to(text, 40)
}

/// A sentence that somebody else wrote.
pub(crate) fn sentence(text: &str) -> String {
    clean_to(text, 400)
}

/// Cells that are missing.
pub(crate) const ABSENT: &str = "-";

/// A figure, or the sign that it is absent.
pub(crate) fn or_absent<T>(value: Option<T>, print: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), print)
}

/// Every warning of a recording and of its halves, each once, with how often it was given. Where warnings of
/// one kind differ in their figures only, the first stands for all.
pub(crate) fn warnings(recording: &Recording) -> Vec<Line> {
    let rounds = recording.rounds.iter();
    let of_halves = rounds.flat_map(|round| {
        let load = round.load.iter().flat_map(|load| &load.warnings);
        load.chain(round.profile.iter().flat_map(|profile| &profile.warnings))
    });
    let mut counted: Vec<(&Warning, usize, usize)> = Vec::new();
    for warning in recording.warnings.iter().chain(of_halves) {
        let alike = |known: &&mut (&Warning, usize, usize)| {
            known.0.code == warning.code
                && without_figures(&known.0.text).eq(without_figures(&warning.text))
        };
        match counted.iter_mut().find(alike) {
            Some((known, equal, _)) if *known == warning => *equal += 1,
            Some((_, _, others)) => *others += 1,
            None => counted.push((warning, 1, 0)),
        }
    }
    counted
        .into_iter()
        .map(|(warning, equal, others)| {
            let times = match (equal, others) {
                (1, 0) => String::new(),
                (_, 0) => format!(" ({equal} times)"),
                _ => format!(" ({} times, with other figures)", equal + others),
            };
            Line::toned(
                "warning",
                format!("{}{times}", sentence(&warning.text)),
                Tone::Caution,
            )
        })
        .collect()
}

fn without_figures(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|digit| !digit.is_ascii_digit())
}

/// Everything that was not measured, each once, with its reason and remedy.
pub(crate) fn not_measured(recording: &Recording, derived: &[NotMeasured]) -> Vec<Line> {
    let of_rounds = recording.rounds.iter().flat_map(|round| {
        round
            .profile
            .iter()
            .flat_map(|profile| &profile.not_measured)
    });
    let mut lines: Vec<Line> = Vec::new();
    let derived_known = |what: &str| recording.not_measured.iter().any(|item| item.what == what);
    let derived = derived.iter().filter(|item| !derived_known(&item.what));
    for item in recording
        .not_measured
        .iter()
        .chain(of_rounds)
        .chain(derived)
    {
        let remedy = item
            .remedy
            .as_ref()
            .map_or(String::new(), |remedy| format!(" ({})", clean(remedy)));
        // Never cut: the end of a reason is often the part that helps.
        let text = format!(
            "{}: not measured: {}{remedy}",
            clean(&item.what),
            clean(&item.why)
        );
        if !lines.iter().any(|line| line.text == text) {
            lines.push(Line::toned("missing", text, Tone::Caution));
        }
    }
    lines
}

/// The end of a partial run.
pub(crate) fn partial(recording: &Recording) -> Option<Line> {
    let partial = recording.partial.as_ref()?;
    let text = format!(
        "the run ended early: {}; figures cover what was done",
        sentence(&partial.why)
    );
    Some(Line::toned("PARTIAL", text, Tone::Bad))
}

/// The machine in one line.
pub(crate) fn machine(host: &Host) -> String {
    let mut parts = vec![format!(
        "kernel {} {}",
        name(&host.kernel),
        name(&host.arch)
    )];
    let cpus = format!("{} CPUs", host.cpus);
    parts.push(match &host.cpu_model {
        Some(model) => format!("{cpus}, {}", name(model)),
        None => cpus,
    });
    parts.extend(host.virtualization.as_ref().map(|kind| name(kind)));
    parts.extend(
        host.governor
            .as_ref()
            .map(|governor| format!("governor {}", name(governor))),
    );
    parts.join("  ")
}
