//! Functions of TLS libraries: which are probed, and what their probes write.

use core::sync::atomic::AtomicU64;

use crate::TIME_BUCKETS;

/// The functions that are probed, by the cookie of their probes. All of them are part of the stable
/// interface of OpenSSL, which its forks took over, or of `GnuTLS`.
pub const TLS_FUNCTIONS: [&str; TLS_ROWS as usize] = [
    "SSL_do_handshake",
    "SSL_accept",
    "SSL_connect",
    "SSL_read",
    "SSL_read_ex",
    "SSL_write",
    "SSL_write_ex",
    "gnutls_handshake",
    "gnutls_record_recv",
    "gnutls_record_send",
    "SSL_new",
    "SSL_shutdown",
    "SSL_free",
];
/// How many functions there are.
pub const TLS_ROWS: u32 = 13;

const SSL_DO_HANDSHAKE: u32 = 0;
const SSL_ACCEPT: u32 = 1;
const SSL_CONNECT: u32 = 2;
const GNUTLS_HANDSHAKE: u32 = 7;

/// Whether a function is there to agree on keys.
#[inline]
pub const fn is_handshake(function: u32) -> bool {
    function <= SSL_CONNECT || function == GNUTLS_HANDSHAKE
}

/// Whether a function that returned this has completed a handshake: OpenSSL returns 1, `GnuTLS` 0.
#[inline]
pub const fn completes_handshake(function: u32, returned: i32) -> bool {
    if function <= SSL_CONNECT {
        returned == 1
    } else {
        function == GNUTLS_HANDSHAKE && returned == 0
    }
}

/// Whether a function ends by jumping to the other, which then begins with the same stack.
#[inline]
pub const fn jumps_to(function: u64, other: u64) -> bool {
    (function == SSL_ACCEPT as u64 || function == SSL_CONNECT as u64)
        && other == SSL_DO_HANDSHAKE as u64
}

/// Counters of one function on one CPU.
///
/// Added to atomically: a program on a function of a process can be preempted by another one.
#[repr(C)]
#[derive(Debug)]
pub struct TlsRow {
    /// Calls that returned and were not inside another call of these functions.
    pub count: AtomicU64,
    /// Calls whose end or beginning was not seen.
    pub lost: AtomicU64,
    /// Handshakes that were completed.
    pub handshakes: AtomicU64,
    /// Time from entry to exit, ns.
    pub ns_total: AtomicU64,
    /// CPU time from entry to exit, ns.
    pub cpu_ns: AtomicU64,
    /// Time inside of system calls meanwhile, ns.
    pub calls_ns: AtomicU64,
    /// Longest, ns.
    pub ns_max: AtomicU64,
    /// Complement of the shortest, so that zero means none: `!ns`.
    pub ns_min_inverted: AtomicU64,
    /// Counts by [`log2_bucket`](crate::log2_bucket).
    pub buckets: [AtomicU64; TIME_BUCKETS],
}

/// The outermost function that a thread is in.
#[repr(C)]
#[derive(Debug, Default)]
pub struct TlsSlot {
    /// The thread; zero while free.
    pub tid: AtomicU64,
    /// The function, by its place in [`TLS_FUNCTIONS`].
    pub function: AtomicU64,
    /// Its stack pointer at entry: of what is called inside, the stack pointer is lower.
    pub stack: AtomicU64,
    /// When it was entered, ns.
    pub entered_ns: AtomicU64,
    /// The thread's CPU clock then, ns since an arbitrary moment.
    pub cpu_ns: AtomicU64,
    /// Time inside of system calls since, ns.
    pub calls_ns: AtomicU64,
}

/// Slots of threads: a power of two. Two threads whose ids differ by a multiple of it cannot both be
/// inside a TLS library with a time; the second is lost, and counted as that.
pub const TLS_SLOTS: u32 = 1 << 16;

/// The slot of a thread.
#[inline]
pub const fn tls_slot(tid: u32) -> u32 {
    tid & (TLS_SLOTS - 1)
}

/// What a function of a TLS library uses of the stack at most, bytes, callbacks of the program
/// included. A stack pointer that is further away is on another stack (a coroutine's).
pub const TLS_STACK_BYTES: u64 = 256 << 10;

const _: () = assert!(size_of::<TlsRow>() == (8 + TIME_BUCKETS) * 8);
const _: () = assert!(size_of::<TlsSlot>() == 48);

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions that shake hands, and what they return when they have (their manual pages).
    #[test]
    fn handshakes() {
        for (function, name) in (0..).zip(TLS_FUNCTIONS) {
            let is_one =
                name.ends_with("handshake") || matches!(name, "SSL_accept" | "SSL_connect");
            assert_eq!(is_handshake(function), is_one, "{name}");
            assert_eq!(
                completes_handshake(function, 1),
                is_one && name.starts_with("SSL_"),
                "{name}"
            );
            assert_eq!(
                completes_handshake(function, 0),
                name == "gnutls_handshake",
                "{name}"
            );
            assert!(!completes_handshake(function, -1), "{name}");
        }
    }
}
