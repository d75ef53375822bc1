//! Where figures come from: the commit, the machine, and the programs that took part.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::command;

/// Where figures come from. What cannot be found out is left out.
#[derive(Debug, Serialize)]
pub(crate) struct Origin {
    /// The commit, with `-dirty` where files differ from it.
    commit: Option<String>,
    /// Model of the CPUs, and how many there are.
    cpu: Option<String>,
    cpus: usize,
    kernel: Option<String>,
    /// What the programs say about themselves.
    pub(super) programs: Vec<String>,
}

impl Origin {
    /// Of figures of a build of the tree at `root`, where one was measured, with what these programs
    /// print with these arguments.
    pub(crate) fn new(root: Option<&Path>, programs: &[(&str, &str)]) -> Self {
        let file = |path| std::fs::read_to_string(path).ok();
        let extra: [PathBuf; 1] = ["/usr/sbin".into()];
        let version = |&(name, argument): &(&str, &str)| {
            let program = command::find(name, &extra)?;
            first_line(&program, argument)
        };
        Self {
            commit: root.and_then(commit),
            cpu: file("/proc/cpuinfo").and_then(|info| model(&info)),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: file("/proc/sys/kernel/osrelease").map(|release| release.trim().to_owned()),
            programs: programs.iter().filter_map(version).collect(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let (commit, cpu) = (unknown(&self.commit), unknown(&self.cpu));
        let (cpus, kernel) = (self.cpus, unknown(&self.kernel));
        write!(
            formatter,
            "commit {commit}, {cpus} CPUs ({cpu}), Linux {kernel}"
        )?;
        for program in &self.programs {
            write!(formatter, ", {program}")?;
        }
        Ok(())
    }
}

/// The commit of a tree.
fn commit(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["describe", "--always", "--dirty", "--exclude=*"]);
    let described = command::output(&mut git).ok()?;
    Some(String::from_utf8(described).ok()?.trim().to_owned())
}

/// The first line that a program prints about itself, on stdout or, as nginx and wrk do, elsewhere
/// and with a status of its own.
fn first_line(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let line = line.split(" Copyright").next().unwrap_or(line).trim();
    Some(line.escape_debug().to_string())
}

/// The model of the first CPU.
fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    let (_, model) = line.split_once(':')?;
    Some(model.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as the kernel prints them; other architectures have no model.
    #[test]
    fn reads_models() {
        let info = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7R13\n";
        assert_eq!(model(info).as_deref(), Some("AMD EPYC 7R13"));
        assert_eq!(model("processor\t: 0\n"), None);
    }
}
