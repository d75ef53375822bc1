//! A load as Markdown.

use recording::Recording;

use super::document::{Document, Priority};
use super::escape::escape;
use crate::layout::Footer;
use crate::view::{self, load as view_of};

/// Renders a load.
pub fn load(recording: &Recording, end: &Footer) -> String {
    let mut document = Document::default();
    let mut lines: Vec<view::Line> = view::partial(recording).into_iter().collect();
    let load = view_of::load(recording);
    if let Some(load) = load {
        document.text(&format!("### load {}", escape(&view_of::title(load))));
        lines.extend(view_of::lines(load));
    } else {
        document.text("### load");
        lines.push(view::Line::new("load", "nothing was measured"));
        lines.extend(view::compare::unused_rounds(recording));
    }
    lines.extend(view::warnings(recording));
    lines.extend(view::not_measured(recording, &[]));
    document.list(Priority::Caveats, &lines);
    if let Some(load) = load {
        document.table(Priority::Verdict, &view_of::quantile_table(load));
        document.details("slices", &view_of::slice_table(load));
    }
    document.text(&escape(&view::machine(&recording.host)));
    document.footer(end);
    document.render()
}
