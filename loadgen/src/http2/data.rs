//! Bodies of responses, and the windows that we hold open for them.

use crate::protocol::Reading;

use super::frame::{self, FrameHead};
use super::{CONNECTION_WINDOW, Http2, Malformed, Violation};

/// A DATA frame on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    stream: u32,
    /// Bytes of the payload.
    length: u32,
    /// Bytes of it that have not come, padding included.
    left: u32,
    /// Bytes of padding at its end.
    padding: u32,
    /// Whether the length of the padding comes first.
    is_padded: bool,
    ends_stream: bool,
}

impl Http2 {
    #[inline]
    pub(super) fn begin_data(&mut self, head: FrameHead) -> Result<(), Violation> {
        self.check_stream(head.stream)?;
        self.receive_window -= i64::from(head.length);
        let mut is_too_much = self.receive_window < 0;
        if let Some(stream) = self.streams.get(head.stream) {
            stream.receive_window -= i64::from(head.length);
            is_too_much |= stream.receive_window < 0;
        }
        let is_padded = head.has(frame::PADDED);
        if is_too_much {
            return Err(Violation::FlowControl);
        }
        if is_padded && head.length == 0 {
            return Err(Violation::FrameSize);
        }
        self.data = Some(Data {
            stream: head.stream,
            length: head.length,
            left: head.length,
            padding: 0,
            is_padded,
            ends_stream: head.has(frame::END_STREAM),
        });
        Ok(())
    }

    /// Takes bytes of the DATA frame that has begun.
    #[inline]
    pub(super) fn read_data(
        &mut self,
        reading: &mut Reading<'_>,
        input: &mut &[u8],
    ) -> Result<(), Violation> {
        let Some(data) = &mut self.data else {
            return Ok(());
        };
        if data.is_padded {
            let Some((&padding, rest)) = input.split_first() else {
                return Ok(());
            };
            *input = rest;
            data.is_padded = false;
            data.left -= 1;
            data.padding = u32::from(padding);
            if data.padding > data.left {
                return Err(Violation::Frame);
            }
            reading.tally.http2.padding_bytes += u64::from(padding);
        }
        let content = ((data.left - data.padding) as usize).min(input.len());
        let (now, later) = input.split_at(content);
        let padding = ((data.left as usize) - content).min(later.len());
        let padding = padding.min(data.padding as usize);
        *input = &later[padding..];
        let taken = u32::try_from(content + padding).unwrap_or(u32::MAX);
        data.left -= taken;
        data.padding = data.padding.min(data.left);
        let data = *data;
        if !now.is_empty() {
            self.content(reading, data.stream, now);
        }
        if data.left == 0 {
            self.data = None;
            self.end_data(reading, data);
        }
        Ok(())
    }

    /// Takes bytes of a body.
    #[inline]
    fn content(&mut self, reading: &mut Reading<'_>, id: u32, bytes: &[u8]) {
        reading.tally.traffic.body_bytes += bytes.len() as u64;
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        stream.body.add(bytes);
        let is_early = stream.status == 0;
        let left = stream
            .content_left
            .map(|left| left.checked_sub(bytes.len() as u64));
        if is_early {
            self.malformed(reading, id, Malformed::Order);
        } else if left == Some(None) {
            self.malformed(reading, id, Malformed::Length);
        } else {
            stream.content_left = left.flatten();
        }
    }

    /// A DATA frame is complete: opens the windows again once half of them is used up.
    #[inline]
    fn end_data(&mut self, reading: &mut Reading<'_>, data: Data) {
        let config = &reading.plan.http2;
        let whole = i64::from(config.connection_window).max(CONNECTION_WINDOW);
        if self.receive_window < whole / 2 {
            self.update_window(0, whole - self.receive_window);
            self.receive_window = whole;
        }
        let Some(stream) = self.streams.get(data.stream) else {
            return;
        };
        if data.ends_stream {
            if stream.status == 0 {
                return self.malformed(reading, data.stream, Malformed::Order);
            }
            return self.complete(reading, data.stream);
        }
        let whole = i64::from(config.stream_window);
        if data.length > 0 && stream.receive_window <= whole / 2 {
            let more = whole - stream.receive_window;
            stream.receive_window = whole;
            self.update_window(data.stream, more);
        }
    }

    fn update_window(&mut self, id: u32, by: i64) {
        let by = u32::try_from(by).unwrap_or(0).to_be_bytes();
        frame::write(&mut self.out, frame::WINDOW_UPDATE, 0, id, &by);
    }
}
