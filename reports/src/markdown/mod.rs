//! Reports for GitHub and forums: tables and `<details>`, no images, no raw HTML of others.
//!
//! A report has at most [`CHARACTERS_LIMIT`] characters. Rows are left out by priority, and every
//! table says how many. All text of others is escaped so that it renders as itself: it opens no
//! tag, no link, no mention and no table cell.

mod autopsy;
mod budget;
mod compare;
mod diff;
mod document;
mod escape;
mod load;
mod profile;

pub use autopsy::autopsy;
pub use budget::budget;
pub use compare::compare;
pub use diff::diff;
pub use document::CHARACTERS_LIMIT;
pub use load::load;
pub use profile::profile;
