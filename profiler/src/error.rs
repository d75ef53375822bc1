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
    #[error("no target: name one with --pid, --port, --comm, --unit or --cgroup")]
    NoTarget,
    /// There is no such process.
    #[error("no process has pid {pid}; `ps -e` lists them, and --comm finds them by name")]
    NoSuchProcess {
        /// What was asked for.
        pid: u32,
    },
    /// There is no such process, but in a PID namespace inside of ours there is.
    #[error(
        "no process has pid {pid} on this host, but inside of a container one has; choose with --pid{}",
        Inner(.processes)
    )]
    InnerPid {
        /// What was asked for.
        pid: u32,
        /// Who has the id in a PID namespace of its own.
        processes: Vec<InnerProcess>,
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
        "TCP port {port} is open, but no process was found to hold the socket: {reason}; or name the \
         process with --pid"
    )]
    HiddenListener {
        /// What was asked for.
        port: u16,
        /// What was seen, and the remedy.
        reason: String,
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
    /// There is no control group of the unit.
    #[error("no unit {unit} runs{}{}", Units(.similar), Systemd { unit, looked_in, runs: *.systemd_runs })]
    NoSuchUnit {
        /// What was asked for, with its suffix.
        unit: String,
        /// The hierarchies that were searched.
        looked_in: Vec<PathBuf>,
        /// Units that run and resemble it.
        similar: Vec<String>,
        /// Whether this system was booted with systemd.
        systemd_runs: bool,
    },
    /// No process is in the control group of the unit.
    #[error(
        "unit {unit} has no process: control group {} is empty; \
         `systemctl status {unit}` says why, and --wait waits for one",
        .path.display()
    )]
    EmptyUnit {
        /// What was asked for.
        unit: String,
        /// Its control group.
        path: PathBuf,
    },
    /// Several users run a unit of the name.
    #[error("several users run a unit {unit}; choose with --cgroup{}", Groups(.groups))]
    AmbiguousUnit {
        /// What was asked for, with its suffix.
        unit: String,
        /// Their control groups.
        groups: Vec<PathBuf>,
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
    /// This process may not open more files.
    #[error(
        "too many open files to {attempt}: this process may have {limit}; \
         raise the limit (ulimit -n 1024, or LimitNOFILE=1024 in the unit file)"
    )]
    TooManyFiles {
        /// What could not be done.
        attempt: String,
        /// The soft limit.
        limit: String,
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
    /// Whether the target may still appear: it is not there, and nothing else is wrong.
    pub fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::NoSuchProcess { .. }
                | Self::InnerPid { .. }
                | Self::NobodyListens { .. }
                | Self::NoSuchComm { .. }
                | Self::NoSuchCgroup { .. }
                | Self::EmptyCgroup { .. }
                | Self::NoSuchUnit { .. }
                | Self::EmptyUnit { .. }
        )
    }

    /// Why the kernel's type information could not be read.
    pub(crate) fn reading_btf(path: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EMFILE) => Self::too_many_files("read the kernel's type information"),
            Some(libc::ENOENT) => Self::NoBtf { path, source },
            _ => Self::Read {
                path: path.into(),
                source,
            },
        }
    }

    /// EMFILE, with the limit.
    pub(crate) fn too_many_files(attempt: &str) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Self::TooManyFiles {
            attempt: attempt.to_owned(),
            limit: limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string()),
        }
    }

    /// The exit code of `whyfast` for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoTarget
            | Self::HookForDetail { .. }
            | Self::NoSuchCall { .. }
            | Self::NoSuchProcess { .. }
            | Self::InnerPid { .. }
            | Self::Thread { .. }
            | Self::Zombie { .. }
            | Self::OwnProcess { .. }
            | Self::NobodyListens { .. }
            | Self::HiddenListener { .. }
            | Self::AmbiguousPort { .. }
            | Self::ProxyListens { .. }
            | Self::NoSuchComm { .. }
            | Self::NoSuchCgroup { .. }
            | Self::EmptyCgroup { .. }
            | Self::NoSuchUnit { .. }
            | Self::EmptyUnit { .. }
            | Self::AmbiguousUnit { .. } => exit_code::USAGE,
            Self::NoObject { .. }
            | Self::ObjectVersion { .. }
            | Self::NoBtf { .. }
            | Self::Btf(_)
            | Self::PidNamespace
            | Self::NotPermitted { .. }
            | Self::OutsideTable { .. }
            | Self::Refused { .. } => exit_code::CANNOT_MEASURE,
            Self::Read { .. }
            | Self::Map { .. }
            | Self::Drop(_)
            | Self::TooManyFiles { .. }
            | Self::NotOpen => exit_code::FAILED,
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

/// A process that has an id in a PID namespace of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerProcess {
    /// Process id in the initial PID namespace.
    pub pid: u32,
    /// Its name, control characters replaced.
    pub comm: String,
    /// Container or innermost control group, where it is not the root.
    pub container: Option<String>,
}

struct Inner<'a>(&'a [InnerProcess]);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(":")?;
        for process in self.0 {
            choice(f, process.pid, &process.comm, process.container.as_deref())?;
        }
        Ok(())
    }
}

struct Choices<'a>(&'a [PortOwner]);

impl fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "" } else { ":" })?;
        for owner in self.0 {
            choice(f, owner.pid, &owner.comm, owner.container.as_deref())?;
        }
        Ok(())
    }
}

fn choice(
    f: &mut fmt::Formatter<'_>,
    pid: u32,
    comm: &str,
    container: Option<&str>,
) -> fmt::Result {
    write!(f, "\n  --pid {pid}  {comm}")?;
    container.map_or(Ok(()), |container| write!(f, "  in {container}"))
}

struct Groups<'a>(&'a [PathBuf]);

impl fmt::Display for Groups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(":")?;
        let mut groups = self.0.iter();
        groups.try_for_each(|group| write!(f, "\n  --cgroup {}", group.display()))
    }
}

struct Units<'a>(&'a [String]);

impl fmt::Display for Units<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let listed = &self.0[..self.0.len().min(MOST_LISTED)];
        write!(f, " ({}", listed.join(", "))?;
        match self.0.len() - listed.len() {
            0 if listed.len() == 1 => f.write_str(" does)"),
            0 => f.write_str(" do)"),
            more => write!(f, " and {more} more do)"),
        }
    }
}

/// Why a unit may not have been found, and what to do.
struct Systemd<'a> {
    unit: &'a str,
    looked_in: &'a [PathBuf],
    runs: bool,
}

impl fmt::Display for Systemd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, looked_in) = (self.unit, self.looked_in);
        if looked_in.is_empty() {
            f.write_str(": no hierarchy of control groups is mounted that systemd would use")?;
        } else {
            write!(
                f,
                ": no control group has its name under {}",
                Paths(looked_in)
            )?;
        }
        if self.runs {
            write!(
                f,
                "; `systemctl status {unit}` says whether it should, and --wait waits for it"
            )
        } else {
            f.write_str(
                ", and this system was not booted with systemd (no /run/systemd/system); \
                 name the target with --comm, --port, --pid or --cgroup",
            )
        }
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
