//! What must not be stored as it is: recordings get posted.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// A short, stable stand-in for a secret: equal values stay equal, and nothing can be read back.
/// (A value that can be guessed can be confirmed; that is the price of comparing two recordings.)
pub fn hash(value: &str) -> String {
    let mut text = String::from("sha256:");
    for byte in &Sha256::digest(value.as_bytes())[..HASH_BYTES] {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}

/// A URL (or a path) with the values of its query replaced by hashes, and without its fragment.
pub fn url(url: &str) -> String {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    let Some((base, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) => format!("{name}={}", hash(value)),
            None if pair.is_empty() => String::new(),
            // Without a name it is all value.
            None => hash(pair),
        })
        .collect();
    format!("{base}?{}", pairs.join("&"))
}

/// The value of a header, replaced by a hash where it authenticates somebody.
pub fn header_value(name: &str, value: &str) -> String {
    let name = name.to_ascii_lowercase();
    if SECRET_WORDS.iter().any(|word| name.contains(word)) {
        hash(value)
    } else {
        value.to_owned()
    }
}

/// Parts of the names of headers that carry secrets (`Authorization`, `Proxy-Authorization`,
/// `Cookie`, `X-Api-Key`, `X-Auth-Token`...).
const SECRET_WORDS: [&str; 7] = [
    "api-key", "auth", "cookie", "passw", "secret", "session", "token",
];
/// Six bytes, twelve hexadecimal digits: enough to tell the values of one recording apart.
const HASH_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash is the start of the SHA-256 that `sha256sum` prints.
    #[test]
    fn hash_is_the_start_of_sha256() {
        assert_eq!(hash("abc"), "sha256:ba7816bf8f01");
    }

    /// Values go, names stay; a piece without a name is a value.
    #[test]
    fn query_values_are_hashed() {
        let check = |given: &str, wanted: &str| assert_eq!(url(given), wanted, "{given}");
        check("http://h/p", "http://h/p");
        check("http://h/p#frag", "http://h/p");
        check(
            "http://h/p?a=abc&b",
            &format!("http://h/p?a=sha256:ba7816bf8f01&{}", hash("b")),
        );
        check("http://h/p?a=x=y", &format!("http://h/p?a={}", hash("x=y")));
        check("http://h/p?", "http://h/p?");
    }

    /// Headers that authenticate are hashed, others are kept exactly.
    #[test]
    fn secret_headers_are_hashed() {
        for name in [
            "Authorization",
            "cookie",
            "X-API-Key",
            "Proxy-Authorization",
            "X-Auth-Token",
        ] {
            assert_eq!(header_value(name, "abc"), "sha256:ba7816bf8f01", "{name}");
        }
        assert_eq!(header_value("Accept", " a/b "), " a/b ");
    }
}
