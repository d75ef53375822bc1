//! `whyfast report`: renders recordings.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use recording::{Recording, exit_code};

use crate::args::ReportArgs;
use crate::args_shape::LoadFormat;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::verbs::render;

/// Renders the files one after the other.
pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<u8> {
    if args.format == LoadFormat::Html && args.files.len() > 1 {
        return Err(Failure::usage(
            "--format html makes one page of one recording: name one FILE".to_owned(),
        ));
    }
    let output = Output::open(args.output.as_deref())?;
    let style = output::style(&output);
    let past = args.against.as_deref().map(read).transpose()?;
    let mut rendered = Vec::new();
    for path in &args.files {
        let name = path.display();
        let mut recording = read(path)?;
        if let Some(past) = &past {
            let arms = reports::attribution::add_past(&mut recording, past);
            if arms == 0 {
                return Err(Failure::usage(format!(
                    "--against: no server of {name} has the name and good rounds of one of the past"
                )));
            }
        }
        for cause in &args.without {
            let predictions = reports::predict::without(&recording, cause)
                .map_err(|error| Failure::usage(format!("--without {cause}: {error}")))?;
            recording.predictions.extend(predictions);
        }
        let text = render::result(&recording, args.format, &style)
            .with_context(|| format!("failed to render {name}"))?;
        rendered.push(text);
    }
    output.write(&rendered.join("\n"))?;
    Ok(exit_code::DONE)
}

/// A recording from a file, with what follows from it computed again.
fn read(path: &Path) -> anyhow::Result<Recording> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("failed to read {name}"))?;
    let mut recording =
        Recording::parse(&bytes).with_context(|| format!("failed to read {name}"))?;
    // A recording can be large; its text is not needed any more.
    drop(bytes);
    reports::analyse(&mut recording);
    Ok(recording)
}
