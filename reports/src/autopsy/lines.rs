//! The text as lines, without what forums, quotes and other systems put around them.

/// Lines, each trimmed.
#[derive(Debug)]
pub(super) struct Lines<'a>(Vec<&'a str>);

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self(text.lines().map(strip).collect())
    }

    /// The line at a position, empty beyond the end.
    pub(super) fn at(&self, at: usize) -> &'a str {
        self.0.get(at).copied().unwrap_or("")
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The positions of a block that begins at `at`: up to `limit` lines, and not over into the next
    /// one, which `begins` knows.
    pub(super) fn block(
        &self,
        at: usize,
        limit: usize,
        begins: impl Fn(&str) -> bool,
    ) -> std::ops::Range<usize> {
        let end = self.count().min(at + limit);
        let next = (at + 1..end).find(|&at| begins(self.at(at)));
        at..next.unwrap_or(end)
    }

    /// The first line in a range that begins with `prefix`: its position and the rest.
    pub(super) fn find(
        &self,
        mut range: std::ops::Range<usize>,
        prefix: &str,
    ) -> Option<(usize, &'a str)> {
        range.find_map(|at| Some((at, self.at(at).strip_prefix(prefix)?.trim())))
    }
}

/// The number of a line, from 1, as people count.
pub(super) fn number(at: usize) -> u64 {
    at as u64 + 1
}

/// Quote marks of mail and Markdown, and blanks.
fn strip(line: &str) -> &str {
    line.trim_start_matches(|c: char| c == '>' || c == '|' || c.is_whitespace())
        .trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows line ends, quotes and indents do not matter.
    #[test]
    fn decoration_is_stripped() {
        let lines = Lines::of("> finished in 1s\r\n    | Running\r\n");
        assert_eq!(
            (lines.at(0), lines.at(1), lines.at(2)),
            ("finished in 1s", "Running", "")
        );
        assert_eq!(lines.find(0..2, "finished in"), Some((0, "1s")));
    }
}
