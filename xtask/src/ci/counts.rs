//! `ci counts` and `ci bless`: exact calls per request of the built-in server against `syscalls.lock`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use recording::exit_code;

use super::{emptied, status};
use crate::command;

/// Counts, and holds the counts against the lock.
pub(super) fn check(root: &Path) -> Result<u8> {
    let whyfast = command::build(root, command::Optimised::No)?;
    let folder = emptied(root, FOLDER)?;
    let counted = count(&whyfast, &folder)?;
    if counted != exit_code::DONE {
        return Ok(counted);
    }
    for (format, file) in [("json", "check.json"), ("markdown", "check.md")] {
        let mut gate = gate(root, &whyfast, &folder);
        // The code of the same check follows below.
        gate.args(["--format", format, "--output"])
            .arg(folder.join(file));
        status(&mut gate)?;
    }
    status(&mut gate(root, &whyfast, &folder))
}

/// Counts, and takes the counts over.
pub(super) fn bless(root: &Path) -> Result<u8> {
    let whyfast = command::build(root, command::Optimised::No)?;
    let folder = emptied(root, FOLDER)?;
    match count(&whyfast, &folder)? {
        exit_code::DONE => status(gate(root, &whyfast, &folder).arg("--bless")),
        failed => Ok(failed),
    }
}

fn count(whyfast: &Path, folder: &Path) -> Result<u8> {
    let mut compare = Command::new(whyfast);
    compare
        .args(["compare", "--lock-step", REQUESTS, "--pairs", REPEATS])
        .args(["--detail", "counts", "--out"])
        .arg(folder)
        // What matters here is the check; the report is there for who wants to read it.
        .arg("--output")
        .arg(folder.join("report.txt"))
        .args(SPECS.iter().map(|spec| format!("testserver:{spec}")));
    status(&mut compare)
}

fn gate(root: &Path, whyfast: &Path, folder: &Path) -> Command {
    let mut gate = Command::new(whyfast);
    gate.arg("gate")
        .arg(LOCK)
        .arg(folder.join("recording.json"))
        .current_dir(root);
    gate
}

/// Every style, then every way to wait and to read.
const SPECS: [&str; 13] = [
    "memory",
    "mmap",
    "open-read",
    "pread",
    "ring",
    "sendfile",
    "sendfile-uncorked",
    "write-parts",
    "memory,poller=epoll-edge",
    "memory,poller=io-uring",
    "memory,poller=poll",
    "memory,poller=select",
    "memory,read=eagain",
];

/// Enough that a timer in the window stays far below one call per request.
const REQUESTS: &str = "1000";
/// A change has to show in each.
const REPEATS: &str = "2";
const LOCK: &str = "syscalls.lock";
/// Below the results of all steps.
pub(super) const FOLDER: &str = "counts";
