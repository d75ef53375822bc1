//! Which CPUs this process may use, and commands that are pinned to one.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context as _, Result};

/// The first and the last CPU that this process may use.
pub(crate) fn apart() -> Result<(u32, u32)> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("failed to read /proc/self/status")?;
    let cpus = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .context("/proc/self/status names no CPUs")?;
    ends(cpus).with_context(|| format!("failed to understand the list of CPUs {cpus:?}"))
}

/// First and last of a list like `0-3,7`.
fn ends(cpus: &str) -> Option<(u32, u32)> {
    let mut numbers = cpus.trim().split([',', '-']).map(str::parse::<u32>);
    let first = numbers.next()?.ok()?;
    let last = numbers.next_back().unwrap_or(Ok(first)).ok()?;
    Some((first, last))
}

/// A command that runs on one CPU, and its children too.
pub(crate) fn pinned(cpu: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists as the kernel prints them.
    #[test]
    fn reads_lists() {
        assert_eq!(ends("\t0-3,7\n"), Some((0, 7)));
        assert_eq!(ends("0-1"), Some((0, 1)));
        assert_eq!(ends("5"), Some((5, 5)));
        assert_eq!(ends(""), None);
        assert_eq!(ends("x"), None);
    }
}
