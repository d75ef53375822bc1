//! `bench report`, its second half: what drawing very many stacks takes.
//!
//! The stacks are made up, each another one, so that nothing of them merges early: more than a minute
//! of a large program would leave.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use recording::{Frame, FrameSide, Recording, Stack, StackClock, StackSet, Stacks};

use super::clients;
use super::report::{Bound, Report};
use super::{Setting, rotated};
use crate::tree;

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let file = folder.path().join("stacks.json");
    write(&tree::root().join(RECORDING), &file)?;
    let mut cpu_s = [const { Vec::new() }; FORMATS.len()];
    for repetition in 0..setting.repetitions {
        let arms: Vec<usize> = (0..FORMATS.len()).collect();
        for index in rotated(&arms, repetition) {
            let mut command = Command::new(&setting.whyfast);
            command
                .args(["report", "--format", FORMATS[index], "-o"])
                .arg(folder.path().join("report"))
                .arg(&file);
            let values: &mut Vec<f64> = &mut cpu_s[index];
            values.push(clients::run(&mut command)?.1);
        }
    }
    for (format, values) in FORMATS.iter().zip(cpu_s) {
        let one = vec![1.0; values.len()];
        report.limit(
            &format!("CPU seconds for {format} of 100,000 stacks"),
            (&values, &one),
            Bound::AtMost,
            SECONDS,
        );
    }
    Ok(())
}

/// Gives the profile of a recording its stacks.
fn write(from: &Path, to: &Path) -> Result<()> {
    let bytes =
        std::fs::read(from).with_context(|| format!("failed to read {}", from.display()))?;
    let mut recording = Recording::parse(&bytes).context("the committed recording")?;
    let mut rounds = recording.rounds.iter_mut();
    let profile = rounds.find_map(|round| round.profile.as_mut());
    profile.context("the recording has no profile")?.stacks = Some(stacks());
    std::fs::write(to, recording.to_json())
        .with_context(|| format!("failed to write {}", to.display()))
}

/// Each stack goes another way through a tree that branches in four.
fn stacks() -> Stacks {
    let frames = (0..FUNCTIONS).map(|index| Frame {
        name: Some(format!("function_{index}")),
        module: Some("server".to_owned()),
        offset: None,
        side: if index.is_multiple_of(4) {
            FrameSide::Kernel
        } else {
            FrameSide::User
        },
    });
    let stack = |index: u32| Stack {
        comm: "server".to_owned(),
        frames: (0..DEPTH)
            .map(|level| (level * 4 + (index >> (2 * (level % 9))) % 4) % FUNCTIONS)
            .collect(),
        count: 1,
        ns: 10_000_000,
        ends_early: index.is_multiple_of(10),
    };
    Stacks {
        clock: StackClock::CpuClock,
        hz: 100,
        frames: frames.collect(),
        on_cpu: StackSet {
            stacks: (0..STACKS).map(stack).collect(),
            lost: 0,
            lost_ns: None,
        },
        off_cpu: None,
        modules: Vec::new(),
    }
}

/// A real profile, which tests use too.
const RECORDING: &str = "reports/tests/fixtures/profile-sh-cat.json";
const FORMATS: [&str; 4] = ["svg", "folded", "html", "text"];
const STACKS: u32 = 100_000;
const FUNCTIONS: u32 = 2_000;
/// Frames of a stack: those of a server in a system call.
const DEPTH: u32 = 24;
/// A reader does not wait longer for a page.
const SECONDS: f64 = 2.0;
