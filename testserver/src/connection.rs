//! One connection: what came in and what happens next.
//!
//! It knows nothing of how the worker waits: it says what it waits for, and the worker arranges it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::outgoing::{Contents, Cut, Outgoing, Sent};
use crate::request::{MAX_HEAD_BYTES, Parsed, Request, parse};
use crate::response::{Announce, Status, status_response};
use crate::serving::{Serving, open};
use crate::stream::{Received, Stream};
use crate::syscall::{self, Mapping, Transfer};
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

/// Bytes read and not yet understood.
struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// One connection.
pub(crate) struct Connection {
    stream: Stream,
    input: Input,
    outgoing: Outgoing,
    after: After,
    /// Bytes that may still be thrown away, once draining.
    draining: Option<usize>,
}

impl Connection {
    /// Takes a new stream, and the buffer of an earlier connection.
    pub(crate) fn new(stream: Stream, buffer: Option<Box<[u8]>>) -> Self {
        Self {
            stream,
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
        let session = None;
        let mut connection = Self::new(Stream { socket, session }, buffer);
        connection.outgoing.queues = true;
        connection
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.stream.socket
    }

    /// Ends the connection and gives its buffer back.
    pub(crate) fn close(self) -> Box<[u8]> {
        self.stream.close();
        self.input.buffer
    }

    /// Does what can be done without waiting, after an event for this connection.
    pub(crate) fn advance(&mut self, serving: &mut Serving, writing: bool) -> Next {
        if writing {
            // After the change of interest that follows, epoll looks at the socket again, so there
            // is no need to read here.
            let next = match self.outgoing.flush(&mut self.stream, &serving.body.file) {
                Sent::All => self.sent(serving),
                Sent::Blocked => Next::Write,
                Sent::Failed => Next::Close,
            };
            if next != Next::Read || !self.stream.holds_input() {
                return next;
            }
        }
        loop {
            let received = match serving.reading {
                Reading::Short => self.receive_once(),
                Reading::UntilEagain => self.receive_all(),
            };
            let more = match received {
                Received::Bytes { more, .. } => more,
                Received::Nothing => return Next::Read,
                Received::End => return Next::Close,
            };
            if self.stream.holds_output() {
                return Next::Write;
            }
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
    pub(crate) fn received(&mut self, count: usize, serving: &mut Serving) -> Next {
        self.input.end += count;
        match (count, self.draining) {
            (0, _) => Next::Close,
            (_, Some(_)) => self.discard(),
            (_, None) => self.answer_buffered(serving),
        }
    }

    /// Goes on after what was queued has been sent, with nothing received.
    pub(crate) fn sent(&mut self, serving: &mut Serving) -> Next {
        match self.written() {
            Some(next) => next,
            None => self.answer_buffered(serving),
        }
    }

    fn receive_once(&mut self) -> Received {
        let received = self
            .stream
            .receive(&mut self.input.buffer[self.input.end..]);
        if let Received::Bytes { count, .. } = received {
            self.input.end += count;
        }
        received
    }

    /// Reads until nothing is left or the buffer is full. All of it before the first answer: after
    /// it, the read that finds nothing would race with the client's next request.
    fn receive_all(&mut self) -> Received {
        let before = self.input.end;
        while self.input.end < self.input.buffer.len() {
            match self.receive_once() {
                Received::Bytes { .. } => {}
                Received::Nothing if self.input.end > before => {
                    return Received::Bytes {
                        count: self.input.end - before,
                        more: false,
                    };
                }
                // Seen again by the next read, once what came before it is answered.
                Received::End if self.input.end > before => break,
                nothing_or_end => return nothing_or_end,
            }
        }
        Received::Bytes {
            count: self.input.end - before,
            more: true,
        }
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
    fn answer_buffered(&mut self, serving: &mut Serving) -> Next {
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
                self.stream.shut_down();
                self.input.clear();
                self.draining = Some(MAX_DISCARDED_BYTES);
                Some(Next::Read)
            }
        }
    }

    fn answer(&mut self, request: Request, serving: &mut Serving) -> Sent {
        serving.inject_all();
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
            return self
                .outgoing
                .send(&mut self.stream, head, nothing, Cut::WHOLE);
        }
        self.send_body(announce, request.head_only, serving)
    }

    /// Answers with the file, in the calls of the style.
    fn send_body(&mut self, announce: Announce, head_only: bool, serving: &mut Serving) -> Sent {
        let cut = Cut {
            pieces: serving.injections.split,
            apart: serving.style == Style::WriteParts,
        };
        let body = &serving.body;
        let length = body.length;
        let (stream, outgoing) = (&mut self.stream, &mut self.outgoing);
        match serving.style {
            Style::Memory | Style::Ring | Style::WriteParts => {
                let head = serving.heads.head(length, announce);
                let contents = body.contents.as_deref().unwrap_or_default();
                outgoing.send(stream, head, Contents::Memory(contents), cut)
            }
            Style::Sendfile | Style::SendfileUncorked if length > 0 => {
                let head = serving.heads.head(length, announce);
                let corked = serving.style == Style::Sendfile;
                outgoing.send_file(stream, head, (&body.file, length), cut, corked)
            }
            Style::Mmap if length > 0 => {
                let mapped = usize::try_from(length)
                    .map_err(|_too_large| Errno::FBIG)
                    .and_then(|length| Mapping::new(&body.file, length));
                let Ok(mapping) = mapped else {
                    return self.fail_internally(head_only);
                };
                let head = serving.heads.head(length, announce);
                outgoing.send(stream, head, Contents::Mapped(&mapping), cut)
            }
            Style::Mmap | Style::Sendfile | Style::SendfileUncorked => {
                let head = serving.heads.head(length, announce);
                outgoing.send(stream, head, Contents::Memory(&[]), cut)
            }
            Style::Pread => {
                if serving.read_kept().is_err() {
                    return self.fail_internally(head_only);
                }
                self.send_read(announce, head_only, serving, cut)
            }
            Style::OpenRead => {
                let Ok(file) = open(body) else {
                    return self.fail_internally(head_only);
                };
                let sent = match serving.read_whole(&file) {
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
        serving: &mut Serving,
        cut: Cut,
    ) -> Sent {
        let head = serving.heads.head(serving.contents.len() as u64, announce);
        let body: &[u8] = if head_only { &[] } else { &serving.contents };
        self.outgoing
            .send(&mut self.stream, head, Contents::Memory(body), cut)
    }

    fn fail_internally(&mut self, head_only: bool) -> Sent {
        self.after = After::Drain;
        self.send_status(Status::InternalError, Announce::Close, head_only)
    }

    fn send_status(&mut self, status: Status, announce: Announce, head_only: bool) -> Sent {
        let response = status_response(status, announce, head_only);
        let nothing = Contents::Memory(&[]);
        self.outgoing
            .send(&mut self.stream, &response, nothing, Cut::WHOLE)
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

/// What is thrown away of a client that goes on sending after a refusal, before it is cut off.
const MAX_DISCARDED_BYTES: usize = 1 << 20;
