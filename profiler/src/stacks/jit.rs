//! Functions that a program made while it ran, from the `perf-PID.map` that it writes. The file is the
//! program's to write: its size is bounded, and what it says is text of others.

use std::collections::BTreeMap;

use super::symbols::bounded_name;

/// Functions by where they begin.
#[derive(Debug, Default)]
pub(super) struct JitMap(BTreeMap<u64, (u64, String)>);

impl JitMap {
    /// Lines of a start, a size and a name, the numbers hexadecimal. Code moves and is thrown away: what
    /// is written later takes the place of what was there.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut map = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let mut words = line.splitn(3, ' ');
            let number = |word: Option<&str>| {
                let word = word?;
                u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
            };
            if let (Some(start), Some(size), Some(name)) =
                (number(words.next()), number(words.next()), words.next())
                && let Some(end) = start.checked_add(size)
            {
                map.put(start, end, bounded_name(name));
            }
        }
        map
    }

    fn put(&mut self, start: u64, end: u64, name: String) {
        while let Some((&before, &(until, _))) = self.0.range(..end).next_back()
            && until > start
        {
            self.0.remove(&before);
        }
        self.0.insert(start, (end, name));
    }

    /// The function that an address is in.
    pub(super) fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some(name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As V8 writes it: a name may have spaces; an address behind a function, and nonsense, are none.
    #[test]
    fn finds_functions() {
        let text =
            b"7f00 20 LazyCompile:*serve /srv/app.js:10\nnonsense\n\n0x8000 0x10 Stub\nzz 1 x\n";
        let map = JitMap::parse(text);
        assert_eq!(map.find(0x7f1f), Some("LazyCompile:*serve /srv/app.js:10"));
        assert_eq!(map.find(0x7f20), None);
        assert_eq!(map.find(0x8000), Some("Stub"));
        assert_eq!(map.find(0x7eff), None);
    }

    /// What is written later stands in for all that it overlaps; a range beyond all addresses is ignored.
    #[test]
    fn later_lines_replace() {
        let map =
            JitMap::parse(b"100 10 a\n110 10 b\n120 10 c\n108 20 new\nffffffffffffffff 2 end\n");
        assert_eq!(map.find(0x100), None);
        assert_eq!(map.find(0x108), Some("new"));
        assert_eq!(map.find(0x127), Some("new"));
        assert_eq!(map.find(0x12f), None);
        assert_eq!(map.find(u64::MAX), None);
    }
}
