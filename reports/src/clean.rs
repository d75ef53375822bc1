//! The one sanitiser of text that whyfast did not write itself.
//!
//! It owns what may reach a terminal or a page. It does not escape for Markdown: the renderer of a
//! format escapes what means something in that format, after cleaning.

use std::fmt::Write as _;

/// Text that cannot move a cursor, change a colour or reverse the reading order.
///
/// Control characters (line breaks and tabs included), the characters that steer bidirectional
/// text and the invisible ones are replaced by what a programmer would write for them: `\x1b`,
/// `\n`, `\u{202e}`. Everything else is kept.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => cleaned.push_str("\\n"),
            '\r' => cleaned.push_str("\\r"),
            '\t' => cleaned.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                write!(cleaned, "\\x{:02x}", u32::from(character)).expect("a string can grow");
            }
            _ if is_deceptive(character) => {
                write!(cleaned, "\\u{{{:x}}}", u32::from(character)).expect("a string can grow");
            }
            _ => cleaned.push(character),
        }
    }
    cleaned
}

/// Cleaned text of at most `limit` characters; a cut is visible as `…`.
pub(crate) fn clean_to(text: &str, limit: usize) -> String {
    let cleaned = clean(text);
    if cleaned.chars().count() <= limit {
        return cleaned;
    }
    let mut cut: String = cleaned.chars().take(limit.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Invisible characters and those that reorder what follows (UAX #9 and its security report).
fn is_deceptive(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'                      // soft hyphen
        | '\u{61c}'                   // arabic letter mark
        | '\u{180e}'                  // mongolian vowel separator
        | '\u{200b}'..='\u{200f}'     // zero width, left-to-right and right-to-left marks
        | '\u{2028}'..='\u{202e}'     // line and paragraph separators, embeddings, overrides
        | '\u{2060}'..='\u{206f}'     // word joiner, isolates, deprecated format characters
        | '\u{feff}'                  // byte order mark
        | '\u{fff9}'..='\u{fffb}'     // interlinear annotations
        | '\u{e0000}'..='\u{e007f}'   // tags
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Escape sequences and overrides stay visible and harmless.
    #[test]
    fn replaces_what_steers_a_terminal() {
        assert_eq!(clean("a\x1b[31mb\u{9b}2J"), "a\\x1b[31mb\\x9b2J");
        assert_eq!(clean("x\u{202e}gnp.exe"), "x\\u{202e}gnp.exe");
        assert_eq!(clean("two\nlines\tä€"), "two\\nlines\\tä€");
    }

    /// A cut never exceeds the limit and shows itself.
    #[test]
    fn cuts_visibly() {
        assert_eq!(clean_to("abcdef", 4), "abc…");
        assert_eq!(clean_to("abcd", 4), "abcd");
        assert_eq!(clean_to("\x1b\x1b", 5), "\\x1b…");
    }

    proptest! {
        /// No control character and no deceptive one survives, whatever comes in.
        #[test]
        fn output_is_harmless(text in "\\PC*|(?s).*") {
            let cleaned = clean(&text);
            prop_assert!(cleaned.chars().all(|c| !c.is_control() && !is_deceptive(c)));
        }

        /// Cleaning what is clean changes nothing.
        #[test]
        fn cleaning_is_idempotent(text in "(?s).*") {
            let once = clean(&text);
            prop_assert_eq!(clean(&once), once);
        }
    }
}
