//! The document around a report: its head, its policy, its sections and the recording inside.
//!
//! The policy lets the page use its own style and its own script, both by their hashes, and nothing
//! else: no request can leave it, and no text that came with the recording can run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use recording::{NotMeasured, Recording};
use sha2::{Digest as _, Sha256};

use super::payload;
use crate::figures::date;
use crate::layout::Footer;
use crate::view;

/// A part of a report with a heading that can be linked to.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) body: Markup,
}

/// Everything that differs from page to page.
pub(super) struct Page<'a> {
    /// What is reported on, not yet clean.
    pub(super) title: String,
    /// What stands above it: `compare`.
    pub(super) verb: &'static str,
    /// Lines under the title.
    pub(super) environment: Vec<String>,
    pub(super) sections: Vec<Section>,
    /// The recording that the page is made from, which goes into it.
    pub(super) recording: Option<&'a Recording>,
    /// What the script computes with, as JSON that [`payload::island`] made safe.
    pub(super) controls: Option<String>,
    pub(super) footer: &'a Footer,
}

impl Page<'_> {
    /// The whole document of something that is no recording.
    pub(super) fn of_text(
        verb: &'static str,
        title: String,
        environment: Vec<String>,
        sections: Vec<Section>,
    ) -> String {
        Page {
            title,
            verb,
            environment,
            sections,
            recording: None,
            controls: None,
            footer: &Footer::default(),
        }
        .render()
    }

    /// The whole document.
    pub(super) fn render(&self) -> String {
        let title = crate::clean::clean_to(&self.title, TITLE_CHARACTERS);
        let packed = self.recording.map(payload::packed);
        let left_out = packed.as_ref().and_then(|packed| packed.left_out.as_ref());
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy());
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    meta name="color-scheme" content="light dark";
                    // Without it a browser would ask the server of the page for one.
                    link rel="icon" href="data:,";
                    title { (self.verb) " " (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#main" { "Skip to the report" }
                    header.top {
                        p.verb { "whyfast " (self.verb) }
                        h1 { (title) }
                        @for line in &self.environment { p.environment { (line) } }
                    }
                    (self.navigation())
                    main #main {
                        @for section in &self.sections { (section.render()) }
                    }
                    (self.end(left_out))
                    @if let (Some(recording), Some(packed)) = (self.recording, &packed) {
                        script #recording type="text/plain" data-name=(file_name(recording)) {
                            (PreEscaped(&packed.text))
                        }
                    }
                    @if let Some(controls) = &self.controls {
                        script #controls-data type="application/json" { (PreEscaped(controls)) }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        // A text file ends with a line.
        document.into_string() + "\n"
    }

    fn navigation(&self) -> Markup {
        html! {
            nav aria-label="Sections" {
                ul {
                    @for section in &self.sections {
                        li { a href={ "#" (section.id) } { (section.title) } }
                    }
                }
            }
        }
    }

    fn end(&self, left_out: Option<&NotMeasured>) -> Markup {
        html! {
            footer {
                @if let Some(command) = &self.footer.reproduce {
                    p { "Repeat this run:" }
                    pre { code { (crate::clean::clean(command)) } }
                }
                @if let Some(recording) = self.recording {
                    p {
                        "whyfast " (view::name(&recording.tool.version)) ", "
                        (date(recording.created_unix_ns)) ", schema "
                        (view::name(&recording.schema)) ". This page makes no request; the recording \
                        is inside it."
                    }
                    @if let Some(left_out) = left_out {
                        p { "Not in that copy: " (left_out.what) " (" (left_out.why) "; "
                            (left_out.remedy.as_deref().unwrap_or_default()) ")." }
                    }
                }
            }
        }
    }
}

impl Section {
    fn render(&self) -> Markup {
        let heading = format!("{}-title", self.id);
        html! {
            section id=(self.id) aria-labelledby=(heading) {
                h2 id=(heading) {
                    (self.title)
                    a.anchor href={ "#" (self.id) } aria-label={ "Link to " (self.title) } { "#" }
                }
                (self.body)
            }
        }
    }
}

/// What the page may do.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

/// What the recording is called when it is saved from the page.
fn file_name(recording: &Recording) -> String {
    format!("whyfast-{}.json", date(recording.created_unix_ns))
}

/// Characters of a title.
const TITLE_CHARACTERS: usize = 120;

const STYLE: &str = concat!(include_str!("page.css"), include_str!("../flame/flame.css"));
const SCRIPT: &str = include_str!("page.js");
