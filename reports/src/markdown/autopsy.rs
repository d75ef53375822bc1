//! An examination of other tools' output in Markdown.

use recording::Autopsy;

use super::document::{Document, Priority};
use super::escape::escape;
use crate::view::Line;
use crate::view::autopsy as view;

/// Renders an examination.
pub fn autopsy(autopsy: &Autopsy) -> String {
    let mut document = Document::default();
    let verdict = view::verdict(autopsy);
    document.text(&format!("**{}**", escape(&verdict.text)));
    document.text(&view::title(autopsy));
    document.table(Priority::Tables, &view::servers(autopsy));
    document.list(Priority::Caveats, &view::ratios(autopsy));
    for (heading, of_kind) in view::statements(autopsy) {
        document.text(&format!("**{heading}**"));
        document.list(Priority::Caveats, &of_kind);
    }
    document.list(Priority::Caveats, &view::unread(autopsy));
    let next: Vec<Line> = view::next(autopsy).into_iter().collect();
    document.list(Priority::Verdict, &next);
    document.render()
}
