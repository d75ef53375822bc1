//! Names of groups and cipher suites, as people type them and as reports print them.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS, kx_group};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion, SupportedCipherSuite};

/// What is offered where nothing is asked for: the pair that servers and other clients share, so
/// that results compare. The post-quantum hybrid has to be asked for.
pub(super) fn default_groups() -> Vec<&'static dyn SupportedKxGroup> {
    vec![kx_group::X25519, kx_group::SECP256R1]
}

/// The group of a name.
pub(super) fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    let wanted = squeezed(name);
    ALL_KX_GROUPS.iter().copied().find(|known| {
        let names = group_names(known.name());
        names.iter().any(|name| squeezed(name) == wanted)
    })
}

/// The cipher suite of a name.
pub(super) fn suite(name: &str) -> Option<SupportedCipherSuite> {
    let wanted = squeezed(name);
    ALL_CIPHER_SUITES.iter().copied().find(|known| {
        let [iana, openssl] = suite_names(known.suite());
        squeezed(iana) == wanted || squeezed(openssl) == wanted
    })
}

/// Every group that can be asked for, for a message.
pub(super) fn all_groups() -> String {
    let names = ALL_KX_GROUPS.iter().map(|group| group_name(group.name()));
    names.collect::<Vec<_>>().join(", ")
}

/// Every cipher suite that can be asked for, for a message.
pub(super) fn all_suites() -> String {
    let names = ALL_CIPHER_SUITES
        .iter()
        .map(|suite| suite_name(suite.suite()));
    names.collect::<Vec<_>>().join(", ")
}

/// The name of a group in reports.
pub(super) fn group_name(group: NamedGroup) -> &'static str {
    group_names(group)[0]
}

/// The name of a cipher suite in reports: the one of IANA.
pub(super) fn suite_name(suite: CipherSuite) -> &'static str {
    suite_names(suite)[0]
}

/// The name of a version in reports.
pub(super) fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "unknown",
    }
}

fn group_names(group: NamedGroup) -> &'static [&'static str] {
    match group {
        NamedGroup::X25519 => &["X25519"],
        NamedGroup::secp256r1 => &["P-256", "secp256r1", "prime256v1"],
        NamedGroup::secp384r1 => &["P-384", "secp384r1"],
        NamedGroup::X25519MLKEM768 => &["X25519MLKEM768"],
        NamedGroup::secp256r1MLKEM768 => &["SecP256r1MLKEM768"],
        NamedGroup::MLKEM768 => &["MLKEM768"],
        NamedGroup::MLKEM1024 => &["MLKEM1024"],
        _ => &["unknown"],
    }
}

/// The names of IANA and of OpenSSL.
fn suite_names(suite: CipherSuite) -> [&'static str; 2] {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => ["TLS_AES_128_GCM_SHA256"; 2],
        CipherSuite::TLS13_AES_256_GCM_SHA384 => ["TLS_AES_256_GCM_SHA384"; 2],
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => ["TLS_CHACHA20_POLY1305_SHA256"; 2],
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => [
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ],
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => [
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ],
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => [
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ],
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => [
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ],
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => [
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
        ],
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => [
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305",
        ],
        _ => ["unknown"; 2],
    }
}

/// Case, dashes and underscores do not tell names apart.
fn squeezed(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that the library offers has a name, and is found by each of its names.
    #[test]
    fn everything_is_found_by_its_names() {
        for known in ALL_KX_GROUPS {
            for name in group_names(known.name()) {
                assert_ne!(*name, "unknown");
                assert_eq!(group(name).unwrap().name(), known.name());
            }
        }
        for known in ALL_CIPHER_SUITES {
            for name in suite_names(known.suite()) {
                assert_ne!(name, "unknown");
                assert_eq!(suite(name).unwrap().suite(), known.suite());
            }
        }
        assert!(group("P-257").is_none() && suite("RC4").is_none());
        assert_eq!(group("p256").unwrap().name(), NamedGroup::secp256r1);
    }
}
