//! How a server broke the protocol: each kind once, with what was found the first time.

use std::fmt::Display;

use recording::Violation;

/// The kinds that were seen. They are those of two enums, so there are not many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Violations(Vec<Violation>);

impl Violations {
    /// Counts one; `found` is asked only for the first of its kind.
    #[cold]
    pub(crate) fn add(&mut self, what: impl Display, found: impl FnOnce() -> String) {
        let what = what.to_string();
        match self.0.iter_mut().find(|known| known.what == what) {
            Some(known) => known.count += 1,
            None => self.0.push(Violation {
                what,
                found: found(),
                count: 1,
            }),
        }
    }

    /// Adds what another thread saw.
    pub(crate) fn merge(&mut self, other: &Self) {
        for theirs in &other.0 {
            match self.0.iter_mut().find(|mine| mine.what == theirs.what) {
                Some(mine) => mine.count += theirs.count,
                None => self.0.push(theirs.clone()),
            }
        }
    }

    /// The most frequent first.
    pub(crate) fn report(mut self) -> Vec<Violation> {
        self.0
            .sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.what.cmp(&b.what)));
        self.0
    }
}

/// The first line of some bytes, as far as it is worth showing, with escapes for what is not
/// printable.
pub(crate) fn first_line(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| matches!(byte, b'\r' | b'\n'))
        .filter(|&end| end > 0)
        .unwrap_or(bytes.len());
    let shown = &bytes[..end.min(SHOWN_BYTES_MAX)];
    let cut = if shown.len() < end { "..." } else { "" };
    format!("{}{cut}", shown.escape_ascii())
}

/// A status line, or a header line that says how long a body is, fits.
const SHOWN_BYTES_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds are counted apart, evidence is that of the first, and threads add up.
    #[test]
    fn kinds_are_counted() {
        let mut mine = Violations::default();
        mine.add("a", || "first".to_owned());
        mine.add("a", || unreachable!("only the first is shown"));
        let mut theirs = Violations::default();
        theirs.add("b", || "other".to_owned());
        theirs.add("b", String::new);
        theirs.add("b", String::new);
        theirs.add("a", || "later".to_owned());
        theirs.add("c", String::new);
        mine.merge(&theirs);
        let report = mine.report();
        let told: Vec<_> = report
            .iter()
            .map(|kind| (kind.what.as_str(), kind.found.as_str(), kind.count))
            .collect();
        assert_eq!(told, [("a", "first", 3), ("b", "other", 3), ("c", "", 1)]);
    }

    /// What is shown is one line, printable, and short.
    #[test]
    fn evidence_is_harmless() {
        assert_eq!(first_line(b"HTTP/1.1 200 OK\r\nX: y"), "HTTP/1.1 200 OK");
        assert_eq!(first_line(b"\x1b[31mred\x07"), "\\x1b[31mred\\x07");
        assert_eq!(first_line(b"\r\nHTTP"), "\\r\\nHTTP");
        assert_eq!(first_line(b""), "");
        let long = first_line(&vec![b'x'; 100_000]);
        assert_eq!(long, format!("{}...", "x".repeat(60)));
    }
}
