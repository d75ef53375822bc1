//! Calls that wait, each as the one call that it is called by: a library may take another.

use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::atomic::AtomicU32;

/// `epoll_wait`.
pub(crate) fn epoll_wait(epoll: BorrowedFd<'_>, room: usize, timeout_ms: i32) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room];
    let room = i32::try_from(room).expect("a small number");
    // SAFETY: there is room for as many events.
    unsafe {
        libc::syscall(
            libc::SYS_epoll_wait,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            room,
            timeout_ms,
        )
    };
}

/// `epoll_pwait2` with a timeout of zero.
pub(crate) fn epoll_pwait2_without_waiting(epoll: BorrowedFd<'_>, room: usize) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room];
    let timeout = NO_TIME;
    // SAFETY: there is room for as many events; no signal mask.
    unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            i32::try_from(room).expect("a small number"),
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            0,
        )
    };
}

/// `poll` of one descriptor.
pub(crate) fn poll(number: RawFd, timeout_ms: i32) {
    let mut one = to_read(number);
    // SAFETY: one structure.
    unsafe { libc::syscall(libc::SYS_poll, &raw mut one, 1, timeout_ms) };
}

/// `ppoll` of one descriptor with a timeout of zero.
pub(crate) fn ppoll_without_waiting(number: RawFd) {
    let mut one = to_read(number);
    let mut timeout = NO_TIME;
    // SAFETY: one structure; no signal mask; the kernel may write to the timeout.
    unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            &raw mut one,
            1,
            &raw mut timeout,
            std::ptr::null::<libc::sigset_t>(),
            0,
        )
    };
}

/// `select` of one descriptor with a timeout of zero.
pub(crate) fn select_without_waiting(number: RawFd) {
    let mut set = set_of(number);
    let mut timeout = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let none = std::ptr::null_mut::<libc::fd_set>();
    // SAFETY: a whole set; no others.
    unsafe {
        libc::syscall(
            libc::SYS_select,
            number + 1,
            &raw mut set,
            none,
            none,
            &raw mut timeout,
        )
    };
}

/// `pselect6` of one descriptor with a timeout of zero.
pub(crate) fn pselect_without_waiting(number: RawFd) {
    let mut set = set_of(number);
    let mut timeout = NO_TIME;
    let none = std::ptr::null_mut::<libc::fd_set>();
    // SAFETY: a whole set; no others, and no signal mask.
    unsafe {
        libc::syscall(
            libc::SYS_pselect6,
            number + 1,
            &raw mut set,
            none,
            none,
            &raw mut timeout,
            std::ptr::null::<libc::c_void>(),
        )
    };
}

/// Waits on a futex that nobody wakes.
pub(crate) fn futex_wait_for_ever() {
    futex(libc::FUTEX_WAIT, 0);
}

/// Waits on a futex for a value that it does not have, which fails at once.
pub(crate) fn futex_wait_on_other_value() {
    futex(libc::FUTEX_WAIT, 1);
}

/// Wakes nobody.
pub(crate) fn futex_wake() {
    futex(libc::FUTEX_WAKE, 1);
}

/// Moves nobody from one futex to another.
pub(crate) fn futex_requeue() {
    futex(libc::FUTEX_REQUEUE, 0);
}

/// A handler for SIGALRM that does nothing and restarts nothing.
pub(crate) fn on_alarm_do_nothing() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: all zeros is a valid `sigaction`; the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        let result = libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        assert_eq!(result, 0);
    }
}

/// SIGALRM every ten milliseconds from now on: one that comes before the wait is followed by
/// another.
pub(crate) fn alarm_soon() {
    set_alarm(10_000);
}

/// No more SIGALRM.
pub(crate) fn no_alarm() {
    set_alarm(0);
}

fn set_alarm(microseconds: i64) {
    let each = libc::timeval {
        tv_sec: 0,
        tv_usec: microseconds,
    };
    let timer = libc::itimerval {
        it_interval: each,
        it_value: each,
    };
    // SAFETY: the structure is complete.
    let result = unsafe {
        libc::syscall(
            libc::SYS_setitimer,
            libc::ITIMER_REAL,
            &raw const timer,
            std::ptr::null::<libc::itimerval>(),
        )
    };
    assert_eq!(result, 0);
}

fn futex(operation: i32, value: u32) {
    let word = AtomicU32::new(0);
    let other = AtomicU32::new(0);
    // SAFETY: two words that live as long as the call; no timeout.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
            other.as_ptr(),
            0,
        )
    };
}

fn to_read(number: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd: number,
        events: libc::POLLIN,
        revents: 0,
    }
}

fn set_of(number: RawFd) -> libc::fd_set {
    // SAFETY: all zeros is the empty set, and the number of a descriptor below 1,024.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::FD_SET(number, &raw mut set);
        set
    }
}

const NO_TIME: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 0,
};
