//! Running other programs, with errors that name the command.

use std::ffi::OsStr;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal};

use crate::tree;

/// The cargo that runs this program, in the repository.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Builds whyfast with optimisations and returns its path.
pub(crate) fn release_build(root: &Path) -> Result<PathBuf> {
    build(root, Optimised::Yes)
}

/// Whether a build takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Optimised {
    No,
    Yes,
}

/// Builds whyfast and returns its path.
pub(crate) fn build(root: &Path, optimised: Optimised) -> Result<PathBuf> {
    let mut build = cargo(root);
    build
        .args(["build", "--package", "whyfast"])
        .args((optimised == Optimised::Yes).then_some("--release"))
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit());
    eprintln!("$ {}", describe(&build));
    let output = build.output().context("failed to run cargo")?;
    ensure!(output.status.success(), "whyfast does not build");
    let executables = tree::executables(&String::from_utf8_lossy(&output.stdout), "bin")?;
    let whyfast = executables
        .into_iter()
        .find(|executable| executable.name == "whyfast");
    Ok(whyfast.context("cargo built no whyfast")?.path)
}

/// Runs a command whose output is for people; it has to succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    eprintln!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("failed to run {line}"))?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// Runs a command and returns what it printed; it has to succeed.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    printed(command.stdin(Stdio::null()))
}

fn printed(command: &mut Command) -> Result<Vec<u8>> {
    let line = describe(command);
    let output = command
        .output()
        .with_context(|| format!("failed to run {line}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{line}: {}: {}", output.status, said.trim().escape_debug());
    }
    Ok(output.stdout)
}

/// Runs a command with a text on its stdin and returns what it printed; it has to succeed.
pub(crate) fn output_of(command: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let mut file = tempfile::tempfile().context("failed to make a temporary file")?;
    file.write_all(input)
        .and_then(|()| file.rewind())
        .context("failed to write a temporary file")?;
    printed(command.stdin(file))
}

/// The first line of what a program prints about itself; `None` where it cannot be run.
pub(crate) fn version(program: &Path, argument: &str) -> Option<String> {
    let printed = output(Command::new(program).arg(argument)).ok()?;
    let text = String::from_utf8(printed).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// Where a program is found on `PATH` or in the folders after it.
pub(crate) fn find(name: &str, more: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(more.iter().cloned())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// A command as one would type it.
pub(crate) fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+./:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.into_owned()
    } else {
        format!("{word:?}")
    }
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A child that is ended and waited for when this goes away, also on an error.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) child: Child,
}

impl Guarded {
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let line = describe(command);
        let child = command
            .spawn()
            .with_context(|| format!("failed to run {line}"))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<()> {
        self.ask(signal)?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends it a signal, unless it has ended.
    pub(crate) fn ask(&mut self, signal: Signal) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            // Not waited for yet, so the number still means this child.
            let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
            let pid = pid.context("a child has a process id")?;
            rustix::process::kill_process(pid, signal)?;
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Both fail only for a child that is gone.
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that a shell would take apart are quoted.
    #[test]
    fn commands_are_described_as_typed() {
        let mut command = Command::new("apt-get");
        command.args(["install", "a b", ""]);
        assert_eq!(describe(&command), "apt-get install \"a b\" \"\"");
    }

    /// A failing command is an error with its name and what it said.
    #[test]
    fn failures_name_the_command() {
        let error = output(Command::new("sh").args(["-c", "echo no >&2; exit 3"]))
            .expect_err("it exits with 3");
        let text = error.to_string();
        assert!(text.contains("exit status: 3: no"), "{text}");
        let missing = output(&mut Command::new("no-such-program-here")).expect_err("missing");
        assert!(missing.to_string().contains("no-such-program-here"));
    }
}
