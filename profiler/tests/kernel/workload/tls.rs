//! Functions with the names that OpenSSL gives its own, in the program itself: as where the library is
//! linked into a program that was not stripped.

use std::hint::black_box;

use rustix::process::getppid;

use crate::{done, raw, wait};

/// Shakes hands `count` times, every third time in vain, reads and writes; then a thread dies while it
/// reads.
pub(crate) fn shake_hands(count: u64) {
    wait();
    for turn in 0..count {
        SSL_accept(i32::from(turn % 3 != 0));
        SSL_do_handshake(1);
        SSL_read(2);
        SSL_write();
    }
    std::thread::spawn(|| SSL_read(DIES));
    while threads() > 1 {
        std::thread::yield_now();
    }
    done();
}

/// Calls a function that is probed as well.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn SSL_accept(result: i32) -> i32 {
    let result = SSL_do_handshake(result);
    black_box(result)
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn SSL_do_handshake(result: i32) -> i32 {
    for turn in 0..SOME_TURNS {
        black_box(turn);
    }
    black_box(result)
}

/// Makes calls of the system, or does not come back.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn SSL_read(calls: i32) -> i32 {
    if calls == DIES {
        raw::exit_thread();
    }
    for _ in 0..calls {
        black_box(getppid());
    }
    black_box(calls)
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn SSL_write() -> i32 {
    black_box(1)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("/proc is mounted")
        .count()
}

const SOME_TURNS: u32 = 1000;
/// A number of calls that [`SSL_read`] does not come back from.
const DIES: i32 = -1;
