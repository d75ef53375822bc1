//! The part of the command line that says how `load` speaks: HTTP versions and TLS.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use loadgen::{ClientCertificate, Config, Http2Config, HttpVersion, Resumption, TlsVersion};

/// Versions of HTTP and TLS.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct HttpArgs {
    /// Requests in flight on each connection: streams of HTTP/2, pipelined ones of HTTP/1.1.
    #[arg(short = 'm', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    streams: u32,
    /// HTTP/1.1 (the default).
    #[arg(long, group = "http-version")]
    http1: bool,
    /// HTTP/2: by ALPN over TLS, by prior knowledge in clear.
    #[arg(long, alias = "http2", group = "http-version")]
    h2: bool,
    /// HTTP/2 in clear, asked for with Upgrade.
    #[arg(long, group = "http-version")]
    h2c_upgrade: bool,
    /// Window of each stream of HTTP/2, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Http2Config::default().stream_window)]
    h2_window: u32,
    /// Window of each connection of HTTP/2, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Http2Config::default().connection_window)]
    h2_connection_window: u32,
    /// Table for header fields of responses in HTTP/2, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Http2Config::default().header_table)]
    h2_header_table: u32,
    /// Take any certificate of the server.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// PEM file with more authorities to trust.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// PEM file with a client certificate, and its chain.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Ask for this name, and verify it, instead of the host of the URL.
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Groups of the key exchange, best first (X25519, P-256): X25519MLKEM768 is the hybrid.
    #[arg(long, alias = "curves", value_name = "LIST", value_delimiter = ',')]
    groups: Vec<String>,
    /// Cipher suites, best first, as IANA or OpenSSL name them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ciphers: Vec<String>,
    /// Oldest version of TLS.
    #[arg(long, value_name = "VERSION", default_value = "1.2")]
    tls_min: Version,
    /// Newest version of TLS.
    #[arg(long, value_name = "VERSION", default_value = "1.3")]
    tls_max: Version,
    /// Handshakes that offer to resume a session: `full`, `resume`, or a share, `50%`.
    #[arg(long, value_name = "WHICH", default_value = "full", value_parser = resumption)]
    resumption: Resumption,
    /// Send the first request of a resumed session with the first bytes of the handshake (0-RTT),
    /// where the server takes that.
    #[arg(long)]
    early_data: bool,
    /// Append the keys of sessions to the file that SSLKEYLOGFILE names.
    #[arg(long)]
    tls_keylog: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl HttpArgs {
    /// Adds what was asked for to a load.
    pub(crate) fn apply(&self, config: &mut Config) {
        config.depth = self.streams;
        config.http = if self.h2 {
            HttpVersion::Http2
        } else if self.h2c_upgrade {
            HttpVersion::Http2Upgrade
        } else {
            HttpVersion::Http1
        };
        config.http2 = Http2Config {
            stream_window: self.h2_window,
            connection_window: self.h2_connection_window,
            header_table: self.h2_header_table,
        };
        let version = |version| match version {
            Version::Tls12 => TlsVersion::Tls12,
            Version::Tls13 => TlsVersion::Tls13,
        };
        let tls = &mut config.tls;
        tls.verify = !self.insecure;
        tls.ca_file.clone_from(&self.cacert);
        tls.client = self
            .cert
            .clone()
            .zip(self.key.clone())
            .map(|(chain, key)| ClientCertificate { chain, key });
        tls.server_name.clone_from(&self.sni);
        tls.groups.clone_from(&self.groups);
        tls.ciphers.clone_from(&self.ciphers);
        tls.min = version(self.tls_min);
        tls.max = version(self.tls_max);
        tls.resumption = self.resumption;
        tls.early_data = self.early_data;
        tls.key_log = self.tls_keylog;
    }
}

fn resumption(text: &str) -> Result<Resumption, String> {
    match text {
        "full" => Ok(Resumption::Full),
        "resume" => Ok(Resumption::Resume),
        share => share
            .strip_suffix('%')
            .and_then(|share| share.parse().ok())
            .filter(|percent| *percent <= 100)
            .map(|percent| Resumption::Mix { percent })
            .ok_or_else(|| "must be full, resume, or a share such as 50%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three ways to say which handshakes resume.
    #[test]
    fn resumption_takes_words_and_shares() {
        assert_eq!(resumption("full"), Ok(Resumption::Full));
        assert_eq!(resumption("resume"), Ok(Resumption::Resume));
        assert_eq!(resumption("25%"), Ok(Resumption::Mix { percent: 25 }));
        for wrong in ["", "%", "101%", "-1%", "50", "half"] {
            assert!(resumption(wrong).is_err(), "{wrong}");
        }
    }
}
