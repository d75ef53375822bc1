//! A check against a lock file on a terminal.

use recording::BudgetCheck;

use super::{lines, table};
use crate::layout::{Style, Tone};
use crate::view::Line;
use crate::view::budget as view;

/// Renders a check; `accept` is the command that takes over what changed.
pub fn budget(check: &BudgetCheck, accept: &str, style: &Style) -> String {
    let style = *style;
    let (headline, tone) = view::headline(check);
    let title = style.paint(Tone::Strong, "syscall budget");
    let mut text = format!("{title}  {}\n", style.paint(tone, &headline));
    text.push_str(&lines(style, &[Line::new("", view::conditions(check))]));
    for part in [view::changes(check), view::limits(check)] {
        if !part.rows.is_empty() {
            text.push_str(&table(style, part));
        }
    }
    let mut end = view::remarks(check);
    end.extend(view::next(check, accept));
    text.push_str(&lines(style, &end));
    text
}
