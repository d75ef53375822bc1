//! The bytes of a connection: those of its socket, or of a TLS session on it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use rustls::ServerConfig;

use crate::syscall;
use crate::tls::Session;

/// What became of a read.
pub(crate) enum Received {
    /// So many bytes, none of them where they were not the client's but those of TLS; `more` where it
    /// has to be read again before waiting.
    Bytes {
        count: usize,
        more: bool,
    },
    Nothing,
    /// The client has stopped sending, or is gone.
    End,
}

/// A non-blocking socket and what is spoken on it.
pub(crate) struct Stream {
    pub(crate) socket: OwnedFd,
    pub(crate) session: Option<Box<Session>>,
}

impl Stream {
    /// In clear, or with a session of these settings.
    pub(crate) fn new(
        socket: OwnedFd,
        tls: Option<&Arc<ServerConfig>>,
    ) -> Result<Self, rustls::Error> {
        let session = tls.map(Session::new).transpose()?.map(Box::new);
        Ok(Self { socket, session })
    }

    /// Reads once. There may be more where the read filled all the room that there was.
    pub(crate) fn receive(&mut self, space: &mut [u8]) -> Received {
        if let Some(session) = &mut self.session {
            return session.receive(&self.socket, space);
        }
        let read = || rustix::net::recv(&self.socket, &mut *space, RecvFlags::empty());
        match rustix::io::retry_on_intr(read) {
            Ok((0, _)) => Received::End,
            Ok((count, _)) => Received::Bytes {
                count,
                more: count == space.len(),
            },
            Err(Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    /// Whether bytes were read that the socket will not report again.
    pub(crate) fn holds_input(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.has_decrypted())
    }

    /// Whether the session has bytes that wait for room in the socket.
    pub(crate) fn holds_output(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.has_unsent())
    }

    /// Stops sending.
    pub(crate) fn shut_down(&mut self) {
        self.say_goodbye();
        // Fails only when the connection is gone already; reading will find that out.
        let _gone = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Ends the connection.
    pub(crate) fn close(mut self) {
        self.say_goodbye();
        syscall::close(self.socket);
    }

    fn say_goodbye(&mut self) {
        if let Some(session) = &mut self.session {
            session.say_goodbye(&self.socket);
        }
    }
}
