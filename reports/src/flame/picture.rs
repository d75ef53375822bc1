//! The markup of a flame graph, the same in a page and in a file of its own.

use maud::{Markup, html};

use super::frames::{Change, Frame, Graph};
use super::tree::Kind;
use recording::FrameSide;

/// How frames look; it names no colour of a page.
pub(crate) const STYLE: &str = include_str!("flame.css");

/// What colours stand for, with what gives them.
pub(crate) const CLASSES: [(Kind, &str); 5] = [
    (Kind::Function(FrameSide::User), "the program"),
    (Kind::Function(FrameSide::Jit), "code made while it ran"),
    (Kind::Function(FrameSide::Kernel), "the kernel"),
    (Kind::Thread, "threads of one name"),
    (Kind::EndsEarly, "stacks that end early: callers not known"),
];

/// The same for differences, from the first to the second server.
pub(crate) const CHANGES: [(Change, &str); 5] = [
    (Change::MuchMore, "+ more, by over half"),
    (Change::More, "+ more"),
    (Change::Same, "not distinguishable"),
    (Change::Less, "\u{2212} less"),
    (Change::MuchLess, "\u{2212} less, by over a third"),
];

/// A graph with its root at the bottom, as wide as there is room; `top` is where it begins in a picture
/// around it.
pub(crate) fn picture(graph: &Graph, top: usize) -> Markup {
    let height = height(graph);
    html! {
        svg.flame role="img" aria-label=(graph.label) y=(top) width="100%" height=(height) {
            @for frame in &graph.frames { (framed(frame, graph.levels)) }
        }
    }
}

/// How tall a graph is, in pixels.
pub(crate) fn height(graph: &Graph) -> usize {
    graph.levels * ROW
}

/// A frame is a picture of its own, so that its text ends where it ends.
fn framed(frame: &Frame, levels: usize) -> Markup {
    let portion = |share: f64| format!("{:.3}%", share * 100.0);
    let y = (levels - 1 - frame.level) * ROW;
    html! {
        svg class=(frame.class) x=(portion(frame.left)) y=(y) width=(portion(frame.width)) height=(ROW) {
            title { (frame.title) }
            rect width="100%" height="100%" {}
            @if !frame.text.is_empty() { text x="3" y="12" { (frame.text) } }
        }
    }
}

/// Height of a frame, in pixels.
const ROW: usize = 17;
