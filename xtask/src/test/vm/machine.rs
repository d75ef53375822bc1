//! One virtual machine: QEMU without KVM, the lines that its tests print, and a hard time limit.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::command::Guarded;

/// What to boot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    /// Further words for the kernel's command line.
    pub(crate) parameters: &'a str,
    /// Where the messages of the kernel are written to.
    pub(crate) console: &'a Path,
}

/// How a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It powered off, or its kernel panicked.
    Exit(ExitStatus),
    /// It was ended when its time was over.
    TimeLimit,
}

impl Machine<'_> {
    /// Boots it and hands over each line that comes out of its second serial port, until it powers
    /// off or its time is over. Nothing of it is left then.
    pub(crate) fn run(
        &self,
        time_limit: Duration,
        on_line: impl FnMut(&str) -> Result<()>,
    ) -> Result<End> {
        watch(&mut self.qemu(), time_limit, on_line)
    }

    fn qemu(&self) -> Command {
        // QEMU goes with us, also when we are killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", QEMU]);
        // KVM is not to be had everywhere, and counts do not depend on speed. One thread for both CPUs:
        // with one each, code that a CPU changes (as attaching does) may run half changed on another.
        command.args(["-accel", "tcg,thread=single", "-cpu", "max"]);
        command.args(["-smp", "2", "-m", "1024"]);
        command.args(["-no-user-config", "-nodefaults", "-no-reboot"]);
        command.args(["-display", "none"]);
        command.arg("-kernel").arg(self.kernel);
        command.arg("-initrd").arg(self.initramfs);
        command.args(["-append", &format!("{PARAMETERS} {}", self.parameters)]);
        // Two ports, so that messages of the kernel do not end up within lines of tests.
        command.arg("-serial");
        command.arg(format!("file:{}", self.console.display()));
        command.args(["-serial", "stdio"]);
        command
    }
}

/// Passes on the lines of a command until it ends, or ends it when its time is over.
fn watch(
    command: &mut Command,
    time_limit: Duration,
    mut on_line: impl FnMut(&str) -> Result<()>,
) -> Result<End> {
    let deadline = Instant::now() + time_limit;
    let mut child = Guarded::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let stdout = child.child.stdout.take().context("stdout is a pipe")?;
    let (sender, lines) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || read_lines(stdout, &sender));
        let outcome = loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Err(error) = on_line(&line) {
                        break Err(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => break Ok(End::TimeLimit),
                Err(RecvTimeoutError::Disconnected) => {
                    break child.child.wait().map(End::Exit).map_err(Into::into);
                }
            }
        };
        // Before the scope waits for the reader, which waits for the end of the output.
        drop(child);
        outcome
    })
}

/// Sends what is printed, line by line, without control characters: a terminal may follow.
fn read_lines(from: impl Read, to: &mpsc::Sender<String>) {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    while from
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|read| read > 0)
    {
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end().replace(char::is_control, "\u{fffd}");
        if to.send(line).is_err() {
            return;
        }
        bytes.clear();
    }
}

pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// A panic ends the machine, because of `-no-reboot`. An overloaded host makes the CPUs of the machine
/// stall, which the kernel must not take for a fault of its own.
const PARAMETERS: &str = "console=ttyS0 loglevel=6 panic=-1 oops=panic nowatchdog \
                          rcupdate.rcu_cpu_stall_suppress=1";

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn watch_shell(script: &str, time_limit: Duration) -> (End, Vec<String>) {
        let mut lines = Vec::new();
        let mut shell = Command::new("sh");
        let end = watch(shell.args(["-c", script]), time_limit, |line| {
            lines.push(line.to_owned());
            Ok(())
        });
        (end.expect("a shell"), lines)
    }

    /// Lines arrive in order, with the line ends of a serial port and without escape sequences, and
    /// the status of the end.
    #[test]
    fn lines_and_end() {
        let script = "printf 'a\\r\\n\\033[31mb\\nlast'; exit 3";
        let (end, lines) = watch_shell(script, Duration::from_mins(10));
        assert_eq!(end, End::Exit(ExitStatus::from_raw(3 << 8)));
        assert_eq!(lines, ["a", "\u{fffd}[31mb", "last"]);
    }

    /// A machine whose time is over is ended.
    #[test]
    fn a_hang_is_ended() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec sleep 1000"]).stderr(writer);
        let end = watch(&mut shell, Duration::ZERO, |_line| Ok(()));
        assert_eq!(end.expect("a shell"), End::TimeLimit);
        // Its end of the pipe, and with this ours, is closed.
        drop(shell);
        let mut said = Vec::new();
        reader.read_to_end(&mut said).expect("a pipe");
        assert!(said.is_empty());
    }

    /// An error of whoever reads ends it as well.
    #[test]
    fn an_error_ends_it() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo a; exec sleep 1000"]);
        let end = watch(&mut shell, Duration::from_mins(10), |_line| {
            anyhow::bail!("disk full")
        });
        assert_eq!(end.expect_err("it was refused").to_string(), "disk full");
    }
}
