//! Reports for the browser: one file that opens from a disk without a network.
//!
//! Everything that is said is rendered here and stands in the page without a script: verdict, gates,
//! tables and charts (inline SVG). The script adds what a reader does: picking a round, leaving rounds
//! out, changing the margin, saving the recording, which is inside. Text of others is [cleaned](crate::clean())
//! and escaped by the templates; nothing else is put into a page unescaped than our own style and script,
//! the recording in base64, and JSON without the sign that could end it.

mod autopsy;
mod axis;
mod breakdown;
mod budget;
mod calls;
mod compare;
mod configuration;
mod controls;
mod diff;
mod element;
mod flame;
mod latency;
mod load;
mod method;
mod page;
mod payload;
mod plot;
mod profile;
mod rounds;
mod scatter;
mod single;
mod table;
mod timeline;
mod verdict;
mod wakes;
mod waterfall;

pub use autopsy::autopsy;
pub use budget::budget;
pub use compare::compare;
pub use diff::diff;
pub use load::load;
pub use profile::profile;
pub use table::table;
