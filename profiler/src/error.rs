//! What can go wrong, each with what was found and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use recording::{Detail, exit_code};

use crate::btf::BtfError;

/// A profile that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfilerError {
    /// No call has this name, here or in 32-bit programs.
    #[error("no system call is named {name:?}; `man 2 syscalls` lists them")]
    NoSuchCall {
        /// The name.
        name: String,
    },
    /// No target was named.
    #[error("no target: name one with --pid, --port, --comm or --cgroup")]
    NoTarget,
    /// There is no such process.
    #[error("no process has pid {pid}; `ps -e` lists them, and --comm finds them by name")]
    NoSuchProcess {
        /// What was asked for.
        pid: u32,
    },
    /// The process has ended and waits for its parent.
    #[error(
        "process {pid} ({comm}) is a zombie: it has ended, its parent has not collected it, and there is nothing left to profile"
    )]
    Zombie {
        /// The process.
        pid: u32,
        /// Its name.
        comm: String,
    },
    /// The id is that of a thread.
    #[error("{tid} is a thread of process {process}; profile the process with --pid {process}")]
    Thread {
        /// What was asked for.
        tid: u32,
        /// Its process.
        process: u32,
    },
    /// The process is the profiler.
    #[error("process {pid} is the profiler itself")]
    OwnProcess {
        /// The process.
        pid: u32,
    },
    /// The id is outside of the table of targets.
    #[error("pid {pid} is outside of the table of targets, which has room for ids below {limit}")]
    OutsideTable {
        /// The process.
        pid: u32,
        /// First id that does not fit.
        limit: u32,
    },
    /// Nobody listens on the port.
    #[error("nothing listens on TCP port {port}{}", Listening(.listening))]
    NobodyListens {
        /// What was asked for.
        port: u16,
        /// What does listen.
        listening: Vec<PortOwner>,
    },
    /// A socket listens, but no process was seen to hold it.
    #[error(
        "TCP port {port} is open, but no process was found to hold the socket; \
         run as root, and without hidepid on /proc, or name the process with --pid"
    )]
    HiddenListener {
        /// What was asked for.
        port: u16,
    },
    /// Several unrelated processes listen on the port.
    #[error(
        "TCP port {port} belongs to several unrelated processes; choose with --pid{}",
        Choices(.owners)
    )]
    AmbiguousPort {
        /// What was asked for.
        port: u16,
        /// Who listens.
        owners: Vec<PortOwner>,
    },
    /// The process that listens only passes connections on.
    #[error(
        "TCP port {port} is held by {} (pid {}), which only passes connections on; \
         name the server behind it with --pid{}",
        .owner.comm, .owner.pid, Choices(.behind)
    )]
    ProxyListens {
        /// What was asked for.
        port: u16,
        /// The proxy.
        owner: PortOwner,
        /// Who listens on the port that it passes connections to, where that is known.
        behind: Vec<PortOwner>,
    },
    /// No process has the name.
    #[error(
        "no process is named {comm:?} (names are cut to 15 bytes by the kernel); `ps -eo comm` lists them"
    )]
    NoSuchComm {
        /// What was asked for.
        comm: String,
    },
    /// There is no such control group.
    #[error("no control group {}; looked in {}", .path.display(), Paths(.tried))]
    NoSuchCgroup {
        /// What was asked for.
        path: PathBuf,
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// No process is in the control group.
    #[error("no process is in control group {}", .path.display())]
    EmptyCgroup {
        /// The folder.
        path: PathBuf,
    },
    /// This build has no eBPF object for the machine.
    #[error("not measured: no object for {arch}")]
    NoObject {
        /// The architecture.
        arch: &'static str,
    },
    /// The embedded object does not fit this build.
    #[error(
        "the eBPF object has version {}, this build needs {expected}; run `cargo xtask ebpf`",
        .found.map_or_else(|| "none".to_owned(), |found| found.to_string())
    )]
    ObjectVersion {
        /// Version in the object.
        found: Option<u32>,
        /// Version of this build.
        expected: u32,
    },
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no type information ({path}: {source}); \
         whyfast needs a kernel built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf {
        /// Where it was looked for.
        path: &'static str,
        /// Why it could not be read.
        source: io::Error,
    },
    /// The type information lacks something.
    #[error("this kernel is not supported: {0}")]
    Btf(#[from] BtfError),
    /// The profiler runs in a container.
    #[error(
        "the profiler runs in a PID namespace of its own, where process ids are not those of the \
         kernel; run it on the host, or in a container with the host's (docker run --pid=host)"
    )]
    PidNamespace,
    /// The kernel refused the eBPF calls.
    #[error("not permitted to {attempt}: {reason}")]
    NotPermitted {
        /// What was refused.
        attempt: String,
        /// What was seen, and the remedy.
        reason: String,
    },
    /// The kernel did not accept the object or a program.
    #[error("the kernel refused {what}: {cause}")]
    Refused {
        /// The object or a program of it.
        what: String,
        /// The error, and the end of the verifier's log.
        cause: String,
    },
    /// The hook does not serve the detail.
    #[error("detail {detail:?} is counted at tracepoints only; a function serves detail Counts")]
    HookForDetail {
        /// What was asked for.
        detail: Detail,
    },
    /// A file of the kernel could not be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A map could not be mapped into memory.
    #[error("cannot map the counters {map}: {source}")]
    Map {
        /// The map.
        map: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Privileges could not be given up.
    #[error("cannot give up privileges: {0}")]
    Drop(io::Error),
    /// The order of calls was wrong: a window was closed that had not been opened.
    #[error("no window is open")]
    NotOpen,
}

impl ProfilerError {
    /// The exit code of `whyfast` for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoTarget
            | Self::HookForDetail { .. }
            | Self::NoSuchCall { .. }
            | Self::NoSuchProcess { .. }
            | Self::Thread { .. }
            | Self::Zombie { .. }
            | Self::OwnProcess { .. }
            | Self::NobodyListens { .. }
            | Self::HiddenListener { .. }
            | Self::AmbiguousPort { .. }
            | Self::ProxyListens { .. }
            | Self::NoSuchComm { .. }
            | Self::NoSuchCgroup { .. }
            | Self::EmptyCgroup { .. } => exit_code::USAGE,
            Self::NoObject { .. }
            | Self::ObjectVersion { .. }
            | Self::NoBtf { .. }
            | Self::Btf(_)
            | Self::PidNamespace
            | Self::NotPermitted { .. }
            | Self::OutsideTable { .. }
            | Self::Refused { .. } => exit_code::CANNOT_MEASURE,
            Self::Read { .. } | Self::Map { .. } | Self::Drop(_) | Self::NotOpen => {
                exit_code::FAILED
            }
        }
    }
}

/// A process that holds a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOwner {
    /// The port.
    pub port: u16,
    /// The process.
    pub pid: u32,
    /// Its name, control characters replaced.
    pub comm: String,
    /// Container or innermost control group, where it is not the root.
    pub container: Option<String>,
}

struct Choices<'a>(&'a [PortOwner]);

impl fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "" } else { ":" })?;
        for owner in self.0 {
            write!(f, "\n  --pid {}  {}", owner.pid, owner.comm)?;
            if let Some(container) = &owner.container {
                write!(f, "  in {container}")?;
            }
        }
        Ok(())
    }
}

struct Listening<'a>(&'a [PortOwner]);

impl fmt::Display for Listening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(", nor on any other");
        }
        f.write_str("; these do:")?;
        for owner in self.0.iter().take(MOST_LISTED) {
            write!(
                f,
                "\n  {:5}  {} (pid {})",
                owner.port, owner.comm, owner.pid
            )?;
        }
        match self.0.len().saturating_sub(MOST_LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

struct Paths<'a>(&'a [PathBuf]);

impl fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", path.display())?;
        }
        Ok(())
    }
}

/// Enough to recognise the server that was meant, short enough for a terminal.
const MOST_LISTED: usize = 12;
