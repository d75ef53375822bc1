//! A plot: grid, axes, and room for what is drawn.
//!
//! Everything is placed in percent of the plot, so that text and points keep their shape at every
//! width; only curves are in an inner picture that is stretched.

use maud::{Markup, html};

use super::axis::Axis;
use super::element::portion;

/// How tall a plot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Height {
    Tall,
    Small,
}

/// A plot with its axes. `label` says to those who do not see it what it shows; `curves` are paths in
/// a square of [`SIDE`] units, `marks` anything placed in percent.
pub(super) fn plot(
    label: &str,
    height: Height,
    (x, y): (&Axis, &Axis),
    curves: &Markup,
    marks: &Markup,
) -> Markup {
    let size = match height {
        Height::Tall => "plot tall",
        Height::Small => "plot small",
    };
    html! {
        div.plot-frame {
            @if !y.title.is_empty() { p.axis-title { (y.title) } }
            svg class=(size) role="img" aria-label=(label) {
                @for (value, label) in &y.ticks {
                    @let at = portion(1.0 - y.at(*value));
                    line.grid x1="0" x2="100%" y1=(at) y2=(at) {}
                    text.tick x="-6" y=(at) dy="0.32em" text-anchor="end" { (label) }
                }
                @for (value, label) in &x.ticks {
                    @let at = portion(x.at(*value));
                    line.grid x1=(at) x2=(at) y1="0" y2="100%" {}
                    // At the right end a label would stand out of the page.
                    @let anchor = if x.at(*value) > 0.97 { "end" } else { "middle" };
                    text.tick x=(at) y="100%" dy="1.4em" text-anchor=(anchor) { (label) }
                }
                svg viewBox={ "0 0 " (SIDE) " " (SIDE) } preserveAspectRatio="none" { (curves) }
                (marks)
            }
            @if !x.title.is_empty() { p.axis-title.below { (x.title) } }
        }
    }
}

/// The path through points, for an element `path`; nothing without two points.
pub(super) fn path((x, y): (&Axis, &Axis), points: &[(f64, f64)]) -> String {
    let steps = points.iter().enumerate().map(|(index, (px, py))| {
        let command = if index == 0 { 'M' } else { 'L' };
        format!(
            "{command}{:.1} {:.1}",
            x.at(*px) * SIDE,
            (1.0 - y.at(*py)) * SIDE
        )
    });
    if points.len() < 2 {
        String::new()
    } else {
        steps.collect()
    }
}

/// The closed path around an area between two lines over the same x.
pub(super) fn band(axes: (&Axis, &Axis), points: &[(f64, f64, f64)]) -> String {
    let upper = points.iter().map(|(x, _, high)| (*x, *high));
    let lower = points.iter().rev().map(|(x, low, _)| (*x, *low));
    let around: Vec<(f64, f64)> = upper.chain(lower).collect();
    let mut closed = path(axes, &around);
    if !closed.is_empty() {
        closed.push('Z');
    }
    closed
}

/// Units of the inner picture, across and down.
pub(super) const SIDE: f64 = 1000.0;
