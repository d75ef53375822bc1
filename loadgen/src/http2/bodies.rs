//! Bodies of requests, and the windows that hold them back (RFC 9113, section 5.2).

use recording::Http2Report;

use crate::plan::Plan;

use super::frame::{self, FrameHead};
use super::{Http2, Violation};

impl Http2 {
    /// Puts as much of the bodies into frames as the windows and the buffer take, in turn.
    pub(super) fn send_bodies(&mut self, plan: &Plan) {
        let mut place = 0;
        let mut blocked = 0;
        while !self.bodies.is_empty()
            && blocked < self.bodies.len()
            && self.backlog() < OUT_BYTES_MAX
        {
            place %= self.bodies.len();
            let id = self.bodies[place];
            match self.send_body(plan, id) {
                Sent::Nothing => {
                    blocked += 1;
                    place += 1;
                }
                Sent::Some => {
                    blocked = 0;
                    place += 1;
                }
                Sent::All => {
                    blocked = 0;
                    self.bodies.remove(place);
                }
            }
        }
    }

    /// One frame of one body.
    fn send_body(&mut self, plan: &Plan, id: u32) -> Sent {
        let now_ns = self.received_ns;
        let Some(stream) = self.streams.get(id) else {
            return Sent::All;
        };
        let left = stream.send_bytes - stream.sent;
        let window = self.send_window.min(stream.send_window).max(0);
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let length = left
            .min(window)
            .min(self.peer.frame_bytes_max as usize)
            .min(FRAME_BYTES);
        if length == 0 {
            let since = if self.send_window <= 0 {
                &mut self.stalled_ns
            } else {
                &mut stream.stalled_ns
            };
            if *since == 0 {
                *since = now_ns;
            }
            return Sent::Nothing;
        }
        let request = plan.request_of(&stream.exchange);
        let body = match &request.http2 {
            Some(request) if request.body_patches.is_empty() => &request.body,
            _ => &stream.own_body,
        };
        let is_last = length == left;
        let head = FrameHead {
            length: u32::try_from(length).unwrap_or(u32::MAX),
            kind: frame::DATA,
            flags: if is_last { frame::END_STREAM } else { 0 },
            stream: id,
        };
        head.write(&mut self.out);
        self.out
            .extend_from_slice(&body[stream.sent..stream.sent + length]);
        stream.sent += length;
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        stream.send_window -= length;
        self.send_window -= length;
        if is_last { Sent::All } else { Sent::Some }
    }

    /// The window of the connection grew.
    pub(super) fn widen(&mut self, by: u32, report: &mut Http2Report) -> Result<(), Violation> {
        self.send_window += i64::from(by);
        if by == 0 || self.send_window > i64::from(frame::ID_MAX) {
            return Err(Violation::FlowControl);
        }
        report.connection_stalled_ns += end_stall(&mut self.stalled_ns, self.received_ns);
        Ok(())
    }

    /// The window of a stream grew; `false` if it cannot.
    pub(super) fn widen_stream(&mut self, id: u32, by: u32, report: &mut Http2Report) -> bool {
        let Some(stream) = self.streams.get(id) else {
            return true;
        };
        stream.send_window += i64::from(by);
        report.stream_stalled_ns += end_stall(&mut stream.stalled_ns, self.received_ns);
        by > 0 && stream.send_window <= i64::from(frame::ID_MAX)
    }

    /// The server has changed the window of every stream.
    pub(super) fn move_windows(
        &mut self,
        by: i64,
        report: &mut Http2Report,
    ) -> Result<(), Violation> {
        let now_ns = self.received_ns;
        for stream in self.streams.iter_mut() {
            stream.send_window += by;
            if stream.send_window > i64::from(frame::ID_MAX) {
                return Err(Violation::FlowControl);
            }
            report.stream_stalled_ns += end_stall(&mut stream.stalled_ns, now_ns);
        }
        Ok(())
    }
}

/// What became of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// A window holds it back.
    Nothing,
    /// A frame of it was sent.
    Some,
    /// It is complete, or nobody wants it any more.
    All,
}

/// How long a stall lasted; it is over.
fn end_stall(since_ns: &mut u64, now_ns: u64) -> u64 {
    match std::mem::take(since_ns) {
        0 => 0,
        since_ns => now_ns.saturating_sub(since_ns),
    }
}

/// Bytes that wait to be written before more of the bodies is put into frames.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// The size of frames: one TLS record takes it.
const FRAME_BYTES: usize = 16 * 1024 - frame::HEAD_BYTES;
