//! What the server has said about itself: its settings.

use super::Violation;
use super::frame::ID_MAX;

/// Settings of the server (RFC 9113, section 6.5.2), as far as they limit a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Streams at the same time; `None` for no limit.
    pub(super) streams_max: Option<u32>,
    /// Window of a new stream, bytes.
    pub(super) window: i64,
    /// Largest frame, bytes.
    pub(super) frame_bytes_max: u32,
    /// Largest table for header fields, bytes.
    pub(super) table_bytes: u32,
}

impl Peer {
    /// What holds before the server has said anything.
    pub(super) fn new() -> Self {
        Self {
            streams_max: None,
            window: 65_535,
            frame_bytes_max: FRAME_BYTES_MIN,
            table_bytes: 4096,
        }
    }

    /// Takes the payload of a SETTINGS frame.
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Violation::FrameSize);
        }
        for [high, low, a, b, c, d] in settings {
            let value = u32::from_be_bytes([*a, *b, *c, *d]);
            match u16::from_be_bytes([*high, *low]) {
                1 => self.table_bytes = value,
                // A server cannot ask for pushed responses.
                2 if value != 0 => return Err(Violation::Settings),
                3 => self.streams_max = Some(value),
                4 if value > ID_MAX => return Err(Violation::FlowControl),
                4 => self.window = i64::from(value),
                5 if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&value) => {
                    return Err(Violation::Settings);
                }
                5 => self.frame_bytes_max = value,
                _ => {}
            }
        }
        Ok(())
    }
}

/// What every peer has to take.
pub(super) const FRAME_BYTES_MIN: u32 = 16_384;
const FRAME_BYTES_MAX: u32 = 16_777_215;
