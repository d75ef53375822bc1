//! `whyfast report`: renders recordings.

use anyhow::Context as _;
use recording::exit_code;

use crate::args::ReportArgs;
use crate::args_stored::ReportFormat;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::verbs::{render, stored};

/// Renders the files one after the other.
pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<u8> {
    if matches!(args.format, ReportFormat::Html | ReportFormat::Svg) && args.files.len() > 1 {
        return Err(Failure::usage(
            "--format html and svg make one page of one recording: name one FILE".to_owned(),
        ));
    }
    let output = Output::open(args.output.as_deref())?;
    let style = output::style(&output);
    let past = args
        .against
        .as_deref()
        .map(stored::read_analysed)
        .transpose()?;
    let mut rendered = Vec::new();
    for path in &args.files {
        let name = path.display();
        let mut recording = stored::read_analysed(path)?;
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
    // Folded text has stacks and nothing between them.
    let between = match args.format {
        ReportFormat::Folded | ReportFormat::FoldedOffCpu => "",
        _ => "\n",
    };
    output.write(&rendered.join(between))?;
    Ok(exit_code::DONE)
}
