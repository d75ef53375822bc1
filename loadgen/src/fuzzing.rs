//! What fuzzers and laws drive: every parser of bytes that a server chooses, with what has to hold
//! for each. Not part of the crate but for them.

use std::cell::RefCell;

use recording::HttpVersion;

use crate::config::Config;
use crate::http1::HeadCache;
use crate::plan::Plan;
use crate::protocol::{End, Ended, Exchange, Protocol, Reading};
use crate::tally::Tally;
use crate::target::Target;

/// A connection of HTTP/1.1 to a server that says `data`.
pub fn http1(data: &[u8]) {
    connection(HttpVersion::Http1, data);
}

/// A connection of HTTP/2 to a server that says `data`.
pub fn http2(data: &[u8]) {
    connection(HttpVersion::Http2, data);
}

/// A connection that asks a server for HTTP/2, which says `data`.
pub fn http2_upgrade(data: &[u8]) {
    connection(HttpVersion::Http2Upgrade, data);
}

/// A certificate.
pub fn certificate(data: &[u8]) {
    assert!(!crate::tls::key_type(data).is_empty());
}

/// A URL: whatever is taken for one can be written as a request.
pub fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(target) = Target::parse(text) {
        assert!(target.path_and_query.starts_with('/'));
        assert!(
            target
                .path_and_query
                .bytes()
                .all(|byte| byte.is_ascii_graphic())
        );
        assert!(target.authority.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(target.port > 0);
    }
}

/// Plays a whole connection: the bytes come in pieces, their lengths are part of the data, and new
/// requests are sent in between. However it goes, every exchange ends exactly once.
fn connection(http: HttpVersion, data: &[u8]) {
    let plan = plan(http);
    let mut line = Line {
        plan: &plan,
        protocol: Protocol::new(&plan),
        cache: HeadCache::default(),
        tally: Tally::new(0),
        ended: Vec::new(),
        submitted: 0,
        in_flight: 0,
        now_ns: 1,
    };
    line.protocol.begin(&plan, plan.requests_per_connection, 1);
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        line.submit();
        let (piece, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        line.receive(piece);
        if length == 0 {
            line.expire();
        }
    }
    line.lost();
}

/// One end of a connection in memory.
struct Line<'a> {
    plan: &'a Plan,
    protocol: Protocol,
    cache: HeadCache,
    tally: Tally,
    ended: Vec<Ended>,
    submitted: u64,
    in_flight: u64,
    now_ns: u64,
}

impl Line<'_> {
    /// Sends what there is room for, and takes what is to be written.
    fn submit(&mut self) {
        self.now_ns += 1;
        for _ in 0..self.protocol.room(self.plan) {
            let exchange = Exchange {
                started_ns: self.now_ns,
                number: self.submitted,
                ..Exchange::default()
            };
            self.protocol.submit(self.plan, exchange);
            self.submitted += 1;
            self.in_flight += 1;
        }
        loop {
            let count = self.protocol.unsent(self.plan).len();
            assert!(count <= WRITTEN_BYTES_MAX, "{count} bytes to write");
            if count == 0 {
                return;
            }
            self.protocol.sent(self.plan, count);
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut reading = Reading {
            plan: self.plan,
            cache: &mut self.cache,
            tally: &mut self.tally,
            ended: &mut self.ended,
            now_ns: self.now_ns,
        };
        let close = self.protocol.receive(&mut reading, bytes);
        self.settle(close.is_some());
    }

    fn expire(&mut self) {
        let close = self
            .protocol
            .expire(self.plan, self.now_ns - 1, &mut self.ended);
        self.settle(close.is_some());
    }

    fn lost(&mut self) {
        let _why = self.protocol.lost(self.plan, End::Eof, &mut self.ended);
        self.settle(true);
    }

    /// Counts what has ended; a closed connection has nothing left, and the next one begins.
    fn settle(&mut self, closed: bool) {
        self.in_flight -= self.ended.len() as u64;
        self.ended.clear();
        let mut known = 0;
        self.protocol.each_started_ns(&mut |_| known += 1);
        assert_eq!(known, self.in_flight, "exchanges were lost or doubled");
        if closed {
            assert_eq!(self.in_flight, 0, "a closed connection holds exchanges");
            self.protocol.reset();
            let requests = self.plan.requests_per_connection;
            self.protocol.begin(self.plan, requests, self.now_ns);
        }
    }
}

/// A plan with a body, three exchanges at a time, and an end of connections. It is made once per
/// thread and version, since it takes longer than most inputs.
fn plan(http: HttpVersion) -> std::rc::Rc<Plan> {
    PLANS.with_borrow_mut(|plans| {
        if let Some(known) = plans.iter().find(|known| known.http == http) {
            return known.clone();
        }
        let mut config = Config::new("http://127.0.0.1:1/path");
        config.http = http;
        config.depth = 3;
        "PUT".clone_into(&mut config.method);
        config.body = Some(vec![b'x'; 100_000]);
        config.requests_per_connection = Some(50);
        let (plan, _) = crate::run::plan(&config).expect("it is a good load");
        let plan = std::rc::Rc::new(plan);
        plans.push(plan.clone());
        plan
    })
}

thread_local! {
    static PLANS: RefCell<Vec<std::rc::Rc<Plan>>> = const { RefCell::new(Vec::new()) };
}

/// Far above what three requests and all that a server may ask for in 255 bytes can make.
const WRITTEN_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of what servers say: whole frames and lines, and parts of them.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let frame = (
            0_u8..12,
            any::<u8>(),
            0_u8..8,
            prop::collection::vec(any::<u8>(), 0..20),
        )
            .prop_map(|(kind, flags, stream, payload)| {
                let length = u8::try_from(payload.len()).unwrap();
                let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
                bytes.extend(payload);
                bytes
            });
        let words = prop::sample::select(vec![
            &b"\0\0\0\x04\0\0\0\0\0"[..],
            b"\0\0\x01\x01\x05\0\0\0\x01\x88",
            b"\0\0\x01\x01\x04\0\0\0\x03\x88",
            b"\0\0\x02\0\x01\0\0\0\x03ok",
            b"\0\0\x04\x08\0\0\0\0\0\0\0\xff\xff",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\n",
        ]);
        let piece = prop_oneof![
            frame,
            words.prop_map(<[u8]>::to_vec),
            prop::collection::vec(any::<u8>(), 0..10),
        ];
        let lengths = prop::collection::vec(0_u8..40, 1..60);
        (prop::collection::vec(piece, 1..30), lengths).prop_map(|(pieces, lengths)| {
            let bytes = pieces.concat();
            let mut data = Vec::new();
            let mut rest = &bytes[..];
            for length in lengths.iter().cycle().take(200) {
                let (now, later) = rest.split_at(usize::from(*length).min(rest.len()));
                data.push(*length);
                data.extend_from_slice(now);
                rest = later;
            }
            data
        })
    }

    /// The committed corpus of every fuzz target.
    #[test]
    fn corpus_is_survived() {
        type Target = (&'static str, fn(&[u8]));
        let targets: [Target; 5] = [
            ("certificate", certificate),
            ("http1", http1),
            ("http2", http2),
            ("http2_upgrade", http2_upgrade),
            ("url", url),
        ];
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        for (target, play) in targets {
            let mut played = 0;
            for entry in std::fs::read_dir(folder.join(target)).unwrap() {
                play(&std::fs::read(entry.unwrap().path()).unwrap());
                played += 1;
            }
            assert!(played > 0, "{target}");
        }
    }

    proptest! {
        /// Exchanges neither vanish nor double, and nothing panics, whatever a server says.
        #[test]
        fn servers_are_survived(data in pieces()) {
            http1(&data);
            http2(&data);
            http2_upgrade(&data);
            certificate(&data);
        }

        /// What is taken for a URL is one.
        #[test]
        fn urls_are_whole(text in "[hH]ttps?://[a-z0-9:.@\\[\\]-]{0,12}[/?#]?\\PC{0,12}") {
            url(text.as_bytes());
        }
    }
}
