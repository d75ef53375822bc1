//! One connection: its bytes in both directions, and the system calls of the two styles.
//!
//! It knows nothing of epoll: it says what it waits for, and the worker arranges it.

use std::io::IoSlice;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, sockopt};

use crate::body::BodyFile;
use crate::request::{MAX_HEAD_BYTES, Parsed, Request, parse};
use crate::response::{Announce, Heads, Status, status_response};
use crate::spin::Spin;
use crate::{Style, syscall};

/// What a worker serves, and the memory that its connections share.
pub(crate) struct Serving<'a> {
    pub(crate) style: Style,
    pub(crate) body: &'a BodyFile,
    pub(crate) spin: Spin,
    pub(crate) getppid: u32,
    pub(crate) heads: Heads,
    /// The file as `open-read` read it last.
    pub(crate) contents: Vec<u8>,
}

/// What a connection needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// To be closed.
    Close,
    /// Bytes to read.
    Read,
    /// Room for what a write left over.
    Write,
}

/// What happens when a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The next request.
    Continue,
    /// The end.
    Close,
    /// The end, once the client has stopped sending: a close with unread bytes would reset the
    /// connection and could take the response with it.
    Drain,
}

/// What became of a read.
enum Received {
    /// Bytes; `more` where it has to be read again before waiting.
    Bytes {
        more: bool,
    },
    Nothing,
    /// The client has stopped sending, or is gone.
    End,
}

/// What became of a write.
enum Sent {
    All,
    Blocked,
    Failed,
}

/// Bytes read and not yet understood.
struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// What a blocked write left over.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// Offset and end of what is to be sent of the file; empty when nothing is.
    file_offset: u64,
    file_end: u64,
    corked: bool,
}

/// One connection.
pub(crate) struct Connection {
    socket: OwnedFd,
    input: Input,
    unsent: Unsent,
    after: After,
    /// Bytes that may still be thrown away, once draining.
    draining: Option<usize>,
}

impl Connection {
    /// Takes a non-blocking socket, and the buffer of an earlier connection.
    pub(crate) fn new(socket: OwnedFd, buffer: Option<Box<[u8]>>) -> Self {
        Self {
            socket,
            input: Input {
                buffer: buffer.unwrap_or_else(|| vec![0; MAX_HEAD_BYTES].into_boxed_slice()),
                start: 0,
                end: 0,
            },
            unsent: Unsent::default(),
            after: After::Continue,
            draining: None,
        }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Ends the connection and gives its buffer back.
    pub(crate) fn close(self) -> Box<[u8]> {
        syscall::close(self.socket);
        self.input.buffer
    }

    /// Does what can be done without waiting, after an event for this connection.
    pub(crate) fn advance(&mut self, serving: &mut Serving<'_>, writing: bool) -> Next {
        if writing {
            // After the change of interest that follows, epoll looks at the socket again, so there
            // is no need to read here.
            return match self.flush(serving.body) {
                Sent::All => match self.written() {
                    Some(next) => next,
                    None => self.answer_buffered(serving),
                },
                Sent::Blocked => Next::Write,
                Sent::Failed => Next::Close,
            };
        }
        loop {
            let received = match serving.style {
                Style::OpenRead => self.receive_all(),
                Style::Sendfile => self.receive_once(),
            };
            let more = match received {
                Received::Bytes { more } => more,
                Received::Nothing => return Next::Read,
                Received::End => return Next::Close,
            };
            let next = if self.draining.is_some() {
                self.discard()
            } else {
                self.answer_buffered(serving)
            };
            if next != Next::Read || !more {
                return next;
            }
        }
    }

    /// Reads once; a level-triggered socket with more to read is reported again.
    fn receive_once(&mut self) -> Received {
        let space = &mut self.input.buffer[self.input.end..];
        let read = || rustix::net::recv(&self.socket, &mut *space, RecvFlags::empty());
        match rustix::io::retry_on_intr(read) {
            Ok((0, _)) => Received::End,
            Ok((received, _)) => {
                self.input.end += received;
                Received::Bytes { more: false }
            }
            Err(Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    /// Reads until nothing is left or the buffer is full. All of it before the first answer: after
    /// it, the read that finds nothing would race with the client's next request.
    fn receive_all(&mut self) -> Received {
        let before = self.input.end;
        while self.input.end < self.input.buffer.len() {
            match self.receive_once() {
                Received::Bytes { .. } => {}
                Received::Nothing if self.input.end > before => {
                    return Received::Bytes { more: false };
                }
                // Seen again by the next read, once what came before it is answered.
                Received::End if self.input.end > before => break,
                nothing_or_end => return nothing_or_end,
            }
        }
        Received::Bytes { more: true }
    }

    fn discard(&mut self) -> Next {
        let discarded = self.input.end - self.input.start;
        self.input.clear();
        self.draining = self.draining.and_then(|left| left.checked_sub(discarded));
        match self.draining {
            Some(_) => Next::Read,
            None => Next::Close,
        }
    }

    /// Answers every request that is complete, until one of them cannot be written at once.
    fn answer_buffered(&mut self, serving: &mut Serving<'_>) -> Next {
        loop {
            let sent = match parse(self.input.bytes(), &serving.body.url_path) {
                Parsed::Incomplete => {
                    self.input.compact();
                    return Next::Read;
                }
                Parsed::Complete(request) => {
                    self.input.start += request.length;
                    self.answer(request, serving)
                }
                Parsed::Refused(status) => {
                    self.after = After::Drain;
                    self.send_status(status, Announce::Close, false)
                }
            };
            match sent {
                Sent::All => {
                    if let Some(next) = self.written() {
                        return next;
                    }
                }
                Sent::Blocked => return Next::Write,
                Sent::Failed => return Next::Close,
            }
        }
    }

    /// A response has gone out whole: the end of the connection, where it was the last one.
    fn written(&mut self) -> Option<Next> {
        match self.after {
            After::Continue => None,
            After::Close => Some(Next::Close),
            After::Drain => {
                // Fails only when the connection is gone already; reading will find that out.
                let _gone = rustix::net::shutdown(&self.socket, Shutdown::Write);
                self.input.clear();
                self.draining = Some(MAX_DISCARDED_BYTES);
                Some(Next::Read)
            }
        }
    }

    fn answer(&mut self, request: Request, serving: &mut Serving<'_>) -> Sent {
        serving.spin.run();
        for _call in 0..serving.getppid {
            let _parent = rustix::process::getppid();
        }
        let announce = match (request.keep_alive, request.old_version) {
            (false, _) => Announce::Close,
            (true, true) => Announce::KeepAlive,
            (true, false) => Announce::Nothing,
        };
        self.after = match (request.keep_alive, self.input.bytes().is_empty()) {
            (true, _) => After::Continue,
            (false, true) => After::Close,
            (false, false) => After::Drain,
        };
        if request.status != Status::Ok {
            return self.send_status(request.status, announce, request.head_only);
        }
        match serving.style {
            Style::OpenRead => self.answer_open_read(announce, request.head_only, serving),
            Style::Sendfile => self.answer_sendfile(announce, request.head_only, serving),
        }
    }

    fn answer_sendfile(
        &mut self,
        announce: Announce,
        head_only: bool,
        serving: &mut Serving<'_>,
    ) -> Sent {
        let length = serving.body.length;
        let head = serving.heads.head(length, announce);
        if head_only || length == 0 {
            return self.send(head, &[]);
        }
        // The errors of setsockopt are those of a connection that is gone; so are the next ones.
        let _gone = sockopt::set_tcp_cork(&self.socket, true);
        self.unsent.corked = true;
        self.unsent.file_offset = 0;
        self.unsent.file_end = length;
        match self.send(head, &[]) {
            Sent::All => self.flush(serving.body),
            other => other,
        }
    }

    fn answer_open_read(
        &mut self,
        announce: Announce,
        head_only: bool,
        serving: &mut Serving<'_>,
    ) -> Sent {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(
            rustix::fs::CWD,
            serving.body.path.as_c_str(),
            flags,
            Mode::empty(),
        );
        let Ok(file) = opened else {
            return self.fail_internally(head_only);
        };
        let read = read_whole(&file, &mut serving.contents);
        let sent = match read {
            Ok(()) => {
                let head = serving.heads.head(serving.contents.len() as u64, announce);
                let body: &[u8] = if head_only { &[] } else { &serving.contents };
                self.send(head, body)
            }
            Err(_) => self.fail_internally(head_only),
        };
        syscall::close(file);
        sent
    }

    fn fail_internally(&mut self, head_only: bool) -> Sent {
        self.after = After::Drain;
        self.send_status(Status::InternalError, Announce::Close, head_only)
    }

    fn send_status(&mut self, status: Status, announce: Announce, head_only: bool) -> Sent {
        self.send(&status_response(status, announce, head_only), &[])
    }

    /// Writes both parts with one call and keeps what does not fit.
    fn send(&mut self, head: &[u8], body: &[u8]) -> Sent {
        let parts = [IoSlice::new(head), IoSlice::new(body)];
        let parts = if body.is_empty() {
            &parts[..1]
        } else {
            &parts[..]
        };
        let written = match write_parts(&self.socket, parts) {
            Ok(written) => written,
            Err(Errno::AGAIN) => 0,
            Err(_) => return Sent::Failed,
        };
        if written == head.len() + body.len() {
            return Sent::All;
        }
        let head_left = &head[written.min(head.len())..];
        let body_left = &body[written.saturating_sub(head.len())..];
        self.unsent.bytes.clear();
        self.unsent.bytes.extend_from_slice(head_left);
        self.unsent.bytes.extend_from_slice(body_left);
        Sent::Blocked
    }

    /// Writes what is left over, and of the file what belongs to the response. A short write means
    /// that the send buffer is full, so the call that would say so (`EAGAIN`) is not made.
    fn flush(&mut self, body: &BodyFile) -> Sent {
        let unsent = &mut self.unsent;
        if !unsent.bytes.is_empty() {
            match write_parts(&self.socket, &[IoSlice::new(&unsent.bytes)]) {
                Ok(written) => drop(unsent.bytes.drain(..written)),
                Err(Errno::AGAIN) => {}
                Err(_) => return Sent::Failed,
            }
            if !unsent.bytes.is_empty() {
                return Sent::Blocked;
            }
            // What a slow client left behind is not kept for the life of its connection.
            unsent.bytes.shrink_to(MAX_HEAD_BYTES);
        }
        if unsent.file_offset < unsent.file_end {
            let left = unsent.file_end - unsent.file_offset;
            let asked = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(MAX_SENDFILE_BYTES);
            let sent = rustix::fs::sendfile(
                &self.socket,
                &body.file,
                Some(&mut unsent.file_offset),
                asked,
            );
            match sent {
                // The file has become shorter than its announced length.
                Ok(0) => return Sent::Failed,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Sent::Failed,
            }
            if unsent.file_offset < unsent.file_end {
                return Sent::Blocked;
            }
        }
        if unsent.corked {
            let _gone = sockopt::set_tcp_cork(&self.socket, false);
            unsent.corked = false;
        }
        Sent::All
    }
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Moves the bytes to the front. The parser refuses a head that fills the buffer, so there is
    /// room afterwards.
    fn compact(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }
}

/// Reads a file into memory with `fstat` and, for a regular file that does not shrink, one `read`.
fn read_whole(file: &OwnedFd, contents: &mut Vec<u8>) -> rustix::io::Result<()> {
    let status = rustix::fs::fstat(file)?;
    let length = usize::try_from(status.st_size).map_err(|_too_large| Errno::FBIG)?;
    let more = length.saturating_sub(contents.len());
    contents
        .try_reserve_exact(more)
        .map_err(|_no_memory| Errno::NOMEM)?;
    contents.resize(length, 0);
    let mut filled = 0;
    while filled < length {
        match rustix::io::read(file.as_fd(), &mut contents[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    contents.truncate(filled);
    Ok(())
}

fn write_parts(socket: &OwnedFd, parts: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    rustix::io::retry_on_intr(|| rustix::io::writev(socket, parts))
}

/// What is thrown away of a client that goes on sending after a refusal, before it is cut off.
const MAX_DISCARDED_BYTES: usize = 1 << 20;
/// The most that one `sendfile` takes (`MAX_RW_COUNT` in include/linux/fs.h).
const MAX_SENDFILE_BYTES: usize = 0x7fff_f000;
