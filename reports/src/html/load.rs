//! The page of a load.

use maud::html;
use recording::Recording;

use super::page::{Page, Section};
use super::{element, latency, rounds, timeline};
use crate::layout::Footer;
use crate::view::{self, Line, load as view_of};

/// Renders a load as one page that needs nothing else.
pub fn load(recording: &Recording, end: &Footer) -> String {
    let mut lines: Vec<Line> = view::partial(recording).into_iter().collect();
    let load = view_of::load(recording);
    if let Some(load) = load {
        lines.extend(view_of::lines(load));
    } else {
        lines.push(Line::new("load", "nothing was measured"));
        lines.extend(view::compare::unused_rounds(recording));
    }
    lines.extend(view::warnings(recording));
    lines.extend(view::not_measured(recording, &[]));
    let section = |id, title, body| Section { id, title, body };
    let mut sections = vec![section("result", "Result", element::lines(&lines))];
    if let Some(load) = load {
        let curve = load
            .latency
            .as_ref()
            .and_then(|stored| latency::of_load(view::sentence(&load.url), stored));
        sections.push(section("time", "Over time", timeline::of_load(load)));
        sections.push(section(
            "latency",
            "Latency",
            html! {
                @if let Some(curve) = curve { (curve) } @else { p { "Not measured: no request was ok." } }
                (element::table("Latency", &view_of::quantile_table(load)))
            },
        ));
        sections.push(section(
            "slices",
            "Slices",
            element::table("Slices of the window", &view_of::slice_table(load)),
        ));
    }
    sections.push(section("raw", "Raw data", rounds::raw(recording)));
    Page {
        title: load.map_or_else(String::new, view_of::title),
        verb: "load",
        environment: vec![view::machine(&recording.host)],
        sections,
        recording: Some(recording),
        controls: None,
        footer: end,
    }
    .render()
}
