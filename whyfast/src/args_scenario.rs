//! The part of the command line that says which load `compare` runs: the scenario, and what is changed
//! of it, in the words of `load`.

use std::time::Duration;

use clap::Args;

use crate::args::duration;
use crate::compare::certificate::KeyKind;

/// The scenario and its changes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct ScenarioArgs {
    /// The load: a built-in scenario, or a TOML file (static-1b where none is named).
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) scenario: Option<String>,
    /// The sizes of the publication, instead of those that fit 90 seconds.
    #[arg(long)]
    pub(crate) full: bool,
    /// As it was published, with what is no fair comparison in it; every report says what.
    #[arg(long)]
    pub(crate) as_published: bool,
    /// Connections.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
    /// Threads of the client.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Requests in flight on each connection: streams of HTTP/2, pipelined ones of HTTP/1.1.
    #[arg(short = 'm', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) streams: Option<u32>,
    /// Requests of a round, exactly, instead of a time.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Requests on one connection; then the client closes it and opens the next.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests_per_connection: Option<u64>,
    /// A header line, `Name: value`; replaces those of the scenario.
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Measured window of a round.
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Warm-up of a round.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) warmup: Option<Duration>,
    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

/// What is changed of TLS.
#[derive(Debug, Default, Args)]
pub(crate) struct Encryption {
    /// Key of the certificate that is made for the run; encrypts a scenario that is in clear.
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) tls_key: Option<KeyKind>,
    /// Cipher suites that the client offers, best first, as IANA or OpenSSL name them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) ciphers: Vec<String>,
    /// Groups of the key exchange that the client offers, best first.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) groups: Vec<String>,
    /// Handshakes that offer to resume a session: `full` (the default) or `resume`.
    #[arg(long, value_name = "WHICH", value_parser = ["full", "resume"])]
    pub(crate) resumption: Option<String>,
}

impl Encryption {
    /// Whether something is asked of the sessions themselves.
    pub(crate) fn changes_sessions(&self) -> bool {
        !self.ciphers.is_empty() || !self.groups.is_empty() || self.resumption.is_some()
    }
}
