//! The first program of the virtual machines that tests run in: mounts what a Linux system has, runs
//! the commands of [`COMMANDS`] one after another, says how each ended, and powers off.
//!
//! All goes to the second serial port; the first one is the kernel's. Lines of its own begin with
//! [`MARK`]; `cargo xtask test vm` reads them.

#![deny(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "both are the serial port that the tests are read from"
)]

#[expect(unsafe_code, reason = "the one module that needs it")]
mod network;

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, WaitStatus};
use rustix::system::RebootCommand;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

fn main() {
    if let Err(error) = run() {
        eprintln!("{MARK}failed: {error:#}");
    }
    // What was written has to leave the port before the machine is gone.
    let _drained = rustix::termios::tcdrain(rustix::stdio::stdout());
    if let Err(error) = rustix::system::reboot(RebootCommand::PowerOff) {
        // The end of the first program is a panic of the kernel, which ends the machine.
        eprintln!("{MARK}failed: cannot power off: {error}");
    }
}

fn run() -> Result<()> {
    for mount in MOUNTS {
        mount.mount()?;
    }
    use_serial_port()?;
    network::loopback_up()?;
    let commands =
        fs::read_to_string(COMMANDS).with_context(|| format!("failed to read {COMMANDS}"))?;
    for line in commands.lines() {
        println!("{MARK}ended: {line}: {}", run_command(line)?);
    }
    for line in fs::read_to_string(SKIP_LOG).unwrap_or_default().lines() {
        println!("{MARK}skipped: {line}");
    }
    println!("{MARK}done");
    Ok(())
}

/// Runs a command of words without spaces; how it ended.
fn run_command(line: &str) -> Result<String> {
    let mut words = line.split(' ');
    let program = words.next().context("a command has a name")?;
    let child = Command::new(program)
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("WHYFAST_SKIP_LOG", SKIP_LOG)
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("failed to run {program}"))?;
    loop {
        // Processes whose parents are gone are ours to collect as well.
        let (pid, status) = rustix::process::wait(WaitOptions::empty())?
            .context("without NOHANG the call returns with a child")?;
        if u32::try_from(pid.as_raw_nonzero().get()) == Ok(child.id()) {
            return Ok(describe(status));
        }
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => format!("exit status {status}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("{status:?}"),
    }
}

/// Makes the second serial port the output of this program and of those that it runs.
fn use_serial_port() -> Result<()> {
    let open = || -> io::Result<()> {
        let port = File::options().write(true).read(true).open(PORT)?;
        let mut attributes = tcgetattr(&port)?;
        attributes.make_raw();
        tcsetattr(&port, OptionalActions::Now, &attributes)?;
        rustix::stdio::dup2_stdout(&port)?;
        rustix::stdio::dup2_stderr(&port)?;
        Ok(())
    };
    open().with_context(|| format!("failed to open {PORT}"))
}

/// A file system of the kernel, and where it belongs.
struct Mount {
    kind: &'static CStr,
    target: &'static str,
}

impl Mount {
    fn mount(&self) -> Result<()> {
        let Self { kind, target } = self;
        let attempt = || -> io::Result<()> {
            fs::create_dir_all(target)?;
            mount(*kind, *target, *kind, MountFlags::empty(), None::<&CStr>)?;
            Ok(())
        };
        attempt().with_context(|| format!("failed to mount {kind:?} on {target}"))
    }
}

/// Folders that others are in come first.
const MOUNTS: &[Mount] = &[
    Mount {
        kind: c"devtmpfs",
        target: "/dev",
    },
    Mount {
        kind: c"proc",
        target: "/proc",
    },
    Mount {
        kind: c"sysfs",
        target: "/sys",
    },
    Mount {
        kind: c"cgroup2",
        target: "/sys/fs/cgroup",
    },
    Mount {
        kind: c"bpf",
        target: "/sys/fs/bpf",
    },
    Mount {
        kind: c"securityfs",
        target: "/sys/kernel/security",
    },
    Mount {
        kind: c"tracefs",
        target: "/sys/kernel/tracing",
    },
    Mount {
        kind: c"tmpfs",
        target: "/run",
    },
];
/// One command a line.
const COMMANDS: &str = "/etc/vm-init";
const MARK: &str = "vm-init: ";
const PORT: &str = "/dev/ttyS1";
/// Where tests write what they left out.
const SKIP_LOG: &str = "/run/skipped";
