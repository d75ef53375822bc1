//! A Rust file taken apart into code, comments and strings, line by line.
//!
//! No parser: enough of a lexer that a rule about code does not see what a string or a comment says.

/// One Rust file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Relative to the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
}

/// One line, in three layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// As it stands in the file.
    pub(crate) whole: String,
    /// Without comments, and without what is between quotes.
    pub(crate) code: String,
    /// The comments of the line.
    pub(crate) comment: String,
    /// Whether it belongs to tests: a file under `tests/`, or below `#[cfg(test)]`.
    pub(crate) is_test: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Code,
    LineComment,
    BlockComment { depth: u32 },
    Text,
    RawText { hashes: usize },
}

impl Source {
    pub(crate) fn parse(path: &str, content: &str) -> Self {
        let mut layer = Layer::Code;
        let mut is_test = path.contains("/tests/");
        let lines = content
            .lines()
            .map(|whole| {
                let mut line = split(whole, &mut layer);
                // By convention tests are the last part of a file.
                is_test |= line.code.trim() == "#[cfg(test)]";
                line.is_test = is_test;
                line
            })
            .collect();
        Self {
            path: path.to_owned(),
            lines,
        }
    }

    /// The folder of the package that the file belongs to.
    pub(crate) fn package(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Lines with their numbers from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines
            .iter()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// Takes one line apart; `layer` is where the line before ended.
fn split(whole: &str, layer: &mut Layer) -> Line {
    let mut line = Line {
        whole: whole.to_owned(),
        ..Line::default()
    };
    let mut rest = whole;
    while let Some(character) = rest.chars().next() {
        let (taken, next) = step(rest, character, *layer);
        match *layer {
            Layer::Code => line.code.push_str(&rest[..taken]),
            Layer::LineComment | Layer::BlockComment { .. } => {
                line.comment.push_str(&rest[..taken]);
            }
            Layer::Text | Layer::RawText { .. } => {}
        }
        *layer = next;
        rest = &rest[taken..];
    }
    if *layer == Layer::LineComment {
        *layer = Layer::Code;
    }
    line
}

/// How many bytes belong together, and the layer after them.
fn step(rest: &str, character: char, layer: Layer) -> (usize, Layer) {
    let one = character.len_utf8();
    match layer {
        Layer::Code => step_code(rest, one),
        Layer::LineComment => (rest.len(), Layer::LineComment),
        Layer::BlockComment { depth } => {
            if rest.starts_with("*/") {
                let after = match depth {
                    1 => Layer::Code,
                    deeper => Layer::BlockComment { depth: deeper - 1 },
                };
                (2, after)
            } else if rest.starts_with("/*") {
                (2, Layer::BlockComment { depth: depth + 1 })
            } else {
                (one, layer)
            }
        }
        Layer::Text => match character {
            '\\' => (rest.chars().take(2).map(char::len_utf8).sum(), layer),
            '"' => (1, Layer::Code),
            _ => (one, layer),
        },
        Layer::RawText { hashes } => {
            let end = format!("\"{}", "#".repeat(hashes));
            if rest.starts_with(&end) {
                (end.len(), Layer::Code)
            } else {
                (one, layer)
            }
        }
    }
}

fn step_code(rest: &str, one: usize) -> (usize, Layer) {
    if rest.starts_with("//") {
        return (0, Layer::LineComment);
    }
    if rest.starts_with("/*") {
        return (2, Layer::BlockComment { depth: 1 });
    }
    if rest.starts_with('"') {
        return (1, Layer::Text);
    }
    if let Some((length, hashes)) = raw_text_start(rest) {
        return (length, Layer::RawText { hashes });
    }
    if let Some(length) = character_literal(rest) {
        return (length, Layer::Code);
    }
    let word = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    // A word ending in b, c or r may be the prefix of a string, but only as a whole word; the
    // string itself then begins with the next step.
    (word.max(one), Layer::Code)
}

/// The length of the beginning of a raw string, if one begins here, and the number of its `#`.
fn raw_text_start(rest: &str) -> Option<(usize, usize)> {
    ["r", "br", "cr"].iter().find_map(|prefix| {
        let after = rest.strip_prefix(prefix)?;
        let hashes = after.bytes().take_while(|&byte| byte == b'#').count();
        let is_start = after[hashes..].starts_with('"');
        is_start.then_some((prefix.len() + hashes + 1, hashes))
    })
}

/// The length of a character literal that begins here; a lifetime is none.
fn character_literal(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if let Some(escaped) = inner.strip_prefix('\\') {
        let first = escaped.chars().next()?.len_utf8();
        let end = escaped[first..].find('\'')?;
        return Some(2 + first + end + 1);
    }
    let length = inner.chars().next()?.len_utf8();
    inner[length..].starts_with('\'').then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(content: &str) -> Vec<String> {
        let source = Source::parse("a/src/lib.rs", content);
        source.lines.into_iter().map(|line| line.code).collect()
    }

    /// What strings and comments say is not code.
    #[test]
    fn strings_and_comments_are_not_code() {
        for (content, expected) in [
            ("let a = \"x\"; // y", "let a = \"; "),
            ("let a = \"\\\"x\"; b", "let a = \"; b"),
            ("let a = '\"'; b", "let a = '\"'; b"),
            ("let a = '\\''; \"x\" b", "let a = '\\''; \" b"),
            ("fn a<'b>(c: &'b str) \"x\"", "fn a<'b>(c: &'b str) \""),
            ("let a = r#\"x\"y\"#; b", "let a = r#\"; b"),
            ("let a = br\"x\\\"; b", "let a = br\"; b"),
            ("a /* x /* y */ z */ b", "a /* b"),
            ("for \"x\"", "for \""),
        ] {
            assert_eq!(code(content), [expected], "{content}");
        }
    }

    /// Strings and block comments go on over lines.
    #[test]
    fn layers_go_on_over_lines() {
        assert_eq!(code("a \"x\ny\" b\n/* x\n*/ c"), ["a \"", " b", "/*", " c"]);
    }

    /// Tests begin at `cfg(test)`, or are the whole file.
    #[test]
    fn knows_test_code() {
        let tests = |path: &str| -> Vec<bool> {
            let source = Source::parse(path, "a\n#[cfg(test)]\nb");
            source.lines.iter().map(|line| line.is_test).collect()
        };
        assert_eq!(tests("a/src/lib.rs"), [false, true, true]);
        assert_eq!(tests("a/tests/it/main.rs"), [true, true, true]);
    }

    /// Comments keep their text.
    #[test]
    fn comments_are_kept() {
        let source = Source::parse("a/src/lib.rs", "a // b /* c");
        assert_eq!(source.lines[0].comment, "// b /* c");
    }
}
