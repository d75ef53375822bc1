//! The command line as it is typed. No logic: each verb turns its arguments into a plan once.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use recording::Detail;

use crate::args_http::HttpArgs;
use crate::args_profile::ProfileArgs;
use crate::args_scenario::ScenarioArgs;
use crate::args_shape::{RequestArgs, ResultArgs, ShapeArgs};
use crate::args_stored::{DiffArgs, GateArgs, ReportFormat};

/// Benchmarks servers and explains the result: per request, from the kernel's own counts.
#[derive(Debug, Parser)]
#[command(name = "whyfast", version, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 3 a limit was broken, 4 inconclusive, 5 not comparable,
6 this machine cannot measure it, 130 interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run servers against each other and say which is faster, and why.
    Compare(Box<CompareArgs>),
    /// Profile a running server, or a command, in the kernel.
    Profile(Box<ProfileArgs>),
    /// Put load on a server.
    Load(Box<LoadArgs>),
    /// Run the built-in server, whose system calls per request are known exactly.
    Testserver(TestserverArgs),
    /// Render recordings.
    Report(ReportArgs),
    /// Show what differs between two profiles, call by call, like `diff -u`.
    Diff(DiffArgs),
    /// Hold exact counts against a reviewed lock file; exit with 3 where they changed.
    Gate(GateArgs),
    /// Read other tools' output and say what follows from it, and what does not.
    Autopsy(AutopsyArgs),
    /// Say what this machine can measure, and the remedy for what it cannot.
    Doctor(DoctorArgs),
    /// List recipes, scenarios and styles of the built-in server.
    List(ListArgs),
    /// Print the manual page, of a verb or of all.
    Man {
        /// The verb.
        verb: Option<String>,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Clean up when the process that started this one is gone.
    #[command(hide = true)]
    Guard,
    /// Look at what a server answers.
    #[command(hide = true)]
    Probe(Box<ProbeArgs>),
    /// Look who else traces the machine.
    #[command(hide = true)]
    Tracers(TracersArgs),
}

/// A format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For the terminal.
    #[default]
    Text,
    /// The recording.
    Json,
    /// For a forum, a pull request.
    Markdown,
    /// One page for the browser, with the recording inside.
    Html,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Format of the result.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Write the result to a file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// A folder of recipes of your own, which come before the built-in ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) recipes: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct CompareArgs {
    /// The servers, at least two (with --lock-step, one is enough); the first is the reference. None:
    /// those of the scenario, or two styles of the built-in server.
    ///
    /// A recipe (nginx, h2o), with a variant (nginx:seed), another build of it
    /// (nginx@/path/to/nginx); the built-in server (testserver:open-read,spin-us=5); a command
    /// (`name=cmd:COMMAND`, where {port}, {cpus}, {dir}, {root}, {cert}, {key} and {pem} are replaced); or a live server
    /// (`name=URL,port=443`, or pid=, comm=, unit=, cgroup=). `name=ARM` gives any arm a name of its own.
    #[arg(value_name = "ARM")]
    pub(crate) arms: Vec<String>,
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Six pairs of short rounds: an indication within 90 seconds (the default).
    #[arg(long, conflicts_with = "publish")]
    pub(crate) quick: bool,
    /// At least ten pairs of 10-second rounds, more until the interval is half as wide as the
    /// margin; with an A/A control, with more connections, and at equal rates. 20 to 65 minutes.
    #[arg(long)]
    pub(crate) publish: bool,
    /// With --publish: begin no further pair that would end after this time (45 minutes).
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "publish", conflicts_with = "pairs")]
    pub(crate) budget: Option<Duration>,
    /// Pairs of rounds, whatever the interval.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: Option<u32>,
    /// The margin below which a difference does not matter, in percent.
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    pub(crate) margin: f64,
    /// Exact counts: N requests to each server, one at a time, after 100 warm-up requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) lock_step: Option<u64>,
    /// Only rounds without probes: throughput and latency, and no reasons.
    #[arg(long, conflicts_with_all = ["lock_step", "detail"])]
    pub(crate) no_probes: bool,
    /// How much is probed in the rounds that explain (sched; with --lock-step times).
    #[arg(long, value_enum, value_name = "DETAIL")]
    pub(crate) detail: Option<DetailArg>,
    /// In the rounds that explain, probe functions of the TLS library too: what handshakes, reads and writes take per
    /// request. Slows these rounds, and every process that has the library (see docs/tls.md).
    #[arg(long, conflicts_with = "no_probes")]
    pub(crate) tls: bool,
    /// Print the throughput that each server would have without this cause: a part of its CPU time (user,
    /// send, softirq), an idle label (idle.blocked) or a finding (file-opened-per-request).
    #[arg(long, value_name = "CAUSE")]
    pub(crate) without: Vec<String>,
    /// Compare although this gate refuses; every report says so.
    #[arg(long, value_name = "GATE")]
    pub(crate) allow_mismatch: Vec<String>,
    /// As root: the user that load and servers run as.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// A folder of recipes of your own, which come before the built-in ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) recipes: Option<PathBuf>,
    /// Keep the recording and the report in this folder, which must not hold any yet.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How much is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetailArg {
    /// An empty pair of programs, for benchmarks.
    Floor,
    /// Calls, errors and bytes.
    Counts,
    /// And the time of each call.
    Times,
    /// And what each thread did at any moment: on a CPU, asleep, waiting for a CPU, interrupted.
    Sched,
    /// And in which functions: sampled on the CPU, at every sleep off it.
    Stacks,
}

impl From<DetailArg> for Detail {
    fn from(detail: DetailArg) -> Self {
        match detail {
            DetailArg::Floor => Self::Floor,
            DetailArg::Counts => Self::Counts,
            DetailArg::Times => Self::Times,
            DetailArg::Sched => Self::Sched,
            DetailArg::Stacks => Self::Stacks,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// `http[s]://host[:port]/path`.
    #[arg(required_unless_present = "selftest")]
    pub(crate) url: Option<String>,
    /// Requests, exactly.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Time to measure (10 s where neither this nor -n is given).
    #[arg(short, long, short_alias = 'D', value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Connections.
    #[arg(short, long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Threads.
    #[arg(short, long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    /// A header line, `Name: value`.
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Method (GET, or POST with --data).
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Send the bytes of this file as body.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Limit on one request.
    #[arg(short = 'T', long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Load that is not measured, first.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) warmup: Option<Duration>,
    /// Requests on one connection; then the client closes it and opens the next.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests_per_connection: Option<u64>,
    /// Vary that number from connection to connection, by so many up and down.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "requests_per_connection"
    )]
    pub(crate) requests_jitter: u64,
    /// Time that a connection lives; then the client closes it, between two requests, and opens the
    /// next.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) connection_lifetime: Option<Duration>,
    /// Keep a slice of the figures for each interval.
    #[arg(short, long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub(crate) interval: Duration,
    /// Share of failed requests above which the exit code is 3, in percent.
    #[arg(long, default_value_t = 0.01, value_name = "PERCENT")]
    pub(crate) max_errors: f64,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    /// Play a hostile server against the load generator, and prove its account equal to the
    /// server's.
    #[arg(long, exclusive = true)]
    pub(crate) selftest: bool,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) output: ResultArgs,
    /// Speak JSON Lines on stdin and stdout.
    #[arg(long, hide = true)]
    pub(crate) control: bool,
    /// Warm-up by count.
    #[arg(long, hide = true, conflicts_with = "warmup")]
    pub(crate) warmup_requests: Option<u64>,
    /// Stand still before and after the window until told to go on.
    #[arg(long, hide = true, requires = "control")]
    pub(crate) barriers: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TestserverArgs {
    /// Style, then knobs: `sendfile,poller=poll,spin-us=5`; `whyfast list` shows them all.
    #[arg(long, default_value = "sendfile", value_name = "SPEC")]
    pub(crate) style: String,
    /// Address to listen on; port 0 takes a free one, and the first line printed names it.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) listen: std::net::SocketAddr,
    /// Worker threads, unless the style names them (workers=N).
    #[arg(short, long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// File to serve, under its own name; without it, one byte.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Certificate for tls=1, in PEM; without it one is made at the start, for localhost and 127.0.0.1.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Take the time of each cost that is added to a request, and print the means of every 10 ms at the
    /// end.
    #[arg(long)]
    pub(crate) time_injections: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Recordings.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print the throughput that each server would have without this cause: a part of its CPU time (user,
    /// send, softirq), an idle label (idle.blocked) or a finding (file-opened-per-request).
    #[arg(long, value_name = "CAUSE")]
    pub(crate) without: Vec<String>,
    /// Explain each server against itself in this recording of the past.
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Format of the result; the names of other tools are for recordings of a load.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: ReportFormat,
    /// Write the result to a file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AutopsyArgs {
    /// Output of h2load, wrk, wrk2, httperf, ab, hey, oha, `strace -c` or `perf trace -s`, also
    /// several and in prose (a forum post); `-` is the standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// What to ask for.
    pub(crate) url: String,
    /// Requests, one after the other.
    #[arg(long, default_value_t = 100)]
    pub(crate) count: u32,
    /// A header line, `Name: value`.
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TracersArgs {
    /// Processes that nobody else shall trace.
    pub(crate) pids: Vec<u32>,
}

/// `10s`, `500ms`, `2m`; a plain number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().map(Duration::try_from_secs_f64);
    let parsed = match seconds {
        Some(seconds) => seconds.map_err(|error| error.to_string()),
        None => humantime::parse_duration(text).map_err(|error| error.to_string()),
    };
    match parsed {
        Ok(duration) if duration.is_zero() => Err("must be longer than nothing".to_owned()),
        Ok(duration) if duration > LONGEST => Err("must be at most 30 days".to_owned()),
        other => other,
    }
}

/// Keeps nanoseconds far from the end of 64 bits.
const LONGEST: Duration = Duration::from_hours(30 * 24);

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The definitions agree with each other.
    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Times read with a unit or as seconds; nonsense is refused.
    #[test]
    fn durations_take_units_or_seconds() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["0", "-1", "NaN", "1e300", "x", "", "99999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    /// Everything after `--` is the command, flags included.
    #[test]
    fn command_keeps_its_flags() {
        let cli = Cli::parse_from(["whyfast", "profile", "--no-follow", "--", "ls", "-p", "1"]);
        let Verb::Profile(args) = cli.verb else {
            panic!("not profile")
        };
        assert_eq!(args.command, ["ls", "-p", "1"]);
        assert!(args.pid.is_empty());
    }
}
