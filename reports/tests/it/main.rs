//! Tests of the public API on recordings built here: laws, gates, layouts.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod attribution;
mod autopsy;
mod autopsy_laws;
mod below;
mod budget;
mod compare_text;
mod diff;
mod disturbed;
mod false_alarms;
mod findings;
mod fixture;
mod flame;
mod gates;
mod half_text;
mod hops;
mod html;
mod join;
mod laws;
mod markdown;
mod published;
mod real;
mod report_parts;
mod run_gates;
mod scenario;
mod server;
mod strace;
mod superset;
mod text;
mod threads;
mod tls;
mod tools;
mod transport;
mod truth;
mod verdict;
mod why;
