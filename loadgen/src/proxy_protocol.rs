//! The header of the PROXY protocol, versions 1 and 2, which a balancer would send in front of
//! everything else on a connection (haproxy.org, doc/proxy-protocol.txt).

use std::net::{IpAddr, SocketAddr};

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

/// The header that says that a connection goes from `source` to `destination`. Addresses of two
/// kinds, and none at all (a Unix socket), are written as unknown.
pub(crate) fn header(version: ProxyProtocol, ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let ends = ends.filter(|(source, destination)| source.is_ipv4() == destination.is_ipv4());
    match version {
        ProxyProtocol::V1 => text(ends).into_bytes(),
        ProxyProtocol::V2 => binary(ends),
    }
}

fn text(ends: Option<(SocketAddr, SocketAddr)>) -> String {
    match ends {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some((source, destination)) => {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            format!(
                "PROXY {family} {} {} {} {}\r\n",
                source.ip(),
                destination.ip(),
                source.port(),
                destination.port()
            )
        }
    }
}

fn binary(ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    let Some((source, destination)) = ends else {
        // Local, with an unspecified family and nothing after it.
        bytes.extend_from_slice(&[0x20, 0x00, 0, 0]);
        return bytes;
    };
    let (family, length) = if source.is_ipv4() {
        (0x11, 12_u16)
    } else {
        (0x21, 36)
    };
    bytes.extend_from_slice(&[0x21, family]);
    bytes.extend_from_slice(&length.to_be_bytes());
    for end in [source, destination] {
        match end.ip() {
            IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()),
        }
    }
    for end in [source, destination] {
        bytes.extend_from_slice(&end.port().to_be_bytes());
    }
    bytes
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(source: &str, destination: &str) -> (SocketAddr, SocketAddr) {
        (source.parse().unwrap(), destination.parse().unwrap())
    }

    /// The examples of the specification.
    #[test]
    fn version_1_is_a_line() {
        let check = |ends, wanted: &str| {
            assert_eq!(header(ProxyProtocol::V1, ends), wanted.as_bytes());
        };
        check(
            Some(ends("192.0.2.1:56324", "192.0.2.2:443")),
            "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n",
        );
        check(
            Some(ends("[2001:db8::1]:4124", "[2001:db8::2]:443")),
            "PROXY TCP6 2001:db8::1 2001:db8::2 4124 443\r\n",
        );
        check(Some(ends("192.0.2.1:1", "[::1]:2")), "PROXY UNKNOWN\r\n");
        check(None, "PROXY UNKNOWN\r\n");
    }

    /// Signature, command, family, length, addresses, ports.
    #[test]
    fn version_2_is_binary() {
        let found = header(
            ProxyProtocol::V2,
            Some(ends("192.0.2.1:258", "192.0.2.2:443")),
        );
        let mut wanted = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
        wanted.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2, 1, 2, 1, 187]);
        assert_eq!(found, wanted);
        let found = header(ProxyProtocol::V2, Some(ends("[::1]:1", "[::2]:2")));
        assert_eq!(
            (found.len(), &found[12..16]),
            (52, &[0x21, 0x21, 0, 36][..])
        );
        let found = header(ProxyProtocol::V2, None);
        assert_eq!((found.len(), &found[12..]), (16, &[0x20, 0, 0, 0][..]));
    }
}
