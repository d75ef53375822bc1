//! Servers of the tests: a few numbers from which recordings are made.

/// What one arm does; everything else follows.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) rps: f64,
    pub(crate) cpu_ns: f64,
    pub(crate) p50_ns: u64,
    pub(crate) calls: Vec<Call>,
    /// Share of the throughput that is left with probes.
    pub(crate) probed: f64,
}

/// One call of an arm, per request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) per_request: f64,
    pub(crate) eagain: f64,
    pub(crate) bytes: Option<u64>,
    pub(crate) ns: u64,
}

pub(crate) fn call(
    name: &'static str,
    per_request: f64,
    eagain: f64,
    bytes: Option<u64>,
    ns: u64,
) -> Call {
    Call {
        name,
        per_request,
        eagain,
        bytes,
        ns,
    }
}

pub(crate) fn nginx() -> Server {
    Server {
        name: "nginx",
        rps: 69_400.0,
        cpu_ns: 14_100.0,
        p50_ns: 900_000,
        probed: 0.92,
        calls: vec![
            call("epoll_wait", 0.25, 0.0, None, 3_000),
            call("recvfrom", 2.0, 1.0, Some(94), 610),
            call("writev", 1.0, 0.0, Some(238), 2_900),
            call("sendfile", 1.0, 0.0, Some(1), 1_800),
            call("setsockopt", 2.0, 0.0, None, 240),
        ],
    }
}

/// [`nginx`] with more kinds of calls than a table shows, each of them rare.
pub(crate) fn busy_nginx() -> Server {
    let names = [
        "access", "accept4", "brk", "clone", "dup", "fcntl", "fsync", "futex", "getpid", "ioctl",
        "lseek", "madvise", "mmap", "munmap", "open", "pread64", "pwrite64", "stat",
    ];
    let mut busy = nginx();
    busy.calls
        .extend(names.map(|name| call(name, 0.5, 0.0, None, 100)));
    busy
}

pub(crate) fn h2o() -> Server {
    Server {
        name: "h2o",
        rps: 52_100.0,
        cpu_ns: 18_600.0,
        p50_ns: 1_210_000,
        probed: 0.90,
        calls: vec![
            call("epoll_wait", 0.5, 0.0, None, 2_000),
            call("epoll_ctl", 0.02, 0.0, None, 300),
            call("read", 3.0, 1.0, Some(48), 560),
            call("openat", 1.0, 0.0, None, 1_900),
            call("newfstatat", 1.0, 0.0, None, 620),
            call("close", 1.0, 0.0, None, 380),
            call("writev", 1.0, 0.0, Some(231), 3_300),
        ],
    }
}
