//! Whether a body is the expected one: its length, and the hash of all bodies or of a sample.

use sha2::{Digest as _, Sha256};

use crate::plan::Plan;
use crate::protocol::Exchange;
use crate::request::Request;

/// What the body of a response has to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Bytes, after removing chunk framing; responses to HEAD are not asked.
    pub length: Option<u64>,
    /// SHA-256 of those bytes.
    pub sha256: Option<[u8; 32]>,
}

impl Check {
    /// Reads the 64 hexadecimal digits of a SHA-256.
    pub fn parse_sha256(text: &str) -> Option<[u8; 32]> {
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() || !text.is_ascii() {
            return None;
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            // A sign would be taken for a digit.
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(hash)
    }

    /// Whether nothing is asked.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length.is_none() && self.sha256.is_none()
    }
}

/// One body on its way.
#[derive(Debug, Default)]
pub(crate) struct BodyCheck {
    bytes: u64,
    is_hashed: bool,
    /// Made when the first body of the connection is hashed, and used again for all that follow.
    hash: Option<Box<Sha256>>,
}

impl BodyCheck {
    /// The response to an exchange begins.
    #[inline]
    pub(crate) fn begin(&mut self, plan: &Plan, exchange: &Exchange) {
        self.bytes = 0;
        self.is_hashed = false;
        let is_asked = plan.request_of(exchange).check.sha256.is_some();
        if is_asked && exchange.number.is_multiple_of(plan.hash_every) {
            self.is_hashed = true;
            self.hash.get_or_insert_default().reset();
        }
    }

    /// Bytes of the body.
    #[inline]
    pub(crate) fn add(&mut self, data: &[u8]) {
        self.bytes += data.len() as u64;
        if self.is_hashed
            && let Some(hash) = &mut self.hash
        {
            hash.update(data);
        }
    }

    /// The body is complete: whether it is as expected, and whether it was hashed.
    #[inline]
    pub(crate) fn end(&mut self, plan: &Plan, exchange: &Exchange) -> (bool, bool) {
        let request = plan.request_of(exchange);
        let check = &request.check;
        if check.is_empty() {
            return (true, false);
        }
        self.compare(request)
    }

    fn compare(&mut self, request: &Request) -> (bool, bool) {
        let check = &request.check;
        let length_ok = request.is_head || check.length.is_none_or(|length| length == self.bytes);
        match (&mut self.hash, check.sha256) {
            (Some(hash), Some(wanted)) if self.is_hashed && !request.is_head => {
                let found = hash.finalize_reset();
                (length_ok && found[..] == wanted, true)
            }
            _ => (length_ok, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only 64 hexadecimal digits are a hash.
    #[test]
    fn reads_hashes() {
        let text = "00ff".repeat(16);
        assert_eq!(Check::parse_sha256(&text).unwrap()[..2], [0, 255]);
        for wrong in [
            "",
            "00",
            &"+1".repeat(32),
            &"zz".repeat(32),
            &"é0".repeat(21),
        ] {
            assert_eq!(Check::parse_sha256(wrong), None, "{wrong}");
        }
    }
}
