//! Bytes as hexadecimal digits.

/// Two lower-case digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from_digit(nibble.into(), 16).expect("a nibble is a digit"));
            }
            text
        })
}

#[cfg(test)]
mod tests {
    use super::hex;

    /// Every byte takes two digits.
    #[test]
    fn bytes_are_two_digits() {
        assert_eq!(hex(&[0, 15, 16, 255]), "000f10ff");
    }
}
