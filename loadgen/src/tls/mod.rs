//! TLS: what is asked of it, and one client session without a socket.
//!
//! rustls does the protocol and the cryptography; this module chooses its settings, counts what was
//! negotiated, and keeps sessions for resumption. [`Session`] turns bytes of the peer into clear
//! bytes and the other way round.

mod certificate;
mod names;
mod report;
mod session;
mod setup;
mod tickets;
mod verify;

use std::path::PathBuf;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use certificate::key_type;
pub(crate) use report::{TlsTally, negotiated};
pub(crate) use session::{Progress, Session};
pub use setup::TlsError;
pub(crate) use setup::{Connector, Settings};

/// What is asked of TLS. The default verifies the server with the certificates of the system,
/// offers TLS 1.2 and 1.3 with the groups X25519 and P-256, and makes full handshakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Whether the certificate of the server has to be valid.
    pub verify: bool,
    /// PEM file with more authorities to trust.
    pub ca_file: Option<PathBuf>,
    /// Certificate to show to servers that ask for one.
    pub client: Option<ClientCertificate>,
    /// Names of groups for the key exchange, best first; empty for X25519 and P-256.
    pub groups: Vec<String>,
    /// Names of cipher suites, as IANA or OpenSSL write them, best first; empty for all.
    pub ciphers: Vec<String>,
    /// Oldest version.
    pub min: TlsVersion,
    /// Newest version.
    pub max: TlsVersion,
    /// Which handshakes offer to resume a session.
    pub resumption: Resumption,
    /// Whether the first request of a resumed session goes with the first bytes of the handshake
    /// (0-RTT), where the server takes that and the method is safe.
    pub early_data: bool,
    /// Name to ask for and to verify instead of the host of the URL.
    pub server_name: Option<String>,
    /// Whether to append the keys of sessions to the file that `SSLKEYLOGFILE` names.
    pub key_log: bool,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            verify: true,
            ca_file: None,
            client: None,
            groups: Vec::new(),
            ciphers: Vec::new(),
            min: TlsVersion::Tls12,
            max: TlsVersion::Tls13,
            resumption: Resumption::Full,
            early_data: false,
            server_name: None,
            key_log: false,
        }
    }
}

/// Files of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file with the certificate and what leads to its authority.
    pub chain: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Which handshakes offer to resume a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// None, as if every connection came from a new client.
    Full,
    /// So many of a hundred, evenly spread.
    Mix {
        /// Share of the connections that offer it, 0..=100.
        percent: u8,
    },
    /// All that can.
    Resume,
}

impl Resumption {
    /// The share of handshakes that offer a session, percent.
    pub fn percent(self) -> u8 {
        match self {
            Self::Full => 0,
            Self::Mix { percent } => percent.min(100),
            Self::Resume => 100,
        }
    }
}
