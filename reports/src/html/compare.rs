//! The page of a comparison, in the order in which it is read.

use maud::{Markup, html};
use recording::Recording;

use super::page::{Page, Section};
use super::{
    breakdown, calls, configuration, controls, element, flame, latency, method, payload, rounds,
    scatter, timeline, verdict, wakes, waterfall,
};
use crate::join::join;
use crate::layout::Footer;
use crate::view::{self, compare as view_of, environment, published};

/// Renders an analysed comparison as one page that needs nothing else.
pub fn compare(recording: &Recording, end: &Footer) -> String {
    let figures = join(recording);
    let controls = controls::controls(recording);
    let section = |id, title, body| Section { id, title, body };
    let controlled = html! {
        @if controls.is_some() { (verdict::controls(recording)) }
        (scatter::scatter(recording))
        (rounds::rounds(recording))
    };
    let mut sections: Vec<Section> = vec![
        section("verdict", "Verdict", verdict::verdict(recording, &figures)),
        section("gates", "Gates", verdict::gates(recording)),
        section("why", "Why", waterfall::why(recording)),
        section("time", "Over time", timeline::over_time(recording)),
        section("latency", "Latency", latency::latency(recording)),
        section(
            "calls",
            "Calls per request",
            calls::calls(recording, &figures),
        ),
        section("cpu", "CPU and idle time", breakdown::breakdown(recording)),
        section("wakes", "Event loops", wakes::wakes(recording, &figures)),
        section("rounds", "Rounds", controlled),
        section(
            "configuration",
            "Configurations",
            configuration::configuration(recording),
        ),
        section(
            "method",
            "Method and limits",
            method::method(recording, &figures),
        ),
        section("raw", "Raw data", rounds::raw(recording)),
    ];
    let tls = view::tls::by_arm(recording);
    let tls = tls.map(|tls| ("tls", "TLS", "What TLS libraries cost per request", tls));
    let hops = view::hops::by_hop(recording);
    let hops = hops.map(|hops| ("hops", "By hop", "What each hop costs per request", hops));
    for (id, title, caption, part) in tls.into_iter().chain(hops) {
        let body = html! {
            (element::table(caption, &part.table))
            @for note in &part.notes { p.small { (note.text) } }
        };
        sections.insert(PARTS_PLACE, section(id, title, body));
    }
    if let Some(body) = flame::of_recording(recording) {
        let calls = sections.iter().position(|section| section.id == "cpu");
        let at = calls.unwrap_or(sections.len());
        sections.insert(at, section("functions", "Functions", body));
    }
    if let Some(then) = published::as_published(recording, &figures) {
        // After why, which it refers to.
        sections.insert(3, section("published", "As published", as_published(&then)));
    }
    Page {
        title: view_of::title(recording),
        verb: "compare",
        environment: vec![
            format!(
                "{}  {}",
                environment::of(recording),
                view::machine(&recording.host)
            ),
            environment::conditions(recording, false),
        ],
        sections,
        recording: Some(recording),
        controls: controls.map(|controls| payload::island(&controls)),
        footer: end,
    }
    .render()
}

/// The publication that the scenario repeats.
fn as_published(then: &published::AsPublished) -> Markup {
    html! {
        p { (then.heading) }
        (element::lines(&then.notes))
        (element::table("Figures then and now", &then.figures))
        (element::table("What changed since", &then.changes))
        (element::lines(&then.origin))
    }
}

/// Where parts of a request are told: before the calls, which add up what all of them do.
const PARTS_PLACE: usize = 5;
