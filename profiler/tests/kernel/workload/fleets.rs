//! Programs of many processes and threads, each with calls of its own number.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::process::getppid;

use crate::{SMALL_STACK_BYTES, done, raw, tell, wait};

/// Workers that are there before the test looks, each with ten times its index calls; tells their
/// process ids.
pub(crate) fn prefork(workers: u64) {
    let (go_read, go_write) = pipe().expect("a pipe");
    let (done_read, done_write) = pipe().expect("a pipe");
    let pids: Vec<String> = (1..=workers)
        .map(|index| {
            let pid = raw::fork_child(|| {
                raw::end_with_parent();
                let mut byte = [0];
                read(&go_read, &mut byte).expect("a pipe");
                for _ in 0..10 * index {
                    let _parent = getppid();
                }
                write(&done_write, b".").expect("a pipe");
                raw::pause();
            });
            pid.as_raw_nonzero().to_string()
        })
        .collect();
    tell(&pids.join(" "));
    wait();
    for _ in 0..workers {
        write(&go_write, b".").expect("a pipe");
    }
    await_bytes(&done_read, workers);
    done();
}

/// Threads with one call each more than the one before, that are alive at the end; tells their ids.
pub(crate) fn thread_each(threads: u64) {
    let gate = Arc::new(std::sync::Barrier::new(
        usize::try_from(threads + 1).expect("a count"),
    ));
    let (sender, tids) = std::sync::mpsc::channel();
    for index in 1..=threads {
        let (gate, sender) = (Arc::clone(&gate), sender.clone());
        let body = move || {
            sender
                .send((index, raw::gettid()))
                .expect("the first thread listens");
            gate.wait();
            for _ in 0..index {
                let _parent = getppid();
            }
            gate.wait();
            gate.wait();
        };
        let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES);
        thread.spawn(body).expect("room for a thread");
    }
    let tids = (0..threads).map(|_| tids.recv().expect("every thread tells"));
    let tids: Vec<String> = tids.map(|(index, tid)| format!("{index} {tid}")).collect();
    tell(&tids.join(" "));
    wait();
    gate.wait();
    gate.wait();
    done();
}

/// Threads of two names: two of `reader` with ten calls each, one of `writer` with five. And a child
/// process that is named `helper`, with seven.
pub(crate) fn names() {
    let gate = Arc::new(std::sync::Barrier::new(4));
    for (name, count) in [("reader", 10), ("reader", 10), ("writer", 5)] {
        let gate = Arc::clone(&gate);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let body = move || {
            gate.wait();
            for _ in 0..count {
                let _parent = getppid();
            }
            gate.wait();
            gate.wait();
        };
        thread.spawn(body).expect("room for a thread");
    }
    let (done_read, done_write) = pipe().expect("a pipe");
    wait();
    gate.wait();
    gate.wait();
    raw::fork_child(|| {
        raw::end_with_parent();
        raw::take_name(c"helper");
        for _ in 0..7 {
            let _parent = getppid();
        }
        write(&done_write, b".").expect("a pipe");
        raw::pause();
    });
    await_bytes(&done_read, 1);
    done();
}

/// Threads that are asleep, one after the other wakes, makes a call and ends.
pub(crate) fn sleepers_that_end(threads: u64) {
    let (reader, writer) = pipe().expect("a pipe");
    let reader = Arc::new(reader);
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let reader = Arc::clone(&reader);
            std::thread::spawn(move || {
                let mut byte = [0];
                read(&*reader, &mut byte).expect("a pipe");
            })
        })
        .collect();
    wait();
    for _ in 0..threads {
        write(&writer, b".").expect("a pipe");
    }
    for handle in handles {
        handle.join().expect("the thread ends");
    }
    done();
}

/// Workers that all wait for one listener, not exclusively: each connection wakes some of them, one
/// accepts it. Tells the process ids.
pub(crate) fn herd(workers: u64, connections: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("a port");
    let (done_read, done_write) = pipe().expect("a pipe");
    let pids: Vec<String> = (0..workers)
        .map(|_| {
            let pid = raw::fork_child(|| {
                raw::end_with_parent();
                accept_for_ever(&listener, &done_write);
            });
            pid.as_raw_nonzero().to_string()
        })
        .collect();
    tell(&pids.join(" "));
    wait();
    for _ in 0..connections {
        let _client = TcpStream::connect(address).expect("a worker's listener");
        await_bytes(&done_read, 1);
    }
    done();
}

fn accept_for_ever(listener: &TcpListener, accepted: &impl std::os::fd::AsFd) {
    let epoll = epoll::create(epoll::CreateFlags::empty()).expect("epoll");
    let data = epoll::EventData::new_u64(0);
    epoll::add(&epoll, listener, data, epoll::EventFlags::IN).expect("epoll_ctl");
    loop {
        raw::epoll_wait(epoll.as_fd(), 8, -1);
        if listener.accept().is_ok() {
            write(accepted, b".").expect("a pipe");
        }
    }
}

/// Every call but those that would end, stop or copy the program, once, with arguments that none
/// takes; tells how many.
pub(crate) fn every_call() {
    wait();
    let numbers = (0..LAST_OLD_CALL).chain(FIRST_NEW_CALL..=LAST_NEW_CALL);
    let mut made = 0;
    for nr in numbers.filter(|nr| !DANGEROUS_CALLS.contains(nr)) {
        raw::call_with_nonsense(nr);
        made += 1;
    }
    tell(&made.to_string());
    wait();
}

fn await_bytes(from: &impl std::os::fd::AsFd, count: u64) {
    let mut byte = [0];
    for _ in 0..count {
        read(from, &mut byte).expect("a pipe");
    }
}

/// `pause`, `sched_yield` apart: `rt_sigreturn`, `pause`, `clone`, `fork`, `vfork`, `exit`, `kill`,
/// `rt_sigsuspend`, `vhangup`, `sync`, `reboot`, `tkill`, `exit_group`, `tgkill`, `clone3`.
const DANGEROUS_CALLS: [u64; 15] = [
    15, 34, 56, 57, 58, 60, 62, 130, 153, 162, 169, 200, 231, 234, 435,
];
/// Up to here the numbers are dense; 335 and 336 are for the kernel's own trampolines.
const LAST_OLD_CALL: u64 = 335;
const FIRST_NEW_CALL: u64 = 424;
/// `open_tree_attr`, the last of Linux 6.15.
const LAST_NEW_CALL: u64 = 467;
