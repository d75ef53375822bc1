//! Frames of HTTP/2 (RFC 9113, sections 4 and 6): reading their heads and writing them.

/// The nine bytes in front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// Bytes of the payload.
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Zero for the connection itself.
    pub(super) stream: u32,
}

impl FrameHead {
    /// Before any frame.
    pub(super) const NONE: Self = Self {
        length: 0,
        kind: 0,
        flags: 0,
        stream: 0,
    };

    /// Reads the head at the front of `bytes`, if it is there.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        Some(Self {
            length: u32::from_be_bytes([0, head[0], head[1], head[2]]),
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & ID_MAX,
        })
    }

    /// Appends the head.
    #[inline]
    pub(super) fn write(self, to: &mut Vec<u8>) {
        let mut head = [0; HEAD_BYTES];
        head[..3].copy_from_slice(&self.length.to_be_bytes()[1..]);
        head[3] = self.kind;
        head[4] = self.flags;
        head[5..].copy_from_slice(&self.stream.to_be_bytes());
        to.extend_from_slice(&head);
    }

    /// Whether a flag is set.
    #[inline]
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame with a short payload.
pub(super) fn write(to: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let head = FrameHead {
        length,
        kind,
        flags,
        stream,
    };
    head.write(to);
    to.extend_from_slice(payload);
}

/// Appends a block of header fields, as one frame or as many as `frame_bytes_max` asks for.
#[inline]
pub(super) fn write_headers(
    to: &mut Vec<u8>,
    stream: u32,
    block: &[&[u8]],
    end_stream: bool,
    frame_bytes_max: usize,
) {
    let mut left: usize = block.iter().map(|part| part.len()).sum();
    let mut kind = HEADERS;
    let mut flags = if end_stream { END_STREAM } else { 0 };
    let mut parts = block.iter();
    let mut part: &[u8] = &[];
    loop {
        let length = left.min(frame_bytes_max);
        left -= length;
        if left == 0 {
            flags |= END_HEADERS;
        }
        let head = FrameHead {
            length: u32::try_from(length).unwrap_or(u32::MAX),
            kind,
            flags,
            stream,
        };
        head.write(to);
        let mut room = length;
        while room > 0 {
            if part.is_empty() {
                part = parts.next().copied().unwrap_or_default();
                continue;
            }
            let (now, later) = part.split_at(room.min(part.len()));
            to.extend_from_slice(now);
            room -= now.len();
            part = later;
        }
        if left == 0 {
            return;
        }
        kind = CONTINUATION;
        flags = 0;
    }
}

pub(super) const HEAD_BYTES: usize = 9;
/// Largest identifier of a stream, and largest window.
pub(super) const ID_MAX: u32 = 0x7fff_ffff;
/// What a client sends first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Of SETTINGS and PING.
pub(super) const ACK: u8 = 0x1;
/// Of DATA and HEADERS.
pub(super) const END_STREAM: u8 = 0x1;
/// Of HEADERS and CONTINUATION.
pub(super) const END_HEADERS: u8 = 0x4;
/// Of DATA and HEADERS.
pub(super) const PADDED: u8 = 0x8;
/// Of HEADERS.
pub(super) const PRIORITY: u8 = 0x20;

pub(super) const NO_ERROR: u32 = 0;
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;
