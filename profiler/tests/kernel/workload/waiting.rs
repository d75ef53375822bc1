//! Programs that wait in every way: futexes, connections, events.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::event::epoll;
use rustix::io::write;
use rustix::pipe::pipe;

use crate::{done, raw, wait};

/// Futex calls: two that wait (and do not), three that wake, one of another kind.
pub(crate) fn futexes() {
    wait();
    for _ in 0..2 {
        raw::futex_wait_on_other_value();
    }
    for _ in 0..3 {
        raw::futex_wake();
    }
    raw::futex_requeue();
    done();
}

/// Calls of `accept4` on a listener where nobody is, and one that has a connection.
pub(crate) fn accepts(empty: u64) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("a port");
    wait();
    for _ in 0..empty {
        listener.accept().expect_err("nobody is there");
    }
    let _client = std::net::TcpStream::connect(address).expect("ourselves");
    // A connection that is established at the client may not yet be in the listener's queue.
    raw::poll(listener.as_raw_fd(), -1);
    listener.accept().expect("the client");
    done();
}

/// Each waiting call without and with something to see: `epoll_wait`, `epoll_pwait2`, `poll`,
/// `ppoll`, `select` and `pselect6`.
pub(crate) fn poll_family() {
    let (epoll, pipes) = three_pipes();
    let first = pipes[0].0.as_raw_fd();
    wait();
    // Nothing yet: three that do not wait, and one that waits a millisecond.
    for timeout_ms in [0, 0, 0, 1] {
        raw::epoll_wait(epoll.as_fd(), 8, timeout_ms);
    }
    for timeout_ms in [0, 1, 1] {
        raw::poll(first, timeout_ms);
    }
    raw::epoll_pwait2_without_waiting(epoll.as_fd(), 8);
    raw::ppoll_without_waiting(first);
    raw::select_without_waiting(first);
    raw::pselect_without_waiting(first);
    for (_, writer) in &pipes {
        write(writer, b".").expect("a pipe");
    }
    // Room for two of three, for three, for eight.
    for room in [2, 3, 8] {
        raw::epoll_wait(epoll.as_fd(), room, -1);
    }
    raw::epoll_pwait2_without_waiting(epoll.as_fd(), 2);
    raw::poll(first, -1);
    raw::ppoll_without_waiting(first);
    raw::select_without_waiting(first);
    raw::pselect_without_waiting(first);
    done();
}

/// Waits that a timer's signal ends: once each `epoll_wait` and `poll`.
pub(crate) fn interrupted_waits() {
    let (epoll, pipes) = three_pipes();
    raw::on_alarm_do_nothing();
    wait();
    raw::alarm_soon();
    raw::epoll_wait(epoll.as_fd(), 8, -1);
    raw::poll(pipes[0].0.as_raw_fd(), -1);
    raw::no_alarm();
    done();
}

/// A server that arms and disarms: per request four calls of `epoll_ctl`, one wait, one `read` and
/// one `write`.
pub(crate) fn arm_and_disarm(requests: u64) {
    let epoll = epoll::create(epoll::CreateFlags::empty()).expect("epoll");
    let (ours, theirs) = raw::datagram_sockets();
    let data = || epoll::EventData::new_u64(0);
    let mut buffer = [0; 8];
    wait();
    for _ in 0..requests {
        raw::send(theirs.as_raw_fd(), b"request.");
        epoll::add(&epoll, &ours, data(), epoll::EventFlags::IN).expect("epoll_ctl");
        raw::epoll_wait(epoll.as_fd(), 1, -1);
        epoll::modify(&epoll, &ours, data(), epoll::EventFlags::OUT).expect("epoll_ctl");
        raw::read_number(ours.as_raw_fd(), &mut buffer);
        raw::write_number(ours.as_raw_fd(), &buffer);
        epoll::modify(&epoll, &ours, data(), epoll::EventFlags::IN).expect("epoll_ctl");
        epoll::delete(&epoll, &ours).expect("epoll_ctl");
        raw::receive(theirs.as_raw_fd(), &mut buffer);
    }
    done();
}

fn three_pipes() -> (OwnedFd, Vec<(OwnedFd, OwnedFd)>) {
    let epoll = epoll::create(epoll::CreateFlags::empty()).expect("epoll");
    let pipes: Vec<(OwnedFd, OwnedFd)> = (0..3).map(|_| pipe().expect("a pipe")).collect();
    for (index, (reader, _)) in (0..).zip(&pipes) {
        let data = epoll::EventData::new_u64(index);
        epoll::add(&epoll, reader, data, epoll::EventFlags::IN).expect("epoll_ctl");
    }
    (epoll, pipes)
}
