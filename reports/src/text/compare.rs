//! The comparison on a terminal: verdict first, then why, then the calls, on one screen.

use recording::Recording;

use super::{footer, heading, lines, table};
use crate::join::{ArmFigures, join};
use crate::layout::{Footer, Style};
use crate::view::syscalls::{Extent, call_table};
use crate::view::{self, Line, compare as view_of, environment, judgement, published, why};

/// Renders an analysed comparison in at most 45 lines, where what has to be said leaves room for that:
/// rows that matter least go first, and Markdown has them all.
pub fn compare(recording: &Recording, style: &Style, end: &Footer) -> String {
    let figures = join(recording);
    let page = |size: &Size| page(recording, &figures, *style, size) + &footer(*style, end);
    let fits = |text: &String| text.lines().count() <= LINES;
    let (last, larger) = SIZES.split_last().expect("there are sizes");
    let mut pages = larger.iter().map(page);
    pages.find(fits).unwrap_or_else(|| page(last))
}

/// How much of each part is shown.
struct Size {
    /// Causes with a row of their own.
    causes: usize,
    /// Calls with a row of their own; for none there is no table of calls.
    calls: usize,
    /// Findings.
    findings: usize,
    /// Whether there are notes under the table of calls, what event loops did, and how headers differ.
    notes: bool,
}

fn page(recording: &Recording, figures: &[ArmFigures], style: Style, size: &Size) -> String {
    let title = format!(
        "{}  {}",
        view_of::title(recording),
        environment::of(recording)
    );
    let mut top = vec![Line::toned("compare", title, crate::layout::Tone::Strong)];
    top.extend(view::partial(recording));
    top.extend(judgement::verdict(recording));
    top.extend(judgement::live_arms(recording));
    top.extend(judgement::busy(recording));
    top.extend(judgement::gates(recording));
    let mut text = lines(style, &top);

    let headline = view_of::headline(recording, figures);
    if !headline.rows.is_empty() {
        text.push_str(&table(style, headline));
    }
    let extent = why::Extent {
        rows: size.causes,
        width: style.width,
    };
    for why in why::waterfalls(recording, extent) {
        text.push_str(&heading(style, &why.heading));
        text.push_str(&table(style, why.table));
        text.push_str(&lines(style, &why.notes));
    }
    text.push_str(&lines(style, &why::predictions(recording)));
    text.push_str(&lines(style, &why::findings(recording, size.findings)));
    text.push_str(&per_request(recording, style));
    let then = published::summary(recording, figures, style.width);
    text.push_str(&lines(style, &then));
    text.push_str(&calls(recording, figures, style, size));
    text.push_str(&lines(style, &bottom(recording, figures, size)));
    text
}

/// What each hop of a chain costs, and what TLS does.
fn per_request(recording: &Recording, style: Style) -> String {
    if judgement::hidden_by_loss(recording) {
        return String::new();
    }
    let parts = [view::hops::by_hop(recording), view::tls::by_arm(recording)];
    let text = parts.into_iter().flatten().map(|part| {
        let table = table(style, part.table.narrowed(style.width));
        heading(style, part.heading) + &table + &lines(style, &part.notes)
    });
    text.collect()
}

/// The table of calls.
fn calls(recording: &Recording, figures: &[ArmFigures], style: Style, size: &Size) -> String {
    if judgement::hidden_by_loss(recording) {
        let hidden = "SYSCALLS PER REQUEST  hidden: too many events were lost, G12";
        return heading(style, hidden);
    }
    if size.calls == 0 {
        return String::new();
    }
    let extent = Extent {
        rows: size.calls,
        width: style.width,
        rest: !why::tells_user_code(recording),
    };
    let Some(calls) = call_table(figures, extent) else {
        return String::new();
    };
    let mut text = heading(style, &calls.heading);
    text.push_str(&table(style, calls.table));
    if size.notes {
        let notes = calls.notes.into_iter().map(|note| Line::new("note", note));
        let notes: Vec<Line> = notes.chain(view_of::waits(figures)).collect();
        text.push_str(&lines(style, &notes));
    }
    text
}

/// What has to be known to believe it, and where it was made.
fn bottom(recording: &Recording, figures: &[ArmFigures], size: &Size) -> Vec<Line> {
    let mut bottom: Vec<Line> = view_of::probes(recording, figures).into_iter().collect();
    bottom.extend(view_of::unused_rounds(recording));
    if size.notes {
        bottom.extend(view_of::headers(recording));
    }
    bottom.extend(view::warnings(recording));
    let derived = view_of::derived_not_measured(recording, figures);
    bottom.extend(view::not_measured(recording, &derived));
    bottom.push(Line::new("run", environment::conditions(recording, false)));
    bottom.push(Line::new("machine", view::machine(&recording.host)));
    let summary = view::fingerprint::summary(recording);
    bottom.extend(summary.map(|text| Line::new("", text)));
    bottom
}

/// Lines of a report: one screen.
const LINES: usize = 45;

/// What is given up to fit, in this order.
const SIZES: [Size; 8] = [
    Size {
        causes: 6,
        calls: 8,
        findings: 3,
        notes: true,
    },
    Size {
        causes: 6,
        calls: 8,
        findings: 3,
        notes: false,
    },
    Size {
        causes: 6,
        calls: 5,
        findings: 3,
        notes: false,
    },
    Size {
        causes: 5,
        calls: 4,
        findings: 2,
        notes: false,
    },
    Size {
        causes: 4,
        calls: 3,
        findings: 2,
        notes: false,
    },
    Size {
        causes: 4,
        calls: 2,
        findings: 1,
        notes: false,
    },
    Size {
        causes: 3,
        calls: 1,
        findings: 1,
        notes: false,
    },
    Size {
        causes: 3,
        calls: 0,
        findings: 1,
        notes: false,
    },
];
