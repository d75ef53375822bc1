//! The page of a profile.

use maud::html;
use recording::Recording;

use super::page::Section;
use super::single::Single;
use super::{calls, element, flame, wakes};
use crate::layout::Footer;
use crate::view::{self, profile as view_of, threads};

/// Renders a profile as one page that needs nothing else.
pub fn profile(recording: &Recording, end: &Footer) -> String {
    let profile = view_of::profile(recording);
    let section = |id, title, body| Section { id, title, body };
    let mut sections = Vec::new();
    if let Some(profile) = profile {
        sections.push(section(
            "calls",
            "Calls",
            html! {
                (calls::of_profile(profile))
                (element::table("Calls", &view_of::totals_table(profile)))
                (element::table("Per second", &view_of::rates(profile, usize::MAX)))
            },
        ));
        if profile.waits.iter().any(|wait| wait.wakes > 0) {
            sections.push(section("wakes", "Event loops", wakes::of_profile(profile)));
        }
        let terms = threads::terms(profile);
        if !terms.rows.is_empty() {
            sections.push(section(
                "threads",
                "Threads",
                html! {
                    (element::table("Where the time of the threads went", &terms))
                    (element::table("Time by call", &threads::calls(profile, usize::MAX)))
                },
            ));
        }
        sections.extend(
            flame::of_recording(recording).map(|body| section("functions", "Functions", body)),
        );
        let groups = threads::groups(profile, GROUP_ROWS);
        let operations = view::below::operations(profile);
        if !groups.rows.is_empty() || !operations.rows.is_empty() {
            sections.push(section(
                "groups",
                "Groups",
                html! {
                    (element::table("Groups, busiest first", &groups))
                    (element::table("Operations of io_uring", &operations))
                },
            ));
        }
        let functions = view::tls::functions(profile);
        if !functions.rows.is_empty() {
            let table = element::table("Functions of TLS libraries", &functions);
            sections.push(section("tls", "TLS", table));
        }
    }
    Single {
        verb: "profile",
        title: view_of::target(recording).unwrap_or_default(),
        result: profile.map(view_of::lines),
        sections,
    }
    .render(recording, end)
}

/// Processes or threads that are shown; the recording has all.
const GROUP_ROWS: usize = 200;
