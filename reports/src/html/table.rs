//! The page of a single table.

use super::element;
use super::page::{Page, Section};
use crate::clean::clean;
use crate::view::Table;

/// Renders a table as one page that needs nothing else; text of any origin may be in its cells.
pub fn table<const COLUMNS: usize>(
    verb: &'static str,
    title: &str,
    header: [&str; COLUMNS],
    rows: &[[&str; COLUMNS]],
) -> String {
    let table = Table {
        header: header.map(clean).into(),
        rows: rows.iter().map(|row| row.map(clean).into()).collect(),
        left: (1..COLUMNS).collect(),
        optional: Vec::new(),
    };
    let result = Section {
        id: "result",
        title: "Result",
        body: element::table("Result", &table),
    };
    Page::of_text(verb, title.to_owned(), Vec::new(), vec![result])
}
