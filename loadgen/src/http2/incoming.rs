//! Reading frames of the server.

use recording::FailureClass;

use crate::protocol::{Fate, Reading};
use crate::tally::FailurePhase;

use super::frame::{self, FrameHead};
use super::hpack::Fields;
use super::peer::FRAME_BYTES_MIN;
use super::{Http2, Malformed, Table, Violation};

/// A header block whose end has not come.
#[derive(Debug)]
pub(super) struct Block {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
    /// Frames that it came in.
    frames: u32,
}

impl Http2 {
    /// Takes bytes that come after the start of HTTP/2.
    #[inline]
    pub(super) fn read(
        &mut self,
        reading: &mut Reading<'_>,
        mut input: &[u8],
    ) -> Result<(), Violation> {
        if !self.partial.is_empty() {
            self.read_partial(reading, &mut input)?;
        }
        loop {
            if self.data.is_some() {
                self.read_data(reading, &mut input)?;
                if self.data.is_some() {
                    return Ok(());
                }
            }
            let Some(head) = FrameHead::read(input) else {
                break;
            };
            self.check(head)?;
            if head.kind == frame::DATA {
                input = &input[frame::HEAD_BYTES..];
                self.begin_data(head)?;
                continue;
            }
            let end = frame::HEAD_BYTES + head.length as usize;
            let Some(payload) = input.get(frame::HEAD_BYTES..end) else {
                break;
            };
            self.frame(reading, head, payload)?;
            input = &input[end..];
        }
        self.partial.extend_from_slice(input);
        Ok(())
    }

    /// Completes the frame whose start is kept.
    fn read_partial(
        &mut self,
        reading: &mut Reading<'_>,
        input: &mut &[u8],
    ) -> Result<(), Violation> {
        self.fetch(frame::HEAD_BYTES, input);
        let Some(head) = FrameHead::read(&self.partial) else {
            return Ok(());
        };
        self.check(head)?;
        if head.kind == frame::DATA {
            self.partial.clear();
            return self.begin_data(head);
        }
        let end = frame::HEAD_BYTES + head.length as usize;
        self.fetch(end, input);
        if self.partial.len() < end {
            return Ok(());
        }
        let mut kept = std::mem::take(&mut self.partial);
        let result = self.frame(reading, head, &kept[frame::HEAD_BYTES..]);
        kept.clear();
        self.partial = kept;
        result
    }

    /// Fills what is kept up to a length.
    fn fetch(&mut self, length: usize, input: &mut &[u8]) {
        let missing = length.saturating_sub(self.partial.len());
        let (now, later) = input.split_at(missing.min(input.len()));
        self.partial.extend_from_slice(now);
        *input = later;
    }

    /// What can be said about a frame by its head.
    #[inline]
    fn check(&mut self, head: FrameHead) -> Result<(), Violation> {
        self.last_frame = head;
        if !self.is_greeted && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            return Err(Violation::Preface);
        }
        if head.length > FRAME_BYTES_MIN {
            return Err(Violation::FrameSize);
        }
        match &self.block {
            Some(block) if head.kind != frame::CONTINUATION || head.stream != block.stream => {
                Err(Violation::Continuation)
            }
            None if head.kind == frame::CONTINUATION => Err(Violation::Continuation),
            _ => Ok(()),
        }
    }

    /// Takes a whole frame that is not DATA.
    #[inline]
    fn frame(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        match head.kind {
            frame::HEADERS => self.headers(reading, head, payload),
            frame::CONTINUATION => self.continuation(reading, head, payload),
            frame::RST_STREAM => self.reset_stream(reading, head, payload),
            frame::SETTINGS => self.settings(reading, head, payload),
            frame::PUSH_PROMISE => Err(Violation::Frame),
            frame::PING => self.ping(reading, head, payload),
            frame::GOAWAY => self.goaway(reading, head, payload),
            frame::WINDOW_UPDATE => self.window_update(reading, head, payload),
            // PRIORITY means nothing to a client, and what is unknown has to be ignored.
            _ => Ok(()),
        }
    }

    #[inline]
    fn headers(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        self.check_stream(head.stream)?;
        let mut block = payload;
        let mut padding = 0;
        if head.has(frame::PADDED) {
            let (&first, rest) = block.split_first().ok_or(Violation::FrameSize)?;
            padding = usize::from(first);
            block = rest;
        }
        if head.has(frame::PRIORITY) {
            block = block.get(5..).ok_or(Violation::FrameSize)?;
        }
        let end = block.len().checked_sub(padding).ok_or(Violation::Frame)?;
        block = &block[..end];
        reading.tally.http2.padding_bytes += padding as u64;
        let ends_stream = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.fields(reading, head.stream, ends_stream, block);
        }
        self.block = Some(Block {
            stream: head.stream,
            ends_stream,
            bytes: block.to_vec(),
            frames: 1,
        });
        Ok(())
    }

    fn continuation(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        let Some(block) = &mut self.block else {
            return Err(Violation::Continuation);
        };
        block.frames += 1;
        block.bytes.extend_from_slice(payload);
        if block.bytes.len() > BLOCK_BYTES_MAX || block.frames > BLOCK_FRAMES_MAX {
            return Err(Violation::HeaderSize);
        }
        if !head.has(frame::END_HEADERS) {
            return Ok(());
        }
        match self.block.take() {
            Some(block) => self.fields(reading, block.stream, block.ends_stream, &block.bytes),
            None => Ok(()),
        }
    }

    /// Takes a whole header block.
    #[inline]
    fn fields(
        &mut self,
        reading: &mut Reading<'_>,
        id: u32,
        ends_stream: bool,
        block: &[u8],
    ) -> Result<(), Violation> {
        let fields = self
            .decoder
            .decode(block)
            .map_err(|_broken| Violation::Compression)?;
        let tally = &mut *reading.tally;
        tally.traffic.head_bytes += block.len() as u64;
        tally.http2.header_blocks += 1;
        tally.http2.header_bytes += block.len() as u64;
        tally.http2.header_decoded_bytes += fields.decoded_bytes;
        let Some(stream) = self.streams.get(id) else {
            // It was given up; its fields had to be read for the sake of the table.
            return Ok(());
        };
        let is_head = reading.plan.request_of(&stream.exchange).is_head;
        match (stream.status, fields.status) {
            _ if fields.is_malformed => self.malformed(reading, id, Malformed::Fields),
            // 101 has no meaning in HTTP/2.
            (0, Some(100 | 102..=199)) if !ends_stream => reading.tally.interim += 1,
            (0, Some(status @ 200..)) => {
                stream.status = status;
                stream.exchange.first_byte_ns = reading.now_ns;
                stream.content_left = content_left(&fields, is_head);
                tally.header_field_bytes += fields.decoded_bytes;
                if ends_stream {
                    self.complete(reading, id);
                }
            }
            // Trailers.
            (200.., None) if ends_stream => self.complete(reading, id),
            _ => self.malformed(reading, id, Malformed::Order),
        }
        Ok(())
    }

    /// The last byte of a response has come.
    #[inline]
    pub(super) fn complete(&mut self, reading: &mut Reading<'_>, id: u32) {
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        let is_short = stream.content_left.is_some_and(|left| left > 0);
        let exchange = stream.exchange;
        let status = stream.status;
        let is_sent = stream.sent == stream.send_bytes;
        let (content_ok, was_hashed) = stream.body.end(reading.plan, &exchange);
        reading.tally.hashed_bodies += u64::from(was_hashed);
        let fate = if is_short {
            Fate::Failed {
                class: FailureClass::ShortBody,
                phase: FailurePhase::Body,
            }
        } else {
            self.served += 1;
            Fate::Answered { status, content_ok }
        };
        if !is_sent {
            // The server has said all it wants to say; the rest of the body is of no use.
            self.cancel(id, frame::NO_ERROR);
        }
        self.end(id, fate, reading.ended);
    }

    /// A response that breaks the protocol, and nothing but itself with it.
    pub(super) fn malformed(&mut self, reading: &mut Reading<'_>, id: u32, how: Malformed) {
        if self.streams.get(id).is_some() {
            let frame = self.last_frame;
            reading.tally.violations.add(how, || frame.describe());
            self.cancel(id, frame::PROTOCOL_ERROR);
            self.end(id, Fate::VIOLATED, reading.ended);
        }
    }

    fn reset_stream(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        let code = u32::from_be_bytes(payload.try_into().map_err(|_long| Violation::FrameSize)?);
        self.check_stream(head.stream)?;
        let Some(stream) = self.streams.get(head.stream) else {
            return Ok(());
        };
        let phase = stream.phase();
        reading.tally.http2.resets += 1;
        if code == frame::REFUSED_STREAM {
            let again = self.turn_away(head.stream, reading.ended);
            reading.tally.http2.refused_retries += u64::from(again);
        } else {
            let class = FailureClass::StreamReset;
            self.end(head.stream, Fate::Failed { class, phase }, reading.ended);
        }
        Ok(())
    }

    fn settings(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        if head.stream != 0 {
            return Err(Violation::Frame);
        }
        if head.has(frame::ACK) {
            return if payload.is_empty() {
                Ok(())
            } else {
                Err(Violation::FrameSize)
            };
        }
        let before = self.peer;
        self.peer.apply(payload)?;
        let report = &mut reading.tally.http2;
        if self.is_greeted {
            report.settings_changes += 1;
        }
        self.is_greeted = true;
        if self.peer.table_bytes < before.table_bytes.min(super::hpack::DEFAULT_TABLE_BYTES) {
            self.table = Table::Unused { announced: false };
        }
        self.move_windows(self.peer.window - before.window, report)?;
        self.answer(frame::SETTINGS, &[])?;
        self.send_bodies(reading.plan);
        Ok(())
    }

    fn ping(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        if head.stream != 0 {
            return Err(Violation::Frame);
        }
        if payload.len() != 8 {
            return Err(Violation::FrameSize);
        }
        if head.has(frame::ACK) {
            return Ok(());
        }
        reading.tally.http2.pings += 1;
        self.answer(frame::PING, payload)
    }

    fn goaway(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        let last: [u8; 4] = *payload.first_chunk().ok_or(Violation::FrameSize)?;
        if head.stream != 0 {
            return Err(Violation::Frame);
        }
        let last = u32::from_be_bytes(last) & frame::ID_MAX;
        if self.goaway.is_none() {
            reading.tally.http2.goaways += 1;
        }
        self.goaway = Some(last);
        while let Some(id) = self.streams.next_after(last) {
            let again = self.turn_away(id, reading.ended);
            reading.tally.http2.goaway_retries += u64::from(again);
        }
        Ok(())
    }

    fn window_update(
        &mut self,
        reading: &mut Reading<'_>,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), Violation> {
        let by: [u8; 4] = payload.try_into().map_err(|_long| Violation::FrameSize)?;
        let by = u32::from_be_bytes(by) & frame::ID_MAX;
        let report = &mut reading.tally.http2;
        if head.stream == 0 {
            self.widen(by, report)?;
        } else {
            self.check_stream(head.stream)?;
            if !self.widen_stream(head.stream, by, report) {
                self.malformed(reading, head.stream, Malformed::Window);
            }
        }
        self.send_bodies(reading.plan);
        Ok(())
    }

    /// Whether there is or was such a stream: one that we began.
    #[inline]
    pub(super) fn check_stream(&self, id: u32) -> Result<(), Violation> {
        if id % 2 == 1 && id <= self.streams.last_id() {
            Ok(())
        } else {
            Err(Violation::Frame)
        }
    }

    /// Acknowledges a frame, unless the server has stopped to read what it asks for.
    fn answer(&mut self, kind: u8, payload: &[u8]) -> Result<(), Violation> {
        if self.backlog() > BACKLOG_BYTES_MAX {
            return Err(Violation::Flood);
        }
        frame::write(&mut self.out, kind, frame::ACK, 0, payload);
        Ok(())
    }
}

/// What is still to come of a body, if that was said; nothing where there is none.
fn content_left(fields: &Fields, is_head: bool) -> Option<u64> {
    let has_body = !is_head && !matches!(fields.status, Some(204 | 304));
    if has_body {
        fields.content_length
    } else {
        Some(0)
    }
}

/// Largest header block, and most frames that it may come in. As large as heads of HTTP/1.1 may be.
const BLOCK_BYTES_MAX: usize = crate::http1::HEAD_BYTES_MAX;
const BLOCK_FRAMES_MAX: u32 = 64;
/// What may wait to be written before a server that asks for more is cut off: far more than bodies
/// and requests make.
const BACKLOG_BYTES_MAX: usize = 1024 * 1024;
