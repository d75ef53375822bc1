//! What is said before a TLS handshake has ended, and when a connection ends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use loadgen::{Config, HttpVersion, Stop};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::peer2::{END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame};
use crate::run_checked;
use crate::tls::{Authority, scripted};

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
