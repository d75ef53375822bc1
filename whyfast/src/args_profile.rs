//! The command line of `whyfast profile` as it is typed.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use recording::GroupBy;

use crate::args::{DetailArg, duration};
use crate::requests::RequestsFrom;

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct ProfileArgs {
    /// A process with all its threads, and its children.
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Whoever listens on this TCP port, in any network namespace.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Vec<u16>,
    /// Every process of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Vec<String>,
    /// Every process of this control group and the groups below it.
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<PathBuf>,
    /// Every process of this systemd unit (`nginx`, `getty@tty1`, `system.slice`); a template
    /// (`worker@`) stands for all of its instances.
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Vec<String>,
    /// Wait until every target is there, at most this long. With --live, --serve and --duration 0 also for one that ends
    /// and comes back.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        value_parser = duration,
        conflicts_with_all = ["command", "control"]
    )]
    #[expect(clippy::option_option, reason = "a flag that may have a value")]
    pub(crate) wait: Option<Option<Duration>>,
    /// End after this time, a command with it; otherwise at Ctrl-C or when the target exits. 0: as without it,
    /// in memory that does not grow, however long that is.
    #[arg(short, long, value_name = "TIME", value_parser = duration_or_zero)]
    pub(crate) duration: Option<Duration>,
    /// A slice of the counters for each interval: kept in the JSON, written as it is taken with --format jsonl
    /// and csv, shown with --live (1s there where it is not given).
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub(crate) interval: Option<Duration>,
    /// Show what happens on the whole screen as it happens; the report follows at the end. `?` there says how.
    #[arg(long, conflicts_with_all = ["command", "control"])]
    pub(crate) live: bool,
    /// Serve the counters to Prometheus at this address until it ends: PORT (of 127.0.0.1) or ADDRESS:PORT. Nobody who
    /// reaches it is asked for a password.
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = crate::serve::address,
        conflicts_with_all = ["command", "control", "live", "interval", "duration"]
    )]
    pub(crate) serve: Option<SocketAddr>,
    /// Divide by the requests of the target, which others send: log=FILE is its access log, a line for each request;
    /// url=URL a page of it with a counter (that of nginx, the CSV of haproxy), url=URL#NAME one with many (a metric of
    /// Prometheus, a pointer into JSON).
    #[arg(long, value_name = "SOURCE", value_parser = crate::requests::requests_from)]
    pub(crate) requests_from: Option<RequestsFrom>,
    /// How much is probed.
    #[arg(long, value_enum, default_value_t = DetailArg::Times, value_name = "DETAIL")]
    pub(crate) detail: DetailArg,
    /// Samples per second of each CPU, with --detail stacks.
    #[arg(long, value_name = "N", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) stack_hz: u32,
    /// Show the calls of each process, thread or name of a thread as well.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) by: Option<GroupByArg>,
    /// Count only these calls, chosen in the kernel: read,write.
    #[arg(long, value_name = "CALLS", value_delimiter = ',')]
    pub(crate) only: Option<Vec<String>>,
    /// Let the kernel keep statistics of eBPF programs meanwhile; taxes every program on the host.
    #[arg(long)]
    pub(crate) bpf_stats: bool,
    /// Time inside TLS libraries, by probes on their functions: about 10 us for each call of one, in
    /// every process that has the library (see docs/tls.md).
    #[arg(long)]
    pub(crate) tls: bool,
    /// Leave children out, those that exist and those to come.
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Run CMD as root rather than as the user who called sudo.
    #[arg(long, requires = "command")]
    pub(crate) as_root: bool,
    /// Exit with the status of CMD.
    #[arg(long, requires = "command")]
    pub(crate) propagate_exit: bool,
    #[command(flatten)]
    pub(crate) output: ProfileOutputArgs,
    /// Speak JSON Lines on stdin and stdout.
    #[arg(long, hide = true, conflicts_with = "command")]
    pub(crate) control: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// A command to run and profile. Its output goes where ours goes; -o keeps the result apart.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Sizes of the kernel's tables; smaller than needed, something is lost and said to be.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitArgs {
    /// First process id that cannot be a target.
    #[arg(long = "limit-targets", hide = true)]
    pub(crate) targets: Option<u32>,
    /// First thread id that cannot be timed.
    #[arg(long = "limit-threads", hide = true)]
    pub(crate) threads: Option<u32>,
    /// Unknown call numbers that are told apart.
    #[arg(long = "limit-unknown", hide = true)]
    pub(crate) unknown: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileOutputArgs {
    /// Format of the result.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ProfileFormat,
    /// Write the result to a file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// A format of the result of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileFormat {
    /// For the terminal.
    #[default]
    Text,
    /// The recording.
    Json,
    /// For a forum, a pull request.
    Markdown,
    /// One page for the browser, with the recording inside.
    Html,
    /// With --detail stacks: flame graphs.
    Svg,
    /// With --detail stacks: a line per stack of running threads, in microseconds, for tools that draw them.
    Folded,
    /// With --detail stacks: a line per stack of waiting threads.
    FoldedOffCpu,
    /// Counters as Prometheus reads them, for a file that a collector picks up (see also --serve).
    Prometheus,
    /// With --interval: a line of JSON for each slice as it is taken, and one of the total.
    Jsonl,
    /// With --interval: lines of comma-separated values for each slice as it is taken, and for the total.
    Csv,
}

/// What calls are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupByArg {
    /// Process.
    Process,
    /// Thread.
    Thread,
    /// Name of the thread.
    Comm,
}

impl From<GroupByArg> for GroupBy {
    fn from(by: GroupByArg) -> Self {
        match by {
            GroupByArg::Process => Self::Process,
            GroupByArg::Thread => Self::Thread,
            GroupByArg::Comm => Self::Comm,
        }
    }
}

/// A time, or 0.
fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    duration(text)
}
