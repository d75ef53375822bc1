//! TLS against a server in this process that counts its own handshakes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use loadgen::{
    ClientCertificate, Config, HandshakeError, HttpVersion, LoadError, Resumption, Stop,
    TlsVersion, fetch, fetch_with,
};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use recording::{FailureClass, TlsReport, exit_code};
use rustix::io::Errno;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::server::{OK, Server, Then};
use crate::{by_count, failures, run_checked, run_refused};

/// An authority, and a certificate of a server for `localhost` and 127.0.0.1.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = Self {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
            folder: TempDir::new().unwrap(),
        };
        std::fs::write(authority.file("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for names, as files and as what rustls takes.
    fn issue(&self, names: &[&str]) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        std::fs::write(self.file("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(self.file("key.pem"), key.serialize_pem()).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (vec![certificate.der().clone()], key)
    }

    pub(crate) fn server_config(&self) -> ServerConfig {
        let (chain, key) = self.issue(&["localhost", "127.0.0.1"]);
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }

    /// A server that takes no certificates, and answers everything.
    pub(crate) fn serve(&self) -> Server {
        always_ok(self.server_config(), Then::Keep)
    }
}

pub(crate) fn always_ok(config: ServerConfig, then: Then) -> Server {
    Server::start_tls(Arc::new(config), move |exchange| {
        exchange.send(OK);
        then
    })
}

/// A load that trusts the authority.
pub(crate) fn trusting(
    authority: &Authority,
    server: &Server,
    requests: u64,
    connections: u32,
) -> Config {
    let mut config = by_count(server, requests, connections);
    config.tls.ca_file = Some(authority.file("ca.pem"));
    config
}

fn tls_of(config: &Config) -> TlsReport {
    let load = run_checked(config);
    assert_eq!((load.ledger.failed_total(), load.http2), (0, None));
    load.tls.unwrap()
}

/// The default session, what was negotiated, and the bytes before and after it.
#[test]
fn what_was_negotiated_is_told() {
    let authority = Authority::new();
    let server = authority.serve();
    let load = run_checked(&trusting(&authority, &server, 100, 3));
    let tls = load.tls.unwrap();
    assert_eq!((load.ledger.ok, server.requests()), (100, 100));
    assert_eq!((tls.full_handshakes, tls.resumed_handshakes), (3, 0));
    assert_eq!((tls.failed_handshakes, tls.retried_handshakes), (0, 0));
    assert_eq!(tls.handshake_time.unwrap().count, 3);
    let [kind] = &tls.negotiated[..] else {
        panic!("{:?}", tls.negotiated);
    };
    assert_eq!(
        (&*kind.version, &*kind.cipher, kind.count),
        ("TLSv1.3", "TLS_AES_256_GCM_SHA384", 3)
    );
    assert_eq!(
        (
            kind.group.as_deref(),
            &*kind.certificate_key,
            kind.alpn.as_deref()
        ),
        (Some("X25519"), "ECDSA P-256", Some("http/1.1"))
    );
    assert_eq!(tls.clear_received_bytes, 100 * OK.len() as u64);
    assert!(load.traffic.received_bytes > tls.clear_received_bytes);
    assert!(load.traffic.sent_bytes > tls.clear_sent_bytes);
}

/// Versions, groups and cipher suites are those that were asked for.
#[test]
fn choices_are_obeyed() {
    let authority = Authority::new();
    let server = authority.serve();
    let check = |change: fn(&mut Config), version: &str, cipher: &str, group: &str| {
        let mut config = trusting(&authority, &server, 4, 1);
        change(&mut config);
        let tls = tls_of(&config);
        let kind = &tls.negotiated[0];
        assert_eq!(
            (&*kind.version, &*kind.cipher, kind.group.as_deref()),
            (version, cipher, Some(group))
        );
    };
    check(
        |config| {
            config.tls.max = TlsVersion::Tls12;
            config.tls.ciphers = vec!["ECDHE-ECDSA-AES128-GCM-SHA256".into()];
            config.tls.groups = vec!["P-384".into()];
        },
        "TLSv1.2",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "P-384",
    );
    check(
        |config| {
            config.tls.min = TlsVersion::Tls13;
            config.tls.ciphers = vec!["tls_chacha20_poly1305_sha256".into()];
            config.tls.groups = vec!["X25519MLKEM768".into()];
        },
        "TLSv1.3",
        "TLS_CHACHA20_POLY1305_SHA256",
        "X25519MLKEM768",
    );
}

/// A certificate that nobody trusts ends the run with its reason, unless it is not looked at.
#[test]
fn servers_are_verified() {
    let authority = Authority::new();
    let server = authority.serve();
    let mut config = by_count(&server, 4, 2);
    let error = run_refused(&config);
    assert!(
        matches!(
            &error,
            LoadError::Handshake {
                reason: HandshakeError::Tls(_),
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("--cacert"), "{error}");
    config.tls.verify = false;
    assert_eq!(run_checked(&config).ledger.ok, 4);

    let mut config = trusting(&authority, &server, 4, 2);
    config.tls.server_name = Some("other.example".into());
    let error = run_refused(&config).to_string();
    assert!(error.contains("--sni"), "{error}");
    config.tls.server_name = Some("localhost".into());
    assert_eq!(run_checked(&config).ledger.ok, 4);
    let names = server.handshakes().names.lock().unwrap();
    assert_eq!(names.last().unwrap().as_deref(), Some("localhost"));
}

/// Handshakes are full, resumed, or half of each, as asked, and the server counted the same.
#[test]
fn resumption_is_chosen_and_counted() {
    let check = |resumption, version, wanted: (u64, u64)| {
        let authority = Authority::new();
        let server = authority.serve();
        let mut config = trusting(&authority, &server, 20, 1);
        config.requests_per_connection = Some(1);
        config.tls.resumption = resumption;
        config.tls.max = version;
        let tls = tls_of(&config);
        let counted = (tls.full_handshakes, tls.resumed_handshakes);
        assert_eq!(counted, wanted, "{resumption:?}");
        let seen = server.handshakes();
        let seen = (seen.full.load(SeqCst), seen.resumed.load(SeqCst));
        assert_eq!(seen, wanted, "{resumption:?}");
    };
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        check(Resumption::Full, version, (20, 0));
        check(Resumption::Resume, version, (1, 19));
        check(Resumption::Mix { percent: 50 }, version, (10, 10));
    }
}

/// A server that asks for a certificate gets it; without one the handshake fails.
#[test]
fn clients_show_their_certificate() {
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["localhost", "127.0.0.1"]);
    let mut roots = RootCertStore::empty();
    roots.add(authority.issuer.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .build()
        .unwrap();
    let server_config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    let server = always_ok(server_config, Then::Keep);
    let mut config = trusting(&authority, &server, 4, 2);
    config.tls.client = Some(ClientCertificate {
        chain: authority.file("cert.pem"),
        key: authority.file("key.pem"),
    });
    assert_eq!(run_checked(&config).ledger.ok, 4);
    assert_eq!(server.handshakes().certified.load(SeqCst), 2);
    config.tls.client = None;
    config.tls.max = TlsVersion::Tls12;
    let error = run_refused(&config).to_string();
    assert!(error.contains("--cert"), "{error}");
}

/// Settings that cannot work are named before anything is opened.
#[test]
fn bad_settings_are_named() {
    let check = |change: fn(&mut Config), wanted: &str| {
        let mut config = Config::new("https://localhost:1/");
        change(&mut config);
        let error = run_refused(&config).to_string();
        assert!(error.contains(wanted), "{error}");
    };
    check(|c| c.tls.groups = vec!["P-257".into()], "X25519, P-256");
    check(
        |c| c.tls.ciphers = vec!["RC4".into()],
        "TLS_AES_128_GCM_SHA256",
    );
    check(
        |c| c.tls.ca_file = Some("/dev/null".into()),
        "file of authorities /dev/null",
    );
    check(|c| c.tls.server_name = Some("a b".into()), "\"a b\"");
    check(
        |c| {
            c.tls.min = TlsVersion::Tls13;
            c.tls.max = TlsVersion::Tls12;
        },
        "above the newest",
    );
}

/// Connections that the server closes after each reply: as many handshakes as replies.
#[test]
fn every_connection_has_its_handshake() {
    let authority = Authority::new();
    let server = always_ok(authority.server_config(), Then::Close);
    let tls = tls_of(&trusting(&authority, &server, 6, 1));
    assert_eq!((tls.full_handshakes, server.accepts()), (6, 6));
}

/// Takes connections in turn and plays a script on each, until the scripts are used up.
pub(crate) fn scripted(
    scripts: Vec<Box<dyn FnOnce(TcpStream) + Send>>,
) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for script in scripts {
            script(listener.accept().unwrap().0);
        }
    });
    (url, thread)
}

/// Reads what a client says first and ends the connection in order.
fn hang_up(mut stream: TcpStream) {
    let _hello = stream.read(&mut [0; 16 * 1024]).unwrap();
}

/// Handshakes that fail later are failures of their own phase, and the account holds.
#[test]
fn failed_handshakes_are_counted() {
    let authority = Authority::new();
    let config = Arc::new(authority.server_config());
    let serve_once = move |stream: TcpStream| {
        let connection = ServerConnection::new(config).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let _request = stream.read(&mut [0; 16 * 1024]).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    };
    let mut scripts: Vec<Box<dyn FnOnce(TcpStream) + Send>> = vec![Box::new(serve_once)];
    for _ in 0..5 {
        scripts.push(Box::new(hang_up));
    }
    let (url, thread) = scripted(scripts);
    let mut config = Config::new(url);
    config.stop = Stop::Requests(6);
    config.tls.verify = false;
    let load = run_checked(&config);
    thread.join().unwrap();
    assert_eq!(load.ledger.ok, 1);
    assert_eq!(failures(&load), [(FailureClass::Tls, "tls", 5)]);
    let tls = load.tls.unwrap();
    assert_eq!((tls.full_handshakes, tls.failed_handshakes), (1, 5));
    // The handshake of the start was before the window.
    assert_eq!(load.connections.established, 5);
}

/// A server in clear is told from one that speaks TLS.
#[test]
fn clear_servers_are_recognised() {
    let (url, thread) = scripted(vec![Box::new(|mut stream| {
        let _hello = stream.read(&mut [0; 16 * 1024]).unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    })]);
    let error = run_refused(&Config::new(url)).to_string();
    thread.join().unwrap();
    assert!(error.contains("the URL begins with http://"), "{error}");
}

/// One request over TLS, for a look at what a server answers.
#[test]
fn one_request_is_fetched() {
    let authority = Authority::new();
    let server = authority.serve();
    let fetched = fetch_with(&trusting(&authority, &server, 1, 1)).unwrap();
    assert_eq!((fetched.status, &*fetched.body), (200, &b"ok"[..]));
    let error = fetch(&server.url("/"), &[]).unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
}

/// A server that chooses another protocol than the asked one is no server for this load.
#[test]
fn other_protocols_are_refused() {
    let authority = Authority::new();
    let mut config = authority.server_config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let server = always_ok(config, Then::Keep);
    let error = run_refused(&trusting(&authority, &server, 1, 1)).to_string();
    assert!(error.contains("--h2"), "{error}");

    let mut config = authority.server_config();
    config.alpn_protocols.clear();
    let server = always_ok(config, Then::Keep);
    let tls = tls_of(&trusting(&authority, &server, 1, 1));
    assert_eq!(tls.negotiated[0].alpn, None);
}

/// A server without HTTP/2 is told before anything is sent to it: one that refuses the wish, and one
/// that does not know of wishes.
#[test]
fn servers_without_http2_are_refused() {
    let authority = Authority::new();
    for (protocols, what) in [
        (vec![b"http/1.1".to_vec()], "NoApplicationProtocol"),
        (
            Vec::new(),
            "asked for \"h2\" by ALPN, the server chose nothing",
        ),
    ] {
        let mut server = authority.server_config();
        server.alpn_protocols = protocols;
        let server = always_ok(server, Then::Keep);
        let mut config = trusting(&authority, &server, 4, 2);
        config.http = HttpVersion::Http2;
        let error = run_refused(&config);
        assert!(matches!(error, LoadError::Handshake { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("--http1"), "{text}");
        assert_eq!(
            (error.exit_code(), server.requests()),
            (exit_code::FAILED, 0)
        );
    }
}

/// A server that changes its mind during the run: connections on which it wants another protocol are
/// failures of the handshake, and nothing that it says on them is in the result.
#[test]
fn no_result_mixes_protocols() {
    let authority = Authority::new();
    let first = Arc::new(authority.server_config());
    let mut other = authority.server_config();
    other.alpn_protocols = vec![b"h2".to_vec()];
    let other = Arc::new(other);
    let answer = |config: Arc<ServerConfig>| {
        move |stream: TcpStream| {
            let connection = ServerConnection::new(config).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            // What cannot be agreed on ends in an error here.
            if stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                stream.write_all(OK).unwrap();
            }
        }
    };
    let mut scripts: Vec<Box<dyn FnOnce(TcpStream) + Send>> = vec![Box::new(answer(first))];
    for _ in 0..3 {
        scripts.push(Box::new(answer(Arc::clone(&other))));
    }
    let (url, thread) = scripted(scripts);
    let mut config = Config::new(url);
    config.stop = Stop::Requests(4);
    config.tls.verify = false;
    config.requests_per_connection = Some(1);
    let load = run_checked(&config);
    thread.join().unwrap();
    assert_eq!((load.ledger.ok, load.statuses[&200]), (1, 1));
    assert_eq!(failures(&load), [(FailureClass::Tls, "tls", 3)]);
    let negotiated = &load.tls.as_ref().unwrap().negotiated;
    assert_eq!(negotiated.len(), 1);
    assert_eq!(load.traffic.body_bytes, 2);
}

/// A server that accepts and never says a word: the handshake is what takes too long.
#[test]
fn silent_servers_end_a_handshake() {
    let (url, thread) = scripted(vec![Box::new(|mut stream| {
        // Until the client gives up.
        while stream
            .read(&mut [0; 16 * 1024])
            .is_ok_and(|count| count > 0)
        {}
    })]);
    let mut config = Config::new(url);
    // sleeps: nothing ever comes.
    config.timeout = Duration::from_millis(50);
    let error = run_refused(&config);
    thread.join().unwrap();
    let is_late = |reason: &HandshakeError| *reason == HandshakeError::Os(Errno::TIMEDOUT);
    assert!(
        matches!(&error, LoadError::Handshake { reason, .. } if is_late(reason)),
        "{error}"
    );
}

/// A certificate that `openssl req -x509` would make, an authority by its own word, is trusted when
/// it is given.
#[test]
fn self_made_certificates_are_trusted_when_given() {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let authority = Authority::new();
    std::fs::write(authority.file("own.pem"), certificate.pem()).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let server_config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let server = always_ok(server_config, Then::Keep);
    let mut config = by_count(&server, 3, 1);
    config.tls.ca_file = Some(authority.file("own.pem"));
    assert_eq!(run_checked(&config).ledger.ok, 3);
    config.tls.server_name = Some("other.example".into());
    assert!(run_refused(&config).to_string().contains("--sni"));
    config.tls.server_name = None;
    config.tls.ca_file = Some(authority.file("ca.pem"));
    assert!(run_refused(&config).to_string().contains("--cacert"));
}
