//! A server that does what a test tells it to, and counts what it saw.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::net::{self, AddressFamily, SocketType};

/// A response with a body of two bytes.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What a server does after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Waits for the next one.
    Keep,
    /// Closes the connection.
    Close,
    /// Closes it so that the peer sees a reset.
    Reset,
}

/// One request that arrived.
pub(crate) struct Exchange<'a> {
    wire: &'a mut dyn Wire,
    peer: IpAddr,
    /// Its head.
    pub(crate) head: &'a str,
    /// Its body.
    pub(crate) body: &'a [u8],
    /// Its place on its connection, from 1.
    pub(crate) nth: u64,
    /// Its place on this server, from 1.
    pub(crate) total: u64,
    /// Whether everything could be sent so far.
    pub(crate) sent_all: bool,
}

impl Exchange<'_> {
    /// Address that it came from.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Writes bytes; a peer that has gone is the business of the test, not of the server.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.sent_all &= self.wire.write_all(bytes).is_ok();
    }
}

/// What bytes of a connection are read from and written to: a socket, or TLS on top of it.
pub(crate) trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

/// Handshakes as the server saw them.
#[derive(Default)]
pub(crate) struct Handshakes {
    /// Full ones.
    pub(crate) full: AtomicU64,
    /// Those that resumed a session.
    pub(crate) resumed: AtomicU64,
    /// Connections that ended before the end of their handshake.
    pub(crate) failed: AtomicU64,
    /// Names that clients asked for.
    pub(crate) names: Mutex<Vec<Option<String>>>,
    /// Whether each client showed a certificate.
    pub(crate) certified: AtomicU64,
}

/// A running server; it ends when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<State>,
    acceptor: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

#[derive(Default)]
struct State {
    accepts: AtomicU64,
    requests: AtomicU64,
    tls: Option<Arc<rustls::ServerConfig>>,
    handshakes: Handshakes,
    /// Requests of each connection that has ended.
    per_connection: Mutex<Vec<u64>>,
    open: Mutex<HashMap<u64, TcpStream>>,
    /// Port of the connection that ends the acceptor.
    last_port: AtomicU16,
}

impl Server {
    /// Serves on a free port of 127.0.0.1; `answer` runs once per request.
    pub(crate) fn start(
        answer: impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static,
    ) -> Self {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), answer)
    }

    /// Serves over TLS on a free port of 127.0.0.1.
    pub(crate) fn start_tls(
        config: Arc<rustls::ServerConfig>,
        answer: impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static,
    ) -> Self {
        Self::start_with((Ipv4Addr::LOCALHOST, 0).into(), Some(config), answer)
    }

    /// Serves on a given address.
    pub(crate) fn start_on(
        address: SocketAddr,
        answer: impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(address, None, answer)
    }

    fn start_with(
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            tls,
            ..State::default()
        });
        let shared = Arc::clone(&state);
        let acceptor = std::thread::spawn(move || accept(&listener, &shared, &Arc::new(answer)));
        Self {
            address,
            state,
            acceptor: Some(acceptor),
        }
    }

    /// A URL of this server.
    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.state.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}{path}", self.address)
    }

    /// What it saw of TLS.
    pub(crate) fn handshakes(&self) -> &Handshakes {
        &self.state.handshakes
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Connections taken.
    pub(crate) fn accepts(&self) -> u64 {
        self.state.accepts.load(Ordering::SeqCst)
    }

    /// Requests read.
    pub(crate) fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Ends the server, when it has read all that was sent, and returns the requests of each
    /// connection.
    pub(crate) fn stop(mut self) -> Vec<u64> {
        self.end();
        std::mem::take(&mut self.state.per_connection.lock().unwrap())
    }

    fn end(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        let threads = self.wake(acceptor);
        for stream in self.state.open.lock().unwrap().values() {
            let _gone = stream.shutdown(Shutdown::Both);
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }

    /// Ends the acceptor with a connection that it knows, behind all others in its queue.
    fn wake(&self, acceptor: JoinHandle<Vec<JoinHandle<()>>>) -> Vec<JoinHandle<()>> {
        let family = match self.address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = net::socket(family, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddr::new(self.address.ip(), 0)).unwrap();
        let own: SocketAddr = net::getsockname(&socket).unwrap().try_into().unwrap();
        self.state.last_port.store(own.port(), Ordering::SeqCst);
        net::connect(&socket, &self.address).unwrap();
        acceptor.join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes connections until the last one.
fn accept(
    listener: &TcpListener,
    state: &Arc<State>,
    answer: &Arc<impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static>,
) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    loop {
        let (stream, peer) = listener.accept().unwrap();
        if peer.port() == state.last_port.load(Ordering::SeqCst) {
            return threads;
        }
        let id = state.accepts.fetch_add(1, Ordering::SeqCst);
        state
            .open
            .lock()
            .unwrap()
            .insert(id, stream.try_clone().unwrap());
        let (state, answer) = (Arc::clone(state), Arc::clone(answer));
        threads.push(std::thread::spawn(move || {
            let served = serve(&stream, id, &state, &*answer);
            state.per_connection.lock().unwrap().push(served);
            state.open.lock().unwrap().remove(&id);
        }));
    }
}

/// Answers one connection and returns how many requests it carried.
fn serve(
    stream: &TcpStream,
    id: u64,
    state: &State,
    answer: &dyn Fn(&mut Exchange<'_>) -> Then,
) -> u64 {
    stream.set_nodelay(true).unwrap();
    let mut plain = stream;
    let mut secured;
    let wire: &mut dyn Wire = match &state.tls {
        None => &mut plain,
        Some(config) => match secure(stream, Arc::clone(config), &state.handshakes) {
            None => return 0,
            Some(stream) => {
                secured = stream;
                &mut secured
            }
        },
    };
    let mut buffer = Vec::new();
    let mut nth = 0;
    while let Some((head, body)) = read_request(wire, &mut buffer) {
        nth += 1;
        let total = state.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let mut exchange = Exchange {
            wire: &mut *wire,
            peer: stream
                .peer_addr()
                .map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip()),
            head: &head,
            body: &body,
            nth,
            total,
            sent_all: true,
        };
        match answer(&mut exchange) {
            Then::Keep => {}
            Then::Close => break,
            Then::Reset => {
                // The last descriptor that is closed sends the reset.
                state.open.lock().unwrap().remove(&id);
                let at_once = Some(std::time::Duration::ZERO);
                net::sockopt::set_socket_linger(stream, at_once).unwrap();
                return nth;
            }
        }
    }
    let _gone = stream.shutdown(Shutdown::Both);
    nth
}

/// The handshake of a connection; `None` when it fails.
fn secure<'a>(
    mut stream: &'a TcpStream,
    config: Arc<rustls::ServerConfig>,
    seen: &Handshakes,
) -> Option<rustls::StreamOwned<rustls::ServerConnection, &'a TcpStream>> {
    let mut connection = rustls::ServerConnection::new(config).unwrap();
    while connection.is_handshaking() {
        if connection.complete_io(&mut stream).is_err() {
            seen.failed.fetch_add(1, Ordering::SeqCst);
            return None;
        }
    }
    let kind = match connection.handshake_kind() {
        Some(rustls::HandshakeKind::Resumed) => &seen.resumed,
        _ => &seen.full,
    };
    kind.fetch_add(1, Ordering::SeqCst);
    let name = connection.server_name().map(str::to_owned);
    seen.names.lock().unwrap().push(name);
    if connection.peer_certificates().is_some() {
        seen.certified.fetch_add(1, Ordering::SeqCst);
    }
    Some(rustls::StreamOwned::new(connection, stream))
}

/// The next request; `None` when the peer has closed.
fn read_request(stream: &mut dyn Wire, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut more = || {
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => None,
            Ok(count) => Some(bytes[..count].to_vec()),
        }
    };
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        buffer.extend(more()?);
    };
    let head = String::from_utf8(buffer.drain(..end).collect()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    while buffer.len() < length {
        buffer.extend(more()?);
    }
    Some((head, buffer.drain(..length).collect()))
}
