//! The page of a recording with one half: a load, or a profile.

use recording::Recording;

use super::page::{Page, Section};
use super::{element, rounds};
use crate::layout::Footer;
use crate::view::{self, Line};

/// What differs between the two.
pub(super) struct Single {
    pub(super) verb: &'static str,
    pub(super) title: String,
    /// The result in lines; `None` where nothing was measured.
    pub(super) result: Option<Vec<Line>>,
    /// What stands between the result and the raw data.
    pub(super) sections: Vec<Section>,
}

impl Single {
    /// The whole document.
    pub(super) fn render(self, recording: &Recording, end: &Footer) -> String {
        let mut lines: Vec<Line> = view::partial(recording).into_iter().collect();
        if let Some(result) = self.result {
            lines.extend(result);
        } else {
            lines.push(Line::new(self.verb, "nothing was measured"));
            lines.extend(view::compare::unused_rounds(recording));
        }
        lines.extend(view::warnings(recording));
        lines.extend(view::not_measured(recording, &[]));
        let section = |id, title, body| Section { id, title, body };
        let mut sections = vec![section("result", "Result", element::lines(&lines))];
        sections.extend(self.sections);
        sections.push(section("raw", "Raw data", rounds::raw(recording)));
        Page {
            title: self.title,
            verb: self.verb,
            environment: vec![view::machine(&recording.host)],
            sections,
            recording: Some(recording),
            controls: None,
            footer: end,
        }
        .render()
    }
}
