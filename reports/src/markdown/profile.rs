//! A profile as Markdown.

use recording::Recording;

use super::document::{Document, Priority};
use super::escape::escape;
use crate::layout::Footer;
use crate::view::{self, flame, profile as view_of, threads};

/// Renders a profile.
pub fn profile(recording: &Recording, end: &Footer) -> String {
    let mut document = Document::default();
    let target = view_of::target(recording);
    document.text(&match &target {
        Some(target) => format!("### profile of {}", escape(target)),
        None => "### profile".to_owned(),
    });
    let mut top: Vec<view::Line> = view::partial(recording).into_iter().collect();
    let profile = view_of::profile(recording);
    if let Some(profile) = profile {
        top.extend(view_of::lines(profile));
        top.extend(flame::lines(recording));
    } else {
        top.push(view::Line::new("profile", "nothing was measured"));
        top.extend(view::compare::unused_rounds(recording));
    }
    top.extend(view::warnings(recording));
    top.extend(view::not_measured(recording, &[]));
    document.list(Priority::Caveats, &top);
    if let Some(profile) = profile {
        document.table(Priority::Tables, &view_of::totals_table(profile));
        let functions = flame::hottest(recording, FUNCTION_ROWS);
        if !functions.rows.is_empty() {
            document.table(Priority::Tables, &functions);
        }
        let time = threads::terms(profile);
        if !time.rows.is_empty() {
            document.table(Priority::Tables, &time);
            document.details("time by call", &threads::calls(profile, usize::MAX));
        }
        let groups = threads::groups(profile, GROUP_ROWS);
        if !groups.rows.is_empty() {
            document.table(Priority::Tables, &groups);
        }
        document.table(Priority::Tables, &view::below::operations(profile));
        document.table(Priority::Tables, &view::tls::functions(profile));
        document.details("per second", &view_of::rates(profile, usize::MAX));
    }
    document.text(&escape(&view::machine(&recording.host)));
    if let Some(fingerprint) = &recording.fingerprint {
        let summary = format!("fingerprint of the machine, {}", fingerprint.hash);
        let servers = view::fingerprint::server_table(fingerprint);
        document.details("programs and limits of the target", &servers);
        document.details(&summary, &view::fingerprint::machine_table(fingerprint));
    }
    document.footer(end);
    document.render()
}

/// Functions that are named.
const FUNCTION_ROWS: usize = 10;
/// Processes or threads that are shown; the recording has all.
const GROUP_ROWS: usize = 50;
