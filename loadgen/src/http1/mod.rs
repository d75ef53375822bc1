//! The receiving half of HTTP/1.1, without input or output: bytes go in, events come out.
//!
//! Strict about everything that decides where a message ends (RFC 9112, section 6), because a
//! generator that guesses would count replies that were never sent. It keeps no bytes but those of
//! a head that came in pieces, and of that at most [`HEAD_BYTES_MAX`].

#![expect(
    single_use_lifetimes,
    reason = "the input outlives the parser's borrow, which only a named lifetime can say"
)]

mod chunked;
mod connection;
mod head;

use std::ops::Range;

pub(crate) use connection::Http1;
pub use head::Framing;
pub(crate) use head::{Head, HeadCache};

use chunked::{ChunkDecoder, Piece};
use head::HeadScan;

use crate::violations::first_line;

/// What the next bytes of a connection mean.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A 1xx response, to be skipped.
    Interim {
        /// Its head.
        head: Head,
        /// The head as it came.
        raw: &'a [u8],
    },
    /// The head of the final response.
    Head {
        /// What it says.
        head: Head,
        /// The head as it came, the empty line included.
        raw: &'a [u8],
    },
    /// Bytes of the body, chunk framing removed.
    Body(&'a [u8]),
    /// The last byte of the response.
    Complete {
        /// Whether another request may follow on the connection.
        reusable: bool,
        /// Bytes of the trailer section.
        trailer_bytes: u64,
    },
}

/// What it means that the peer will send no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOfInput {
    /// Not one byte of a response had come.
    BeforeHead,
    /// A head or an interim response had begun.
    InHead,
    /// The body is shorter than declared.
    InBody,
    /// The end is the end of the body.
    Complete,
}

/// A response that breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolViolation {
    /// The size line of a chunk, or the line break after its data.
    #[error("malformed chunk framing")]
    Chunk,
    /// Not an unsigned decimal number, or too large for 64 bits.
    #[error("content-length is not a number")]
    ContentLength,
    /// More than one Content-Length, equal or not.
    #[error("content-length is repeated")]
    ContentLengthRepeated,
    /// Not an HTTP/1 response head.
    #[error("malformed response head: {0}")]
    Head(httparse::Error),
    /// No end of the head within the limit.
    #[error("response head is larger than {HEAD_BYTES_MAX} bytes")]
    HeadTooLarge,
    /// Content-Length and Transfer-Encoding in one head.
    #[error("content-length and transfer-encoding in one response")]
    LengthAndEncoding,
    /// A status below 100.
    #[error("status code is below 100")]
    Status,
    /// 101 without a request for an upgrade.
    #[error("the server switched protocols without being asked to")]
    Switching,
    /// No end of the trailers within the limit.
    #[error("trailers are larger than {HEAD_BYTES_MAX} bytes")]
    TrailersTooLarge,
    /// Chunked more than once, with a coding after it, or in HTTP/1.0.
    #[error("transfer-encoding cannot be understood")]
    TransferEncoding,
    /// Bytes that no request asked for.
    #[error("bytes after the end of the response")]
    Unasked,
}

/// Reads the responses of one connection, one after the other.
#[derive(Debug)]
pub(crate) struct ResponseParser {
    state: State,
    scan: HeadScan,
    to_head_request: bool,
    touched: bool,
    reusable: bool,
}

#[derive(Debug)]
enum State {
    Head,
    Fixed { left: u64 },
    Chunked(ChunkDecoder),
    UntilClose,
    Done { trailer_bytes: u64 },
    Finished,
}

impl ResponseParser {
    /// A parser that expects no response yet.
    pub(crate) fn new() -> Self {
        Self {
            state: State::Finished,
            scan: HeadScan::default(),
            to_head_request: false,
            touched: false,
            reusable: false,
        }
    }

    /// A request was sent; `to_head_request` says whether its method was HEAD.
    pub(crate) fn begin(&mut self, to_head_request: bool) {
        self.state = State::Head;
        self.scan.clear();
        self.to_head_request = to_head_request;
        self.touched = false;
        self.reusable = false;
    }

    /// Whether a byte of the current response has come.
    pub(crate) fn is_touched(&self) -> bool {
        self.touched
    }

    /// Whether the final head was read and the response is not complete.
    pub(crate) fn is_in_body(&self) -> bool {
        matches!(
            self.state,
            State::Fixed { .. } | State::Chunked(_) | State::UntilClose
        )
    }

    /// Takes bytes off the front of `input` until they mean something; `None` asks for more.
    #[inline]
    pub(crate) fn next<'p, 'i: 'p>(
        &'p mut self,
        cache: &mut HeadCache,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'p>>, ProtocolViolation> {
        match &mut self.state {
            State::Head | State::Finished if input.is_empty() => Ok(None),
            State::Head => self.next_head(cache, input),
            State::Fixed { left: 0 } => Ok(Some(self.complete(0))),
            State::Fixed { .. } | State::UntilClose if input.is_empty() => Ok(None),
            State::Fixed { left } => {
                let take = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(input.len());
                *left -= take as u64;
                Ok(Some(Event::Body(split_front(input, take))))
            }
            State::UntilClose => Ok(Some(Event::Body(split_front(input, input.len())))),
            State::Chunked(decoder) => match decoder.next(input)? {
                None => Ok(None),
                Some(Piece::Data(data)) => Ok(Some(Event::Body(data))),
                Some(Piece::End { trailer_bytes }) => Ok(Some(self.complete(trailer_bytes))),
            },
            State::Done { trailer_bytes } => {
                let trailer_bytes = *trailer_bytes;
                Ok(Some(self.complete(trailer_bytes)))
            }
            State::Finished => Err(ProtocolViolation::Unasked),
        }
    }

    /// What shows how the peer broke the protocol: the start of the head, or of what came after it,
    /// and the lines about the length of the body where those are what is wrong. `input` is what
    /// [`Self::next`] was asked to read.
    #[cold]
    pub(crate) fn evidence(&self, violation: ProtocolViolation, input: &[u8]) -> String {
        let bytes = match self.state {
            State::Head => self.scan.seen(input),
            _ => input,
        };
        match violation {
            ProtocolViolation::ContentLength
            | ProtocolViolation::ContentLengthRepeated
            | ProtocolViolation::LengthAndEncoding
            | ProtocolViolation::TransferEncoding => head::length_lines(bytes),
            _ => first_line(bytes),
        }
    }

    /// The peer will send no more.
    pub(crate) fn finish(&self) -> EndOfInput {
        match self.state {
            State::Head if self.touched => EndOfInput::InHead,
            State::Head => EndOfInput::BeforeHead,
            State::Fixed { .. } | State::Chunked(_) => EndOfInput::InBody,
            State::UntilClose | State::Done { .. } | State::Finished => EndOfInput::Complete,
        }
    }

    #[inline]
    fn next_head<'p, 'i: 'p>(
        &'p mut self,
        cache: &mut HeadCache,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'p>>, ProtocolViolation> {
        self.touched = true;
        let Some((head, raw)) = self.scan.next(cache, input)? else {
            return Ok(None);
        };
        if head.is_interim() {
            return match head.status {
                101 => Err(ProtocolViolation::Switching),
                _ => Ok(Some(Event::Interim { head, raw })),
            };
        }
        let framing = head.framing_for(self.to_head_request);
        self.reusable = head.keep_alive && framing != Framing::Close;
        self.state = match framing {
            Framing::None => State::Done { trailer_bytes: 0 },
            Framing::ContentLength(left) => State::Fixed { left },
            Framing::Chunked => State::Chunked(ChunkDecoder::new()),
            Framing::Close | Framing::EndStream => State::UntilClose,
        };
        Ok(Some(Event::Head { head, raw }))
    }

    fn complete(&mut self, trailer_bytes: u64) -> Event<'static> {
        self.state = State::Finished;
        Event::Complete {
            reusable: self.reusable,
            trailer_bytes,
        }
    }
}

/// Takes `count` bytes off the front of `input`.
fn split_front<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(count);
    *input = rest;
    front
}

/// The part of `bytes` without spaces and tabs at its ends.
fn trim(bytes: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let range: Range<usize> = match bytes.iter().position(is_text) {
        None => 0..0,
        Some(start) => {
            start
                ..bytes
                    .iter()
                    .rposition(is_text)
                    .map_or(start, |last| last + 1)
        }
    };
    &bytes[range]
}

/// Largest response head, and largest trailer section, bytes. Servers and proxies limit heads to
/// 4 to 64 KiB; what is larger is hostile, and memory has to stay bounded.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests;
