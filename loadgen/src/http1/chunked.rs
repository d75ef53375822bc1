//! The chunked transfer coding (RFC 9112, section 7.1), split anywhere.

use super::{HEAD_BYTES_MAX, ProtocolViolation, split_front};

/// What the next bytes of a chunked body are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Data of a chunk.
    Data(&'a [u8]),
    /// The end of the message.
    End {
        /// Bytes of the trailer section, the last empty line included.
        trailer_bytes: u64,
    },
}

/// Decodes one body.
#[derive(Debug)]
pub(super) struct ChunkDecoder {
    state: State,
    /// Size of the current chunk, then bytes of it that are still to come.
    left: u64,
    /// Bytes of the current size line, then of the trailer section.
    section_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SizeStart,
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEndLf,
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastLf,
    Done,
}

impl ChunkDecoder {
    /// A decoder at the start of a body.
    pub(super) fn new() -> Self {
        Self {
            state: State::SizeStart,
            left: 0,
            section_bytes: 0,
        }
    }

    /// Takes bytes off the front of `input` up to the next piece; `None` asks for more.
    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<Piece<'a>>, ProtocolViolation> {
        loop {
            if self.state == State::Done {
                let trailer_bytes = self.section_bytes as u64;
                return Ok(Some(Piece::End { trailer_bytes }));
            }
            let Some(&byte) = input.first() else {
                return Ok(None);
            };
            if self.state == State::Data {
                let take = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(input.len());
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = State::DataEnd;
                }
                return Ok(Some(Piece::Data(split_front(input, take))));
            }
            *input = &input[1..];
            self.step(byte)?;
        }
    }

    /// Takes one byte of framing.
    fn step(&mut self, byte: u8) -> Result<(), ProtocolViolation> {
        self.section_bytes += 1;
        self.state = match (self.state, byte) {
            (State::SizeStart | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.add_digit(byte)?;
                State::Size
            }
            (State::Size, b';' | b' ' | b'\t') => State::Extension,
            (State::Size | State::Extension, b'\r') => State::SizeEnd,
            (State::Extension, byte) if byte != b'\n' => State::Extension,
            (State::SizeEnd, b'\n') => self.after_size(),
            (State::DataEnd, b'\r') => State::DataEndLf,
            (State::DataEndLf, b'\n') => {
                self.section_bytes = 0;
                State::SizeStart
            }
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::TrailerStart | State::Trailer, byte) if byte != b'\n' => {
                if byte == b'\r' {
                    State::TrailerEnd
                } else {
                    State::Trailer
                }
            }
            (State::TrailerEnd, b'\n') => State::TrailerStart,
            (State::LastLf, b'\n') => State::Done,
            _ => return Err(ProtocolViolation::Chunk),
        };
        self.check_limit()
    }

    fn add_digit(&mut self, digit: u8) -> Result<(), ProtocolViolation> {
        let value = char::from(digit)
            .to_digit(16)
            .ok_or(ProtocolViolation::Chunk)?;
        self.left = self.left.checked_mul(16).ok_or(ProtocolViolation::Chunk)? | u64::from(value);
        Ok(())
    }

    fn after_size(&mut self) -> State {
        self.section_bytes = 0;
        if self.left == 0 {
            State::TrailerStart
        } else {
            State::Data
        }
    }

    fn check_limit(&self) -> Result<(), ProtocolViolation> {
        match self.state {
            State::Size | State::Extension if self.section_bytes > SIZE_LINE_BYTES_MAX => {
                Err(ProtocolViolation::Chunk)
            }
            State::TrailerStart | State::Trailer if self.section_bytes > HEAD_BYTES_MAX => {
                Err(ProtocolViolation::TrailersTooLarge)
            }
            _ => Ok(()),
        }
    }
}

/// Longest size line with its extensions; endless ones are a known attack on memory and time.
const SIZE_LINE_BYTES_MAX: usize = 16 * 1024;
