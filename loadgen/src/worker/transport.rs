//! What carries the bytes of one connection.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A connected stream.
#[derive(Debug)]
pub(super) enum Transport {
    /// A socket in clear.
    Plain(OwnedFd),
}

impl Transport {
    /// The descriptor, for options and errors of the socket.
    pub(super) fn socket(&self) -> &OwnedFd {
        match self {
            Self::Plain(socket) => socket,
        }
    }

    /// Writes as much of `bytes` as the socket takes, and returns how much.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let Self::Plain(socket) = self;
        loop {
            match send(&*socket, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Reads what is there into `buffer`; zero bytes are the end.
    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let Self::Plain(socket) = self;
        loop {
            match recv(&*socket, &mut *buffer, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                result => return result.map(|(count, _)| count),
            }
        }
    }
}
