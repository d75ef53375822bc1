//! What carries the bytes of one connection: a socket, in clear or under TLS.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::protocol::Close;
use crate::tls::{Progress, Session};

use super::socket::Socket;

/// A stream.
#[derive(Debug)]
pub(super) enum Transport {
    /// A socket in clear.
    Plain(Socket),
    /// A socket under TLS, boxed because it is large and most loads have none.
    Tls(Box<Secured>),
}

/// A socket with its session.
#[derive(Debug)]
pub(super) struct Secured {
    socket: Socket,
    pub(super) session: Session,
}

/// What a write did: nothing taken means that the socket has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Bytes taken of those that were given.
    pub(super) taken: usize,
    /// Bytes given to the socket.
    pub(super) wire: usize,
}

/// Why reading or writing cannot go on.
#[derive(Clone, Debug)]
pub(super) enum Broken {
    /// The socket.
    Socket(Errno),
    /// The session.
    Session(rustls::Error),
}

/// What came of received bytes.
#[derive(Clone, Debug)]
pub(super) enum Decoded {
    /// All of them were handed out.
    All,
    /// The session is secured; so many bytes of the buffer were used up.
    Secured(usize),
    /// The peer ended its side in order.
    Closed,
    /// The protocol wants the connection closed.
    Close(Close),
    /// They make no sense.
    Broken(rustls::Error),
}

impl Transport {
    /// The same socket under a new session.
    pub(super) fn secured(self, session: Session) -> Self {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(secured) => secured.socket,
        };
        Self::Tls(Box::new(Secured { socket, session }))
    }

    /// The descriptor, for options and errors of the socket.
    pub(super) fn socket(&self) -> &OwnedFd {
        match self {
            Self::Plain(socket) => socket.descriptor(),
            Self::Tls(secured) => secured.socket.descriptor(),
        }
    }

    /// The session, where there is one.
    pub(super) fn session(&self) -> Option<&Session> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(secured) => Some(&secured.session),
        }
    }

    /// Writes as much of `bytes` as the socket takes; nothing where it has no room.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<Written, Broken> {
        match self {
            Self::Plain(socket) => match socket.send(bytes) {
                Ok(wire) => Ok(Written { taken: wire, wire }),
                Err(Errno::AGAIN) => Ok(Written { taken: 0, wire: 0 }),
                Err(errno) => Err(Broken::Socket(errno)),
            },
            Self::Tls(secured) => secured.write(bytes),
        }
    }

    /// Writes what TLS itself has to say, and what a write before could not; returns how many bytes
    /// that were.
    pub(super) fn write_pending(&mut self) -> Result<usize, Broken> {
        match self {
            Self::Plain(_) => Ok(0),
            Self::Tls(secured) => secured.write_pending().map_err(Broken::Socket),
        }
    }

    /// Says that nothing more will be sent, where the transport has a word for it; returns how many
    /// bytes that took.
    pub(super) fn close_notify(&mut self) -> Result<usize, Errno> {
        match self {
            Self::Plain(_) => Ok(0),
            Self::Tls(secured) => {
                secured.session.close_notify();
                secured.write_pending()
            }
        }
    }

    /// Sends bytes with the first ones of the handshake; returns how many of them may go so early.
    pub(super) fn send_early_data(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(secured) => secured.session.send_early_data(bytes),
        }
    }

    /// Receives what is there into `buffer`, behind what is kept of an incomplete record. Returns
    /// where the bytes to decode end and how many are new; no new ones are the end.
    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, usize), Errno> {
        match self {
            Self::Plain(socket) => {
                let count = socket.receive(buffer)?;
                Ok((count, count))
            }
            Self::Tls(secured) => {
                let kept = secured.session.prepare(buffer);
                match secured.socket.receive(&mut buffer[kept..]) {
                    Ok(count) => Ok((kept + count, count)),
                    Err(errno) => {
                        secured.session.keep(&buffer[..kept]);
                        Err(errno)
                    }
                }
            }
        }
    }

    /// What was received before is done with.
    #[inline]
    pub(super) fn let_go(&mut self) {
        if let Self::Plain(socket) = self {
            socket.let_go();
        }
    }

    /// Hands the clear bytes in `buffer` to `sink`, and keeps what is incomplete.
    #[inline]
    pub(super) fn decode(
        &mut self,
        buffer: &mut [u8],
        mut sink: impl FnMut(&[u8]) -> Option<Close>,
    ) -> Decoded {
        match self {
            Self::Plain(_) => sink(buffer).map_or(Decoded::All, Decoded::Close),
            Self::Tls(secured) => match secured.session.read(buffer, sink) {
                Ok((used, Progress::Drained)) => {
                    secured.session.keep(&buffer[used..]);
                    Decoded::All
                }
                Ok((used, Progress::Secured)) => Decoded::Secured(used),
                Ok((_, Progress::Closed)) => Decoded::Closed,
                Ok((_, Progress::Stopped(close))) => Decoded::Close(close),
                Err(error) => Decoded::Broken(error),
            },
        }
    }
}

impl Secured {
    fn write(&mut self, bytes: &[u8]) -> Result<Written, Broken> {
        let mut wire = self.write_pending().map_err(Broken::Socket)?;
        if !self.session.unsent().is_empty() {
            return Ok(Written { taken: 0, wire });
        }
        let taken = bytes.len().min(ENCRYPTED_BYTES_MAX);
        self.session
            .encrypt(&bytes[..taken])
            .map_err(Broken::Session)?;
        wire += self.write_pending().map_err(Broken::Socket)?;
        Ok(Written { taken, wire })
    }

    fn write_pending(&mut self) -> Result<usize, Errno> {
        let mut written = 0;
        while !self.session.unsent().is_empty() {
            match self.socket.send(self.session.unsent()) {
                Ok(count) => {
                    self.session.sent(count);
                    written += count;
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(written)
    }
}

/// Clear bytes that are encrypted before the socket is asked for room: four full records.
const ENCRYPTED_BYTES_MAX: usize = 64 * 1024;
