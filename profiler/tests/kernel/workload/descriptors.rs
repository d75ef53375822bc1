//! Programs that do the same calls to every kind of descriptor, and that use numbers again for
//! another kind.

use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::io::{dup2, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::pipe;

use crate::{done, raw, wait};

/// Each call as often on each kind: `write` twice, `read` once, then one `fcntl`, `fstat`, `lseek`
/// and `close`.
pub(crate) fn kinds(count: u64) {
    wait();
    for _ in 0..count {
        on_file(memfd_create("file", MemfdFlags::empty()).expect("a file"));
        let (ours, theirs) = sockets();
        exercise(&ours, &theirs);
        close_all([ours, theirs]);
        let (reader, writer) = pipe().expect("a pipe");
        exercise(&reader, &writer);
        close_all([reader, writer]);
        let events = eventfd(0, EventfdFlags::empty()).expect("an eventfd");
        exercise(&events, &events);
        close(events);
        let null = open("/dev/null");
        exercise(&null, &null);
        close(null);
        // A descriptor that is closed as the only thing.
        close(epoll::create(epoll::CreateFlags::empty()).expect("epoll"));
    }
    done();
}

/// One number, used for a socket, a pipe, an eventfd, a file and a device in turn, made and replaced
/// in every way; after each, one `write` of eight bytes.
pub(crate) fn reuse() {
    let (socket, _other) = sockets();
    let (_reader, pipe_end) = pipe().expect("a pipe");
    let events = eventfd(0, EventfdFlags::empty()).expect("an eventfd");
    let file = memfd_create("file", MemfdFlags::empty()).expect("a file");
    let null = open("/dev/null");
    let mut slot = rustix::io::dup(&null).expect("a descriptor");
    let number = slot.as_raw_fd();
    wait();
    // Replaced.
    for other in [&socket, &pipe_end, &events, &file, &null] {
        dup2(other, &mut slot).expect("dup2");
        write_number(number);
    }
    // Closed and made again: by dup, by fcntl, by open.
    drop(slot);
    for make in [raw::dup_to as fn(RawFd, RawFd), raw::fcntl_dup_to] {
        for other in [&socket, &pipe_end, &events, &file] {
            make(other.as_raw_fd(), number);
            write_number(number);
            raw::close(number);
        }
    }
    let opened = open("/dev/null");
    assert_eq!(opened.as_raw_fd(), number, "the lowest free number");
    write_number(number);
    drop(opened);
    // A range at once.
    raw::dup_to(socket.as_raw_fd(), number);
    write_number(number);
    raw::close_range(number);
    raw::fcntl_dup_to(file.as_raw_fd(), number);
    write_number(number);
    // By another thread.
    let source = pipe_end.as_raw_fd();
    let replaced = std::thread::spawn(move || {
        raw::close(number);
        raw::dup_to(source, number);
    });
    replaced.join().expect("the thread ends");
    write_number(number);
    // In a child, which has a table of its own.
    raw::fork_child(|| {
        write_number(number);
        raw::dup_to(socket.as_raw_fd(), number);
        write_number(number);
    });
    raw::wait_child();
    write_number(number);
    done();
}

/// Two processes whose ids and descriptors are such that they share an entry of the table of
/// remembered descriptors: one writes to a device, the other to a file, in turn.
pub(crate) fn meeting_descriptors(count: u64) {
    let null = open("/dev/null");
    let file = memfd_create("file", MemfdFlags::empty()).expect("a file");
    let (first_turn, to_first) = pipe().expect("a pipe");
    let (second_turn, to_second) = pipe().expect("a pipe");
    wait();
    let first = || {
        let mut steps = [0];
        read(&first_turn, &mut steps).expect("a pipe");
        let number = MEETING_NUMBER + NUMBERS_PER_STEP * i32::from(steps[0]);
        raw::dup_to(null.as_raw_fd(), number);
        take_turns(count, number, &first_turn, &to_second);
    };
    let second = || {
        raw::dup_to(file.as_raw_fd(), MEETING_NUMBER);
        take_turns(count, MEETING_NUMBER, &second_turn, &to_first);
    };
    // Other processes may have some of the ids. Low ones leave room for the second above the first.
    let first = LOW_IDS
        .into_iter()
        .find(|&pid| raw::fork_child_with_pid(pid, first));
    let first = first.expect("a free process id");
    let steps = (1..100)
        .find(|&steps| raw::fork_child_with_pid(first + IDS_PER_STEP * i32::from(steps), second));
    let steps: u8 = steps.expect("a free process id");
    write(&to_first, &[steps]).expect("a pipe");
    write(&to_first, b".").expect("a pipe");
    raw::wait_child();
    raw::wait_child();
    done();
}

fn take_turns(count: u64, number: RawFd, turn: &OwnedFd, other: &OwnedFd) {
    for _ in 0..count {
        read_byte(turn);
        write_number(number);
        write(other, b".").expect("a pipe");
    }
}

/// A child reads a pipe and ends; another child gets its process id, and at the same number a file.
pub(crate) fn same_pid() {
    let (reader, writer) = pipe().expect("a pipe");
    let file = memfd_create("file", MemfdFlags::empty()).expect("a file");
    write(&writer, b".").expect("a pipe");
    write(&file, b".").expect("a file");
    wait();
    let first = raw::fork_child(|| read_byte(&reader))
        .as_raw_nonzero()
        .get();
    raw::wait_child();
    let mut reader = reader;
    dup2(&file, &mut reader).expect("dup2");
    raw::seek_to_start(reader.as_raw_fd());
    let again = raw::fork_child_with_pid(first, || read_byte(&reader));
    assert!(again, "nobody else got the id {first}");
    raw::wait_child();
    done();
}

/// A pipe that is closed at exec, and a shell that opens a file by its number and reads it.
pub(crate) fn close_on_exec() {
    let (reader, writer) = pipe().expect("a pipe");
    let number = 9;
    raw::dup3_cloexec(reader.as_raw_fd(), number);
    write(&writer, b".").expect("a pipe");
    wait();
    let mut byte = [0];
    raw::read_number(number, &mut byte);
    raw::exec(&["/bin/sh", "-c", "exec 9</dev/null; read line <&9; exit 0"]);
}

fn on_file(file: OwnedFd) {
    exercise(&file, &file);
    close(file);
}

/// A stream in both directions.
fn sockets() -> (OwnedFd, OwnedFd) {
    let stream = SocketType::STREAM;
    socketpair(AddressFamily::UNIX, stream, SocketFlags::empty(), None).expect("sockets")
}

fn exercise(reader: &OwnedFd, writer: &OwnedFd) {
    let eight = 1_u64.to_ne_bytes();
    let mut buffer = [0; 8];
    for _ in 0..2 {
        write(writer, &eight).expect("room");
    }
    read(reader, &mut buffer).expect("something to read, or the end");
    rustix::io::fcntl_getfd(reader).expect("fcntl");
    rustix::fs::fstat(reader).expect("fstat");
    raw::seek_to_start(reader.as_raw_fd());
}

fn close_all(descriptors: [OwnedFd; 2]) {
    for descriptor in descriptors {
        close(descriptor);
    }
}

/// The one call: to drop an owner makes another one first, where assertions are on.
fn close(descriptor: OwnedFd) {
    raw::close(descriptor.into_raw_fd());
}

fn read_byte(from: &OwnedFd) {
    let mut byte = [0];
    assert_eq!(read(from.as_fd(), &mut byte), Ok(1));
}

fn write_number(number: RawFd) {
    raw::write_number(number, &1_u64.to_ne_bytes());
}

fn open(path: &str) -> OwnedFd {
    openat(CWD, path, OFlags::RDWR, Mode::empty()).expect("a device")
}

/// 40,503 times the one is the other modulo 65,536 (profiler-common/src/descriptor.rs).
const IDS_PER_STEP: i32 = 233;
const NUMBERS_PER_STEP: i32 = 15;
/// Beyond all numbers that are in use.
const MEETING_NUMBER: RawFd = 50;

/// Above the threads of the kernel.
const LOW_IDS: Range<i32> = 500..1500;
