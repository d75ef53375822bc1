//! From a recording to what it means: join, statistics, gates, verdict, and every renderer.
//!
//! Pure: it opens no file, no socket and no process, and reads no clock. [`analyse`] fills the
//! derived part of a [`Recording`](recording::Recording) from its rounds; the renderers turn an
//! analysed recording into text, Markdown or a page for the browser. JSON is the recording itself
//! ([`Recording::to_json`](recording::Recording::to_json)).
//!
//! All text that came from kernels, servers or command lines goes through [`clean`] before it is
//! laid out, so that no renderer can pass an escape sequence on to a terminal.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod analyse;
pub mod attribution;
pub mod autopsy;
pub mod budget;
mod clean;
pub mod csv;
pub mod diff;
mod disturbance;
mod figures;
pub mod findings;
pub mod fingerprint;
pub mod flame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gates;
pub mod hdr;
pub mod hops;
pub mod html;
pub mod join;
mod layout;
mod limiter;
pub mod markdown;
pub mod metrics;
mod outcome;
pub mod predict;
pub mod prometheus;
pub mod slices;
pub mod statistics;
pub mod text;
pub mod tls;
pub mod tools;
pub mod verdict;
mod view;

pub use analyse::{analyse, analyse_allowing};
pub use clean::clean;
pub use disturbance::leave_out_disturbed;
pub use layout::{Footer, Style};
pub use outcome::{Limits, exit_code};
pub use view::published::is_published_metric;
