//! The page of an examination of other tools' output.

use maud::html;
use recording::Autopsy;

use super::element;
use super::page::{Page, Section};
use crate::view::autopsy as view;

/// Renders an examination as one page that needs nothing else.
pub fn autopsy(autopsy: &Autopsy) -> String {
    let section = |id, title, body| Section { id, title, body };
    let verdict = view::verdict(autopsy);
    let next: Vec<_> = view::next(autopsy).into_iter().collect();
    let statements = view::statements(autopsy);
    let sections = vec![
        section(
            "verdict",
            "Verdict",
            html! {
                div.verdict.caution { p { (verdict.text) } }
                (element::lines(&next))
            },
        ),
        section(
            "servers",
            "Servers",
            html! {
                (element::table("Servers side by side", &view::servers(autopsy)))
                (element::lines(&view::ratios(autopsy)))
            },
        ),
        section(
            "statements",
            "What follows",
            html! {
                @for (heading, of_kind) in statements {
                    h3 { (heading) }
                    (element::lines(&of_kind))
                }
                (element::lines(&view::unread(autopsy)))
            },
        ),
    ];
    Page::of_text("autopsy", view::title(autopsy), Vec::new(), sections)
}
