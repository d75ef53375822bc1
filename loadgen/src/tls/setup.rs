//! From what is asked of TLS to settings of rustls.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, Resumption as Store, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, KeyLogFile, RootCertStore, SupportedProtocolVersion};

use super::names;
use super::session::Session;
use super::tickets::Tickets;
use super::verify::{Trusting, Verifier};
use super::{ClientCertificate, TlsConfig, TlsVersion};

/// TLS that cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A cipher suite of an unknown name.
    #[error(
        "cipher suite {name:?} is not known; known are {}",
        names::all_suites()
    )]
    Cipher {
        /// The name.
        name: String,
    },
    /// A client certificate and a key that cannot be used.
    #[error("the client certificate {} cannot be used with the key {}: {reason}", chain.display(), key.display())]
    ClientCertificate {
        /// The certificate.
        chain: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        reason: rustls::Error,
    },
    /// Versions, groups and cipher suites that do not go together.
    #[error("the versions, groups and cipher suites leave nothing to offer: {reason}")]
    Combination {
        /// What rustls says.
        reason: rustls::Error,
    },
    /// Early data without resumption.
    #[error(
        "early data goes with resumed sessions only: ask for resumption as well (--resumption resume)"
    )]
    EarlyData,
    /// A group of an unknown name.
    #[error("group {name:?} is not known; known are {}", names::all_groups())]
    Group {
        /// The name.
        name: String,
    },
    /// Key logging without a file.
    #[error(
        "the keys of sessions are to be logged, and SSLKEYLOGFILE names no file: set it to one"
    )]
    KeyLogFile,
    /// A file that is not what it should be.
    #[error("{what} {} cannot be read: {reason}", path.display())]
    Pem {
        /// What it should be.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: rustls::pki_types::pem::Error,
    },
    /// Nothing to verify a server with.
    #[error(
        "no certificate of an authority was found on this system: install ca-certificates, or give \
         a file of them, or turn verification off"
    )]
    NoRoots,
    /// A name that no certificate can have.
    #[error("{name:?} is neither a DNS name nor an address, so no certificate can be for it")]
    ServerName {
        /// The name.
        name: String,
    },
    /// An oldest version above the newest one.
    #[error("the oldest version of TLS is above the newest one")]
    Versions,
}

/// What every thread shares.
#[derive(Debug)]
pub(crate) struct Settings {
    config: ClientConfig,
    name: ServerName<'static>,
    resumed_percent: u8,
    early_data: bool,
}

impl Settings {
    /// Checks and prepares; `alpn` is what is offered to the server at `host`.
    pub(crate) fn new(asked: &TlsConfig, host: &str, alpn: &[u8]) -> Result<Self, TlsError> {
        if asked.early_data && asked.resumption.percent() == 0 {
            return Err(TlsError::EarlyData);
        }
        let provider = Arc::new(provider(asked)?);
        let versions = versions(asked)?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|reason| TlsError::Combination { reason })?;
        let verifier: Arc<dyn ServerCertVerifier> = if asked.verify {
            verifier(asked, &provider)?
        } else {
            Arc::new(Trusting(Arc::clone(&provider)))
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &asked.client {
            None => builder.with_no_client_auth(),
            Some(client) => builder.with_client_cert_resolver(resolver(client, &provider)?),
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        if asked.key_log {
            if std::env::var_os("SSLKEYLOGFILE").is_none_or(|path| path.is_empty()) {
                return Err(TlsError::KeyLogFile);
            }
            config.key_log = Arc::new(KeyLogFile::new());
        }
        let name = asked.server_name.as_deref().unwrap_or(host);
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_invalid| TlsError::ServerName {
                name: name.to_owned(),
            })?;
        Ok(Self {
            config,
            name,
            resumed_percent: asked.resumption.percent(),
            early_data: asked.early_data,
        })
    }

    /// A session for whoever blocks.
    pub(crate) fn connection(&self) -> Result<rustls::ClientConnection, rustls::Error> {
        rustls::ClientConnection::new(self.client_config(), self.server_name())
    }

    /// The settings of rustls.
    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        Arc::new(self.config.clone())
    }

    /// The name that the server has to have.
    pub(crate) fn server_name(&self) -> ServerName<'static> {
        self.name.clone()
    }
}

/// Begins the sessions of one thread.
#[derive(Debug)]
pub(crate) struct Connector {
    full: Arc<ClientConfig>,
    resuming: Arc<ClientConfig>,
    name: ServerName<'static>,
    resumed_percent: u8,
    /// Hundredths of a resumption that are owed.
    owed: u8,
}

impl Connector {
    /// For a thread with so many connections.
    pub(crate) fn new(settings: &Settings, connections: usize) -> Self {
        let with = |resumption| {
            let mut config = settings.config.clone();
            config.resumption = resumption;
            // Full handshakes have no session that could allow it.
            config.enable_early_data = settings.early_data;
            Arc::new(config)
        };
        let (full, resuming) = if settings.resumed_percent == 0 {
            let full = with(Store::disabled());
            (Arc::clone(&full), full)
        } else {
            // Servers give two tickets to a connection by default.
            let (offering, collecting) = Tickets::pair(2 * connections.max(8));
            (
                with(Store::store(Arc::new(collecting))),
                with(Store::store(Arc::new(offering))),
            )
        };
        Self {
            full,
            resuming,
            name: settings.name.clone(),
            resumed_percent: settings.resumed_percent,
            owed: 0,
        }
    }

    /// A new session, its first bytes ready to be written.
    pub(crate) fn begin(&mut self) -> Result<Session, rustls::Error> {
        self.owed += self.resumed_percent;
        let config = if self.owed >= 100 {
            self.owed -= 100;
            &self.resuming
        } else {
            &self.full
        };
        Session::new(Arc::clone(config), self.name.clone())
    }
}

fn provider(asked: &TlsConfig) -> Result<CryptoProvider, TlsError> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = if asked.groups.is_empty() {
        names::default_groups()
    } else {
        let find = |name: &String| names::group(name).ok_or(TlsError::Group { name: name.clone() });
        asked.groups.iter().map(find).collect::<Result<_, _>>()?
    };
    if !asked.ciphers.is_empty() {
        let find =
            |name: &String| names::suite(name).ok_or(TlsError::Cipher { name: name.clone() });
        provider.cipher_suites = asked.ciphers.iter().map(find).collect::<Result<_, _>>()?;
    }
    Ok(provider)
}

fn versions(asked: &TlsConfig) -> Result<&'static [&'static SupportedProtocolVersion], TlsError> {
    static TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
    static TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
    match (asked.min, asked.max) {
        (TlsVersion::Tls12, TlsVersion::Tls12) => Ok(TLS12),
        (TlsVersion::Tls12, TlsVersion::Tls13) => Ok(rustls::ALL_VERSIONS),
        (TlsVersion::Tls13, TlsVersion::Tls13) => Ok(TLS13),
        (TlsVersion::Tls13, TlsVersion::Tls12) => Err(TlsError::Versions),
    }
}

/// A verifier with the authorities of the system and those of the asked file.
fn verifier(
    asked: &TlsConfig,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let mut given = Vec::new();
    // One unreadable certificate among hundreds is no reason not to use the others.
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = &asked.ca_file {
        given = certificates("the file of authorities", path)?;
        roots.add_parsable_certificates(given.iter().cloned());
    }
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|_no_roots| TlsError::NoRoots)?;
    Ok(Arc::new(Verifier { chains, given }))
}

fn resolver(
    client: &ClientCertificate,
    provider: &CryptoProvider,
) -> Result<Arc<dyn ResolvesClientCert>, TlsError> {
    let chain = certificates("the client certificate", &client.chain)?;
    let key = PrivateKeyDer::from_pem_file(&client.key).map_err(|reason| TlsError::Pem {
        what: "the key of the client certificate",
        path: client.key.clone(),
        reason,
    })?;
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(|reason| {
        TlsError::ClientCertificate {
            chain: client.chain.clone(),
            key: client.key.clone(),
            reason,
        }
    })?;
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}

/// The certificates of a PEM file, at least one.
fn certificates(
    what: &'static str,
    path: &PathBuf,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |reason| TlsError::Pem {
        what,
        path: path.clone(),
        reason,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(wrong)?;
    if found.is_empty() {
        return Err(wrong(rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(found)
}
