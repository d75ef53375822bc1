//! What a connection of HTTP/2 says of itself, and bytes for the tests of this folder.

use super::{Http2Config, settings};

/// The bytes of hexadecimal digits; spaces and line breaks are left out.
pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A table of the default size is not asked for; any other is (RFC 9113, sections 6.5.1 and 6.5.2).
#[test]
fn only_other_sizes_of_the_table_are_sent() {
    let mut config = Http2Config {
        stream_window: 65_536,
        ..Http2Config::default()
    };
    let rest = bytes("0002 00000000 0004 00010000");
    assert_eq!(settings(&config), rest);
    config.header_table = 0;
    assert_eq!(settings(&config), [bytes("0001 00000000"), rest].concat());
}
