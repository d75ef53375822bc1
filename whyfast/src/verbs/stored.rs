//! Recordings from files.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use recording::Recording;

/// A recording from a file in the schema of this version.
pub(crate) fn read(path: &Path) -> anyhow::Result<Recording> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("failed to read {name}"))?;
    let recording = Recording::parse(&bytes).with_context(|| format!("failed to read {name}"))?;
    Ok(recording.upgraded())
}

/// The same with what follows from it computed again.
pub(crate) fn read_analysed(path: &Path) -> anyhow::Result<Recording> {
    let mut recording = read(path)?;
    reports::analyse(&mut recording);
    Ok(recording)
}
