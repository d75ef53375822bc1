//! The comparison as Markdown.

use recording::Recording;

use super::document::{Document, Priority};
use super::escape::{escape, fenced};
use crate::clean::clean_to;
use crate::join::join;
use crate::layout::Footer;
use crate::view::syscalls::{Extent, call_table};
use crate::view::{self, compare as view_of, environment, judgement, published, why};

/// Renders an analysed comparison.
pub fn compare(recording: &Recording, end: &Footer) -> String {
    let figures = join(recording);
    let mut document = Document::default();
    document.text(&format!("### {}", escape(&view_of::title(recording))));
    let mut top: Vec<view::Line> = view::partial(recording).into_iter().collect();
    top.extend(judgement::verdict(recording));
    top.extend(judgement::live_arms(recording));
    top.extend(judgement::busy(recording));
    document.list(Priority::Verdict, &top);
    let environment = format!(
        "{}  {}",
        environment::of(recording),
        view::machine(&recording.host)
    );
    document.text(&escape(&environment));
    let conditions = environment::conditions(recording, true);
    document.text(&escape(&clean_to(&conditions, CONDITIONS_LIMIT)));
    if let Some(summary) = view::fingerprint::summary(recording) {
        document.text(&escape(&summary));
    }
    document.table(Priority::Verdict, &view_of::headline(recording, &figures));
    document.table(Priority::Caveats, &view::control::at_equal_rates(recording));
    document.list(Priority::Caveats, &judgement::gates(recording));

    let waterfalls = why::waterfalls(recording, WHY);
    for why in waterfalls {
        document.headed_table(Priority::Caveats, &why.heading, &why.table);
        document.list(Priority::Caveats, &why.notes);
    }
    document.list(Priority::Caveats, &why::predictions(recording));
    if !recording.findings.is_empty() && !judgement::hidden_by_loss(recording) {
        document.table(Priority::Caveats, &why::finding_table(recording));
    }
    if let Some(then) = published::as_published(recording, &figures) {
        document.headed_table(Priority::Caveats, &then.heading, &then.figures);
        document.list(Priority::Caveats, &then.notes);
        document.table(Priority::Tables, &then.changes);
        document.list(Priority::Tables, &then.origin);
    }

    let hidden = judgement::hidden_by_loss(recording);
    let parts = [view::hops::by_hop(recording), view::tls::by_arm(recording)];
    for part in parts.into_iter().flatten().filter(|_| !hidden) {
        document.headed_table(Priority::Caveats, part.heading, &part.table);
        document.list(Priority::Caveats, &part.notes);
    }
    let extent = Extent {
        rows: ROWS,
        width: usize::MAX,
        rest: true,
    };
    if judgement::hidden_by_loss(recording) {
        document.text("Syscalls per request are hidden: too many events were lost (G12).");
    } else if let Some(calls) = call_table(&figures, extent) {
        document.headed_table(Priority::Tables, &calls.heading, &calls.table);
        let mut notes: Vec<view::Line> = calls
            .notes
            .into_iter()
            .map(|note| view::Line::new("note", note))
            .collect();
        notes.extend(view_of::waits(&figures));
        document.list(Priority::Tables, &notes);
    }
    let mut caveats: Vec<view::Line> = view_of::probes(recording, &figures).into_iter().collect();
    caveats.extend(view_of::unused_rounds(recording));
    caveats.extend(view_of::headers(recording));
    caveats.extend(view::warnings(recording));
    let derived = view_of::derived_not_measured(recording, &figures);
    caveats.extend(view::not_measured(recording, &derived));
    document.list(Priority::Caveats, &caveats);
    if let Some(settings) = view_of::settings(recording) {
        document.table(Priority::Caveats, &settings);
    }
    document.details("all gates", &judgement::gate_table(recording));
    if let Some(fingerprint) = &recording.fingerprint {
        let summary = format!("fingerprint of the machine, {}", fingerprint.hash);
        document.details(
            "programs and limits of the servers",
            &view::fingerprint::server_table(fingerprint),
        );
        document.details(&summary, &view::fingerprint::machine_table(fingerprint));
    }
    for arm in &recording.arms {
        for (title, file) in view::hops::files(arm) {
            let summary = view_of::config_title(recording, arm, &title, file);
            document.fenced_details(&summary, fenced(&file.text, LINE_LIMIT));
        }
    }
    document.footer(end);
    document.render()
}

/// Calls with a row of their own.
const ROWS: usize = 60;
/// Causes with a row of their own, and the room for their figures.
const WHY: why::Extent = why::Extent {
    rows: 12,
    width: 400,
};
/// Characters of the paragraph that names the program of every arm.
const CONDITIONS_LIMIT: usize = 2000;
/// Characters of a line of a configuration file.
const LINE_LIMIT: usize = 300;
