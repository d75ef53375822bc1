//! The styles of serving, and the table of what each costs per request.
//!
//! The documentation, `whyfast list` and the tests all take their figures from here.

use std::fmt;

/// How a request is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Opens, examines, reads and closes the file for each request, and sends head and body in one
    /// call. Its connections are edge-triggered, so it reads each one until nothing is left: a
    /// request costs a second `recvfrom`, which fails with `EAGAIN`. It does so before it answers,
    /// because a client that has its answer may send the next request before that read.
    OpenRead,
    /// Keeps the file open and sends it with `sendfile`, between setting and clearing `TCP_CORK`, so
    /// that head and body leave in one segment. Its connections are level-triggered, so it need not
    /// read until nothing is left: one `recvfrom` per wake-up is enough.
    #[default]
    Sendfile,
}

/// How often a request makes one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// The name of the call, as the kernel has it.
    pub name: &'static str,
    /// Calls per request, failing ones included.
    pub per_request: u32,
    /// Of them, those that fail with `EAGAIN`.
    pub failing: u32,
}

impl Style {
    /// Every style.
    pub const ALL: [Self; 2] = [Self::OpenRead, Self::Sendfile];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenRead => "open-read",
            Self::Sendfile => "sendfile",
        }
    }

    /// The style of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|style| style.name() == name)
    }

    /// One line on what it does, for lists.
    pub fn summary(self) -> &'static str {
        match self {
            Self::OpenRead => {
                "opens, reads and closes the file for each request; reads sockets until EAGAIN"
            }
            Self::Sendfile => "keeps the file open; cork, writev, sendfile, uncork",
        }
    }

    /// Whether requests open the file by its path.
    pub(crate) fn opens_path(self) -> bool {
        match self {
            Self::OpenRead => true,
            Self::Sendfile => false,
        }
    }

    /// Every system call of one request in lock-step, in the order in which they are made first.
    pub fn calls_per_request(self) -> &'static [CallCount] {
        match self {
            Self::OpenRead => OPEN_READ_CALLS,
            Self::Sendfile => SENDFILE_CALLS,
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

const fn call(name: &'static str, per_request: u32) -> CallCount {
    CallCount {
        name,
        per_request,
        failing: 0,
    }
}

const OPEN_READ_CALLS: &[CallCount] = &[
    call(EPOLL_WAIT, 1),
    CallCount {
        name: "recvfrom",
        per_request: 2,
        failing: 1,
    },
    call("openat", 1),
    call("fstat", 1),
    call("read", 1),
    call("writev", 1),
    call("close", 1),
];

const SENDFILE_CALLS: &[CallCount] = &[
    call(EPOLL_WAIT, 1),
    call("recvfrom", 1),
    call("setsockopt", 2),
    call("writev", 1),
    call("sendfile", 1),
];

/// Newer architectures have no `epoll_wait`; there it is `epoll_pwait` without a signal mask.
#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: &str = "epoll_wait";
#[cfg(not(target_arch = "x86_64"))]
const EPOLL_WAIT: &str = "epoll_pwait";

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name in the tables is a call of this machine, and stands there once.
    #[test]
    fn tables_name_real_calls_once() {
        let abi = recording::Abi::of_machine(std::env::consts::ARCH).expect("a supported machine");
        for style in Style::ALL {
            let table = style.calls_per_request();
            for (index, row) in table.iter().enumerate() {
                assert!(
                    recording::number(abi, row.name).is_some(),
                    "{style}: {}",
                    row.name
                );
                assert!(
                    row.failing < row.per_request,
                    "{style}: {} never succeeds",
                    row.name
                );
                assert!(table[..index].iter().all(|other| other.name != row.name));
            }
        }
    }

    /// A style's name leads back to it.
    #[test]
    fn names_round_trip() {
        for style in Style::ALL {
            assert_eq!(Style::from_name(style.name()), Some(style));
        }
        assert_eq!(Style::from_name("mmap"), None);
    }
}
