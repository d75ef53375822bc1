//! The page of a check of exact counts against a lock file.

use maud::html;
use recording::BudgetCheck;

use super::element;
use super::page::{Page, Section};
use crate::view::budget as view;

/// Renders a check as one page that needs nothing else; `accept` is the command that takes over what
/// changed.
pub fn budget(check: &BudgetCheck, accept: &str) -> String {
    let (headline, _) = view::headline(check);
    let tables = [
        ("Changes", view::changes(check)),
        ("Limits", view::limits(check)),
    ];
    let verdict = Section {
        id: "verdict",
        title: "Verdict",
        body: html! {
            div.verdict { p { (headline) } }
            @for (name, table) in &tables {
                @if !table.rows.is_empty() {
                    h3 { (name) }
                    (element::table(name, table))
                }
            }
            (element::lines(&view::remarks(check)))
            (element::lines(&view::next(check, accept).into_iter().collect::<Vec<_>>()))
        },
    };
    let title = "syscall budget".to_owned();
    Page::of_text("gate", title, vec![view::conditions(check)], vec![verdict])
}
