//! What is said before a TLS handshake has ended, and when a connection ends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use std::sync::Mutex;

use loadgen::{Config, HttpVersion, Resumption, Stop};
use recording::{Load, exit_code};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::peer2::{END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame};
use crate::server::OK;
use crate::tls::{Authority, scripted};
use crate::{run_checked, run_refused};

/// A server of HTTP/2 whose settings come in one segment with the end of its handshake, as those
/// of Go come behind its tickets.
fn speaks_early(mut stream: TcpStream, config: Arc<ServerConfig>) {
    let mut connection = ServerConnection::new(config).unwrap();
    while connection.alpn_protocol().is_none() {
        connection.read_tls(&mut stream).unwrap();
        connection.process_new_packets().unwrap();
    }
    let settings = frame(SETTINGS, 0, 0, &[]);
    connection.writer().write_all(&settings).unwrap();
    let mut flight = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut flight).unwrap();
    }
    stream.write_all(&flight).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream.read_exact(&mut [0; 24]).unwrap();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; length]).unwrap();
        if head[3] == HEADERS {
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let answer = frame(HEADERS, END_STREAM | END_HEADERS, id, &[0x88]);
            stream.write_all(&answer).unwrap();
        }
    }
}

/// What comes in one segment with the end of the handshake is not lost, also while the server has
/// still to show that it speaks HTTP/2.
#[test]
fn servers_may_speak_before_the_handshake_has_ended() {
    let authority = Authority::new();
    let mut server = authority.server_config();
    server.alpn_protocols = vec![b"h2".to_vec()];
    server.send_half_rtt_data = true;
    let server = Arc::new(server);
    let (url, thread) = scripted(vec![Box::new(|stream| speaks_early(stream, server))]);
    let mut config = Config::new(url);
    config.http = HttpVersion::Http2;
    config.tls.verify = false;
    config.stop = Stop::Requests(3);
    let load = run_checked(&config);
    thread.join().unwrap();
    assert_eq!((load.ledger.ok, load.connections.established), (3, 0));
}

/// What a server saw of one connection.
#[derive(Debug, Default)]
struct Visit {
    /// Bytes that came with the first ones of the handshake.
    early: usize,
    /// Requests, whenever they came.
    requests: usize,
    /// Whether the client said that it ends the session.
    ends_in_order: bool,
}

/// Answers each request of a connection.
fn answer(mut stream: TcpStream, config: Arc<ServerConfig>) -> Visit {
    let mut connection = ServerConnection::new(config).unwrap();
    let mut visit = Visit::default();
    let mut received = Vec::new();
    while connection.is_handshaking() {
        if connection.complete_io(&mut stream).is_err() {
            return visit;
        }
    }
    if let Some(mut early) = connection.early_data() {
        visit.early = early.read_to_end(&mut received).unwrap();
    }
    let mut stream = StreamOwned::new(connection, stream);
    loop {
        while let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            received.drain(..at + 4);
            visit.requests += 1;
            stream.write_all(OK).unwrap();
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) => visit.ends_in_order = true,
            Ok(count) => {
                received.extend_from_slice(&bytes[..count]);
                continue;
            }
            Err(_) => {}
        }
        return visit;
    }
}

/// A load of six requests, each on a connection of its own, and what the server saw of each, which
/// takes so many bytes of early data after its first connection.
fn six_visits(early_bytes: [u32; 2], change: impl FnOnce(&mut Config)) -> (Load, Vec<Visit>) {
    let authority = Authority::new();
    let mut giving = authority.server_config();
    giving.max_early_data_size = early_bytes[0];
    let mut taking = giving.clone();
    taking.max_early_data_size = early_bytes[1];
    let configs = [Arc::new(giving), Arc::new(taking)];
    let visits = Arc::new(Mutex::new(Vec::new()));
    let script = |number: usize| -> Box<dyn FnOnce(TcpStream) + Send> {
        let config = Arc::clone(&configs[number.min(1)]);
        let visits = Arc::clone(&visits);
        Box::new(move |stream| {
            let visit = answer(stream, config);
            visits.lock().unwrap().push(visit);
        })
    };
    let (url, thread) = scripted((0..6).map(script).collect());
    let mut config = Config::new(url);
    config.tls.verify = false;
    config.tls.resumption = Resumption::Resume;
    config.tls.early_data = true;
    config.requests_per_connection = Some(1);
    config.stop = Stop::Requests(6);
    change(&mut config);
    let load = run_checked(&config);
    thread.join().unwrap();
    let visits = std::mem::take(&mut *visits.lock().unwrap());
    (load, visits)
}

/// Requests of resumed sessions go with the first bytes of the handshake, on both sides' count.
#[test]
fn early_data_is_sent_and_counted() {
    let (load, visits) = six_visits([16_384; 2], |_| {});
    assert_eq!(load.ledger.ok, 6);
    let seen = visits.iter().filter(|visit| visit.early > 0).count();
    assert!(visits.iter().all(|visit| visit.requests == 1), "{visits:?}");
    let tls = load.tls.unwrap();
    assert_eq!((seen, tls.resumed_handshakes), (5, 5), "{visits:?}");
    assert_eq!(
        (tls.early_data_handshakes, tls.early_data_refused),
        (Some(5), Some(0))
    );
}

/// A server that takes less than the whole request gets the rest behind the handshake.
#[test]
fn early_data_may_be_a_part_of_a_request() {
    let (load, visits) = six_visits([20; 2], |_| {});
    assert_eq!(load.ledger.ok, 6);
    let early: Vec<usize> = visits.iter().map(|visit| visit.early).collect();
    assert_eq!(early, [0, 20, 20, 20, 20, 20]);
    assert!(visits.iter().all(|visit| visit.requests == 1), "{visits:?}");
}

/// What a server refuses to take early follows the handshake, once, and is counted.
#[test]
fn refused_early_data_is_sent_again() {
    let (load, visits) = six_visits([16_384, 0], |_| {});
    assert_eq!(load.ledger.ok, 6);
    assert!(
        visits
            .iter()
            .all(|visit| (visit.early, visit.requests) == (0, 1)),
        "{visits:?}"
    );
    let tls = load.tls.unwrap();
    let counts = (tls.early_data_handshakes, tls.early_data_refused);
    // The second connection learns that there is none to be had.
    assert_eq!(counts, (Some(0), Some(1)));
}

/// What changes something on the server waits for the end of the handshake.
#[test]
fn unsafe_methods_are_not_sent_early() {
    let (load, visits) = six_visits([16_384; 2], |config| {
        "DELETE".clone_into(&mut config.method);
    });
    assert_eq!(load.ledger.ok, 6);
    assert!(visits.iter().all(|visit| visit.early == 0), "{visits:?}");
    assert_eq!(load.tls.unwrap().early_data_handshakes, Some(0));
}

/// Early data without resumption is refused before anything is sent.
#[test]
fn early_data_needs_resumption() {
    let mut config = Config::new("https://127.0.0.1:9/");
    config.tls.early_data = true;
    let error = run_refused(&config);
    assert_eq!(error.exit_code(), exit_code::USAGE);
    assert!(error.to_string().contains("--resumption"), "{error}");
}

/// Connections that end as planned are ended in order, those that the end of the run finds idle as
/// well.
#[test]
fn sessions_end_in_order() {
    let (_, visits) = six_visits([0; 2], |config| config.tls.early_data = false);
    assert_eq!(visits.len(), 6);
    assert!(visits.iter().all(|visit| visit.ends_in_order), "{visits:?}");
}
