//! Where requests go: the URL, read strictly, and the addresses behind its host.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// What a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host as a resolver takes it: no brackets.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
    /// Whether the scheme is https.
    pub(crate) is_tls: bool,
    /// Value of Host: brackets kept, the default port left out.
    pub(crate) authority: String,
    /// Path with query, as typed.
    pub(crate) path_and_query: String,
}

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Inet(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A URL that cannot be requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// A scheme other than http and https.
    #[error("scheme {scheme:?} is not supported: only http:// and https:// are")]
    Scheme {
        /// The scheme that was found.
        scheme: String,
    },
    /// No scheme.
    #[error("no scheme in {url:?}: put http:// in front of it")]
    NoScheme {
        /// What was given.
        url: String,
    },
    /// Nothing between the scheme and the path.
    #[error("no host in the URL: write http://HOST[:PORT]/PATH")]
    NoHost,
    /// `user:password@`.
    #[error("user and password in a URL are not sent: give an Authorization header instead")]
    UserInfo,
    /// A host that can be neither a name nor an address.
    #[error(
        "{host:?} is no host: write a name in ASCII, an IPv4 address, or an IPv6 address in brackets"
    )]
    Host {
        /// What was found.
        host: String,
    },
    /// A port that is not a number from 1 to 65535.
    #[error("port {port:?} is not a number from 1 to 65535")]
    Port {
        /// What was found.
        port: String,
    },
    /// A character that no request line can carry.
    #[error("the path holds {character:?}: percent-encode it (%{code:02X})")]
    PathCharacter {
        /// The character.
        character: char,
        /// The first byte of it.
        code: u8,
    },
}

impl Target {
    /// Reads `http[s]://host[:port][/path][?query]`; a fragment is dropped, as browsers do.
    pub(crate) fn parse(url: &str) -> Result<Self, UrlError> {
        let (is_tls, rest) = after_scheme(url)?;
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_at);
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let (host, port) = split_authority(authority)?;
        let default_port = if is_tls { 443 } else { 80 };
        let port = match port {
            None => default_port,
            Some(port) => parse_port(port)?,
        };
        let (resolvable, written) = check_host(host)?;
        let authority = match port {
            _ if port == default_port => written,
            _ => format!("{written}:{port}"),
        };
        Ok(Self {
            host: resolvable,
            port,
            is_tls,
            authority,
            path_and_query: check_path(path)?,
        })
    }

    /// The same host with another path.
    pub(crate) fn with_path(&self, path: &str) -> Result<Self, UrlError> {
        Ok(Self {
            path_and_query: check_path(path)?,
            ..self.clone()
        })
    }

    /// `HOST[:PORT]` to connect to instead of the host of the URL; the port is that of the URL where
    /// there is none.
    pub(crate) fn elsewhere(&self, to: &str) -> Result<Self, UrlError> {
        let (host, port) = split_authority(to)?;
        let port = port.map_or(Ok(self.port), parse_port)?;
        let (host, _) = check_host(host)?;
        Ok(Self {
            host,
            port,
            ..self.clone()
        })
    }

    /// Every address of the host, in the order of the resolver, each once.
    pub(crate) fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        Ok(addresses)
    }
}

/// Whether it is https, and what follows the scheme.
fn after_scheme(url: &str) -> Result<(bool, &str), UrlError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(UrlError::NoScheme {
            url: url.to_owned(),
        });
    };
    if scheme.eq_ignore_ascii_case("http") {
        Ok((false, rest))
    } else if scheme.eq_ignore_ascii_case("https") {
        Ok((true, rest))
    } else if scheme
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    {
        Err(UrlError::Scheme {
            scheme: scheme.to_owned(),
        })
    } else {
        // `host/path?next=https://...`: the scheme is not the one of this URL.
        Err(UrlError::NoScheme {
            url: url.to_owned(),
        })
    }
}

/// Host (brackets kept) and port.
fn split_authority(authority: &str) -> Result<(&str, Option<&str>), UrlError> {
    let host_end = match authority.find(']') {
        Some(bracket) => bracket + 1,
        // An IPv6 address without brackets; where its port begins cannot be known.
        None if authority.matches(':').count() > 1 => authority.len(),
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    match port.strip_prefix(':') {
        _ if host.is_empty() => Err(UrlError::NoHost),
        Some(port) => Ok((host, Some(port))),
        None if port.is_empty() => Ok((host, None)),
        None => Err(UrlError::Host {
            host: authority.to_owned(),
        }),
    }
}

fn parse_port(port: &str) -> Result<u16, UrlError> {
    let digits_only = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number) if number != 0 && digits_only => Ok(number),
        _ => Err(UrlError::Port {
            port: port.to_owned(),
        }),
    }
}

/// The host as a resolver takes it and as a Host line shows it.
fn check_host(host: &str) -> Result<(String, String), UrlError> {
    let refused = || UrlError::Host {
        host: host.to_owned(),
    };
    if let Some(inner) = host.strip_prefix('[') {
        let address: Ipv6Addr = inner
            .strip_suffix(']')
            .and_then(|inner| inner.parse().ok())
            .ok_or_else(refused)?;
        return Ok((address.to_string(), format!("[{address}]")));
    }
    // An address is written in one way only, a name as it was typed.
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok((address.to_string(), address.to_string()));
    }
    if host
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    {
        Ok((host.to_owned(), host.to_owned()))
    } else {
        Err(refused())
    }
}

fn check_path(path: &str) -> Result<String, UrlError> {
    let bad = |c: &char| !c.is_ascii_graphic();
    if let Some(character) = path.chars().find(bad) {
        let mut bytes = [0; 4];
        let code = character.encode_utf8(&mut bytes).as_bytes()[0];
        return Err(UrlError::PathCharacter { character, code });
    }
    Ok(match path.as_bytes().first() {
        Some(b'/') => path.to_owned(),
        _ => format!("/{path}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Host line, port and path of good URLs.
    #[test]
    fn reads_urls() {
        let check = |url: &str, host: &str, port: u16, authority: &str, path: &str| {
            let target = Target::parse(url).unwrap();
            assert_eq!(
                (
                    &*target.host,
                    target.port,
                    &*target.authority,
                    &*target.path_and_query
                ),
                (host, port, authority, path),
                "{url}"
            );
        };
        check("http://h", "h", 80, "h", "/");
        check("http://h:80/", "h", 80, "h", "/");
        check("HTTP://h:8080?a=b", "h", 8080, "h:8080", "/?a=b");
        check(
            "http://h/a/b?c=http://x/#frag",
            "h",
            80,
            "h",
            "/a/b?c=http://x/",
        );
        check("http://[::1]:81/", "::1", 81, "[::1]:81", "/");
        check("http://[0:0::1]/", "::1", 80, "[::1]", "/");
        check("http://127.0.0.1:1/", "127.0.0.1", 1, "127.0.0.1:1", "/");
        check("https://h/", "h", 443, "h", "/");
        check("HTTPS://h:80/", "h", 80, "h:80", "/");
        check("http://h:443/", "h", 443, "h:443", "/");
    }

    /// Bad URLs, and what is said about them.
    #[test]
    fn refuses_what_it_cannot_request() {
        let check = |url: &str, wanted: &str| {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains(wanted), "{url}: {error}");
        };
        check("ftp://h/", "\"ftp\" is not supported");
        check("localhost:80/", "put http:// in front");
        check("h/?u=https://x", "no scheme");
        check("http://", "no host");
        check("http:///p", "no host");
        check("http://:80/", "no host");
        check("http://u:p@h/", "Authorization");
        check("http://h:0/", "port \"0\"");
        check("http://h:/", "port \"\"");
        check("http://h:+80/", "port \"+80\"");
        check("http://h:65536/", "port \"65536\"");
        check("http://::1/", "in brackets");
        check("http://[::1/", "in brackets");
        check("http://[::1]x/", "in brackets");
        check("http://[h]/", "in brackets");
        check("http://b\u{fc}cher/", "in ASCII");
        check("http://h/a b", "%20");
        check("http://h/a\r\nX: y", "%0D");
        check("http://h/\u{e9}", "%C3");
    }

    /// Every address is tried, each once.
    #[test]
    fn resolves_addresses() {
        let target = Target::parse("http://127.0.0.1:9/").unwrap();
        assert_eq!(target.resolve().unwrap(), ["127.0.0.1:9".parse().unwrap()]);
    }
}
