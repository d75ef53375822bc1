//! Reading header blocks (HPACK, RFC 7541).
//!
//! The dynamic table is kept exactly, and of its entries what a load generator has to know: how
//! long they are, and what they say where they are a status or a length. No text is stored.

use std::collections::VecDeque;

use super::huffman;
use super::static_table::STATIC;

/// What a header block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Value of `:status`, 100..=999.
    pub(super) status: Option<u16>,
    /// Value of `content-length`.
    pub(super) content_length: Option<u64>,
    /// Bytes of all names and values, decoded.
    pub(super) decoded_bytes: u64,
    /// Whether a field makes no sense in a response, although the block could be read.
    pub(super) is_malformed: bool,
}

/// A block that cannot be read: the table is lost, and the connection with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompressionError;

impl From<huffman::InvalidCode> for CompressionError {
    fn from(_: huffman::InvalidCode) -> Self {
        Self
    }
}

/// The names that mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Status,
    ContentLength,
    /// Begins with a colon and is no `:status`: it belongs to requests.
    Pseudo,
    Other,
}

/// A field, as far as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: Name,
    pub(super) name_bytes: u32,
    pub(super) value_bytes: u32,
    /// The number that the value is, where the name asks for one.
    pub(super) number: Option<u64>,
}

/// Reads the header blocks of one connection, in their order.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Newest first.
    table: VecDeque<Field>,
    /// Size of the table as RFC 7541, section 4.1, counts it.
    size: usize,
    /// What the peer has limited it to.
    size_max: usize,
    /// What we have told the peer that it may use.
    size_limit: usize,
    /// The last block that left the table as it was, and what it said: servers send the same block
    /// again and again.
    last: Vec<u8>,
    last_fields: Option<Fields>,
}

impl Decoder {
    /// With an empty table of at most so many bytes.
    pub(super) fn new(size_limit: u32) -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            size_max: size_limit.min(DEFAULT_TABLE_BYTES) as usize,
            size_limit: size_limit as usize,
            last: Vec::new(),
            last_fields: None,
        }
    }

    /// Forgets everything, for a new connection.
    pub(super) fn reset(&mut self) {
        self.table.clear();
        self.size = 0;
        self.size_max = self.size_limit.min(DEFAULT_TABLE_BYTES as usize);
        self.last_fields = None;
    }

    /// Reads a block.
    #[inline]
    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Fields, CompressionError> {
        if let Some(fields) = self.last_fields
            && self.last == block
        {
            return Ok(fields);
        }
        self.decode_anew(block)
    }

    fn decode_anew(&mut self, block: &[u8]) -> Result<Fields, CompressionError> {
        let mut fields = Fields::default();
        let mut changed = false;
        let mut rest = block;
        let mut is_first = true;
        while let Some(&first) = rest.first() {
            let field = if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                self.field(index)?
            } else if first & 0x40 != 0 {
                changed = true;
                let field = self.literal(&mut rest, 6)?;
                self.insert(field);
                field
            } else if first & 0x20 != 0 {
                if !is_first {
                    return Err(CompressionError);
                }
                changed = true;
                let size = integer(&mut rest, 5)? as usize;
                if size > self.size_limit {
                    return Err(CompressionError);
                }
                self.size_max = size;
                self.evict(0);
                continue;
            } else {
                self.literal(&mut rest, 4)?
            };
            is_first = false;
            fields.add(field);
        }
        self.last_fields = None;
        if !changed && block.len() <= LAST_BYTES_MAX {
            self.last.clear();
            self.last.extend_from_slice(block);
            self.last_fields = Some(fields);
        }
        Ok(fields)
    }

    /// The field with an index in both tables.
    fn field(&self, index: u32) -> Result<Field, CompressionError> {
        let index = index as usize;
        if let Some(field) = STATIC.get(index.wrapping_sub(1)) {
            return Ok(*field);
        }
        let place = index
            .checked_sub(STATIC.len() + 1)
            .ok_or(CompressionError)?;
        self.table.get(place).copied().ok_or(CompressionError)
    }

    /// A field whose value, and perhaps whose name, is written out.
    fn literal(&self, rest: &mut &[u8], prefix_bits: u32) -> Result<Field, CompressionError> {
        let index = integer(rest, prefix_bits)?;
        let (name, name_bytes) = if index == 0 {
            read_name(rest)?
        } else {
            let known = self.field(index)?;
            (known.name, known.name_bytes)
        };
        let (number, value_bytes) = read_value(rest, name)?;
        Ok(Field {
            name,
            name_bytes,
            value_bytes,
            number,
        })
    }

    fn insert(&mut self, field: Field) {
        let size = field.size();
        self.evict(size);
        // What is larger than the table empties it, and is not kept.
        if size <= self.size_max {
            self.size += size;
            self.table.push_front(field);
        }
    }

    /// Makes room for `size` more bytes.
    fn evict(&mut self, size: usize) {
        while self.size + size > self.size_max {
            match self.table.pop_back() {
                Some(oldest) => self.size -= oldest.size(),
                None => return,
            }
        }
    }
}

impl Fields {
    #[inline]
    fn add(&mut self, field: Field) {
        self.decoded_bytes += u64::from(field.name_bytes) + u64::from(field.value_bytes);
        match (field.name, field.number) {
            (Name::Other, _) => {}
            (Name::Status, Some(number @ 100..=999)) if self.status.is_none() => {
                self.status = u16::try_from(number).ok();
            }
            (Name::ContentLength, Some(number)) if self.content_length.is_none() => {
                self.content_length = Some(number);
            }
            _ => self.is_malformed = true,
        }
    }
}

impl Field {
    /// What it counts in the table.
    fn size(self) -> usize {
        self.name_bytes as usize + self.value_bytes as usize + ENTRY_BYTES
    }
}

/// An integer with a prefix of so many bits (RFC 7541, section 5.1).
#[inline]
fn integer(rest: &mut &[u8], prefix_bits: u32) -> Result<u32, CompressionError> {
    let (&first, mut after) = rest.split_first().ok_or(CompressionError)?;
    let mask = (1_u32 << prefix_bits) - 1;
    let mut value = u32::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, rest) = after.split_first().ok_or(CompressionError)?;
            after = rest;
            let digit = u32::from(byte & 0x7f);
            // Nothing that is meant seriously needs more than 28 bits.
            if shift > 21 {
                return Err(CompressionError);
            }
            value += digit << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = after;
    Ok(value)
}

/// The bytes of a string, and whether they are in the Huffman code.
fn string<'a>(rest: &mut &'a [u8]) -> Result<(&'a [u8], bool), CompressionError> {
    let is_huffman = rest.first().ok_or(CompressionError)? & 0x80 != 0;
    let length = integer(rest, 7)? as usize;
    let (bytes, after) = rest.split_at_checked(length).ok_or(CompressionError)?;
    *rest = after;
    Ok((bytes, is_huffman))
}

/// Hands every byte of a string to `sink`, and returns how many there are.
fn read_string(rest: &mut &[u8], mut sink: impl FnMut(u8)) -> Result<u32, CompressionError> {
    let (bytes, is_huffman) = string(rest)?;
    let mut count = 0;
    if is_huffman {
        huffman::decode(bytes, |byte| {
            count += 1;
            sink(byte);
        })?;
    } else {
        for &byte in bytes {
            sink(byte);
        }
        count = u32::try_from(bytes.len()).map_err(|_too_long| CompressionError)?;
    }
    Ok(count)
}

fn read_name(rest: &mut &[u8]) -> Result<(Name, u32), CompressionError> {
    let mut start = [0; CONTENT_LENGTH.len()];
    let mut count = 0;
    let length = read_string(rest, |byte| {
        if let Some(place) = start.get_mut(count) {
            *place = byte;
        }
        count += 1;
    })?;
    let start = &start[..count.min(start.len())];
    let name = if count == STATUS.len() && start == STATUS {
        Name::Status
    } else if count == CONTENT_LENGTH.len() && start == CONTENT_LENGTH {
        Name::ContentLength
    } else if start.first() == Some(&b':') {
        Name::Pseudo
    } else {
        Name::Other
    };
    Ok((name, length))
}

/// The value as a number, where the name asks for one, and its length.
fn read_value(rest: &mut &[u8], name: Name) -> Result<(Option<u64>, u32), CompressionError> {
    match name {
        Name::Other | Name::Pseudo => {
            let (bytes, is_huffman) = string(rest)?;
            let mut count = 0;
            if is_huffman {
                huffman::decode(bytes, |_| count += 1)?;
            } else {
                count = u32::try_from(bytes.len()).map_err(|_too_long| CompressionError)?;
            }
            Ok((None, count))
        }
        Name::Status | Name::ContentLength => {
            let mut number = Some(0_u64);
            let count = read_string(rest, |byte| {
                number = number
                    .filter(|_| byte.is_ascii_digit())
                    .and_then(|number| number.checked_mul(10))
                    .and_then(|number| number.checked_add(u64::from(byte - b'0')));
            })?;
            Ok((number.filter(|_| count > 0), count))
        }
    }
}

const STATUS: &[u8; 7] = b":status";
const CONTENT_LENGTH: &[u8; 14] = b"content-length";
/// What every entry of a table counts beyond its text (RFC 7541, section 4.1).
const ENTRY_BYTES: usize = 32;
/// The table of a connection before anybody has said anything.
pub(super) const DEFAULT_TABLE_BYTES: u32 = 4096;
/// Larger blocks are rare, and comparing them is no longer cheap.
const LAST_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http2::tests::bytes;

    fn check(
        decoder: &mut Decoder,
        block: &str,
        wanted: (Option<u16>, u64),
        table: (usize, usize),
    ) {
        let fields = decoder.decode(&bytes(block)).unwrap();
        assert_eq!((fields.status, fields.decoded_bytes), wanted);
        assert_eq!((decoder.table.len(), decoder.size), table);
    }

    /// RFC 7541, C.5 and C.6: three responses on one connection with a table of 256 bytes, with
    /// eviction, without and with the Huffman code.
    #[test]
    fn responses_of_the_specification() {
        let plain = [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
             2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
             6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
             54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
             5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
             3d31",
        ];
        let huffman = [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
             2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
             77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
             9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ];
        for blocks in [plain, huffman] {
            let mut decoder = Decoder::new(256);
            check(
                &mut decoder,
                blocks[0],
                (Some(302), 10 + 20 + 33 + 31),
                (4, 222),
            );
            check(&mut decoder, blocks[1], (Some(307), 94), (4, 222));
            check(
                &mut decoder,
                blocks[2],
                (Some(200), 10 + 20 + 33 + 31 + 20 + 66),
                (3, 215),
            );
        }
    }

    /// RFC 7541, C.3: requests are read as well, though none makes sense as a response.
    #[test]
    fn requests_of_the_specification() {
        let mut decoder = Decoder::new(4096);
        let blocks = [
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", (1, 57)),
            ("8286 84be 5808 6e6f 2d63 6163 6865", (2, 110)),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                (3, 164),
            ),
        ];
        for (block, table) in blocks {
            let fields = decoder.decode(&bytes(block)).unwrap();
            assert!(fields.is_malformed && fields.status.is_none());
            assert_eq!((decoder.table.len(), decoder.size), table);
        }
    }

    /// The table follows the updates of its size, which come first in a block and obey the limit.
    #[test]
    fn sizes_of_the_table() {
        let mut decoder = Decoder::new(4096);
        let insert = "4003 6162 6303 6465 66";
        check(&mut decoder, insert, (None, 6), (1, 38));
        check(&mut decoder, "20", (None, 0), (0, 0));
        check(&mut decoder, insert, (None, 6), (0, 0));
        check(&mut decoder, "3f19", (None, 0), (0, 0));
        check(&mut decoder, insert, (None, 6), (1, 38));
        check(&mut decoder, insert, (None, 6), (1, 38));
        assert_eq!(decoder.decode(&bytes("8820")), Err(CompressionError));
        assert_eq!(decoder.decode(&bytes("3fe2 1f")), Err(CompressionError));
    }

    /// A block that was seen before means the same only as long as the table is the same.
    #[test]
    fn known_blocks_follow_the_table() {
        let mut decoder = Decoder::new(4096);
        check(&mut decoder, "4803 3230 33", (Some(203), 10), (1, 42));
        check(&mut decoder, "be", (Some(203), 10), (1, 42));
        check(&mut decoder, "be", (Some(203), 10), (1, 42));
        check(&mut decoder, "4803 3230 35", (Some(205), 10), (2, 84));
        check(&mut decoder, "be", (Some(205), 10), (2, 84));
    }

    /// Numbers are read exactly; what is none, or comes twice, is malformed.
    #[test]
    fn numbers_are_strict() {
        let check = |block: &[u8], wanted: Option<Option<u64>>| {
            let fields = Decoder::new(4096).decode(block).unwrap();
            match wanted {
                Some(length) => assert_eq!(fields.content_length, length),
                None => assert!(fields.is_malformed),
            }
        };
        check(b"\x88\x0f\x0d\x0242", Some(Some(42)));
        check(b"\x88\x00\x0econtent-length\x03007", Some(Some(7)));
        check(b"\x88\x0f\x0d\x02+2", None);
        check(b"\x88\x0f\x0d\x00", None);
        check(
            b"\x88\x0f\x0d\x0142\x0f\x0d\x0142".split_at(5).0,
            Some(Some(4)),
        );
        check(b"\x88\x0f\x0d\x014\x0f\x0d\x014", None);
        check(b"\x88\x89", None);
        check(b"\x08\x0299", None);
        check(b"\x88\x00\x05:path\x01/", None);
    }

    /// Blocks that cannot be read.
    #[test]
    fn broken_blocks_are_refused() {
        for block in [
            "80",
            "be",
            "ff80 8080 8001",
            "40",
            "4001",
            "4003 6162",
            "7f",
            "0f",
        ] {
            let result = Decoder::new(4096).decode(&bytes(block));
            assert_eq!(result, Err(CompressionError), "{block}");
        }
    }

    proptest! {
        /// Whatever comes, it ends, and the table stays within its size.
        #[test]
        fn anything_is_survived(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
            let mut decoder = Decoder::new(300);
            for block in blocks {
                let result = decoder.decode(&block);
                prop_assert!(decoder.size <= decoder.size_max && decoder.size_max <= 300);
                let counted: usize = decoder.table.iter().map(|field| field.size()).sum();
                prop_assert_eq!(counted, decoder.size);
                if result.is_err() {
                    break;
                }
            }
        }
    }
}
