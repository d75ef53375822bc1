//! The certificate of a comparison: made for it, trusted by its client alone, gone with its folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use rcgen::{CertificateParams, DnType, KeyPair, RsaKeySize};
use serde::Deserialize;

/// A kind of key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
pub(crate) enum KeyKind {
    /// RSA with 2,048 bits, as in most published comparisons.
    #[default]
    #[serde(rename = "rsa-2048")]
    #[value(name = "rsa-2048")]
    Rsa2048,
    /// ECDSA on the curve P-256, as most sites have today.
    #[serde(rename = "p-256")]
    #[value(name = "p-256")]
    P256,
}

impl KeyKind {
    /// The word of scenarios and recordings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-2048",
            Self::P256 => "p-256",
        }
    }

    fn generate(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Self::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
            Self::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        }
    }
}

/// Where the certificate, its key, and both in one file are.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) pem: PathBuf,
}

impl Certificate {
    /// Makes a key and a certificate for `localhost` and 127.0.0.1 that is signed by itself, in PEM
    /// files that their owner alone can read.
    pub(crate) fn create(kind: KeyKind, folder: &Path) -> anyhow::Result<Self> {
        let signed = || -> Result<(String, String), rcgen::Error> {
            let names = ["localhost", "127.0.0.1"].map(str::to_owned);
            let mut parameters = CertificateParams::new(names)?;
            let subject = &mut parameters.distinguished_name;
            subject.push(DnType::CommonName, "localhost");
            let key = kind.generate()?;
            let certificate = parameters.self_signed(&key)?;
            Ok((certificate.pem(), key.serialize_pem()))
        };
        let (certificate, key) =
            signed().with_context(|| format!("failed to make a certificate ({})", kind.name()))?;
        let made = Self {
            cert: folder.join("cert.pem"),
            key: folder.join("key.pem"),
            pem: folder.join("both.pem"),
        };
        let both = format!("{key}{certificate}");
        for (path, text) in [
            (&made.cert, &certificate),
            (&made.key, &key),
            (&made.pem, &both),
        ] {
            fs::write(path, text)
                .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o400)))
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(made)
    }

    /// All files.
    pub(crate) fn files(&self) -> [&Path; 3] {
        [&self.cert, &self.key, &self.pem]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind of key is certificate, nobody else can read it, and the file with both has both.
    #[test]
    fn files_are_private_and_complete() {
        for kind in [KeyKind::Rsa2048, KeyKind::P256] {
            let folder = tempfile::tempdir().unwrap();
            let certificate = Certificate::create(kind, folder.path()).unwrap();
            for file in certificate.files() {
                let mode = file.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o400, "{}", file.display());
            }
            let read = |path: &Path| fs::read_to_string(path).unwrap();
            let both = read(&certificate.pem);
            assert!(
                both.contains(&read(&certificate.cert)) && both.contains(&read(&certificate.key))
            );
            assert_eq!(both.matches("-----BEGIN ").count(), 2);
        }
    }
}
