//! The page of a profile.

use maud::html;
use recording::Recording;

use super::page::{Page, Section};
use super::{calls, element, rounds, wakes};
use crate::layout::Footer;
use crate::view::{self, Line, profile as view_of, threads};

/// Renders a profile as one page that needs nothing else.
pub fn profile(recording: &Recording, end: &Footer) -> String {
    let mut lines: Vec<Line> = view::partial(recording).into_iter().collect();
    let profile = view_of::profile(recording);
    if let Some(profile) = profile {
        lines.extend(view_of::lines(profile));
    } else {
        lines.push(Line::new("profile", "nothing was measured"));
        lines.extend(view::compare::unused_rounds(recording));
    }
    lines.extend(view::warnings(recording));
    lines.extend(view::not_measured(recording, &[]));
    let section = |id, title, body| Section { id, title, body };
    let mut sections = vec![section("result", "Result", element::lines(&lines))];
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
    }
    sections.push(section("raw", "Raw data", rounds::raw(recording)));
    Page {
        title: view_of::target(recording).unwrap_or_default(),
        verb: "profile",
        environment: vec![view::machine(&recording.host)],
        sections,
        recording: Some(recording),
        controls: None,
        footer: end,
    }
    .render()
}

/// Processes or threads that are shown; the recording has all.
const GROUP_ROWS: usize = 200;
