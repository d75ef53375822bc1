//! TLS on non-blocking sockets: the certificate, and the session of one connection.
//!
//! A session makes one call per read and one per write, as its socket does in clear. What differs is
//! the beginning of a connection (the handshake) and its end (a farewell).

use std::fs;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustix::net::RecvFlags;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::ServeError;
use crate::outgoing::{Cut, Sent};
use crate::stream::Received;

/// Where a certificate and its key are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those that it is signed by.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// One session, on a socket that others keep.
pub(crate) struct Session {
    connection: ServerConnection,
    /// Bytes that are decrypted and not yet taken.
    decrypted: usize,
}

/// A socket as rustls reads and writes it: one call each.
struct Calls<'a> {
    socket: &'a OwnedFd,
    /// The read filled its room, or the write was cut short.
    at_limit: bool,
}

/// The settings of all sessions: the certificate of the files, or one for `localhost` and 127.0.0.1
/// that is made now and signed by itself; `protocols` are those of ALPN.
pub(crate) fn settings(
    files: Option<&CertificateFiles>,
    protocols: &[&[u8]],
) -> Result<Arc<ServerConfig>, ServeError> {
    let (chain, key) = match files {
        Some(files) => read(files)?,
        None => generated()?,
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut settings = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|source| ServeError::Tls { source })?;
    settings.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(settings))
}

impl Session {
    /// A session that has yet to shake hands.
    pub(crate) fn new(settings: &Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut connection = ServerConnection::new(Arc::clone(settings))?;
        // What is encrypted waits here for a slow client, as a response in clear would.
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            decrypted: 0,
        })
    }

    /// Takes what is decrypted, or reads the socket once. What the handshake has to say is sent.
    pub(crate) fn receive(&mut self, socket: &OwnedFd, space: &mut [u8]) -> Received {
        if self.decrypted > 0 {
            return self.take(space, true);
        }
        let mut calls = Calls::of(socket);
        match self.connection.read_tls(&mut calls) {
            Ok(0) => return Received::End,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Received::Nothing,
            Err(_) => return Received::End,
        }
        let processed = self.connection.process_new_packets();
        // Also where the client is wrong: then this is what it is told.
        let sent = self.flush(socket);
        match (processed, sent) {
            (Ok(state), Sent::All | Sent::Blocked) => {
                self.decrypted = state.plaintext_bytes_to_read();
                if self.decrypted == 0 && state.peer_has_closed() {
                    return Received::End;
                }
                self.take(space, calls.at_limit)
            }
            _ => Received::End,
        }
    }

    /// Whether bytes are decrypted that the socket will not report again.
    pub(crate) fn has_decrypted(&self) -> bool {
        self.decrypted > 0
    }

    /// Whether bytes wait for room in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends head and body, each piece as records of its own, and keeps what does not fit.
    pub(crate) fn send(&mut self, socket: &OwnedFd, head: &[u8], body: &[u8], cut: Cut) -> Sent {
        let mut sent = Sent::All;
        for (head_part, body_part) in cut.calls(head.len(), body.len()) {
            let parts = [&head[head_part], &body[body_part]].map(IoSlice::new);
            // Without a limit all of it is taken.
            if self.connection.writer().write_vectored(&parts).is_err() {
                return Sent::Failed;
            }
            if matches!(sent, Sent::All) {
                sent = self.flush(socket);
            }
        }
        sent
    }

    /// Sends what waits. A short write means that the send buffer is full, so the call that would say
    /// so is not made.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> Sent {
        while self.connection.wants_write() {
            let mut calls = Calls::of(socket);
            match self.connection.write_tls(&mut calls) {
                Ok(_) if calls.at_limit => return Sent::Blocked,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Blocked,
                Err(_) => return Sent::Failed,
            }
        }
        Sent::All
    }

    /// Says that nothing more comes, so that the client can tell the end from a cut.
    pub(crate) fn say_goodbye(&mut self, socket: &OwnedFd) {
        self.connection.send_close_notify();
        // The connection ends whether or not it can be told.
        let _told = self.flush(socket);
    }

    fn take(&mut self, space: &mut [u8], more: bool) -> Received {
        let count = if self.decrypted == 0 {
            0
        } else {
            self.connection.reader().read(space).unwrap_or(0)
        };
        self.decrypted = self.decrypted.saturating_sub(count);
        Received::Bytes {
            count,
            more: more || self.decrypted > 0,
        }
    }
}

impl<'a> Calls<'a> {
    fn of(socket: &'a OwnedFd) -> Self {
        Self {
            socket,
            at_limit: false,
        }
    }
}

impl io::Read for Calls<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(self.socket, &mut *space, RecvFlags::empty())
        });
        let (count, _) = received.map_err(io::Error::from)?;
        self.at_limit = count == space.len();
        Ok(count)
    }
}

impl io::Write for Calls<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let write = || rustix::io::writev(self.socket, parts);
        let written = rustix::io::retry_on_intr(write).map_err(io::Error::from)?;
        self.at_limit = written < wanted;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn generated() -> Result<Identity, ServeError> {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let signed = || -> Result<_, rcgen::Error> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        Ok((certificate.der().clone(), key.serialize_der()))
    };
    let (certificate, key) = signed().map_err(|source| ServeError::Certificate { source })?;
    Ok((vec![certificate], PrivatePkcs8KeyDer::from(key).into()))
}

fn read(files: &CertificateFiles) -> Result<Identity, ServeError> {
    let chain = pem(&files.certificate, |text| {
        CertificateDer::pem_slice_iter(text).collect()
    })?;
    let key = pem(&files.key, PrivateKeyDer::from_pem_slice)?;
    Ok((chain, key))
}

/// What a file in PEM has.
fn pem<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, rustls::pki_types::pem::Error>,
) -> Result<T, ServeError> {
    let text = fs::read(path).map_err(|source| ServeError::File {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|source| ServeError::Pem {
        path: path.to_owned(),
        source,
    })
}
