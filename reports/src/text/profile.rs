//! A profile on a terminal: first the table that reads like `strace -c`, then what strace lacks.

use recording::Recording;

use super::{footer, lines, strace, table};
use crate::layout::{Footer, Style, Tone};
use crate::view::{self, flame, profile as view_of, threads};

/// Renders a profile.
pub fn profile(recording: &Recording, style: &Style, end: &Footer) -> String {
    let style = *style;
    let Some(profile) = view_of::profile(recording) else {
        let mut all: Vec<view::Line> = view::partial(recording).into_iter().collect();
        all.push(view::Line::toned(
            "profile",
            "nothing was measured",
            Tone::Bad,
        ));
        all.extend(view::compare::unused_rounds(recording));
        all.extend(view::not_measured(recording, &[]));
        return lines(style, &all);
    };
    let mut text = strace::tables(profile, &recording.host.arch);
    if text.is_empty() {
        text.push_str("no call returned during the window\n");
    }
    text.push('\n');
    let mut all: Vec<view::Line> = view::partial(recording).into_iter().collect();
    all.extend(view_of::lines(profile));
    all.extend(flame::lines(recording));
    all.extend(view::warnings(recording));
    all.extend(view::not_measured(recording, &[]));
    text.push_str(&lines(style, &all));
    for part in [
        flame::hottest(recording, FUNCTION_ROWS),
        view_of::rates(profile, RATE_ROWS),
        threads::terms(profile),
        threads::calls(profile, RATE_ROWS),
        threads::groups(profile, GROUP_ROWS),
    ] {
        if !part.rows.is_empty() {
            text.push_str(&table(style, part));
        }
    }
    let operations = view::below::operations(profile);
    if !operations.rows.is_empty() {
        text.push_str(&table(style, operations));
    }
    let functions = view::tls::functions(profile);
    if !functions.rows.is_empty() {
        text.push_str(&table(style, functions));
    }
    text.push_str(&footer(style, end));
    text
}

/// Calls in the table of rates; the first table has them all.
const RATE_ROWS: usize = 20;
/// Functions that are named, with their header eight lines.
const FUNCTION_ROWS: usize = 7;
/// Processes or threads that are shown; the recording has all.
const GROUP_ROWS: usize = 20;
