//! Programs that tell where their time went, by clocks that they read themselves: figures to compare
//! with, whatever else the machine does.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::read;
use rustix::thread::{CpuSet, NanosleepRelativeResult, nanosleep, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::{done, raw, tell, wait};

/// What passed of the clocks of a thread.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "the unit ends each name, as everywhere"
)]
struct Clocks {
    wall_ns: u64,
    /// By the kernel's clock of the thread.
    cpu_ns: u64,
    /// Waited for a CPU, by the kernel's own account.
    waited_ns: u64,
}

impl Clocks {
    fn now() -> Self {
        Self {
            waited_ns: waited_ns(),
            cpu_ns: clock_ns(ClockId::ThreadCPUTime),
            wall_ns: clock_ns(ClockId::Monotonic),
        }
    }

    fn since(self, from: Self) -> Self {
        Self {
            wall_ns: self.wall_ns - from.wall_ns,
            cpu_ns: self.cpu_ns - from.cpu_ns,
            waited_ns: self.waited_ns - from.waited_ns,
        }
    }

    fn words(self) -> String {
        format!("{} {} {}", self.wall_ns, self.cpu_ns, self.waited_ns)
    }
}

/// Spends as many milliseconds in user code, in a call and asleep, and tells the clocks of each.
pub(crate) fn spend(milliseconds: u64) {
    let ns = milliseconds * 1_000_000;
    let zero = Zeros::open();
    let mut buffer = vec![0; BLOCK_BYTES];
    zero.read(&mut buffer);
    // What is asked for is when it wakes, not when others let it run.
    raw::hurry();
    wait();
    let start = Clocks::now();
    spin(ns);
    let user = Clocks::now();
    while clock_ns(ClockId::Monotonic) < user.wall_ns + ns {
        zero.read(&mut buffer);
    }
    let kernel = Clocks::now();
    sleep(ns);
    let asleep = Clocks::now();
    let phases = [user.since(start), kernel.since(user), asleep.since(kernel)];
    tell(&phases.map(Clocks::words).join(" "));
    wait();
}

/// Spins on one CPU for as long, in user code, and tells its clocks.
pub(crate) fn spin_on(cpu: u64, milliseconds: u64) {
    pin(cpu);
    wait();
    let start = Clocks::now();
    spin(milliseconds * 1_000_000);
    tell(&Clocks::now().since(start).words());
    wait();
}

/// Spins on one CPU until nobody listens.
pub(crate) fn hog(cpu: u64) {
    pin(cpu);
    let listener = std::thread::spawn(wait);
    while !listener.is_finished() {
        std::hint::spin_loop();
    }
}

/// Turns of a millisecond's work in ten and sleep for the rest, and tells its clocks.
pub(crate) fn mostly_asleep(turns: u64) {
    wait();
    let start = Clocks::now();
    for _ in 0..turns {
        spin(MILLISECOND_NS);
        sleep(9 * MILLISECOND_NS);
    }
    tell(&Clocks::now().since(start).words());
    wait();
}

/// Short sleeps, many.
pub(crate) fn naps(count: u64) {
    wait();
    for _ in 0..count {
        sleep(MILLISECOND_NS / 4);
    }
    done();
}

/// Threads that all sleep for a tenth of a second, again and again.
pub(crate) fn crowd(threads: u64, sleeps: u64) {
    wait();
    let nap = move || (0..sleeps).for_each(|_| sleep(100 * MILLISECOND_NS));
    let threads: Vec<_> = (0..threads).map(|_| std::thread::spawn(nap)).collect();
    for thread in threads {
        thread.join().expect("the thread ends");
    }
    done();
}

/// Sleeps until it is sent another byte, so many times.
pub(crate) fn takes(count: u64) {
    for _ in 0..count {
        wait();
    }
    done();
}

/// Two threads that wake each other through pipes.
pub(crate) fn ping_pong(rounds: u64) {
    let (here, there_out) = rustix::pipe::pipe().expect("a pipe");
    let (there, here_out) = rustix::pipe::pipe().expect("a pipe");
    let echo = std::thread::spawn(move || while pass(&there, &there_out) {});
    wait();
    for _ in 0..rounds {
        rustix::io::write(&here_out, b".").expect("a pipe");
        let mut byte = [0];
        read(&here, &mut byte).expect("a pipe");
    }
    done();
    drop(here_out);
    echo.join().expect("the other end is closed");
}

/// Reads a byte and writes it; whether there was one.
fn pass(from: &OwnedFd, to: &OwnedFd) -> bool {
    let mut byte = [0];
    read(from, &mut byte).expect("a pipe") == 1 && rustix::io::write(to, &byte).is_ok()
}

struct Zeros(OwnedFd);

impl Zeros {
    fn open() -> Self {
        Self(openat(CWD, "/dev/zero", OFlags::RDONLY, Mode::empty()).expect("/dev/zero"))
    }

    fn read(&self, buffer: &mut [u8]) {
        read(&self.0, buffer).expect("zeros");
    }
}

/// Without a call: the clock is read in user space.
fn spin(ns: u64) {
    let until_ns = clock_ns(ClockId::Monotonic) + ns;
    while clock_ns(ClockId::Monotonic) < until_ns {
        std::hint::spin_loop();
    }
}

fn sleep(ns: u64) {
    let duration = Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).expect("seconds"),
        tv_nsec: i64::try_from(ns % 1_000_000_000).expect("nanoseconds"),
    };
    // sleeps: time asleep is what is measured.
    assert!(matches!(nanosleep(&duration), NanosleepRelativeResult::Ok));
}

/// The second number of `/proc/PID/schedstat`.
fn waited_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("CONFIG_SCHED_INFO");
    let waited = text.split_ascii_whitespace().nth(1);
    waited.and_then(|ns| ns.parse().ok()).expect("a number")
}

fn pin(cpu: u64) {
    let mut only = CpuSet::new();
    only.set(usize::try_from(cpu).expect("a CPU"));
    sched_setaffinity(None, &only).expect("a CPU that we may use");
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).expect("not before boot");
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("not negative")
}

const MILLISECOND_NS: u64 = 1_000_000;
/// One call takes about a millisecond, so that the way into the kernel and back is nothing beside it.
const BLOCK_BYTES: usize = 1 << 24;
