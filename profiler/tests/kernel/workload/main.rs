//! Programs whose system calls are known exactly, one per name, for the tests that count them.
//!
//! Each sets itself up, waits for a byte on stdin, does its calls, says so with a byte on stdout,
//! and waits for another byte (or ends, where that is the point).

#![deny(unsafe_code)]

mod blocked;
mod descriptors;
mod fleets;
mod hot;
mod net;
#[expect(unsafe_code, reason = "the one module that needs it")]
mod raw;
#[expect(unsafe_code, reason = "requests point at memory")]
mod ring;
mod spending;
#[expect(unsafe_code, reason = "its functions have the names of a library's")]
mod tls;
mod waiting;

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use profiler::{Config, Session, Target};
use recording::Detail;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, pipe, pipe_with};
use rustix::process::{Pid, Signal, getppid, kill_process};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| -> u64 {
        let arg = args.get(index).expect("an argument of the workload");
        arg.parse().expect("a number")
    };
    let small = |index: usize| u32::try_from(number(index)).expect("a small number");
    match args.first().map(String::as_str) {
        Some("accepts") => waiting::accepts(number(1)),
        Some("again") => again(number(1)),
        Some("arm-and-disarm") => waiting::arm_and_disarm(number(1)),
        Some("blocked-in") => blocked::blocked_in(&args[1]),
        Some("bytes") => bytes(),
        Some("calls") => calls(number(1)),
        Some("close-on-exec") => descriptors::close_on_exec(),
        Some("die-in-poll") => die_in_poll(number(1)),
        Some("epoll") => epoll_turns(),
        Some("every-call") => fleets::every_call(),
        Some("exec") => exec(),
        Some("exec-from-thread") => exec_from_thread(),
        Some("exit-threads") => exit_threads(number(1)),
        Some("fork-idle") => fork_idle(),
        Some("forks") => forks(number(1), number(2)),
        Some("futexes") => waiting::futexes(),
        Some("herd") => fleets::herd(number(1), number(2)),
        Some("hog") => spending::hog(number(1)),
        Some("hot") => hot::hot(number(1)),
        Some("hot-at-once") => raw::hot_turns(number(1)),
        Some("hold-session") => hold_session(number(1)),
        Some("idle-threads") => idle_threads(number(1), number(2)),
        Some("int80") => int80(number(1)),
        Some("interrupted") => interrupted(),
        Some("jit") => hot::jit(number(1)),
        Some("killed-in-call") => killed_in_call(),
        Some("listen") => listen(),
        Some("interrupted-waits") => waiting::interrupted_waits(),
        Some("kinds") => descriptors::kinds(number(1)),
        Some("meeting-descriptors") => descriptors::meeting_descriptors(number(1)),
        Some("mostly-asleep") => spending::mostly_asleep(number(1)),
        Some("names") => fleets::names(),
        Some("naps") => spending::naps(number(1)),
        Some("crowd") => spending::crowd(number(1), number(2)),
        Some("ping-pong") => spending::ping_pong(number(1)),
        Some("poll-family") => waiting::poll_family(),
        Some("prefork") => fleets::prefork(number(1)),
        Some("reuse") => descriptors::reuse(),
        Some("same-pid") => descriptors::same_pid(),
        Some("seccomp") => seccomp(),
        Some("short-lives") => hot::short_lives(number(1), &args[2]),
        Some("signals") => signals(number(1)),
        Some("sleep") => sleep(number(1)),
        Some("sleepers-that-end") => fleets::sleepers_that_end(number(1)),
        Some("spawn") => spawn(number(1)),
        Some("spawn-forever") => spawn_forever(),
        Some("shake-hands") => tls::shake_hands(number(1)),
        Some("spend") => spending::spend(number(1)),
        Some("spin-on") => spending::spin_on(number(1), number(2)),
        Some("stop-exec") => stop_exec(&args[1..]),
        Some("takes") => spending::takes(number(1)),
        Some("thread-each") => fleets::thread_each(number(1)),
        Some("threads") => threads(number(1), number(2)),
        Some("tcp-apart") => net::full_queue_apart(number(1)),
        Some("tcp-full-queue") => net::full_queue(number(1)),
        Some("tcp-resets") => net::resets(number(1), number(2)),
        Some("tcp-retransmit") => net::retransmit(),
        Some("uring") => ring::operations(number(1)),
        Some("uring-accept") => ring::accept_many(number(1)),
        Some("uring-echo") => ring::echo(number(1)),
        Some("uring-overflow") => ring::overflow(small(1), small(2)),
        Some("uring-polled") => ring::polled_queue(number(1)),
        Some("unknown") => unknown(number(1), number(2), number(3)),
        other => panic!("no workload {other:?}"),
    }
}

/// Blocks until the test says so.
fn wait() {
    let mut byte = [0];
    let length = read(std::io::stdin().as_fd(), &mut byte).expect("stdin is a pipe");
    if length == 0 {
        // The test is over.
        raw::exit_group();
    }
}

/// Says that it is done, and blocks.
fn done() {
    say();
    wait();
}

/// Says what it found out, in one line.
fn tell(text: &str) {
    let line = format!("{text}\n");
    write(std::io::stdout().as_fd(), line.as_bytes()).expect("the test reads");
}

fn say() {
    write(std::io::stdout().as_fd(), b".").expect("the test reads");
}

fn calls(count: u64) {
    let zero = openat(CWD, "/dev/zero", OFlags::RDONLY, Mode::empty()).expect("/dev/zero");
    let mut byte = [0];
    wait();
    for _ in 0..count {
        let _parent = getppid();
        read(&zero, &mut byte).expect("zeros");
        openat(CWD, "/no/such/file", OFlags::RDONLY, Mode::empty()).expect_err("no such file");
    }
    done();
}

fn threads(threads: u64, count: u64) {
    let barrier = Arc::new(raw::SpinBarrier::new(threads + 1));
    for _ in 0..threads {
        let barrier = barrier.clone();
        std::thread::spawn(move || {
            barrier.wait();
            for _ in 0..count {
                let _parent = getppid();
            }
            barrier.wait();
            loop {
                std::thread::park();
            }
        });
    }
    wait();
    barrier.wait();
    barrier.wait();
    done();
}

fn forks(children: u64, count: u64) {
    wait();
    for _ in 0..children {
        raw::fork_child(|| {
            for _ in 0..count {
                raw::getpid();
            }
        });
    }
    for _ in 0..children {
        raw::wait_child();
    }
    done();
}

/// A child that exists before the test attaches, and calls when the parent was told to.
fn fork_idle() {
    let (go_read, go_write) = pipe().expect("a pipe");
    raw::fork_child(|| {
        // It has the pipe's other end too, so its parent's end would not wake it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal");
        let mut byte = [0];
        read(&go_read, &mut byte).expect("a pipe");
        for _ in 0..100 {
            raw::getpid();
        }
    });
    wait();
    write(&go_write, b".").expect("a pipe");
    raw::wait_child();
    done();
}

fn spawn(count: u64) {
    wait();
    for _ in 0..count {
        let status = std::process::Command::new("/bin/true").status();
        assert!(status.expect("/bin/true runs").success());
    }
    done();
}

/// A loop of vfork and exec that says so after each round, until nobody listens.
fn spawn_forever() {
    wait();
    loop {
        let status = std::process::Command::new("/bin/true").status();
        assert!(status.expect("/bin/true runs").success());
        if write(std::io::stdout().as_fd(), b".").is_err() {
            return;
        }
    }
}

fn seccomp() {
    raw::refuse_getppid_of_one();
    wait();
    for argument in [0, 1, 1, 1, 0, 1, 1, 1, 1, 0] {
        raw::call(raw::GETPPID, argument);
    }
    done();
}

fn signals(count: u64) {
    raw::on_signal_do_nothing();
    wait();
    for _ in 0..count {
        raw::raise();
    }
    done();
}

/// The wait itself is interrupted, and goes on.
fn interrupted() {
    raw::on_signal_do_nothing();
    say();
    wait();
    done();
}

/// Threads that are inside `poll` when the process ends.
fn die_in_poll(threads: u64) {
    for _ in 0..threads {
        std::thread::spawn(poll_forever);
    }
    wait();
    raw::exit_group();
}

fn poll_forever() {
    let (reader, _writer) = pipe().expect("a pipe");
    loop {
        poll(&mut [PollFd::new(&reader, PollFlags::IN)], None).expect("poll");
    }
}

/// Threads that end by themselves.
fn exit_threads(threads: u64) {
    let barrier = Arc::new(raw::SpinBarrier::new(threads + 1));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let barrier = barrier.clone();
            std::thread::spawn(move || barrier.wait())
        })
        .collect();
    wait();
    barrier.wait();
    for handle in handles {
        handle.join().expect("the thread ends");
    }
    done();
}

/// Threads that sleep in a futex until they are told to, and others that start only then; each
/// makes one call and ends.
fn idle_threads(before: u64, after: u64) {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let start = |gate: &Arc<(Mutex<bool>, Condvar)>| {
        let gate = Arc::clone(gate);
        let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES);
        let call_when_open = move || {
            let (open, changed) = &*gate;
            let opened = open.lock().expect("no thread panics");
            drop(changed.wait_while(opened, |open| !*open));
            let _parent = getppid();
        };
        thread.spawn(call_when_open).expect("room for a thread")
    };
    let mut threads: Vec<_> = (0..before).map(|_| start(&gate)).collect();
    wait();
    *gate.0.lock().expect("no thread panics") = true;
    gate.1.notify_all();
    threads.extend((0..after).map(|_| start(&gate)));
    for thread in threads {
        thread.join().expect("the thread ends");
    }
    done();
}

fn exec() {
    wait();
    raw::exec(&["/bin/true"]);
}

/// The leader waits in a call for the thread that replaces both.
fn exec_from_thread() {
    let leader = rustix::process::getpid();
    wait();
    std::thread::spawn(move || {
        await_asleep(leader);
        raw::exec(&["/bin/true"])
    })
    .join()
    .expect("exec does not return");
}

/// Stops, and runs a command when continued: what a tracer and a profiler can both attach to.
fn stop_exec(command: &[String]) {
    raw::stop();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    raw::exec(&command);
}

fn int80(count: u64) {
    wait();
    for _ in 0..count {
        raw::int80_getpid();
    }
    done();
}

fn unknown(first: u64, numbers: u64, count: u64) {
    wait();
    for _ in 0..count {
        for nr in first..first + numbers {
            raw::call(nr, 0);
        }
    }
    done();
}

fn again(count: u64) {
    let (reader, _writer) = pipe_with(PipeFlags::NONBLOCK).expect("a pipe");
    let mut byte = [0];
    wait();
    for _ in 0..count {
        read(&reader, &mut byte).expect_err("nothing to read");
    }
    done();
}

fn bytes() {
    let null = openat(CWD, "/dev/null", OFlags::WRONLY, Mode::empty()).expect("/dev/null");
    let zero = openat(CWD, "/dev/zero", OFlags::RDONLY, Mode::empty()).expect("/dev/zero");
    let mut buffer = [0; 500];
    wait();
    for _ in 0..3 {
        write(&null, &buffer[..100]).expect("/dev/null takes all");
    }
    for _ in 0..2 {
        read(&zero, &mut buffer).expect("/dev/zero gives all");
    }
    done();
}

/// Four waits: 1 event, 3 events, a timeout of zero, a timeout of a millisecond.
fn epoll_turns() {
    let epoll = epoll::create(epoll::CreateFlags::empty()).expect("epoll");
    let pipes: Vec<(OwnedFd, OwnedFd)> = (0..3).map(|_| pipe().expect("a pipe")).collect();
    for (index, (reader, _)) in (0..).zip(&pipes) {
        let data = epoll::EventData::new_u64(index);
        epoll::add(&epoll, reader, data, epoll::EventFlags::IN).expect("epoll_ctl");
    }
    let turn = |timeout: Option<&Timespec>| {
        let mut events = Vec::with_capacity(8);
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), timeout).expect("wait");
        events.len()
    };
    let nothing = Timespec::default();
    let millisecond = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    wait();
    write(&pipes[0].1, b".").expect("a pipe");
    assert_eq!(turn(None), 1);
    write(&pipes[1].1, b".").expect("a pipe");
    write(&pipes[2].1, b".").expect("a pipe");
    assert_eq!(turn(None), 3);
    let mut buffer = [0];
    for (reader, _) in &pipes {
        read(reader, &mut buffer).expect("a pipe");
    }
    assert_eq!(turn(Some(&nothing)), 0);
    assert_eq!(turn(Some(&millisecond)), 0);
    done();
}

fn sleep(milliseconds: u64) {
    wait();
    // sleeps: a call that is seen while it is in flight.
    std::thread::sleep(Duration::from_millis(milliseconds));
    done();
}

/// Kills a child while it is inside `pause`.
fn killed_in_call() {
    let child = raw::fork_child(raw::pause);
    await_asleep(child);
    kill_process(child, Signal::TERM).expect("it is a child that was not collected");
    raw::wait_child();
}

/// Waits until the first thread of a process sleeps in a call. A tracer stops it, which is another
/// state.
fn await_asleep(pid: Pid) {
    let pid = pid.as_raw_nonzero();
    let stat = format!("/proc/{pid}/task/{pid}/stat");
    while !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S ")) {
        std::thread::yield_now();
    }
}

/// A server that says with two bytes which port it has, and serves nobody.
fn listen() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    write(std::io::stdout().as_fd(), &port.to_ne_bytes()).expect("the test reads");
    wait();
}

/// A profiler that the test kills.
fn hold_session(pid: u64) {
    let pid = u32::try_from(pid).expect("a process id");
    let config = Config::new([Target::Pid(pid)], Detail::Times);
    let session = Session::attach(config).expect("the kernel tests run as root");
    done();
    drop(session);
}

/// Thousands of threads have to fit.
const SMALL_STACK_BYTES: usize = 64 * 1024;
