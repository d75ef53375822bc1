//! Flame graphs as a file of their own, which needs no script, no style and no font from elsewhere.

use maud::{Markup, PreEscaped, html};
use recording::Recording;

use super::frames::{Graph, Layout, deltas, graph};
use super::picture::{CHANGES, CLASSES, STYLE, height, picture};
use super::sampled::{Sampled, Time};
use super::{Difference, NoStacks, stacks_of};
use crate::clean::clean;
use crate::layout::wrap;
use crate::view::{self, flame as view_of};

/// Every flame graph of a recording in one picture: of each server, on the CPU and off it, and of each
/// server against the first one.
pub fn svg(recording: &Recording) -> Result<String, NoStacks> {
    let arms = stacks_of(recording, Time::OnCpu)?;
    let mut sheet = Sheet::default();
    let names: Vec<String> = arms.iter().map(|arm| view::name(arm.arm)).collect();
    let title = format!("Flame graphs of {}", names.join(", "));
    sheet.heading(&title, "flame-title");
    sheet.text(&view::machine(&recording.host));
    sheet.legend(&CLASSES.map(|(kind, words)| (kind.class(), words)));
    for arm in &arms {
        of_arm(&mut sheet, arm);
    }
    let differences: Vec<Difference> = arms
        .iter()
        .skip(1)
        .filter_map(|arm| Difference::between(&arms[0], arm, None))
        .collect();
    for difference in &differences {
        of_both(&mut sheet, difference);
    }
    Ok(sheet.document(&title))
}

fn of_arm(sheet: &mut Sheet, arm: &Sampled<'_>) {
    for time in Time::ALL {
        let Some(facts) = arm.facts(time, arm.per()) else {
            continue;
        };
        let name = view::name(arm.arm);
        sheet.heading(&format!("{name}, {}", time.words()), "flame-heading");
        for line in view_of::notes(&facts) {
            sheet.text(&line.text);
        }
        sheet.graph(&graph(&name, &arm.tree(time), &facts, Layout::File));
    }
}

fn of_both(sheet: &mut Sheet, difference: &Difference) {
    let names = [0, 1].map(|side| view::name(&difference.arms[side]));
    for both in &difference.pictures {
        for side in [0, 1] {
            let graph = deltas(&names, both, side, Layout::File);
            sheet.heading(&graph.label, "flame-heading");
            sheet.legend(&CHANGES.map(|(change, words)| (change.class(), words)));
            for line in view_of::gone(difference, both, side) {
                sheet.text(&line.text);
            }
            sheet.graph(&graph);
        }
    }
}

/// A picture that grows downwards.
#[derive(Default)]
struct Sheet {
    parts: Vec<Markup>,
    /// Where the next part begins, in pixels.
    top: usize,
}

impl Sheet {
    fn heading(&mut self, text: &str, class: &str) {
        self.top += LINE;
        self.line(text, class);
        self.top += LINE / 4;
    }

    fn text(&mut self, text: &str) {
        for line in wrap(&clean(text), CHARACTERS) {
            self.line(&line, "flame-note");
        }
    }

    fn line(&mut self, text: &str, class: &str) {
        self.top += LINE;
        let y = self.top;
        self.parts
            .push(html! { text class=(class) x=(MARGIN) y=(y) { (text) } });
    }

    fn legend(&mut self, entries: &[(&str, &str)]) {
        self.top += LINE;
        let y = self.top;
        let mut x = MARGIN;
        for (class, words) in entries {
            self.parts.push(html! {
                rect class=(class) x=(x) y=(y - 10) width="24" height="12" {}
                text.flame-note x=(x + 30) y=(y) { (words) }
            });
            x += 50 + words.chars().count() * 7;
        }
    }

    fn graph(&mut self, graph: &Graph) {
        if let Some(cut) = &graph.cut {
            self.text(cut);
        }
        self.top += LINE / 2;
        self.parts.push(html! {
            svg x=(MARGIN) width=(WIDTH - 2 * MARGIN) y="0" height="100%" { (picture(graph, self.top)) }
        });
        self.top += height(graph);
    }

    fn document(self, title: &str) -> String {
        let height = self.top + LINE;
        let markup = html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height=(height)
                viewBox={ "0 0 " (WIDTH) " " (height) } {
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(SHEET_STYLE)) }
                rect.flame-paper width="100%" height="100%" {}
                @for part in &self.parts { (part) }
            }
        };
        // Two characters that text may have and no XML document.
        let text = markup
            .into_string()
            .replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        text + "\n"
    }
}

/// What a page has from its own style.
const SHEET_STYLE: &str = "
.flame-paper { fill: #ffffff; }
.flame-title, .flame-heading, .flame-note { fill: #1e1e1e; font-family: system-ui, \"Liberation Sans\", sans-serif; font-size: 12px; }
.flame-title { font-size: 18px; font-weight: bold; }
.flame-heading { font-size: 15px; font-weight: bold; }
@media (prefers-color-scheme: dark) {
  .flame-paper { fill: #15181b; }
  .flame-title, .flame-heading, .flame-note { fill: #e8e6e1; }
}
";
/// In pixels.
const WIDTH: usize = 1200;
const MARGIN: usize = 10;
const LINE: usize = 18;
/// Characters of a note in a line.
const CHARACTERS: usize = 170;
