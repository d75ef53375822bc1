//! The page of a load.

use maud::html;
use recording::Recording;

use super::page::Section;
use super::single::Single;
use super::{element, latency, timeline};
use crate::layout::Footer;
use crate::view::{self, load as view_of};

/// Renders a load as one page that needs nothing else.
pub fn load(recording: &Recording, end: &Footer) -> String {
    let load = view_of::load(recording);
    let section = |id, title, body| Section { id, title, body };
    let mut sections = Vec::new();
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
    Single {
        verb: "load",
        title: load.map_or_else(String::new, view_of::title),
        result: load.map(view_of::lines),
        sections,
    }
    .render(recording, end)
}
