//! `whyfast autopsy`: says what follows from other tools' output.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use recording::exit_code;
use reports::autopsy::{Source, examine};
use reports::{html, markdown, text};

use crate::args::{AutopsyArgs, Format};
use crate::compare::cookbook::Cookbook;
use crate::output::{self, Output};

/// Examines the files together.
pub(crate) fn autopsy(args: &AutopsyArgs) -> anyhow::Result<u8> {
    let output = Output::open(args.output.output.as_deref())?;
    let texts: Vec<(String, String)> = args
        .files
        .iter()
        .map(|path| Ok((stem(path), read(path)?)))
        .collect::<anyhow::Result<_>>()?;
    let sources: Vec<Source<'_>> = texts
        .iter()
        .map(|(name, text)| Source { name, text })
        .collect();
    let cookbook = Cookbook::built_in();
    let recipes = cookbook.names();
    let Some(autopsy) = examine(&sources, &recipes) else {
        anyhow::bail!(
            "found no output of h2load, wrk, wrk2, httperf, ab, hey, oha, strace -c or perf trace -s; \
             give the text as the tool printed it"
        );
    };
    let rendered = match args.output.format {
        Format::Html => html::autopsy(&autopsy),
        Format::Json => autopsy.to_json(),
        Format::Markdown => markdown::autopsy(&autopsy),
        Format::Text => text::autopsy(&autopsy, &output::style(&output)),
    };
    output.write(&rendered)?;
    Ok(exit_code::DONE)
}

/// Text of any encoding: what is no UTF-8 stands in prose, the tools print ASCII.
fn read(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("failed to read stdin")?;
        bytes
    } else {
        fs::read(path).with_context(|| format!("failed to read {name}"))?
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    stem.to_string_lossy().into_owned()
}
