//! A load on a terminal.

use recording::Recording;

use super::{footer, lines};
use crate::layout::{Footer, Style, Tone};
use crate::view::{self, load as view_of};

/// Renders a load.
pub fn load(recording: &Recording, style: &Style, end: &Footer) -> String {
    let style = *style;
    let Some(load) = view_of::load(recording) else {
        let mut all: Vec<view::Line> = view::partial(recording).into_iter().collect();
        all.extend(view::compare::unused_rounds(recording));
        all.push(view::Line::toned("load", "nothing was measured", Tone::Bad));
        return lines(style, &all);
    };
    let title = style.paint(Tone::Strong, &format!("load {}", view_of::title(load)));
    let mut text = format!("{title}\n");
    let mut all: Vec<view::Line> = view::partial(recording).into_iter().collect();
    all.extend(view_of::lines(load));
    all.extend(view::warnings(recording));
    all.extend(view::not_measured(recording, &[]));
    text.push_str(&lines(style, &all));
    text.push_str(&footer(style, end));
    text
}
