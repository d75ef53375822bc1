//! One connection: what came in and what happens next.
//!
//! It knows nothing of how the worker waits: it says what it waits for, and the worker arranges it.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};

use crate::body::BodyFile;
use crate::outgoing::{Contents, Cut, Outgoing, Sent};
use crate::request::{MAX_HEAD_BYTES, Parsed, Request, parse};
use crate::response::{Announce, Status, status_response};
use crate::serving::{Serving, open};
use crate::syscall::{self, Mapping, Transfer};
use crate::timing::Injection;
use crate::{Reading, Style};

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

/// Bytes read and not yet understood.
struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// One connection.
pub(crate) struct Connection {
    socket: OwnedFd,
    input: Input,
    outgoing: Outgoing,
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
            outgoing: Outgoing::default(),
            after: After::Continue,
            draining: None,
        }
    }

    /// As [`Connection::new`], for a worker that has the kernel send and receive: responses are
    /// queued, and the buffers are lent.
    pub(crate) fn that_queues(socket: OwnedFd, buffer: Option<Box<[u8]>>) -> Self {
        let mut connection = Self::new(socket, buffer);
        connection.outgoing.queues = true;
        connection
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
            return match self.outgoing.flush(&self.socket, &serving.body.file) {
                Sent::All => self.sent(serving),
                Sent::Blocked => Next::Write,
                Sent::Failed => Next::Close,
            };
        }
        loop {
            let received = match serving.reading {
                Reading::Short => self.receive_once(),
                Reading::UntilEagain => self.receive_all(),
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

    /// The buffers, of which one is to be sent and the other one filled. Nothing else can happen until
    /// they are taken back.
    pub(crate) fn lend(&mut self) -> Transfer {
        Transfer {
            output: std::mem::take(&mut self.outgoing.bytes),
            input: std::mem::take(&mut self.input.buffer),
            filled: self.input.end,
        }
    }

    /// Takes the buffers back, of which one has been sent.
    pub(crate) fn take_back(&mut self, transfer: Transfer) {
        self.input.buffer = transfer.input;
        self.outgoing.bytes = transfer.output;
        self.outgoing.forget_sent();
    }

    /// Goes on after so many bytes were received; what is queued is to be sent first.
    pub(crate) fn received(&mut self, count: usize, serving: &mut Serving<'_>) -> Next {
        self.input.end += count;
        match (count, self.draining) {
            (0, _) => Next::Close,
            (_, Some(_)) => self.discard(),
            (_, None) => self.answer_buffered(serving),
        }
    }

    /// Goes on after what was queued has been sent, with nothing received.
    pub(crate) fn sent(&mut self, serving: &mut Serving<'_>) -> Next {
        match self.written() {
            Some(next) => next,
            None => self.answer_buffered(serving),
        }
    }

    /// Reads once. There may be more where the read filled all the room that there was.
    fn receive_once(&mut self) -> Received {
        let space = &mut self.input.buffer[self.input.end..];
        let read = || rustix::net::recv(&self.socket, &mut *space, RecvFlags::empty());
        match rustix::io::retry_on_intr(read) {
            Ok((0, _)) => Received::End,
            Ok((received, _)) => {
                self.input.end += received;
                let more = self.input.end == self.input.buffer.len();
                Received::Bytes { more }
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
                // The end of a connection comes after its last response.
                Sent::All if self.outgoing.is_full() => return Next::Write,
                Sent::All if self.outgoing.queues && self.after != After::Continue => {
                    return Next::Write;
                }
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
        match serving.times.take() {
            None => Injection::ALL
                .into_iter()
                .for_each(|kind| serving.inject(kind)),
            Some(mut times) => {
                times.of_each(|kind| serving.inject(kind));
                serving.times = Some(times);
            }
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
        if serving.fails_on_purpose() {
            return self.send_status(Status::InternalError, announce, request.head_only);
        }
        if request.head_only && serving.style != Style::OpenRead {
            let head = serving.heads.head(serving.body.length, announce);
            let nothing = Contents::Memory(&[]);
            return self.outgoing.send(&self.socket, head, nothing, Cut::WHOLE);
        }
        self.send_body(announce, request.head_only, serving)
    }

    /// Answers with the file, in the calls of the style.
    fn send_body(
        &mut self,
        announce: Announce,
        head_only: bool,
        serving: &mut Serving<'_>,
    ) -> Sent {
        let cut = Cut {
            pieces: serving.injections.split,
            apart: serving.style == Style::WriteParts,
        };
        let body = serving.body;
        let length = body.length;
        let (socket, outgoing) = (&self.socket, &mut self.outgoing);
        match serving.style {
            Style::Memory | Style::Ring | Style::WriteParts => {
                let head = serving.heads.head(length, announce);
                let contents = body.contents.as_deref().unwrap_or_default();
                outgoing.send(socket, head, Contents::Memory(contents), cut)
            }
            Style::Sendfile | Style::SendfileUncorked if length > 0 => {
                let head = serving.heads.head(length, announce);
                let corked = serving.style == Style::Sendfile;
                outgoing.send_file(socket, head, (&body.file, length), cut, corked)
            }
            Style::Mmap if length > 0 => {
                let mapped = usize::try_from(length)
                    .map_err(|_too_large| Errno::FBIG)
                    .and_then(|length| Mapping::new(&body.file, length));
                let Ok(mapping) = mapped else {
                    return self.fail_internally(head_only);
                };
                let head = serving.heads.head(length, announce);
                outgoing.send(socket, head, Contents::Mapped(&mapping), cut)
            }
            Style::Mmap | Style::Sendfile | Style::SendfileUncorked => {
                let head = serving.heads.head(length, announce);
                outgoing.send(socket, head, Contents::Memory(&[]), cut)
            }
            Style::Pread => {
                if read_kept(body, &mut serving.contents).is_err() {
                    return self.fail_internally(head_only);
                }
                self.send_read(announce, head_only, serving, cut)
            }
            Style::OpenRead => {
                let Ok(file) = open(body) else {
                    return self.fail_internally(head_only);
                };
                let sent = match read_whole(&file, &mut serving.contents) {
                    Ok(()) => self.send_read(announce, head_only, serving, cut),
                    Err(_) => self.fail_internally(head_only),
                };
                syscall::close(file);
                sent
            }
        }
    }

    /// Sends what was read of the file.
    fn send_read(
        &mut self,
        announce: Announce,
        head_only: bool,
        serving: &mut Serving<'_>,
        cut: Cut,
    ) -> Sent {
        let head = serving.heads.head(serving.contents.len() as u64, announce);
        let body: &[u8] = if head_only { &[] } else { &serving.contents };
        self.outgoing
            .send(&self.socket, head, Contents::Memory(body), cut)
    }

    fn fail_internally(&mut self, head_only: bool) -> Sent {
        self.after = After::Drain;
        self.send_status(Status::InternalError, Announce::Close, head_only)
    }

    fn send_status(&mut self, status: Status, announce: Announce, head_only: bool) -> Sent {
        let response = status_response(status, announce, head_only);
        let nothing = Contents::Memory(&[]);
        self.outgoing
            .send(&self.socket, &response, nothing, Cut::WHOLE)
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
    fill(contents, length, |room, _at| {
        rustix::io::read(file.as_fd(), room)
    })
}

/// Reads the open file into memory with one `pread64`, if it does not shrink.
fn read_kept(body: &BodyFile, contents: &mut Vec<u8>) -> rustix::io::Result<()> {
    let length = usize::try_from(body.length).map_err(|_too_large| Errno::FBIG)?;
    fill(contents, length, |room, at| {
        rustix::io::pread(&body.file, room, at)
    })
}

/// Fills a buffer from reads into the room that is left, each with its offset.
fn fill(
    contents: &mut Vec<u8>,
    length: usize,
    read: impl Fn(&mut [u8], u64) -> rustix::io::Result<usize>,
) -> rustix::io::Result<()> {
    let more = length.saturating_sub(contents.len());
    contents
        .try_reserve_exact(more)
        .map_err(|_no_memory| Errno::NOMEM)?;
    contents.resize(length, 0);
    let mut filled = 0;
    while filled < length {
        match read(&mut contents[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    contents.truncate(filled);
    Ok(())
}

/// What is thrown away of a client that goes on sending after a refusal, before it is cut off.
const MAX_DISCARDED_BYTES: usize = 1 << 20;
