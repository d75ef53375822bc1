//! What goes out of a connection: responses, in the calls of the style, and what is left over when
//! the client does not read.

use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt;

use crate::request::MAX_HEAD_BYTES;
use crate::stream::Stream;
use crate::syscall::Mapping;

/// What became of a write.
pub(crate) enum Sent {
    All,
    Blocked,
    Failed,
}

/// Where the body of a response is.
#[derive(Clone, Copy)]
pub(crate) enum Contents<'a> {
    Mapped(&'a Mapping),
    Memory(&'a [u8]),
}

/// How a response is cut into calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Calls for the first part: the head, and the body too unless they go apart.
    pub(crate) pieces: u32,
    /// Head and body with a `write` each, instead of one `writev`.
    pub(crate) apart: bool,
}

impl Cut {
    /// Head and body in one call.
    pub(crate) const WHOLE: Self = Self {
        pieces: 1,
        apart: false,
    };

    /// The bytes of head and body that go out in each call.
    pub(crate) fn calls(
        self,
        head: usize,
        body: usize,
    ) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<> {
        let first = if self.apart { head } else { head + body };
        let pieces = usize::try_from(self.pieces).unwrap_or(usize::MAX).max(1);
        let at = move |piece: usize| first * piece / pieces;
        let rest = (self.apart && body > 0).then_some((head..head, 0..body));
        (0..pieces)
            .map(move |piece| {
                let (start, end) = (at(piece), at(piece + 1));
                let in_body = |place: usize| place.saturating_sub(head);
                (start.min(head)..end.min(head), in_body(start)..in_body(end))
            })
            .chain(rest)
    }
}

/// What a blocked write left over, or what is queued for the kernel to send.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// Whether nothing is written here: all is queued.
    pub(crate) queues: bool,
    pub(crate) bytes: Vec<u8>,
    /// Offset and end of what is to be sent of the file; empty when nothing is.
    file_offset: u64,
    file_end: u64,
    corked: bool,
}

impl Outgoing {
    /// Writes head and body, and keeps what does not fit.
    pub(crate) fn send(
        &mut self,
        stream: &mut Stream,
        head: &[u8],
        body: Contents<'_>,
        cut: Cut,
    ) -> Sent {
        if let (true, Contents::Memory(body)) = (self.queues, body) {
            self.bytes.extend_from_slice(head);
            self.bytes.extend_from_slice(body);
            return Sent::All;
        }
        let socket = &stream.socket;
        if let (Some(session), Contents::Memory(body)) = (&mut stream.session, body) {
            return session.send(socket, head, body, cut);
        }
        let mut done = 0;
        for (head_part, body_part) in cut.calls(head.len(), body.length()) {
            let wanted = head_part.len() + body_part.len();
            let head_part = &head[head_part];
            let written = match body {
                Contents::Mapped(mapping) => mapping.write_after(socket, head_part, body_part),
                Contents::Memory(bytes) => write(socket, head_part, &bytes[body_part], cut.apart),
            };
            let written = match written {
                Ok(written) => written,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(_) => return Sent::Failed,
            };
            done += written;
            if written < wanted {
                self.keep(head, body, done);
                return Sent::Blocked;
            }
        }
        Sent::All
    }

    /// Writes the head and sends the file behind it, in one segment if `corked`.
    pub(crate) fn send_file(
        &mut self,
        stream: &mut Stream,
        head: &[u8],
        (file, length): (&File, u64),
        cut: Cut,
        corked: bool,
    ) -> Sent {
        if corked {
            // The errors of setsockopt are those of a connection that is gone; so are the next ones.
            let _gone = sockopt::set_tcp_cork(&stream.socket, true);
            self.corked = true;
        }
        self.file_offset = 0;
        self.file_end = length;
        match self.send(stream, head, Contents::Memory(&[]), cut) {
            Sent::All => self.flush(stream, file),
            other => other,
        }
    }

    /// Whether so much is queued that it has to be sent before more is.
    pub(crate) fn is_full(&self) -> bool {
        self.queues && self.bytes.len() >= MAX_QUEUED_BYTES
    }

    /// Forgets what was queued and has been sent.
    pub(crate) fn forget_sent(&mut self) {
        self.bytes.clear();
        // A large response is not kept for the life of its connection.
        self.bytes.shrink_to(MAX_HEAD_BYTES);
    }

    /// Keeps what follows the first bytes. A mapping is not read here: its file goes on instead.
    fn keep(&mut self, head: &[u8], body: Contents<'_>, done: usize) {
        let body_done = done.saturating_sub(head.len());
        self.bytes.clear();
        self.bytes.extend_from_slice(&head[done.min(head.len())..]);
        match body {
            Contents::Mapped(mapping) => {
                self.file_offset = body_done as u64;
                self.file_end = mapping.length() as u64;
            }
            Contents::Memory(bytes) => self.bytes.extend_from_slice(&bytes[body_done..]),
        }
    }

    /// Writes what is left over, and of the file what belongs to the response. A short write means
    /// that the send buffer is full, so the call that would say so (`EAGAIN`) is not made.
    pub(crate) fn flush(&mut self, stream: &mut Stream, file: &File) -> Sent {
        let socket = &stream.socket;
        if let Some(session) = &mut stream.session {
            return session.flush(socket);
        }
        if !self.bytes.is_empty() {
            match write(socket, &self.bytes, &[], false) {
                Ok(written) => drop(self.bytes.drain(..written)),
                Err(Errno::AGAIN) => {}
                Err(_) => return Sent::Failed,
            }
            if !self.bytes.is_empty() {
                return Sent::Blocked;
            }
            // What a slow client left behind is not kept for the life of its connection.
            self.bytes.shrink_to(MAX_HEAD_BYTES);
        }
        if self.file_offset < self.file_end {
            let left = self.file_end - self.file_offset;
            let asked = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(MAX_SENDFILE_BYTES);
            match rustix::fs::sendfile(socket, file, Some(&mut self.file_offset), asked) {
                // The file has become shorter than its announced length.
                Ok(0) => return Sent::Failed,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Sent::Failed,
            }
            if self.file_offset < self.file_end {
                return Sent::Blocked;
            }
        }
        if self.corked {
            let _gone = sockopt::set_tcp_cork(socket, false);
            self.corked = false;
        }
        Sent::All
    }
}

impl Contents<'_> {
    fn length(self) -> usize {
        match self {
            Self::Mapped(mapping) => mapping.length(),
            Self::Memory(bytes) => bytes.len(),
        }
    }
}

/// One call: `write` for a single part if it is to be so, else `writev`.
fn write(socket: &OwnedFd, head: &[u8], body: &[u8], apart: bool) -> rustix::io::Result<usize> {
    if apart {
        let part = if body.is_empty() { head } else { body };
        return rustix::io::retry_on_intr(|| rustix::io::write(socket, part));
    }
    let parts = [IoSlice::new(head), IoSlice::new(body)];
    let parts = if body.is_empty() {
        &parts[..1]
    } else {
        &parts[..]
    };
    rustix::io::retry_on_intr(|| rustix::io::writev(socket, parts))
}

/// Pipelined responses that go out together; a single one may be longer.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// The most that one `sendfile` takes (`MAX_RW_COUNT` in include/linux/fs.h).
const MAX_SENDFILE_BYTES: usize = 0x7fff_f000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However it is cut, every byte goes out once and in order, in as many calls as asked for.
        #[test]
        fn every_byte_goes_out_once(
            head in 1_usize..300,
            body in 0_usize..300,
            pieces in 0_u32..70,
            apart: bool,
        ) {
            let calls: Vec<_> = Cut { pieces, apart }.calls(head, body).collect();
            let body_alone = usize::from(apart && body > 0);
            prop_assert_eq!(calls.len(), pieces.max(1) as usize + body_alone);
            let heads = calls.iter().flat_map(|(part, _)| part.clone());
            prop_assert!(heads.eq(0..head));
            let bodies = calls.iter().flat_map(|(_, part)| part.clone());
            prop_assert!(bodies.eq(0..body));
        }
    }
}
