//! A check against a lock file as the comment on a pull request.

use recording::BudgetCheck;

use super::document::{Document, Priority};
use super::escape::escape;
use crate::view::Line;
use crate::view::budget as view;

/// Renders a check; `accept` is the command that takes over what changed. The first line stands
/// alone, as in the subject of an e-mail.
pub fn budget(check: &BudgetCheck, accept: &str) -> String {
    let mut document = Document::default();
    let (headline, _) = view::headline(check);
    document.text(&format!("### syscall budget {}", escape(&headline)));
    document.text(&escape(&view::conditions(check)));
    document.table(Priority::Tables, &view::changes(check));
    document.table(Priority::Tables, &view::limits(check));
    document.list(Priority::Caveats, &view::remarks(check));
    let next: Vec<Line> = view::next(check, accept).into_iter().collect();
    document.list(Priority::Verdict, &next);
    document.render()
}
