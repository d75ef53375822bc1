//! What a server does wrong in HTTP/2, and how it is named.

use crate::violations::first_line;

use super::frame::{self, FrameHead};
use super::{Http2, Stage};

/// A way in which a server breaks the protocol so that the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    /// A header block that cannot be read.
    #[error("header compression that cannot be decoded")]
    Compression,
    /// A frame of the header of one stream inside of another one.
    #[error("a header block interrupted or continued out of place")]
    Continuation,
    /// The server did not change to HTTP/2 when it was asked to.
    #[error("the server declined the upgrade to HTTP/2")]
    Declined,
    /// More was sent than a window allows, or a window grew too large.
    #[error("flow control: more than the window, or a window that is too large")]
    FlowControl,
    /// A frame of a length that it cannot have.
    #[error("a frame of a length that it cannot have")]
    FrameSize,
    /// A frame on a stream that cannot have it.
    #[error("a frame on a stream that cannot have it")]
    Frame,
    /// The server asks for more answers than it reads.
    #[error("frames that ask for answers, and nobody who reads them")]
    Flood,
    /// A header block without end.
    #[error("a header block that is too large")]
    HeaderSize,
    /// What came first is not HTTP/2.
    #[error("something else than HTTP/2")]
    Preface,
    /// A setting with a value that it cannot have.
    #[error("a setting with a value that it cannot have")]
    Settings,
}

/// A way in which a server breaks the protocol on one stream only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    /// Names or values that no field may have, or pseudo-fields where they cannot be.
    #[error("malformed header fields")]
    Fields,
    /// A body that is longer than was said.
    #[error("more body than its content-length")]
    Length,
    /// A head, a body or trailers where they cannot be.
    #[error("a head, a body or trailers where they cannot be")]
    Order,
    /// A window that was not opened, or opened too far.
    #[error("a stream window that is too large, or opened by nothing")]
    Window,
}

impl Violation {
    /// The code that the server is told (RFC 9113, section 7).
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Flood | Self::HeaderSize => 11,
            Self::FlowControl => 3,
            Self::FrameSize => 6,
            Self::Compression => 9,
            Self::Continuation | Self::Declined | Self::Frame | Self::Preface | Self::Settings => {
                frame::PROTOCOL_ERROR
            }
        }
    }
}

impl Http2 {
    /// What shows how the server broke the protocol: the last frame, or what came instead of one.
    #[cold]
    pub(super) fn evidence(&self, input: &[u8]) -> String {
        match self.stage {
            Stage::Fresh => first_line(input),
            Stage::Upgrading => first_line(&self.partial),
            // What is no frame was taken for the head of one.
            Stage::Running if !self.is_greeted => {
                let mut bytes = Vec::new();
                self.last_frame.write(&mut bytes);
                first_line(&bytes)
            }
            Stage::Running => self.last_frame.describe(),
        }
    }
}

impl FrameHead {
    /// The frame for people.
    pub(super) fn describe(self) -> String {
        let Self {
            length,
            kind,
            flags,
            stream,
        } = self;
        let name = NAMES.get(usize::from(kind)).map_or_else(
            || format!("frame of type {kind:#x}"),
            |name| format!("{name} frame"),
        );
        format!("{name} of {length} bytes on stream {stream}, flags {flags:#04x}")
    }
}

/// Types of frames (RFC 9113, section 6), by number.
const NAMES: [&str; 10] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames are named by their types; unknown ones by their number.
    #[test]
    fn frames_are_described() {
        let frame = |kind| FrameHead {
            length: 31,
            kind,
            flags: 4,
            stream: 7,
        };
        assert_eq!(
            frame(frame::HEADERS).describe(),
            "HEADERS frame of 31 bytes on stream 7, flags 0x04"
        );
        assert_eq!(
            frame(frame::CONTINUATION).describe(),
            "CONTINUATION frame of 31 bytes on stream 7, flags 0x04"
        );
        assert_eq!(
            frame(0xfa).describe(),
            "frame of type 0xfa of 31 bytes on stream 7, flags 0x04"
        );
    }
}
