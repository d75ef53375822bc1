//! The kernel tier of the binary: real programs, real servers, real tools to compare with, as root.
//!
//! A test that lacks a tool says so through [`missing`]; `cargo xtask test` prints what was skipped
//! and why.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_input;
mod gate;
mod hottest;
mod live;
mod lock_step;
mod loss;
mod monitoring;
mod ports;
mod privileges;
mod proc;
mod recipes;
mod requests;
mod series;
mod serve;
mod servers;
mod strace;
mod survivors;
mod targets;
mod terminal;
mod tls;
mod unprivileged;
mod whyfast;

use std::io::Write as _;
use std::path::PathBuf;

/// Whether a program is on PATH or in the system folders.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Whether one of the programs is missing; if so, the test is recorded as skipped.
fn missing(test: &str, programs: &[&str]) -> bool {
    let absent: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| find(program).is_none())
        .collect();
    if absent.is_empty() {
        return false;
    }
    let line = format!("{test}\tneeds {}\n", absent.join(", "));
    match std::env::var_os("WHYFAST_SKIP_LOG") {
        Some(log) => std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .and_then(|mut log| log.write_all(line.as_bytes()))
            .expect("the log of skipped tests can be written"),
        None => std::io::stdout()
            .write_all(format!("SKIPPED {line}").as_bytes())
            .expect("stdout is open"),
    }
    true
}
