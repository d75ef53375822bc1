//! A socket that does not block, and when it acknowledges what it has received.
//!
//! A server often sends a response as two segments, its head and its body. Once a client has read
//! both, Linux acknowledges them at once with a segment of their own, right before the next request,
//! which would have carried the acknowledgement: a sixth of the work that client and server have with
//! the whole request. So where the next request follows a response at once, the response is looked at
//! while it stays in the queue of the socket ([`RecvFlags::PEEK`]), and removed when the next request
//! is on its way.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A connected socket, or one that is being connected.
#[derive(Debug)]
pub(super) struct Socket {
    descriptor: OwnedFd,
    /// Whether requests follow responses at once.
    is_answering: bool,
    /// Whether what was received last was short, as what comes next will be.
    is_short: bool,
    /// Bytes that were handed out and are still in the queue.
    held_bytes: usize,
}

impl Socket {
    /// Takes a descriptor; `is_answering` says that every response is followed by a request at once.
    pub(super) fn new(descriptor: OwnedFd, is_answering: bool) -> Self {
        Self {
            descriptor,
            is_answering,
            is_short: false,
            held_bytes: 0,
        }
    }

    /// The descriptor.
    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Sends as much of `bytes` as there is room for.
    #[inline]
    pub(super) fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        again_if_interrupted(|| send(&self.descriptor, bytes, SendFlags::NOSIGNAL))
    }

    /// Receives what is there; nothing is the end.
    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.let_go();
        let holds = self.is_answering && self.is_short;
        let flags = if holds {
            RecvFlags::PEEK
        } else {
            RecvFlags::empty()
        };
        let receive = || recv(&self.descriptor, &mut *buffer, flags).map(|(count, _)| count);
        let count = again_if_interrupted(receive)?;
        self.is_short = count <= SHORT_BYTES_MAX;
        if holds {
            self.held_bytes = count;
        }
        Ok(count)
    }

    /// Removes from the queue what was handed out.
    #[inline]
    pub(super) fn let_go(&mut self) {
        while self.held_bytes > 0 {
            let mut unused = [MaybeUninit::<u8>::uninit(); SHORT_BYTES_MAX];
            let count = self.held_bytes.min(SHORT_BYTES_MAX);
            self.held_bytes -= count;
            // It is there, so there is nothing to wait for and nothing that can fail.
            let removed = again_if_interrupted(|| {
                recv(&self.descriptor, &mut unused[..count], RecvFlags::TRUNC)
                    .map(|(_, count)| count)
            });
            debug_assert_eq!(removed, Ok(count));
        }
    }
}

impl Drop for Socket {
    /// A connection that is closed with bytes in its queue is reset.
    fn drop(&mut self) {
        self.let_go();
    }
}

#[inline]
fn again_if_interrupted(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Longer responses are acknowledged while they come.
const SHORT_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use rustix::io::ioctl_fionread;

    use super::*;

    /// A socket that blocks, and the other end.
    fn pair(is_answering: bool) -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        (Socket::new(OwnedFd::from(ours), is_answering), theirs)
    }

    /// Receives what the other end sends, all of it.
    fn exchange(socket: &mut Socket, peer: &mut TcpStream, bytes: &[u8]) {
        peer.write_all(bytes).unwrap();
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while received.len() < bytes.len() {
            let count = socket.receive(&mut buffer).unwrap();
            assert!(count > 0, "the end came after {} bytes", received.len());
            received.extend_from_slice(&buffer[..count]);
        }
        assert!(received == bytes, "other bytes than were sent");
    }

    /// Bytes come once and in order, whatever the lengths, whether they are let go in time or not.
    #[test]
    fn receives_everything_once() {
        let (mut socket, mut peer) = pair(true);
        let lengths = [10, 200, 1024, 1025, 1, 30_000, 5, 5, 4096, 1, 1];
        for (round, length) in (0_u8..50).zip(lengths.into_iter().cycle()) {
            let bytes = vec![round; length];
            exchange(&mut socket, &mut peer, &bytes);
            if round % 3 != 0 {
                socket.let_go();
                assert_eq!(ioctl_fionread(socket.descriptor()), Ok(0));
            }
        }
    }

    /// A short response stays in the queue until it is let go, where a request follows it; elsewhere
    /// it is removed at once.
    #[test]
    fn holds_where_a_request_follows() {
        for (is_answering, wanted) in [(true, 7), (false, 0)] {
            let (mut socket, mut peer) = pair(is_answering);
            // How long responses are is known from the first one.
            exchange(&mut socket, &mut peer, b"first");
            assert_eq!(ioctl_fionread(socket.descriptor()), Ok(0));
            exchange(&mut socket, &mut peer, b"another");
            assert_eq!(ioctl_fionread(socket.descriptor()), Ok(wanted));
            socket.let_go();
            assert_eq!(ioctl_fionread(socket.descriptor()), Ok(0));
        }
    }

    /// The end of the stream is seen behind bytes that are held.
    #[test]
    fn sees_the_end() {
        let (mut socket, mut peer) = pair(true);
        exchange(&mut socket, &mut peer, b"first");
        exchange(&mut socket, &mut peer, b"last");
        drop(peer);
        assert_eq!(socket.receive(&mut [0; 100]), Ok(0));
    }

    /// A server whose connection is closed while bytes are held sees its end, and no reset.
    #[test]
    fn closes_in_order() {
        let (mut socket, mut peer) = pair(true);
        exchange(&mut socket, &mut peer, b"first");
        exchange(&mut socket, &mut peer, b"last");
        drop(socket);
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }
}
