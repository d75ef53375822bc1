//! The part of the command line that says what `load` sends, when, and from where to where, and
//! how its result is written.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use loadgen::{
    Check, Config, Limit, Pausing, ProxyProtocol, Shape, Stage, Think, parse_statuses,
    read_requests,
};
use recording::Arrivals;

use crate::args::duration;
use crate::failure::Failure;

/// When requests are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Shape of the load")]
pub(crate) struct ShapeArgs {
    /// Open loop: so many requests per second, whatever the responses; latency begins when a
    /// request is due. Steps and ramps: `100:30s,100-500:1m,500`.
    #[arg(short = 'R', long, value_name = "STAGES", value_parser = stages)]
    rate: Option<Stages>,
    /// How requests of an open loop are spread.
    #[arg(long, value_enum, default_value_t = ArrivalsArg::Constant, value_name = "LAW")]
    arrivals: ArrivalsArg,
    /// Drop a due request that is later than this (the timeout); what is dropped is counted.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "rate")]
    catch_up: Option<Duration>,
    /// Exit with 3 when less of the rate was sent, in percent.
    #[arg(long, default_value_t = 90.0, value_name = "PERCENT")]
    pub(crate) min_rate: f64,
    /// Requests in flight at most, in steps and ramps like those of --rate.
    #[arg(long, value_name = "STAGES", value_parser = stages)]
    concurrency: Option<Stages>,
    /// Connections opened per second at most.
    #[arg(long, value_name = "N")]
    connection_rate: Option<f64>,
    /// Time between a response and the next request on its connection.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    think: Option<Duration>,
    /// Make think time vary (exponentially) around its mean.
    #[arg(long, requires = "think")]
    think_random: bool,
    /// Pause after a turn that found few of many responses, so that more come together.
    #[arg(long, value_enum, default_value_t = PausesArg::Tried, value_name = "WHEN")]
    pauses: PausesArg,
    /// Wait for what is in flight at the end of the window, instead of giving it up.
    #[arg(long)]
    drain: bool,
    /// Look for the highest rate under a limit, `p99<5ms`; each rate is tried for --duration
    /// (2 s), from --rate (100) on.
    #[arg(long, value_name = "LIMIT", value_parser = limit)]
    pub(crate) find_max: Option<Limit>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
}

/// What is sent, where to, and what has to come back.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestArgs {
    /// TOML file with several requests: `[[request]]`, each with `name`, `weight`, `method`,
    /// `path`, `headers`, `body` or `body_file`, `expect_status`, `expect_length`, `expect_sha256`.
    #[arg(long, value_name = "FILE")]
    request_file: Option<PathBuf>,
    /// Replace {seq} and {random} (ten digits; {seq:6} for six) in path, headers and bodies.
    #[arg(long)]
    placeholders: bool,
    /// Statuses that are ok; all others are failures.
    #[arg(long, default_value = "200-399", value_name = "LIST")]
    expect_status: String,
    /// Bytes that each body has to have.
    #[arg(long, value_name = "N")]
    check_length: Option<u64>,
    /// SHA-256 that each body has to have, in hexadecimal.
    #[arg(long, value_name = "HASH")]
    check_sha256: Option<String>,
    /// Hash one body in so many.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    check_every: u64,
    /// Connect to a Unix socket instead of the host of the URL.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Connect to this host instead of the one of the URL.
    #[arg(long, value_name = "HOST[:PORT]")]
    connect_to: Option<String>,
    /// Resolve the host for every connection, instead of once before the first one.
    #[arg(long)]
    resolve_each: bool,
    /// Local addresses to connect from, in turn.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Begin each connection with a header of the PROXY protocol.
    #[arg(long, value_enum, value_name = "VERSION")]
    proxy_protocol: Option<ProxyArg>,
    /// Address that this header claims to come from.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "proxy_protocol")]
    proxy_source: Option<SocketAddr>,
}

/// Where the result of a load goes, and how it looks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ResultArgs {
    /// Format of the result; the names of other tools print it as they do.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: LoadFormat,
    /// Write the result to a file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write the latencies to a file as an `HdrHistogram` log (V2).
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    /// Write the latencies to a file as a percentile distribution.
    #[arg(long, value_name = "FILE")]
    pub(crate) hgrm: Option<PathBuf>,
}

/// A format of the result of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadFormat {
    /// For the terminal.
    #[default]
    Text,
    /// The recording.
    Json,
    /// For a forum, a pull request.
    Markdown,
    /// One page for the browser, with the recording inside.
    Html,
    /// One line per slice.
    Csv,
    /// As h2load prints it.
    H2load,
    /// As httperf prints it.
    Httperf,
    /// As wrk prints it.
    Wrk,
}

/// Stages of a figure, which clap takes as one value.
type Stages = std::sync::Arc<[Stage]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalsArg {
    /// At equal distances.
    Constant,
    /// At random, independently of each other.
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PausesArg {
    /// Where trials show that it saves CPU time and costs no throughput.
    Tried,
    /// Whatever it brings, as `compare` does.
    Always,
    /// Not at all.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProxyArg {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

impl ShapeArgs {
    /// Adds what was asked for to a load.
    pub(crate) fn apply(&self, config: &mut Config) {
        let stages = |stages: &Option<Stages>| stages.as_deref().unwrap_or_default().to_vec();
        config.shape = Shape {
            arrivals: match (&self.rate, self.arrivals) {
                (None, _) => Arrivals::Closed,
                (Some(_), ArrivalsArg::Constant) => Arrivals::Constant,
                (Some(_), ArrivalsArg::Poisson) => Arrivals::Poisson,
            },
            rates: stages(&self.rate),
            concurrency: stages(&self.concurrency),
            catch_up: self.catch_up,
            connection_rate: self.connection_rate,
            think: self.think.map(|mean| Think {
                mean,
                random: self.think_random,
            }),
            drain: self.drain,
            seed: self.seed,
            pausing: match self.pauses {
                PausesArg::Tried => Pausing::Tried,
                PausesArg::Always => Pausing::Always,
                PausesArg::Never => Pausing::Never,
            },
        };
    }
}

impl RequestArgs {
    /// Adds what was asked for to a load.
    pub(crate) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        if let Some(path) = &self.request_file {
            config.requests =
                read_requests(path).map_err(|error| Failure::usage(error.to_string()))?;
        }
        config.placeholders = self.placeholders || self.request_file.is_some();
        config.expected_statuses = parse_statuses(&self.expect_status).ok_or_else(|| {
            Failure::usage(format!(
                "--expect-status {:?} is no list of statuses: write 200-299,404",
                self.expect_status
            ))
        })?;
        let hash = self.check_sha256.as_ref().map(|hash| {
            Check::parse_sha256(hash).ok_or_else(|| {
                Failure::usage(format!(
                    "--check-sha256 {hash:?} is not 64 hexadecimal digits"
                ))
            })
        });
        config.check = Check {
            length: self.check_length,
            sha256: hash.transpose()?,
        };
        config.hash_every = self.check_every;
        config.unix_socket.clone_from(&self.unix_socket);
        config.connect_to.clone_from(&self.connect_to);
        config.resolve_each = self.resolve_each;
        config.source_addresses.clone_from(&self.source);
        config.proxy_protocol = self.proxy_protocol.map(|version| match version {
            ProxyArg::V1 => ProxyProtocol::V1,
            ProxyArg::V2 => ProxyProtocol::V2,
        });
        config.proxy_source = self.proxy_source;
        Ok(())
    }
}

fn stages(text: &str) -> Result<Stages, String> {
    Stage::parse_all(text)
        .map(Into::into)
        .map_err(|error| error.to_string())
}

fn limit(text: &str) -> Result<Limit, String> {
    Limit::parse(text).map_err(|error| error.to_string())
}
