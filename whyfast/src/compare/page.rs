//! A made text page, which compresses the way that real pages do.

use std::fmt::Write as _;

/// A page of HTML of exactly so many bytes, the same every time. What is too small for a page is text.
pub(crate) fn page(bytes: usize) -> Vec<u8> {
    let mut random = Random(SEED);
    let mut text = String::from(BEGIN);
    while text.len() < bytes {
        add_item(&mut text, &mut random);
    }
    match bytes.checked_sub(END.len()) {
        // An item that does not fit is cut off; browsers take that.
        Some(length) if length >= BEGIN.len() => {
            text.truncate(length);
            text.push_str(END);
        }
        _ => text.truncate(bytes),
    }
    text.into_bytes()
}

/// An item of a list: a link and a sentence.
fn add_item(text: &mut String, random: &mut Random) {
    let link = random.word();
    let number = random.below(1000);
    write!(
        text,
        "<li class=\"entry\"><a class=\"link\" href=\"/{link}/{number}\">{link}</a>"
    )
    .expect("writing to a string cannot fail");
    for _ in 0..WORDS_MIN + random.below(WORDS_SPAN) {
        text.push(' ');
        text.push_str(random.word());
    }
    text.push_str(".</li>\n");
}

/// Numbers that are the same on every machine (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % bound
    }

    /// A word: the earlier in the list, the more often, as in any language.
    fn word(&mut self) -> &'static str {
        let count = WORDS.len() as u64;
        let place = self.below(count).min(self.below(count));
        WORDS[usize::try_from(place).expect("a place in the list")]
    }
}

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Words of a sentence: with so many, gzip leaves of a page of 6,552 bytes what it left of the one whose
/// figures were published.
const WORDS_MIN: u64 = 14;
const WORDS_SPAN: u64 = 8;

const BEGIN: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>A page</title>\n\
                     </head>\n<body>\n<ul>\n";
const END: &str = "</ul>\n</body>\n</html>\n";

const WORDS: [&str; 96] = [
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "that",
    "for",
    "it",
    "server",
    "request",
    "page",
    "with",
    "as",
    "on",
    "are",
    "this",
    "be",
    "by",
    "from",
    "or",
    "at",
    "not",
    "have",
    "one",
    "can",
    "which",
    "file",
    "web",
    "time",
    "all",
    "when",
    "you",
    "will",
    "more",
    "about",
    "than",
    "into",
    "other",
    "use",
    "connection",
    "cache",
    "open",
    "each",
    "test",
    "they",
    "has",
    "only",
    "then",
    "new",
    "first",
    "response",
    "but",
    "also",
    "if",
    "their",
    "system",
    "between",
    "over",
    "there",
    "its",
    "were",
    "most",
    "many",
    "after",
    "some",
    "these",
    "two",
    "used",
    "such",
    "any",
    "no",
    "how",
    "kernel",
    "client",
    "bytes",
    "second",
    "number",
    "result",
    "load",
    "every",
    "while",
    "before",
    "long",
    "same",
    "may",
    "would",
    "where",
    "under",
    "does",
    "without",
    "through",
    "both",
    "much",
    "still",
];

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    /// gzip leaves of the page of 6,552 bytes about the 2,096 that were published (25,000 responses
    /// with 52,400,000 bytes of data), whichever level a server compresses at.
    #[test]
    fn compresses_like_the_published_page() {
        for level in [1, 4, 6, 9] {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
            encoder.write_all(&page(6552)).unwrap();
            let bytes = encoder.finish().unwrap().len();
            assert!((1886..=2306).contains(&bytes), "level {level}: {bytes}");
        }
    }

    proptest! {
        /// A page has as many bytes as were asked for, is text, and ends like one.
        #[test]
        fn has_the_size(bytes in 0_usize..20_000) {
            let page = page(bytes);
            prop_assert_eq!(page.len(), bytes);
            prop_assert!(page.is_ascii());
            prop_assert_eq!(page.ends_with(END.as_bytes()), bytes >= BEGIN.len() + END.len());
        }
    }
}
