//! A server that misbehaves on purpose and counts what it did.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// A good response.
    Answer,
    /// A good response in chunks with trailers, byte by byte.
    AnswerInPieces,
    /// A good response behind two interim ones.
    AnswerAfterInterim,
    /// A good response whose end is the end of the connection.
    AnswerUntilClose,
    /// A good response, after which the connection is closed, as announced or silently.
    AnswerAndClose { announced: bool },
    /// Status 500.
    BadStatus,
    /// Fewer bytes than announced, then the end.
    Short,
    /// The beginning of a head, then a reset.
    Reset,
    /// Bytes that are no HTTP.
    Garbage,
    /// Nothing, until the client goes away.
    Hang,
    /// The end of the connection without an answer, on a connection that has answered before.
    Vanish,
}

/// What a server did, and how much of it.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: AtomicU64,
    /// Requests that were read completely.
    pub(super) received: AtomicU64,
    pub(super) ok: AtomicU64,
    pub(super) bad_status: AtomicU64,
    pub(super) short: AtomicU64,
    pub(super) reset: AtomicU64,
    pub(super) garbage: AtomicU64,
    pub(super) hung: AtomicU64,
    pub(super) vanished: AtomicU64,
    pub(super) interim: AtomicU64,
    /// Body bytes of good and bad responses, without chunk framing.
    pub(super) body_bytes: AtomicU64,
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) counts: Arc<Counts>,
    ends: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server that decides by the place of a request on it and on its connection, both
    /// from 1.
    pub(super) fn start(decide: fn(u64, u64) -> Deed) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, end) = (Arc::clone(&counts), Arc::clone(&ends));
        let acceptor = std::thread::Builder::new()
            .name("selftest".to_owned())
            .spawn(move || accept(&listener, &shared, &end, decide))?;
        Ok(Self {
            address,
            counts,
            ends,
            acceptor: Some(acceptor),
        })
    }

    /// Ends the server; its counts are final.
    pub(super) fn end(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the acceptor; that it is counted as a connection does not matter any more.
        if TcpStream::connect(self.address).is_ok() {
            // Its threads end with the connections of the client, which is gone.
            let _panicked = acceptor.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(
    listener: &TcpListener,
    counts: &Arc<Counts>,
    ends: &AtomicBool,
    decide: fn(u64, u64) -> Deed,
) {
    let threads = Mutex::new(Vec::new());
    for stream in listener.incoming() {
        if ends.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else {
            continue;
        };
        add(&counts.accepted, 1);
        let counts = Arc::clone(counts);
        let thread = std::thread::spawn(move || {
            // A client that goes away in the middle is its right.
            let _gone = serve(&stream, &counts, decide);
        });
        let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(thread);
    }
    let threads = threads.into_inner().unwrap_or_else(PoisonError::into_inner);
    for thread in threads {
        let _panicked = thread.join();
    }
}

/// Answers one connection until it ends.
fn serve(stream: &TcpStream, counts: &Counts, decide: fn(u64, u64) -> Deed) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut pending = Vec::new();
    let mut nth = 0;
    while read_request(stream, &mut pending)? {
        nth += 1;
        let total = counts.received.fetch_add(1, Ordering::SeqCst) + 1;
        if !act(decide(total, nth), stream, counts)? {
            break;
        }
    }
    stream.shutdown(Shutdown::Both)
}

/// Does one deed; `false` when the connection ends with it.
fn act(deed: Deed, mut stream: &TcpStream, counts: &Counts) -> std::io::Result<bool> {
    let mut answer = |bytes: &[u8]| {
        add(&counts.ok, 1);
        add(&counts.body_bytes, BODY.len() as u64);
        stream.write_all(bytes)
    };
    match deed {
        Deed::Answer => answer(OK)?,
        Deed::AnswerInPieces => {
            add(&counts.ok, 1);
            add(&counts.body_bytes, BODY.len() as u64);
            for byte in CHUNKED.chunks(1) {
                stream.write_all(byte)?;
            }
        }
        Deed::AnswerAfterInterim => {
            add(&counts.interim, 2);
            stream.write_all(INTERIM)?;
            add(&counts.ok, 1);
            add(&counts.body_bytes, BODY.len() as u64);
            stream.write_all(OK)?;
        }
        Deed::AnswerUntilClose => {
            answer(UNTIL_CLOSE)?;
            return Ok(false);
        }
        Deed::AnswerAndClose { announced } => {
            answer(if announced { LAST } else { OK })?;
            return Ok(false);
        }
        Deed::BadStatus => {
            add(&counts.bad_status, 1);
            stream.write_all(BAD)?;
        }
        Deed::Short => {
            add(&counts.short, 1);
            stream.write_all(SHORT)?;
            return Ok(false);
        }
        Deed::Reset => {
            add(&counts.reset, 1);
            stream.write_all(b"HTTP/1.1 2")?;
            set_socket_linger(stream, Some(Duration::ZERO))?;
            // Closing sends the reset, if nothing has ended the connection before it.
            return Err(ErrorKind::ConnectionReset.into());
        }
        Deed::Garbage => {
            add(&counts.garbage, 1);
            stream.write_all(b"SSH-2.0-OpenSSH\r\n\r\n")?;
            return Ok(false);
        }
        Deed::Hang => {
            add(&counts.hung, 1);
            let mut rest = [0; 64];
            while stream.read(&mut rest)? > 0 {}
            return Ok(false);
        }
        Deed::Vanish => {
            add(&counts.vanished, 1);
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads one request without a body; `false` at the end of the connection.
fn read_request(mut stream: &TcpStream, pending: &mut Vec<u8>) -> std::io::Result<bool> {
    loop {
        if let Some(at) = pending.windows(4).position(|window| window == b"\r\n\r\n") {
            pending.drain(..at + 4);
            return Ok(true);
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes)? {
            0 => return Ok(false),
            count => pending.extend_from_slice(&bytes[..count]),
        }
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::SeqCst);
}

const BODY: &[u8] = b"ok";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
const BAD: &[u8] = b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n";
const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok";
const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nok";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
    1;a=b\r\no\r\n1\r\nk\r\n0\r\nX-Trailer: 1\r\n\r\n";
const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 x\r\n\r\n";
