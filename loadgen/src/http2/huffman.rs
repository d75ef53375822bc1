//! The Huffman code of HPACK (RFC 7541, Appendix B).
//!
//! The code is canonical: the lengths of the codes determine the codes.

/// A string that is not in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidCode;

/// Decodes a string and hands its bytes to `sink`.
#[inline]
pub(super) fn decode(bytes: &[u8], mut sink: impl FnMut(u8)) -> Result<(), InvalidCode> {
    // The bits that are not decoded, from the highest one on.
    let mut bits = 0_u64;
    let mut count = 0_u32;
    let mut rest = bytes;
    loop {
        while count <= 56 {
            let Some((&byte, after)) = rest.split_first() else {
                break;
            };
            bits |= u64::from(byte) << (56 - count);
            count += 8;
            rest = after;
        }
        let (symbol, length) = lookup(bits);
        if length > count {
            // Less than a byte of ones fills the last byte up.
            let is_padding = count < 8 && (bits | u64::MAX >> count) == u64::MAX;
            return if is_padding { Ok(()) } else { Err(InvalidCode) };
        }
        // The end of the string has a code that must not be used.
        sink(u8::try_from(symbol).map_err(|_end| InvalidCode)?);
        bits <<= length;
        count -= length;
    }
}

/// The symbol that the highest bits are the code of, and the length of the code.
#[inline]
fn lookup(bits: u64) -> (u16, u32) {
    let (symbol, length) = TABLES.short[(bits >> 56) as usize];
    if length > 0 {
        return (symbol, u32::from(length));
    }
    let top = (bits >> 32) as u32;
    for length in SHORT_BITS + 1..MAX_BITS {
        if top < TABLES.limits[length] {
            return long(top, length);
        }
    }
    long(top, MAX_BITS)
}

fn long(top: u32, length: usize) -> (u16, u32) {
    let code = top >> (32 - length);
    let place = TABLES.places[length] + (code - TABLES.firsts[length]);
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    // Every code of the longest length is taken, so the place is one.
    (TABLES.symbols[place as usize], length)
}

/// What is derived from the lengths.
struct Tables {
    /// Symbol and length by the first eight bits; a length of zero says that the code is longer.
    short: [(u16, u8); 256],
    /// Symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    /// First code of each length.
    firsts: [u32; MAX_BITS + 1],
    /// Place of that code in `symbols`.
    places: [u32; MAX_BITS + 1],
    /// First 32 bits above the codes of each length.
    limits: [u32; MAX_BITS + 1],
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "symbols and lengths are small, and there is no other conversion at compile time"
)]
const fn tables() -> Tables {
    let mut tables = Tables {
        short: [(0, 0); 256],
        symbols: [0; SYMBOLS],
        firsts: [0; MAX_BITS + 1],
        places: [0; MAX_BITS + 1],
        limits: [0; MAX_BITS + 1],
    };
    let mut code = 0_u32;
    let mut place = 0;
    let mut length = 1;
    while length <= MAX_BITS {
        code <<= 1;
        tables.firsts[length] = code;
        tables.places[length] = place as u32;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                tables.symbols[place] = symbol as u16;
                place += 1;
                if length <= SHORT_BITS {
                    let shift = SHORT_BITS - length;
                    let mut low = 0;
                    while low < 1 << shift {
                        tables.short[(code << shift) as usize + low] =
                            (symbol as u16, length as u8);
                        low += 1;
                    }
                }
                code += 1;
            }
            symbol += 1;
        }
        // The last code of the longest length is all ones: nothing is above it.
        tables.limits[length] = if length == MAX_BITS {
            u32::MAX
        } else {
            code << (32 - length)
        };
        length += 1;
    }
    tables
}

static TABLES: Tables = tables();

/// Bytes, and the end of the string.
const SYMBOLS: usize = 257;
const SHORT_BITS: usize = 8;
const MAX_BITS: usize = 30;
/// Bits of the code of each symbol.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The straightforward encoder.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &byte in text {
            let length = usize::from(LENGTHS[usize::from(byte)]);
            let rank = (0..usize::from(byte))
                .filter(|&other| usize::from(LENGTHS[other]) == length)
                .count();
            let code = TABLES.firsts[length] + u32::try_from(rank).unwrap();
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        let byte = |bits: &[bool]| bits.iter().fold(0, |sum, &bit| sum << 1 | u8::from(bit));
        bits.chunks(8).map(byte).collect()
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, InvalidCode> {
        let mut text = Vec::new();
        decode(bytes, |byte| text.push(byte))?;
        Ok(text)
    }

    /// Strings of RFC 7541, Appendix C.
    #[test]
    fn strings_of_the_specification() {
        let check = |hex: &str, text: &str| {
            assert_eq!(
                decoded(&crate::http2::tests::bytes(hex)).unwrap(),
                text.as_bytes()
            );
        };
        check("f1e3 c2e5 f23a 6ba0 ab90 f4ff", "www.example.com");
        check("a8eb 1064 9cbf", "no-cache");
        check("6402", "302");
        check("640e ff", "307");
        check(
            "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff",
            "Mon, 21 Oct 2013 20:13:21 GMT",
        );
        check(
            "9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3",
            "https://www.example.com",
        );
    }

    /// Too much padding, padding with zeros, and the code of the end are errors.
    #[test]
    fn broken_strings_are_refused() {
        assert_eq!(decoded(&[0xff]), Err(InvalidCode));
        assert_eq!(decoded(&[0b0000_0000]), Err(InvalidCode));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(InvalidCode));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        /// What is encoded is decoded; whatever else comes, it ends.
        #[test]
        fn encoding_is_undone(text in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(&decoded(&encode(&text)).unwrap(), &text);
            let result = decoded(&text);
            prop_assert!(result.is_err() || encode(&result.unwrap()) == text);
        }
    }
}
