//! HTTP/2 in clear by Upgrade (RFC 7540, section 3.2): the first request is one of HTTP/1.1, its
//! response comes on stream 1 if the server agrees. RFC 9113 has dropped it; servers still have it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::plan::Plan;
use crate::protocol::{Exchange, Reading};

use super::{Http2, Http2Config, Stage, Violation, settings};

/// The header lines that ask for it.
pub(crate) fn headers(config: &Http2Config) -> [(String, String); 3] {
    let settings = URL_SAFE_NO_PAD.encode(settings(config));
    [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", &settings),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

impl Http2 {
    /// Sends the first request, with the wish to change to HTTP/2.
    pub(super) fn submit_upgrade(&mut self, plan: &Plan, exchange: Exchange) {
        self.stage = Stage::Upgrading;
        let stream = self.streams.open(exchange);
        stream.begin(plan, &self.peer);
        let request = plan.request_of(&exchange);
        let request = request
            .upgrade
            .as_deref()
            .expect("a plan for Upgrade has requests for it");
        request.write(exchange.number, plan.shape.seed, &mut self.out);
    }

    /// Reads the answer to it, and what follows.
    pub(super) fn read_upgrade(
        &mut self,
        reading: &mut Reading<'_>,
        input: &[u8],
    ) -> Result<(), Violation> {
        if self.stage == Stage::Fresh {
            return Err(Violation::Preface);
        }
        let mut held = std::mem::take(&mut self.partial);
        held.extend_from_slice(input);
        let result = self.read_answer(reading, &held);
        if result.is_err() && self.stage == Stage::Upgrading {
            // It shows what the server said instead.
            self.partial = held;
        }
        result
    }

    fn read_answer(&mut self, reading: &mut Reading<'_>, mut rest: &[u8]) -> Result<(), Violation> {
        while self.stage == Stage::Upgrading {
            let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut response = httparse::Response::new(&mut fields);
            let parsed = response
                .parse(rest)
                .map_err(|_no_http1| Violation::Preface)?;
            let httparse::Status::Complete(length) = parsed else {
                if rest.len() > crate::http1::HEAD_BYTES_MAX {
                    return Err(Violation::HeaderSize);
                }
                self.partial.extend_from_slice(rest);
                return Ok(());
            };
            let status = response.code;
            reading.tally.traffic.head_bytes += length as u64;
            rest = &rest[length..];
            match status {
                Some(101) => {
                    self.stage = Stage::Running;
                    self.greet(&reading.plan.http2);
                }
                Some(100..=199) => reading.tally.interim += 1,
                _ => return Err(Violation::Declined),
            }
        }
        self.read(reading, rest)
    }
}

/// As many as the parser of HTTP/1.1 accepts.
const FIELDS_MAX: usize = 256;
