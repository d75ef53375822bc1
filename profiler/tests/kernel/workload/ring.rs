//! Programs that work through `io_uring`, with a known number of operations.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, Timespec};
use io_uring::{IoUring, opcode};

use crate::{done, wait};

/// `count` of each of no-op, read, read by a worker and write, three timeouts that expire, and two
/// reads of a descriptor that is closed.
pub(crate) fn operations(count: u64) {
    let zero = File::open("/dev/zero").expect("/dev/zero");
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    let mut ring = IoUring::new(64).expect("io_uring");
    let mut buffer = [0_u8; 5];
    let timeout = Timespec::new().nsec(1_000_000);
    wait();
    for _ in 0..count {
        run(&mut ring, &opcode::Nop::new().build(), 0);
        let read = opcode::Read::new(Fd(zero.as_raw_fd()), buffer.as_mut_ptr(), 5);
        let read = read.build();
        run(&mut ring, &read, 5);
        run(&mut ring, &read.flags(Flags::ASYNC), 5);
        let write = opcode::Write::new(Fd(null.as_raw_fd()), buffer.as_ptr(), 5);
        run(&mut ring, &write.build(), 5);
    }
    for _ in 0..3 {
        let timeout = opcode::Timeout::new(&raw const timeout);
        run(&mut ring, &timeout.build(), -libc::ETIME);
    }
    for _ in 0..2 {
        let read = opcode::Read::new(Fd(NO_DESCRIPTOR), buffer.as_mut_ptr(), 5);
        run(&mut ring, &read.build(), -libc::EBADF);
    }
    done();
}

/// No-ops that a thread of the kernel takes from the queue.
pub(crate) fn polled_queue(count: u64) {
    let mut ring = IoUring::builder()
        .setup_sqpoll(1000)
        .build(64)
        .expect("io_uring with a polled queue");
    wait();
    for _ in 0..count {
        run(&mut ring, &opcode::Nop::new().build(), 0);
    }
    done();
}

/// A server that receives and sends through a queue which a thread of the kernel polls; its client
/// makes calls.
pub(crate) fn echo(messages: u64) {
    let (server, mut client) = UnixStream::pair().expect("sockets");
    let server = Fd(server.as_raw_fd());
    let mut ring = IoUring::builder()
        .setup_sqpoll(1000)
        .build(8)
        .expect("io_uring with a polled queue");
    let mut buffer = [0_u8; 4];
    wait();
    for _ in 0..messages {
        // Waits for the message: nothing is there yet.
        let receive = opcode::Recv::new(server, buffer.as_mut_ptr(), 4);
        push(&mut ring, &receive.build());
        ring.submit().expect("a submission");
        client.write_all(b"ping").expect("room");
        take(&mut ring, 4);
        let send = opcode::Send::new(server, buffer.as_ptr(), 4);
        run(&mut ring, &send.build(), 4);
        client.read_exact(&mut [0; 4]).expect("an answer");
    }
    done();
}

/// More completions than the queue has room for, nobody taking any.
pub(crate) fn overflow(room: u32, beyond: u32) {
    let mut ring = IoUring::builder()
        .setup_cqsize(room)
        .build(room)
        .expect("io_uring");
    wait();
    for _ in 0..room + beyond {
        push(&mut ring, &opcode::Nop::new().build());
        ring.submit().expect("a submission");
    }
    done();
}

/// One request that accepts every connection.
pub(crate) fn accept_many(connections: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut ring = IoUring::new(8).expect("io_uring");
    wait();
    let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build();
    push(&mut ring, &accept.user_data(7));
    ring.submit().expect("a submission");
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(TcpStream::connect(address).expect("a connection"));
        ring.submit_and_wait(1).expect("a completion");
        let completion = ring.completion().next().expect("a completion");
        assert!(completion.result() >= 0 && completion.user_data() == 7);
    }
    done();
}

/// Submits one request and takes its completion.
fn run(ring: &mut IoUring, entry: &Entry, expected: i32) {
    push(ring, entry);
    take(ring, expected);
}

/// Takes a completion.
fn take(ring: &mut IoUring, expected: i32) {
    ring.submit_and_wait(1).expect("a submission");
    let completion = ring.completion().next().expect("a completion");
    assert_eq!(completion.result(), expected);
}

fn push(ring: &mut IoUring, entry: &Entry) {
    // SAFETY: buffers and timeouts are alive until the completion is taken.
    let pushed = unsafe { ring.submission().push(entry) };
    pushed.expect("the queue has room");
}

/// One that no process of these tests has open.
const NO_DESCRIPTOR: RawFd = 999;
