//! The comparison on a terminal: verdict first, then why, then the calls.

use recording::Recording;

use super::{footer, heading, lines, table};
use crate::join::join;
use crate::layout::{Footer, Style, Tone};
use crate::view::syscalls::{Extent, call_table};
use crate::view::{self, Line, compare as view_of, judgement, why};

/// Renders an analysed comparison.
pub fn compare(recording: &Recording, style: &Style, end: &Footer) -> String {
    let style = *style;
    let figures = join(recording);
    let title = style.paint(
        Tone::Strong,
        &format!("compare {}", view_of::title(recording)),
    );
    let mut text = format!("{title}\n");
    let kernel = view::name(&recording.host.kernel);
    let environment = format!("{}  kernel {kernel}", view_of::environment(recording));
    let mut top = vec![
        Line::new("", environment),
        Line::new("", view_of::conditions(recording, false)),
    ];
    top.extend(view::partial(recording));
    top.extend(judgement::verdict(recording));
    top.extend(judgement::live_arms(recording));
    top.extend(judgement::busy(recording));
    top.extend(judgement::gates(recording));
    text.push_str(&lines(style, &top));

    let headline = view_of::headline(recording, &figures);
    if !headline.rows.is_empty() {
        text.push_str(&table(headline));
    }
    for why in why::waterfalls(
        recording,
        why::Extent {
            rows: CAUSES,
            width: style.width,
        },
    ) {
        text.push_str(&heading(style, &why.heading));
        text.push_str(&table(why.table));
        text.push_str(&lines(style, &why.notes));
    }
    text.push_str(&lines(style, &why::predictions(recording)));
    text.push_str(&lines(style, &why::findings(recording, FINDINGS)));
    if judgement::hidden_by_loss(recording) {
        text.push_str(&heading(
            style,
            "SYSCALLS PER REQUEST  hidden: too many events were lost, G12",
        ));
    } else if let Some(calls) = call_table(
        &figures,
        Extent {
            rows: ROWS,
            width: style.width,
        },
    ) {
        text.push_str(&heading(style, &calls.heading));
        text.push_str(&table(calls.table));
        let notes: Vec<Line> = calls
            .notes
            .into_iter()
            .map(|note| Line::new("note", note))
            .collect();
        text.push_str(&lines(style, &notes));
        text.push_str(&lines(style, &view_of::waits(&figures)));
    }
    let mut bottom: Vec<Line> = view_of::probes(recording, &figures).into_iter().collect();
    bottom.extend(view_of::failed_rounds(recording));
    bottom.extend(view_of::headers(recording));
    bottom.extend(view::warnings(recording));
    let derived = view_of::derived_not_measured(recording, &figures);
    bottom.extend(view::not_measured(recording, &derived));
    text.push_str(&lines(style, &bottom));
    if let Some(settings) = view_of::settings(recording) {
        text.push_str(&table(settings));
    }
    text.push_str(&footer(style, end));
    text
}

/// Calls with a row of their own.
const ROWS: usize = 8;
/// Causes with a row of their own.
const CAUSES: usize = 6;
/// Findings that are shown.
const FINDINGS: usize = 3;
