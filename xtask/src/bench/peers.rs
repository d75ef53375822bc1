//! The tools that people use for the same, on the same work.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;

use super::report::Report;
use super::{Setting, cpus};
use crate::command::{self, Guarded};

/// A tool that counts like `whyfast profile`.
pub(crate) struct Peer {
    program: &'static str,
    arguments: &'static [&'static str],
    /// Whether the process is appended as `-p PID`, or put into the last argument as `PID`.
    takes_pid: bool,
    /// Slower by factors.
    pub(crate) is_slow: bool,
}

impl Peer {
    /// As it was started.
    pub(crate) fn name(&self) -> String {
        if self.takes_pid {
            format!("{} {}", self.program, self.arguments.join(" "))
        } else {
            format!("{} (syscount with times)", self.program)
        }
    }

    /// The values of some repetitions under the tool; `None`, and the reason in the report, where it
    /// cannot be had.
    pub(crate) fn measure(
        &self,
        setting: &Setting,
        pid: u32,
        report: &mut Report,
        name: &str,
        mut value: impl FnMut() -> Result<f64>,
    ) -> Result<Option<Vec<f64>>> {
        let Some(program) = command::find(self.program, &[]) else {
            let why = format!("{} is not installed", self.program);
            report.not_measured(name, why, "install it to compare");
            return Ok(None);
        };
        if !command::is_root() {
            report.not_measured(name, "this part needs to be root itself", "run with sudo");
            return Ok(None);
        }
        let mut values = Vec::new();
        for _repetition in 0..PEER_REPETITIONS {
            let mut command = self.command(setting, &program, pid);
            let mut tracer = Guarded::spawn(&mut command)?;
            // Neither of them says when it has begun.
            std::thread::sleep(PEER_START);
            ensure!(
                tracer.child.try_wait()?.is_none(),
                "{} ended at once",
                self.program
            );
            values.push(value()?);
            tracer.end(Signal::INT)?;
        }
        Ok(Some(values))
    }

    /// With a trace file system of its own, which not every host mounts.
    fn command(&self, setting: &Setting, program: &Path, pid: u32) -> Command {
        let mut command = cpus::pinned(setting.client_cpu, "unshare");
        command
            .args(["--mount", "sh", "-c", WITH_TRACEFS, "sh"])
            .arg(program);
        let pid = pid.to_string();
        if self.takes_pid {
            command.args(self.arguments).args(["-p", &pid]);
        } else {
            command.args(
                self.arguments
                    .iter()
                    .map(|argument| argument.replace("PID", &pid)),
            );
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// What people count system calls with.
pub(crate) const PEERS: [Peer; 3] = [
    Peer {
        program: "bpftrace",
        // What syscount of its tools counts, and the time of each call.
        arguments: &[
            "-e",
            "tracepoint:raw_syscalls:sys_enter /pid == PID/ { @start[tid] = nsecs; } \
             tracepoint:raw_syscalls:sys_exit /@start[tid]/ { \
             @count[args->id] = count(); @ns[args->id] = hist(nsecs - @start[tid]); \
             delete(@start[tid]); }",
        ],
        takes_pid: false,
        is_slow: false,
    },
    Peer {
        program: "perf",
        arguments: &["trace", "-s"],
        takes_pid: true,
        is_slow: true,
    },
    Peer {
        program: "strace",
        arguments: &["-c", "-f"],
        takes_pid: true,
        is_slow: true,
    },
];
const WITH_TRACEFS: &str = "mountpoint -q /sys/kernel/tracing \
    || mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
/// Factors apart, two repetitions show it.
const PEER_REPETITIONS: u32 = 2;
const PEER_START: Duration = Duration::from_secs(1);
