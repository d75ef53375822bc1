//! `bench report`: what rendering a large recording takes, in time and memory.
//!
//! The recording is a real one whose pairs of rounds are repeated until it is large: as many rounds,
//! slices and histograms as a week of measuring would leave.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use recording::Recording;

use super::clients;
use super::report::{Bound, Report};
use super::{Setting, rotated};
use crate::tree;

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let file = folder.path().join("large.json");
    let size = write_large(&tree::root().join(RECORDING), &file)?;
    let (mut cpu_s, mut peak_mib) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    for repetition in 0..setting.repetitions {
        for (index, format) in rotated(&[(0, "html"), (1, "markdown"), (2, "text")], repetition) {
            let command = || {
                let mut command = Command::new(&setting.whyfast);
                let output = folder.path().join("report");
                command
                    .args(["report", "--format", format, "-o"])
                    .arg(output)
                    .arg(&file);
                command
            };
            let values: &mut Vec<f64> = &mut cpu_s[index];
            values.push(clients::run(&mut command())?.1);
            let peaks: &mut Vec<f64> = &mut peak_mib[index];
            peaks.push(clients::peak_memory(&mut command())?.1);
        }
    }
    let of_hundred = vec![size as f64 / HUNDRED_MB; cpu_s[0].len()];
    let size_mib = vec![size as f64 / MIB; peak_mib[0].len()];
    for (index, format) in ["html", "markdown", "text"].into_iter().enumerate() {
        let name = format!("{format} of a recording of 100 MB");
        report.limit(
            &format!("CPU seconds for {name}"),
            (&cpu_s[index], &of_hundred),
            Bound::AtMost,
            SECONDS,
        );
        report.limit(
            &format!("memory for {name}, of its size"),
            (&peak_mib[index], &size_mib),
            Bound::AtMost,
            TIMES_ITS_SIZE,
        );
        report.figure(format!("{format}: CPU time"), "s", cpu_s[index].clone());
        report.figure(
            format!("{format}: most memory"),
            "MiB",
            peak_mib[index].clone(),
        );
    }
    Ok(())
}

/// Repeats the pairs of a recording until it has [`HUNDRED_MB`]; returns the bytes written.
fn write_large(from: &Path, to: &Path) -> Result<usize> {
    let bytes =
        std::fs::read(from).with_context(|| format!("failed to read {}", from.display()))?;
    let mut recording = Recording::parse(&bytes).context("the committed recording")?;
    let original = recording.rounds.clone();
    let pairs = original
        .iter()
        .map(|round| round.pair + 1)
        .max()
        .unwrap_or(0);
    ensure!(pairs > 0, "{} has no rounds", from.display());
    let size = recording.to_json().len() as f64;
    let times = (1_u32..).take_while(|times| f64::from(*times) * size < HUNDRED_MB);
    for copy in times {
        let again = original.iter().cloned().map(|mut round| {
            round.pair += copy * pairs;
            round.order += copy * u32::try_from(original.len()).unwrap_or(0);
            round
        });
        recording.rounds.extend(again);
    }
    let json = recording.to_json();
    std::fs::write(to, &json).with_context(|| format!("failed to write {}", to.display()))?;
    Ok(json.len())
}

/// A real comparison, which tests use too.
const RECORDING: &str = "reports/tests/fixtures/compare-nginx-h2o.json";
/// Bytes of a mebibyte.
const MIB: f64 = 1_048_576.0;
/// The size that limits are for.
const HUNDRED_MB: f64 = 100e6;
/// A reader does not wait longer for a page.
const SECONDS: f64 = 2.0;
/// A recording that fits into memory has to stay readable on the machine that made it.
const TIMES_ITS_SIZE: f64 = 3.0;
