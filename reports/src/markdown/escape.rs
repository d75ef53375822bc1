//! Text of others as Markdown that renders as that text.

use crate::clean::{clean, clean_to};

/// Text for a sentence or a table cell.
///
/// Punctuation that Markdown could read is escaped; `@` and `#` are parted from what follows by an
/// empty comment, because GitHub looks for mentions and issue numbers after rendering.
pub(super) fn escape(text: &str) -> String {
    let cleaned = clean(text);
    let mut escaped = String::with_capacity(cleaned.len());
    for character in cleaned.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("@<!-- -->"),
            '#' => escaped.push_str("#<!-- -->"),
            '|' => escaped.push_str("&#124;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '{' | '}' | '!' | '~' | '$' | ':' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    // `www.` starts a link of its own.
    escaped
        .replace("www.", "www<!-- -->.")
        .replace("WWW.", "WWW<!-- -->.")
}

/// Lines of a file as a fenced block that nothing inside can close.
pub(super) fn fenced(text: &str, limit: usize) -> Vec<String> {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let mut lines = vec![fence.clone()];
    lines.extend(
        text.lines()
            .map(|line| clean_to(&line.replace('\t', "    "), limit)),
    );
    lines.push(fence);
    lines
}

/// A name as code where it is nothing but a name, else escaped.
pub(super) fn code(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '=');
    if !text.is_empty() && text.chars().all(plain) {
        format!("`{text}`")
    } else {
        escape(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hostile text comes out as itself.
    #[test]
    fn escapes_what_markdown_could_read() {
        assert_eq!(escape("a|b"), "a&#124;b");
        assert_eq!(
            escape("<script>x</script>"),
            "&lt;script&gt;x&lt;/script&gt;"
        );
        assert_eq!(escape("`rm`"), "\\`rm\\`");
        assert_eq!(escape("@team #1"), "@<!-- -->team #<!-- -->1");
        assert_eq!(escape("[x](http://y)"), "\\[x\\](http\\://y)");
        assert_eq!(escape("\x1b[0m"), "\\\\x1b\\[0m");
        assert_eq!(code("epoll_wait"), "`epoll_wait`");
        assert_eq!(code("a`b"), "a\\`b");
    }

    /// No run of backticks inside closes the fence.
    #[test]
    fn fences_are_longer_than_what_they_hold() {
        let lines = fenced("a\n````\nb", 80);
        assert_eq!(lines, ["`````", "a", "````", "b", "`````"]);
    }

    proptest! {
        /// No unescaped character of Markdown or HTML is left, whatever comes in.
        #[test]
        fn nothing_active_is_left(text in "(?s).*") {
            let escaped = escape(&text).replace("<!-- -->", "");
            prop_assert!(!escaped.contains(['<', '>', '|', '\n']));
            let mut previous = ' ';
            for character in escaped.chars() {
                if matches!(character, '`' | '*' | '_' | '[' | ']') {
                    prop_assert_eq!(previous, '\\');
                }
                previous = if previous == '\\' { ' ' } else { character };
            }
        }
    }
}
