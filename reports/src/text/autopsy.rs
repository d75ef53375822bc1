//! An examination of other tools' output on a terminal.

use recording::Autopsy;

use super::{lines, table};
use crate::layout::{Style, Tone};
use crate::view::autopsy as view;

/// Renders an examination.
pub fn autopsy(autopsy: &Autopsy, style: &Style) -> String {
    let style = *style;
    let title = style.paint(Tone::Strong, "autopsy");
    let mut text = format!("{title}  {}\n", view::title(autopsy));
    text.push_str(&lines(style, &[view::verdict(autopsy)]));
    text.push_str(&table(style, view::servers(autopsy)));
    text.push_str(&lines(style, &view::ratios(autopsy)));
    for (heading, of_kind) in view::statements(autopsy) {
        text.push_str(&super::heading(style, heading));
        for line in of_kind {
            text.push_str(&style.item(&line.text));
        }
    }
    let mut end = view::unread(autopsy);
    end.extend(view::next(autopsy));
    text.push_str(&lines(style, &end));
    text
}
