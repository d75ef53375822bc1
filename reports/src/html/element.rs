//! Pieces of which pages are made: labelled lines, tables, and charts with their figures.

use maud::{Markup, html};
use recording::Recording;

use crate::layout::Tone;
use crate::view::{self, Line, Table};

/// Labelled lines, as the terminal has them.
pub(super) fn lines(lines: &[Line]) -> Markup {
    html! {
        @if !lines.is_empty() {
            ul.lines {
                @for line in lines {
                    li class=(tone(line.tone)) {
                        @if !line.label.is_empty() { span.label { (line.label) } " " }
                        (line.text)
                    }
                }
            }
        }
    }
}

/// A table; its first column has names, the others figures unless they are named as text.
pub(super) fn table(caption: &str, table: &Table) -> Markup {
    let class = |column: usize| {
        let text = column == 0 || table.left.contains(&column);
        if text { "text" } else { "figure" }
    };
    let wordy = table.left.len() > 1;
    html! {
        @if !table.rows.is_empty() {
            // A region that can be scrolled has to be reachable with the keyboard.
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table.wordy[wordy] {
                    caption { (caption) }
                    thead {
                        tr {
                            @for (column, cell) in table.header.iter().enumerate() {
                                th scope="col" class=(class(column)) { (cell) }
                            }
                        }
                    }
                    tbody {
                        @for row in &table.rows {
                            tr {
                                @for (column, cell) in row.iter().enumerate() {
                                    @if column == 0 {
                                        th scope="row" { (cell) }
                                    } @else {
                                        td class=(class(column)) { (cell) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A picture with what it is made of and how that was measured.
pub(super) struct Chart<'a> {
    /// What it shows.
    pub(super) title: &'a str,
    /// What the colours stand for.
    pub(super) legend: Markup,
    pub(super) picture: Markup,
    /// Its figures.
    pub(super) data: Table,
    /// How they were measured, and how the picture can mislead.
    pub(super) how: &'a str,
}

impl Chart<'_> {
    pub(super) fn render(&self) -> Markup {
        html! {
            figure.chart aria-label=(self.title) {
                figcaption { (self.title) }
                (self.legend)
                (self.picture)
                div.behind {
                    @if !self.data.rows.is_empty() {
                        details {
                            summary { "Data" span.for-readers { " of: " (self.title) } }
                            (table(self.title, &self.data))
                        }
                    }
                    details {
                        summary { "How measured" span.for-readers { ": " (self.title) } }
                        p { (self.how) }
                    }
                }
            }
        }
    }
}

/// The colours of arms, by their place among the arms.
pub(super) fn legend(arms: &[(usize, &str)]) -> Markup {
    html! {
        ul.legend {
            @for (index, arm) in arms {
                li { (swatch(&arm_class(*index))) (arm) }
            }
        }
    }
}

/// The colours of all arms of a recording.
pub(super) fn arms_legend(recording: &Recording) -> Markup {
    let names: Vec<String> = recording
        .arms
        .iter()
        .map(|arm| view::name(&arm.name))
        .collect();
    let arms: Vec<(usize, &str)> = names.iter().map(String::as_str).enumerate().collect();
    legend(&arms)
}

/// A small piece of a colour.
pub(super) fn swatch(class: &str) -> Markup {
    html! {
        svg.swatch aria-hidden="true" {
            rect class={ "fill " (class) } width="100%" height="100%" {}
            line class={ "stroke " (class) } x1="0" x2="100%" y1="50%" y2="50%" {}
        }
    }
}

/// The class that gives an arm its colour and its kind of line.
pub(super) fn arm_class(index: usize) -> String {
    format!("arm{}", index % ARM_COLOURS)
}

/// A share of a picture's width or height.
pub(super) fn portion(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// Microseconds with their unit.
pub(super) fn micros(ns: f64) -> String {
    format!("{} µs", crate::figures::micros(ns))
}

fn tone(tone: Option<Tone>) -> &'static str {
    match tone {
        None => "",
        Some(Tone::Strong) => "strong",
        Some(Tone::Good) => "good",
        Some(Tone::Caution) => "caution",
        Some(Tone::Bad) => "bad",
    }
}

/// Colours that can be told apart; arms beyond begin again.
const ARM_COLOURS: usize = 6;
