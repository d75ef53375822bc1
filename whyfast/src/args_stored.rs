//! The part of the command line for verbs that compare what is stored: `diff` and `gate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use recording::Denominator;

use crate::args::OutputArgs;
use crate::args_shape::LoadFormat;

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The first recording.
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,
    /// The second one; without it, two servers of the first are compared.
    #[arg(value_name = "B")]
    pub(crate) second: Option<PathBuf>,
    /// The server; twice for one in each recording, or for two of one recording.
    #[arg(long, value_name = "NAME")]
    pub(crate) arm: Vec<String>,
    /// What to divide by: requests where both sides counted them, else seconds.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) per: Option<DenominatorArg>,
    /// Compare although this gate (G1), or the load (scenario), does not match; the report says so.
    #[arg(long, value_name = "GATE")]
    pub(crate) allow_mismatch: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A format of a recording, of whatever kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For the terminal.
    #[default]
    Text,
    /// The recording.
    Json,
    /// For a forum, a pull request.
    Markdown,
    /// One page for the browser, with the recording inside.
    Html,
    /// One line per slice of a load, round of a comparison, or system call of a profile.
    Csv,
    /// One line per system call of every profiled round.
    CsvSyscalls,
    /// Counters of a profile as Prometheus reads them.
    Prometheus,
    /// Flame graphs, where functions were sampled (--detail stacks).
    Svg,
    /// One line per stack of running threads, for tools that draw flame graphs; microseconds.
    Folded,
    /// One line per stack of waiting threads.
    FoldedOffCpu,
    /// As h2load prints it.
    H2load,
    /// As httperf prints it.
    Httperf,
    /// As wrk prints it.
    Wrk,
}

impl From<LoadFormat> for ReportFormat {
    fn from(format: LoadFormat) -> Self {
        match format {
            LoadFormat::Text => Self::Text,
            LoadFormat::Json => Self::Json,
            LoadFormat::Markdown => Self::Markdown,
            LoadFormat::Html => Self::Html,
            LoadFormat::Csv => Self::Csv,
            LoadFormat::H2load => Self::H2load,
            LoadFormat::Httperf => Self::Httperf,
            LoadFormat::Wrk => Self::Wrk,
        }
    }
}

/// What figures are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DenominatorArg {
    /// Accepted connections.
    Connection,
    /// Requests of the load.
    Request,
    /// Seconds of the window.
    Second,
}

impl From<DenominatorArg> for Denominator {
    fn from(per: DenominatorArg) -> Self {
        match per {
            DenominatorArg::Connection => Self::Connection,
            DenominatorArg::Request => Self::Request,
            DenominatorArg::Second => Self::Second,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct GateArgs {
    /// The lock file, usually `syscalls.lock`.
    #[arg(value_name = "LOCK")]
    pub(crate) lock: PathBuf,
    /// Recordings of `whyfast compare --lock-step N`.
    #[arg(required = true, value_name = "CANDIDATE")]
    pub(crate) candidates: Vec<PathBuf>,
    /// Take over the counts of the candidates into the lock file; comments and limits stay.
    #[arg(long)]
    pub(crate) bless: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
