//! `whyfast report`: renders recordings.

use std::fs;

use anyhow::Context as _;
use recording::{Recording, exit_code};

use crate::args::ReportArgs;
use crate::output::{self, Output};
use crate::verbs::render;

/// Renders the files one after the other.
pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<u8> {
    let output = Output::open(args.output.as_deref())?;
    let style = output::style(&output);
    let mut rendered = Vec::new();
    for path in &args.files {
        let name = path.display();
        let bytes = fs::read(path).with_context(|| format!("failed to read {name}"))?;
        let mut recording =
            Recording::parse(&bytes).with_context(|| format!("failed to read {name}"))?;
        reports::analyse(&mut recording);
        let text = render::result(&recording, args.format, &style)
            .with_context(|| format!("failed to render {name}"))?;
        rendered.push(text);
    }
    output.write(&rendered.join("\n"))?;
    Ok(exit_code::DONE)
}
