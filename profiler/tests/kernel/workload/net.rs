//! Servers and their clients in one process, whose connections go wrong in a known way.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with,
};

use crate::{done, raw, wait};

/// A listener with room for one connection (and one more, as the kernel counts), which accepts
/// none, and connections beyond.
pub(crate) fn full_queue(beyond: u64) {
    let listener = socket();
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listen(&listener, 1).expect("a listener");
    let address = getsockname(&listener).expect("an address");
    wait();
    let mut clients: Vec<OwnedFd> = Vec::new();
    for _ in 0..beyond + 2 {
        let client = socket();
        let connected = connect(&client, &address);
        assert!(matches!(connected, Ok(()) | Err(Errno::INPROGRESS)));
        clients.push(client);
    }
    done();
}

/// The same in a network namespace of its own.
pub(crate) fn full_queue_apart(beyond: u64) {
    raw::own_network();
    full_queue(beyond);
}

/// Connections that the client resets, and some that the server does.
pub(crate) fn resets(by_client: u64, by_server: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let connection = || {
        let client = TcpStream::connect(address).expect("a connection");
        (client, listener.accept().expect("a connection").0)
    };
    wait();
    for _ in 0..by_client {
        let (client, mut server) = connection();
        raw::reset_at_close(&client);
        drop(client);
        server.read(&mut [0]).expect_err("a reset");
    }
    for _ in 0..by_server {
        let (mut client, server) = connection();
        raw::reset_at_close(&server);
        drop(server);
        client.read(&mut [0]).expect_err("a reset");
    }
    done();
}

/// A server whose client is deaf until the server has sent its byte twice.
pub(crate) fn retransmit() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut client = TcpStream::connect(address).expect("a connection");
    let mut server = listener.accept().expect("a connection").0;
    wait();
    raw::become_deaf(&client);
    server.write_all(b".").expect("room");
    while raw::retransmits(&server) == 0 {
        std::thread::yield_now();
    }
    raw::hear_again(&client);
    client.read_exact(&mut [0]).expect("the byte");
    client.shutdown(Shutdown::Both).expect("a connection");
    done();
}

fn socket() -> OwnedFd {
    socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::NONBLOCK,
        None,
    )
    .expect("a socket")
}
