//! A request as HTTP/2 writes it: its header block, laid out once for every state of the
//! connection that it can be sent in, and its body.

use crate::placeholder::{self, Patch};

/// A request, ready to be put into frames.
#[derive(Clone, Debug)]
pub(crate) struct Http2Request {
    /// For the first one on a connection: its fields enter the table of the server.
    pub(super) first: Vec<u8>,
    /// For all that follow: its fields are those of the table.
    pub(super) next: Vec<u8>,
    /// For servers with a smaller table, and for requests that differ.
    pub(super) plain: Vec<u8>,
    /// What varies in `plain`.
    pub(super) patches: Vec<Patch>,
    /// What the fields take in the table of the server, bytes.
    pub(super) table_bytes: usize,
    pub(super) body: Vec<u8>,
    pub(super) body_patches: Vec<Patch>,
}

impl Http2Request {
    /// Lays out fields in their order; `is_varying` says whether placeholders are cut out.
    pub(crate) fn build(fields: &[(String, String)], body: &[u8], is_varying: bool) -> Self {
        let mut request = Self {
            first: Vec::new(),
            next: Vec::new(),
            plain: Vec::new(),
            patches: Vec::new(),
            table_bytes: 0,
            body: body.to_vec(),
            body_patches: Vec::new(),
        };
        // How many of the fields enter the table, and are found there from the newest on.
        let entering = fields
            .iter()
            .filter(|(name, value)| static_field(name, value).is_none())
            .count();
        let mut entered = 0;
        for (name, value) in fields {
            if let Some(index) = static_field(name, value) {
                for block in [&mut request.first, &mut request.next, &mut request.plain] {
                    integer(block, 0x80, 7, index);
                }
                continue;
            }
            literal(&mut request.first, 0x40, 6, name, value.as_bytes());
            integer(
                &mut request.next,
                0x80,
                7,
                STATIC_FIELDS + entering - entered,
            );
            entered += 1;
            request.table_bytes += name.len() + value.len() + ENTRY_BYTES;
            let (value, patches) = if is_varying {
                placeholder::cut(value.as_bytes())
            } else {
                (value.clone().into_bytes(), Vec::new())
            };
            literal(&mut request.plain, 0x00, 4, name, &value);
            let start = request.plain.len() - value.len();
            let moved = patches.into_iter().map(|patch| patch.moved(start));
            request.patches.extend(moved);
        }
        if is_varying {
            (request.body, request.body_patches) = placeholder::cut(body);
        }
        request
    }

    /// The body of request `number`.
    pub(super) fn write_body(&self, number: u64, seed: u64, to: &mut Vec<u8>) {
        to.clear();
        to.extend_from_slice(&self.body);
        for (place, patch) in (self.patches.len() as u64..).zip(&self.body_patches) {
            patch.write(to, number, place, seed);
        }
    }

    /// The header block of request `number`, where requests differ.
    pub(super) fn write_block(&self, number: u64, seed: u64, to: &mut Vec<u8>) {
        to.clear();
        to.extend_from_slice(&self.plain);
        for (place, patch) in (0..).zip(&self.patches) {
            patch.write(to, number, place, seed);
        }
    }
}

/// Appends an integer behind the bits of `pattern`.
fn integer(to: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    let mask = (1_usize << prefix_bits) - 1;
    if value < mask {
        to.push(pattern | low_byte(value));
        return;
    }
    to.push(pattern | low_byte(mask));
    let mut rest = value - mask;
    while rest >= 0x80 {
        to.push(low_byte(rest & 0x7f) | 0x80);
        rest >>= 7;
    }
    to.push(low_byte(rest));
}

fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

/// Appends a field whose value is written out. Without the Huffman code, so that the digits of
/// placeholders can be replaced; the table makes up for it after the first request.
fn literal(to: &mut Vec<u8>, pattern: u8, prefix_bits: u32, name: &str, value: &[u8]) {
    if let Some((_, index)) = NAMES.iter().find(|(known, _)| *known == name) {
        integer(to, pattern, prefix_bits, *index);
    } else {
        to.push(pattern);
        integer(to, 0x00, 7, name.len());
        to.extend_from_slice(name.as_bytes());
    }
    integer(to, 0x00, 7, value.len());
    to.extend_from_slice(value);
}

/// The index of a field that everybody knows.
fn static_field(name: &str, value: &str) -> Option<usize> {
    let known = [
        (":method", "GET", 2),
        (":method", "POST", 3),
        (":path", "/", 4),
        (":path", "/index.html", 5),
        (":scheme", "http", 6),
        (":scheme", "https", 7),
        ("accept-encoding", "gzip, deflate", 16),
    ];
    let found = known
        .into_iter()
        .find(|(known_name, known_value, _)| *known_name == name && *known_value == value);
    found.map(|(_, _, index)| index)
}

/// Names of requests that everybody knows, with their index (RFC 7541, Appendix A).
const NAMES: [(&str, usize); 19] = [
    (":authority", 1),
    (":method", 2),
    (":path", 4),
    (":scheme", 6),
    ("accept", 19),
    ("accept-charset", 15),
    ("accept-encoding", 16),
    ("accept-language", 17),
    ("authorization", 23),
    ("cache-control", 24),
    ("content-encoding", 26),
    ("content-length", 28),
    ("content-type", 31),
    ("cookie", 32),
    ("if-modified-since", 40),
    ("if-none-match", 41),
    ("range", 50),
    ("referer", 51),
    ("user-agent", 58),
];
const STATIC_FIELDS: usize = 61;
/// What every entry of a table counts beyond its text (RFC 7541, section 4.1).
const ENTRY_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::tests::bytes;

    fn request(fields: &[(&str, &str)]) -> Http2Request {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Http2Request::build(&fields, b"", false)
    }

    /// The first request of RFC 7541, C.3.1, and the same one again.
    #[test]
    fn the_request_of_the_specification() {
        let request = request(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
        ]);
        let block = bytes("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d");
        assert_eq!(request.first, block);
        assert_eq!(
            (request.next, request.table_bytes),
            (bytes("8286 84be"), 57)
        );
        assert_eq!(
            request.plain,
            bytes("8286 8401 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d")
        );
    }

    /// Fields that entered the table are found there, the last one first.
    #[test]
    fn the_newest_field_has_the_first_index() {
        let request = request(&[(":path", "/a"), ("x-b", "1"), ("cookie", "c")]);
        assert_eq!(request.next, [0xc0, 0xbf, 0xbe]);
        assert_eq!(request.first, b"\x44\x02/a\x40\x03x-b\x011\x60\x01c");
    }

    /// RFC 7541, C.1: integers.
    #[test]
    fn integers_of_the_specification() {
        let check = |prefix_bits, value, wanted: &[u8]| {
            let mut to = Vec::new();
            integer(&mut to, 0, prefix_bits, value);
            assert_eq!(to, wanted);
        };
        check(5, 10, &[0b0_1010]);
        check(5, 1337, &[0b1_1111, 0b1001_1010, 0b0000_1010]);
        check(8, 42, &[42]);
    }
}
