//! How a request is served: the styles of making the response, and the ways to wait, read and take
//! connections that go with each of them.

use std::fmt;

/// Where a response comes from, and the calls that send it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Keeps the file in memory, and sends head and body in one `writev`: the least that a server
    /// can do.
    Memory,
    /// Maps the file into memory for each request, sends head and body in one `writev`, and unmaps
    /// it.
    Mmap,
    /// Opens, examines, reads and closes the file for each request, and sends head and body in one
    /// call. Its connections are edge-triggered, so it reads each one until nothing is left: a
    /// request costs a second `recvfrom`, which fails with `EAGAIN`. It does so before it answers,
    /// because a client that has its answer may send the next request before that read.
    OpenRead,
    /// Keeps the file open, reads it for each request with `pread64`, and sends head and body in one
    /// `writev`.
    Pread,
    /// Keeps the file in memory, and has the kernel send head and body and receive the next request, as
    /// linked operations of an `io_uring`: a request costs one `io_uring_enter` and nothing else.
    Ring,
    /// Keeps the file open and sends it with `sendfile`, between setting and clearing `TCP_CORK`, so
    /// that head and body leave in one segment. Its connections are level-triggered, so it need not
    /// read until nothing is left: one `recvfrom` per wake-up is enough.
    #[default]
    Sendfile,
    /// As [`Style::Sendfile`], without the cork: head and body leave in a segment each.
    SendfileUncorked,
    /// Keeps the file in memory, and sends head and body with a `write` each.
    WriteParts,
}

/// What a worker waits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// `epoll_wait`, level-triggered: a descriptor with more to read is reported again.
    Epoll,
    /// `epoll_wait`, edge-triggered: a descriptor is reported once for what arrives.
    EpollEdge,
    /// `io_uring_enter`, which submits a one-shot poll of the descriptor that was worked on and
    /// waits for the next one.
    IoUring,
    /// `poll`, with all descriptors in each call.
    Poll,
    /// `select`, likewise.
    Select,
}

/// When a worker has read enough of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// When a read brings less than there was room for.
    Short,
    /// When a read fails with `EAGAIN`.
    UntilEagain,
}

/// How several workers take connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accepting {
    /// From one listening socket, of which the kernel wakes one waiting worker (`EPOLLEXCLUSIVE`).
    Exclusive,
    /// From a listening socket each (`SO_REUSEPORT`); the kernel spreads connections over them by a
    /// hash of their addresses, so with few connections some workers may get none.
    #[default]
    ReusePort,
    /// From one listening socket, for which every waiting worker is woken.
    Shared,
}

impl Style {
    /// Every style.
    pub const ALL: [Self; 8] = [
        Self::Memory,
        Self::Mmap,
        Self::OpenRead,
        Self::Pread,
        Self::Ring,
        Self::Sendfile,
        Self::SendfileUncorked,
        Self::WriteParts,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// One line on what it does, for lists.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Memory => "keeps the file in memory; one writev",
            Self::Mmap => "maps and unmaps the file for each request; one writev",
            Self::OpenRead => {
                "opens, reads and closes the file for each request; reads sockets until EAGAIN"
            }
            Self::Pread => "keeps the file open and reads it for each request; one writev",
            Self::Ring => {
                "keeps the file in memory; one io_uring_enter sends and receives the next request"
            }
            Self::Sendfile => "keeps the file open; cork, writev, sendfile, uncork",
            Self::SendfileUncorked => "keeps the file open; writev, sendfile",
            Self::WriteParts => {
                "keeps the file in memory; a write for the head and one for the body"
            }
        }
    }

    /// How it waits unless a spec says otherwise.
    pub fn polling(self) -> Polling {
        match self {
            Self::OpenRead => Polling::EpollEdge,
            Self::Ring => Polling::IoUring,
            _ => Polling::Epoll,
        }
    }

    /// How it reads unless a spec says otherwise.
    pub fn reading(self) -> Reading {
        match self {
            Self::OpenRead => Reading::UntilEagain,
            _ => Reading::Short,
        }
    }

    /// Whether it answers from memory that was filled before the first request.
    pub(crate) fn keeps_contents(self) -> bool {
        matches!(self, Self::Memory | Self::Ring | Self::WriteParts)
    }
}

/// A thing that a word of a spec stands for.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// Every value with its word.
    const WORDS: &'static [(&'static str, Self)];

    fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(_, value)| *value == self)
            .map_or("", |(word, _)| *word)
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, value)| *value)
    }
}

impl Word for Polling {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("epoll", Self::Epoll),
        ("epoll-edge", Self::EpollEdge),
        ("io-uring", Self::IoUring),
        ("poll", Self::Poll),
        ("select", Self::Select),
    ];
}

impl Word for Reading {
    const WORDS: &'static [(&'static str, Self)] =
        &[("short", Self::Short), ("eagain", Self::UntilEagain)];
}

impl Word for Accepting {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("exclusive", Self::Exclusive),
        ("reuseport", Self::ReusePort),
        ("shared", Self::Shared),
    ];
}

impl Word for Style {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("memory", Self::Memory),
        ("mmap", Self::Mmap),
        ("open-read", Self::OpenRead),
        ("pread", Self::Pread),
        ("ring", Self::Ring),
        ("sendfile", Self::Sendfile),
        ("sendfile-uncorked", Self::SendfileUncorked),
        ("write-parts", Self::WriteParts),
    ];
}

impl fmt::Display for Style {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A style's name leads back to it, and no two have the same.
    #[test]
    fn names_round_trip() {
        for style in Style::ALL {
            assert_eq!(Style::from_word(style.name()), Some(style));
        }
        assert_eq!(Style::from_word("apache"), None);
    }
}
