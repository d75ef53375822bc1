//! What varies in the bytes of a request: `{seq}` and `{random}`, digits of a fixed width, so that
//! nothing moves and every length stays.

use crate::random::number_at;

/// Digits that are replaced in each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    at: usize,
    width: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The number of the request.
    Sequence,
    /// A number that looks random.
    Random,
}

/// Replaces the placeholders of `bytes` by zeros and says where they are. Only `{seq}`, `{random}`
/// and, with a width, `{seq:W}` and `{random:W}` are placeholders; other braces are kept.
pub(crate) fn cut(bytes: &[u8]) -> (Vec<u8>, Vec<Patch>) {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut patches = Vec::new();
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        if let Some((kind, width, length)) = placeholder(rest) {
            patches.push(Patch {
                at: kept.len(),
                width,
                kind,
            });
            kept.extend(std::iter::repeat_n(b'0', width));
            rest = &rest[length..];
        } else {
            kept.push(first);
            rest = &rest[1..];
        }
    }
    (kept, patches)
}

impl Patch {
    /// The same digits behind `offset` more bytes.
    pub(crate) fn moved(self, offset: usize) -> Self {
        Self {
            at: self.at + offset,
            ..self
        }
    }

    /// Writes the digits of request `number`; `place` tells patches of one request apart.
    pub(crate) fn write(self, request: &mut [u8], number: u64, place: u64, seed: u64) {
        let mut rest = match self.kind {
            Kind::Sequence => number,
            Kind::Random => number_at(seed ^ place, number),
        };
        for digit in request[self.at..self.at + self.width].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
    }
}

/// A placeholder at the front: what it is, its width, and the length of its text.
fn placeholder(bytes: &[u8]) -> Option<(Kind, usize, usize)> {
    let end = bytes.iter().take(TEXT_MAX).position(|&byte| byte == b'}')?;
    let inner = std::str::from_utf8(bytes.get(1..end)?).ok()?;
    let (name, width) = match inner.split_once(':') {
        Some((name, width)) => (name, width.parse().ok()?),
        None => (inner, WIDTH),
    };
    let kind = match name {
        "seq" => Kind::Sequence,
        "random" => Kind::Random,
        _ => return None,
    };
    let is_placeholder = bytes[0] == b'{' && (1..=WIDTH_MAX).contains(&width);
    is_placeholder.then_some((kind, width, end + 1))
}

/// Room for ten thousand million requests.
const WIDTH: usize = 10;
/// What 64 bits hold.
const WIDTH_MAX: usize = 19;
/// The longest one is `{random:19}`.
const TEXT_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, number: u64) -> String {
        let (mut bytes, patches) = cut(text.as_bytes());
        for (place, patch) in (0..).zip(patches) {
            patch.write(&mut bytes, number, place, 9);
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Numbers are padded, and cut to their width from the left.
    #[test]
    fn sequences_are_padded() {
        assert_eq!(written("/a?id={seq}", 42), "/a?id=0000000042");
        assert_eq!(written("{seq:3}-{seq:1}", 1234), "234-4");
    }

    /// Random digits differ between requests and places, and repeat for the same number.
    #[test]
    fn random_digits_repeat() {
        let first = written("{random:19}{random:19}", 1);
        assert_eq!(first, written("{random:19}{random:19}", 1));
        assert_ne!(first[..19], first[19..]);
        assert_ne!(first, written("{random:19}{random:19}", 2));
        assert!(first.bytes().all(|digit| digit.is_ascii_digit()));
    }

    /// Other braces stay as they are.
    #[test]
    fn other_braces_are_kept() {
        for text in [
            "{\"seq\":1}",
            "{seq:0}",
            "{seq:20}",
            "{seq:x}",
            "{",
            "{se",
            "seq}",
            "{}",
        ] {
            assert_eq!(written(text, 7), text);
        }
    }
}
