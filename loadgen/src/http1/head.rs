//! Response heads: where one ends, and what it says about the message after it.

use std::mem::MaybeUninit;

use super::{HEAD_BYTES_MAX, ProtocolViolation, split_front, trim};
use crate::violations::first_line;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A number of bytes.
    ContentLength(u64),
    /// Chunks.
    Chunked,
    /// The end of the connection.
    Close,
    /// The end of the stream, in HTTP/2 without a number of bytes.
    EndStream,
    /// There is no body.
    None,
}

impl Framing {
    /// The word of a recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::ContentLength(_) => "content-length",
            Self::Chunked => "chunked",
            Self::Close => "close",
            Self::EndStream => "end-stream",
            Self::None => "none",
        }
    }
}

/// What a response head says, as far as a load generator has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Status code, 100..=999.
    pub(crate) status: u16,
    /// Whether the connection persists after the message, by version and Connection.
    pub(crate) keep_alive: bool,
    /// Bytes of the names and values of its lines.
    pub(crate) field_bytes: u32,
    declared: Framing,
}

impl Head {
    /// Whether another head follows.
    pub(crate) fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// How the body ends, given the method of the request (RFC 9112, section 6.3).
    pub(crate) fn framing_for(&self, to_head_request: bool) -> Framing {
        match self.status {
            _ if to_head_request => Framing::None,
            100..=199 | 204 | 304 => Framing::None,
            _ => self.declared,
        }
    }

    /// Reads the head at the front of `bytes`; `None` when it does not end in them.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProtocolViolation> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, bytes, &mut fields)
            .map_err(ProtocolViolation::Head)?;
        let httparse::Status::Complete(length) = parsed else {
            return Ok(None);
        };
        let status = response.code.unwrap_or(0);
        if status < 100 {
            return Err(ProtocolViolation::Status);
        }
        let is_11 = response.version == Some(1);
        let mut facts = Facts::default();
        let mut field_bytes = 0;
        for field in response.headers.iter() {
            facts.add(field.name, field.value)?;
            field_bytes += field.name.len() + field.value.len();
        }
        let head = Self {
            status,
            keep_alive: !facts.close && (is_11 || facts.keep_alive),
            // A head has a limit far below.
            field_bytes: u32::try_from(field_bytes).unwrap_or(u32::MAX),
            declared: facts.framing(is_11)?,
        };
        Ok(Some((head, length)))
    }
}

/// What the framing fields said so far.
#[derive(Default)]
struct Facts {
    length: Option<u64>,
    encoding: Encoding,
    close: bool,
    keep_alive: bool,
}

/// What the Transfer-Encoding lines end with so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    None,
    Chunked,
    Other,
}

impl Facts {
    fn add(&mut self, name: &str, value: &[u8]) -> Result<(), ProtocolViolation> {
        // The length tells nearly all other fields apart without looking at them.
        match name.len() {
            10 if name.eq_ignore_ascii_case("connection") => {
                for token in value.split(|&byte| byte == b',').map(trim) {
                    self.close |= token.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
                Ok(())
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                if self.length.is_some() {
                    return Err(ProtocolViolation::ContentLengthRepeated);
                }
                self.length = Some(decimal(trim(value))?);
                Ok(())
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => self.add_encodings(value),
            _ => Ok(()),
        }
    }

    fn add_encodings(&mut self, value: &[u8]) -> Result<(), ProtocolViolation> {
        for coding in value.split(|&byte| byte == b',').map(trim) {
            if self.encoding == Encoding::Chunked || coding.is_empty() {
                return Err(ProtocolViolation::TransferEncoding);
            }
            self.encoding = if coding.eq_ignore_ascii_case(b"chunked") {
                Encoding::Chunked
            } else {
                Encoding::Other
            };
        }
        Ok(())
    }

    fn framing(&self, is_11: bool) -> Result<Framing, ProtocolViolation> {
        match (self.length, self.encoding) {
            (Some(length), Encoding::None) => Ok(Framing::ContentLength(length)),
            (Some(_), _) => Err(ProtocolViolation::LengthAndEncoding),
            (None, Encoding::None) => Ok(Framing::Close),
            (None, _) if !is_11 => Err(ProtocolViolation::TransferEncoding),
            (None, Encoding::Chunked) => Ok(Framing::Chunked),
            (None, Encoding::Other) => Ok(Framing::Close),
        }
    }
}

/// The last final head that was read. A server sends the same bytes again and again (its Date
/// changes once a second), and equal bytes mean the same: comparing them takes a tenth of the time
/// of reading them.
#[derive(Debug, Default)]
pub(crate) struct HeadCache {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl HeadCache {
    /// The head at the front of `input`, if it is the known one.
    #[inline]
    fn find(&self, input: &[u8]) -> Option<(Head, usize)> {
        let head = self.head?;
        input
            .starts_with(&self.bytes)
            .then_some((head, self.bytes.len()))
    }

    fn store(&mut self, head: Head, raw: &[u8]) {
        if raw.len() <= CACHED_BYTES_MAX && !head.is_interim() {
            self.bytes.clear();
            self.bytes.extend_from_slice(raw);
            self.head = Some(head);
        }
    }
}

/// Finds the end of a head, also when it comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    /// The bytes of a head whose end has not come, or that was just read.
    pieces: Vec<u8>,
    /// Whether `pieces` were handed out and can be forgotten.
    read: bool,
}

impl HeadScan {
    /// Forgets what was read.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.read = false;
    }

    /// The bytes of the present head, the last ones of which are in `input`.
    pub(super) fn seen<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        if self.pieces.is_empty() {
            input
        } else {
            &self.pieces
        }
    }

    /// Takes the next head off the front of `input`.
    #[inline]
    pub(super) fn next<'p, 'i: 'p>(
        &'p mut self,
        cache: &mut HeadCache,
        input: &mut &'i [u8],
    ) -> Result<Option<(Head, &'p [u8])>, ProtocolViolation> {
        if self.read {
            self.clear();
        }
        if !self.pieces.is_empty() {
            return self.next_from_pieces(cache, input);
        }
        if let Some((head, length)) = cache.find(input) {
            return Ok(Some((head, split_front(input, length))));
        }
        check_start(input)?;
        match Head::parse(input)? {
            Some((_, length)) if length > HEAD_BYTES_MAX => Err(ProtocolViolation::HeadTooLarge),
            Some((head, length)) => {
                let raw = split_front(input, length);
                cache.store(head, raw);
                Ok(Some((head, raw)))
            }
            None => self.keep(input),
        }
    }

    /// Appends to the pieces up to the end of the head. The head is only parsed once its end was
    /// seen, so that a server that sends byte by byte costs linear time.
    fn next_from_pieces<'p, 'i: 'p>(
        &'p mut self,
        cache: &mut HeadCache,
        input: &mut &'i [u8],
    ) -> Result<Option<(Head, &'p [u8])>, ProtocolViolation> {
        let known = self.pieces.len();
        let room = HEAD_BYTES_MAX.saturating_sub(known).min(input.len());
        self.pieces.extend_from_slice(&input[..room]);
        let Some(end) = end_of_head(&self.pieces, known) else {
            if room < input.len() {
                return Err(ProtocolViolation::HeadTooLarge);
            }
            *input = &[];
            return check_start(&self.pieces).map(|()| None);
        };
        let _taken = split_front(input, end - known);
        self.pieces.truncate(end);
        self.read = true;
        match Head::parse(&self.pieces)? {
            Some((head, length)) if length == end => {
                cache.store(head, &self.pieces);
                Ok(Some((head, &self.pieces)))
            }
            _ => Err(ProtocolViolation::Head(httparse::Error::NewLine)),
        }
    }

    fn keep<'p, 'i: 'p>(
        &'p mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<(Head, &'p [u8])>, ProtocolViolation> {
        if input.len() > HEAD_BYTES_MAX {
            return Err(ProtocolViolation::HeadTooLarge);
        }
        self.pieces.extend_from_slice(input);
        *input = &[];
        Ok(None)
    }
}

/// The lines of a head that say how its body ends, for people.
pub(super) fn length_lines(head: &[u8]) -> String {
    let says_length = |line: &&[u8]| {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        name.eq_ignore_ascii_case(b"content-length")
            || name.eq_ignore_ascii_case(b"transfer-encoding")
    };
    let lines = head.split(|&byte| byte == b'\n').filter(says_length);
    let shown: Vec<String> = lines.take(LENGTH_LINES_MAX).map(first_line).collect();
    shown.join("; ")
}

/// Says at once that a peer does not speak HTTP/1, instead of waiting for the end of a head. It also
/// refuses the empty lines that `httparse` would skip: after a response they are bytes that nobody
/// asked for.
fn check_start(bytes: &[u8]) -> Result<(), ProtocolViolation> {
    let known = bytes.len().min(START.len());
    if bytes[..known] == START[..known] {
        Ok(())
    } else {
        Err(ProtocolViolation::Head(httparse::Error::Version))
    }
}

/// The length of the head that ends in `bytes`, when the first `known` bytes hold no end.
fn end_of_head(bytes: &[u8], known: usize) -> Option<usize> {
    let mut from = known.saturating_sub(END_BYTES_MAX - 1);
    while let Some(offset) = bytes[from..].iter().position(|&byte| byte == b'\n') {
        let after = from + offset + 1;
        match bytes[after..] {
            [b'\n', ..] => return Some(after + 1),
            [b'\r', b'\n', ..] => return Some(after + 2),
            _ => from = after,
        }
    }
    None
}

/// An unsigned decimal number without sign, space or list.
fn decimal(digits: &[u8]) -> Result<u64, ProtocolViolation> {
    if digits.is_empty() {
        return Err(ProtocolViolation::ContentLength);
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        if !digit.is_ascii_digit() {
            return Err(ProtocolViolation::ContentLength);
        }
        value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .ok_or(ProtocolViolation::ContentLength)
    })
}

/// Every HTTP/1 response starts so.
const START: &[u8] = b"HTTP/1.";
/// `\n\r\n`: a new byte can complete an end that began two bytes before it.
const END_BYTES_MAX: usize = 3;
/// Two that contradict each other are enough to show.
const LENGTH_LINES_MAX: usize = 3;
/// Field lines in one head; Node.js allows 2000 by size only, nginx and h2o far fewer.
const FIELDS_MAX: usize = 256;
/// Heads larger than this are rare, and comparing them is no longer cheap.
const CACHED_BYTES_MAX: usize = 2048;
