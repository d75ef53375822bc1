//! TLS below HTTP/1.1, with a client that is rustls too.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use testserver::{Body, CertificateFiles, Config, ServeError, Server, SpecError};

use crate::client::{Client, GET, Running, read_head, read_response};

/// A certificate in files, and a client that trusts it and nothing else.
pub(crate) struct Trust {
    pub(crate) files: CertificateFiles,
    roots: RootCertStore,
    _folder: TempDir,
}

impl Trust {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let names = vec!["localhost".to_owned()];
        let parameters = CertificateParams::new(names).expect("a valid name");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a private folder");
            path
        };
        let files = CertificateFiles {
            certificate: write("cert.pem", certificate.pem()),
            key: write("key.pem", key.serialize_pem()),
        };
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate.der().clone())
            .expect("a certificate that signs itself");
        Self {
            files,
            roots,
            _folder: folder,
        }
    }

    /// The settings of a client that offers these protocols.
    pub(crate) fn client(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        settings.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(settings)
    }
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn connect(running: &Running, trust: &Trust, protocols: &[&[u8]]) -> Secure {
    let name = ServerName::try_from("localhost").expect("a valid name");
    let session = ClientConnection::new(trust.client(protocols), name).expect("valid settings");
    StreamOwned::new(session, running.connect().stream)
}

/// Checks a server in every way that TLS can be had, with a body of so many bytes.
fn in_every_way(body_bytes: u64, check: impl Fn(&mut Secure)) {
    let trust = Trust::new();
    for spec in [
        "memory,tls=1",
        "open-read,tls=1",
        "pread,tls=1",
        "write-parts,tls=1,split=3",
        "memory,tls=1,poller=epoll-edge",
        "memory,tls=1,poller=io-uring",
        "pread,tls=1,poller=poll,read=eagain",
        "memory,tls=1,poller=select,split=2",
    ] {
        let running = Running::start(Config {
            body: Body::Generated(body_bytes),
            certificate: Some(trust.files.clone()),
            ..Config::parse(spec).expect("a valid spec")
        });
        check(&mut connect(&running, &trust, &[]));
        running.stop().expect("a clean end");
    }
}

/// A connection serves many requests, and its end is announced: rustls takes an end without that for
/// a cut.
#[test]
fn keeps_a_connection_alive_and_says_goodbye() {
    in_every_way(20, |client| {
        for _request in 0..50 {
            client.write_all(GET.as_bytes()).expect("the server reads");
            let response = read_response(client);
            assert_eq!(response.status, 200);
            assert_eq!(response.body, b"000000000000000\n0000");
        }
        client
            .write_all(b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("the server reads");
        assert_eq!(read_head(client).0, 200);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).expect("an announced end");
        assert!(rest.is_empty());
    });
}

/// More requests in one record than a connection's buffer takes are all answered, though the socket
/// is not reported again.
#[test]
fn answers_what_arrives_in_large_records() {
    const REQUESTS: usize = 2_000;
    in_every_way(3, |client| {
        client
            .write_all(GET.repeat(REQUESTS).as_bytes())
            .expect("the server reads");
        for _response in 0..REQUESTS {
            assert_eq!(read_response(client).body, b"000");
        }
    });
}

/// A response that is larger than every buffer between server and client arrives whole, and the
/// request behind it is answered.
#[test]
fn sends_what_does_not_fit_at_once() {
    const BODY_BYTES: usize = 12 << 20;
    in_every_way(BODY_BYTES as u64, |client| {
        client
            .write_all(GET.repeat(2).as_bytes())
            .expect("the server reads");
        for _response in 0..2 {
            let body = read_response(client).body;
            assert_eq!(body.len(), BODY_BYTES);
            assert!(body.starts_with(b"000000000000000\n"));
            assert!(body.ends_with(b"000000012582896\n"));
        }
    });
}

/// A client that does not speak TLS is told so by an alert and cut off; others are served.
#[test]
fn what_is_no_handshake_is_refused() {
    let trust = Trust::new();
    let running = Running::start(Config {
        certificate: Some(trust.files.clone()),
        ..Config::parse("memory,tls=1").expect("a valid spec")
    });
    let Client { stream: mut plain } = running.connect();
    plain.write_all(GET.as_bytes()).expect("the server reads");
    let mut said = Vec::new();
    plain.read_to_end(&mut said).expect("an orderly end");
    // RFC 8446, section 5.1: the content type of alerts.
    assert_eq!(said.first(), Some(&21));
    // RFC 7301, section 3.2: a server that speaks none of what is offered refuses.
    let mut stranger = connect(&running, &trust, &[b"h2"]);
    let refused = stranger
        .write_all(GET.as_bytes())
        .and_then(|()| stranger.flush());
    let refused = refused.and_then(|()| stranger.read(&mut [0]).map(drop));
    assert!(refused.is_err_and(|error| error.to_string().contains("NoApplicationProtocol")));
    let mut client = connect(&running, &trust, &[b"http/1.1"]);
    client.write_all(GET.as_bytes()).expect("the server reads");
    assert_eq!(read_response(&mut client).body, b"0");
}

/// Files that are no certificate, and knobs that cannot be together, are refused before it listens.
#[test]
fn what_cannot_be_is_refused() {
    let trust = Trust::new();
    let tls = Config::parse("memory,tls=1").expect("a valid spec");
    let CertificateFiles { certificate, key } = trust.files;
    let swapped = CertificateFiles {
        certificate: key,
        key: certificate,
    };
    let bound = Server::bind(Config {
        certificate: Some(swapped),
        ..tls.clone()
    });
    assert!(matches!(
        bound,
        Err(ServeError::Pem { .. } | ServeError::Tls { .. })
    ));
    let bound = Server::bind(Config {
        style: testserver::Style::Sendfile,
        ..tls
    });
    let error = bound.expect_err("the kernel cannot encrypt");
    assert!(matches!(
        error,
        ServeError::Config(SpecError::Conflict { knob: "tls", .. })
    ));
}
