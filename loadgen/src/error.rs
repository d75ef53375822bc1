//! Why a load could not be run; failures of single requests are counted, not raised.

use std::fmt::{Display, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use recording::exit_code;
use rustix::io::Errno;

use crate::config::ConfigError;
use crate::target::Address;
use crate::tls::TlsError;

/// A load that could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Not one connection could be secured.
    #[error("cannot secure a connection to {}: {reason}; {}", list(addresses), reason.remedy())]
    Handshake {
        /// Every address that was tried.
        addresses: Vec<Address>,
        /// What was wrong last.
        reason: HandshakeError,
    },
    /// A thread cannot be pinned.
    #[error(
        "cannot pin a client thread to CPU {cpu}: {errno} (this process may use CPUs {allowed}; see `taskset -p $$`)"
    )]
    Affinity {
        /// The CPU.
        cpu: usize,
        /// What the mask of the process allows.
        allowed: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// What was asked makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Too few descriptors.
    #[error(
        "{connections} connections need {needed} open files, and the hard limit (RLIMIT_NOFILE) is {hard}: \
         raise it with `ulimit -Hn {needed}` as root, or `LimitNOFILE=` in a systemd unit, or ask for fewer connections"
    )]
    FileLimit {
        /// Connections asked for.
        connections: u32,
        /// Descriptors that they need, our own included.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// A system call that should not fail did.
    #[error("{call} failed: {errno}")]
    Os {
        /// The call.
        call: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The name has no address.
    #[error(
        "cannot resolve {host:?}: {reason}; check the name with `getent ahosts`, or give --connect-to"
    )]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's answer.
        reason: std::io::Error,
    },
    /// A source address belongs to nobody here.
    #[error(
        "cannot connect from {address}: {errno} (see `ip address` for the addresses of this machine)"
    )]
    Source {
        /// The address.
        address: IpAddr,
        /// The kernel's answer.
        errno: Errno,
    },
    /// No source address is of the family of the target.
    #[error(
        "no source address can reach {}: IPv4 and IPv6 addresses do not mix, give one of the same kind",
        list(addresses)
    )]
    SourceFamily {
        /// The addresses of the target.
        addresses: Vec<SocketAddr>,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Not one connection could be opened.
    #[error("cannot connect to {}: {errno}; {}", list(addresses), remedy(*errno))]
    Unreachable {
        /// Every address that was tried.
        addresses: Vec<Address>,
        /// The last answer.
        errno: Errno,
    },
}

impl LoadError {
    /// The exit code that it ends the program with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Source { .. } | Self::SourceFamily { .. } | Self::Tls(_) => {
                exit_code::USAGE
            }
            Self::Affinity { .. } | Self::FileLimit { .. } => exit_code::CANNOT_MEASURE,
            Self::Handshake { .. }
            | Self::Os { .. }
            | Self::Resolve { .. }
            | Self::Unreachable { .. } => exit_code::FAILED,
        }
    }
}

/// Why a connection was not opened.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum OpenFailure {
    #[error("{0}")]
    Connect(Errno),
    #[error("{0}")]
    Handshake(HandshakeError),
    /// Only in a run that is under way: the start of a run resolves the name by itself.
    #[error("{0}")]
    Resolve(Arc<str>),
}

impl OpenFailure {
    /// The error of a run in which no connection was opened.
    pub(crate) fn into_error(self, addresses: Vec<Address>) -> LoadError {
        match self {
            Self::Connect(errno) => LoadError::Unreachable { addresses, errno },
            Self::Handshake(reason) => LoadError::Handshake { addresses, reason },
            Self::Resolve(why) => LoadError::Resolve {
                host: list(&addresses),
                reason: std::io::Error::other(why.to_string()),
            },
        }
    }
}

/// Why a connection could not be secured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The server does not speak the asked version of HTTP.
    #[error("asked for {wanted:?} by ALPN, the server chose {}", found.as_deref().unwrap_or("nothing"))]
    Alpn {
        /// What was asked for.
        wanted: String,
        /// What the server chose.
        found: Option<String>,
    },
    /// What came first was not HTTP/2.
    #[error("the server does not speak HTTP/2 on this port")]
    NotHttp2,
    /// The connection ended in the middle.
    #[error("the server closed the connection during the handshake")]
    Closed,
    /// The socket failed, or nothing came in time.
    #[error("{0} during the handshake")]
    Os(Errno),
    /// The handshake itself failed.
    #[error("{0}")]
    Tls(rustls::Error),
}

impl HandshakeError {
    /// What to do about it.
    fn remedy(&self) -> &'static str {
        use rustls::{AlertDescription, CertificateError, Error};
        match self {
            Self::Alpn { .. }
            | Self::NotHttp2
            | Self::Tls(
                Error::NoApplicationProtocol
                | Error::AlertReceived(AlertDescription::NoApplicationProtocol),
            ) => "ask for a version of HTTP that the server speaks (--http1, --h2)",
            Self::Tls(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => {
                "ask for the name in the certificate with --sni NAME, or turn verification off with -k"
            }
            Self::Tls(Error::InvalidCertificate(_)) => {
                "trust its authority with --cacert FILE, or turn verification off with -k"
            }
            Self::Tls(Error::InvalidMessage(_)) => {
                "check that the server speaks TLS on this port; in clear the URL begins with http://"
            }
            Self::Tls(_) | Self::Closed => {
                "compare with `openssl s_client`, and check --tls-min, --tls-max, --groups, --ciphers, and \
                 whether the server wants a client certificate (--cert, --key)"
            }
            Self::Os(_) => "check that the server speaks TLS on this port",
        }
    }
}

/// Addresses for people.
pub(crate) fn list(addresses: &[impl Display]) -> String {
    let mut text = String::new();
    for (index, address) in addresses.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(text, "{separator}{address}").expect("writing to a string cannot fail");
    }
    text
}

/// What to do about a server that cannot be reached.
fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::CONNREFUSED => "start the server, or check its port with `ss -ltn`",
        Errno::TIMEDOUT => "check the address and the firewalls on the way",
        Errno::ADDRNOTAVAIL => {
            "no local port is free: widen net.ipv4.ip_local_port_range, or wait for TIME_WAIT to pass"
        }
        Errno::NOENT => "no such socket: start the server, or check the path",
        Errno::MFILE | Errno::NFILE => "raise the limit on open files (`ulimit -n`)",
        _ => "check the address and the route to it with `ip route get`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An unreachable server is named with its addresses, the reason and a remedy.
    #[test]
    fn unreachable_says_what_to_do() {
        let error = LoadError::Unreachable {
            addresses: ["[::1]:80", "127.0.0.1:80"]
                .map(|address| Address::Inet(address.parse().unwrap()))
                .to_vec(),
            errno: Errno::CONNREFUSED,
        };
        assert_eq!(
            error.to_string(),
            "cannot connect to [::1]:80, 127.0.0.1:80: Connection refused (os error 111); \
             start the server, or check its port with `ss -ltn`"
        );
        assert_eq!(error.exit_code(), exit_code::FAILED);
    }
}
