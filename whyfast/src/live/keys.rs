//! Keys from the bytes that a terminal sends. Pure: a terminal that goes away, which is an end of file, is
//! never waited for here.

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// What prints, a blank included.
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C, which is no signal while the terminal passes on every key.
    Interrupt,
}

/// Bytes that are not yet a key.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pending: Vec<u8>,
}

impl Keys {
    /// The keys of the bytes that came since the last call. Where none came, an escape that waits for the
    /// rest of a sequence was the key itself.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let is_idle = bytes.is_empty();
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = self.pending.as_slice();
        while !rest.is_empty() {
            let (key, length) = match next(rest) {
                Some(found) => found,
                None if is_idle => (lone(rest), rest.len()),
                None => break,
            };
            keys.extend(key);
            rest = &rest[length.min(rest.len())..];
        }
        self.pending = rest.to_vec();
        keys
    }
}

/// The first key, if it is one that is known, and how many bytes it has; `None` where bytes are missing.
fn next(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let control = |key| Some((Some(key), 1));
    match bytes {
        [0x1b, b'[' | b'O', ..] => sequence(bytes),
        [] | [0x1b] => None,
        // A second one, or a key with Alt.
        [0x1b, ..] => control(Key::Escape),
        [b'\r' | b'\n', ..] => control(Key::Enter),
        [b'\t', ..] => control(Key::Tab),
        [0x7f | 0x08, ..] => control(Key::Backspace),
        [0x03, ..] => control(Key::Interrupt),
        [0..=0x1f, ..] => Some((None, 1)),
        [first, ..] => {
            let length = match first {
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf7 => 4,
                _ => 1,
            };
            let encoded = bytes.get(..length)?;
            let text = std::str::from_utf8(encoded).ok();
            match text.and_then(|text| text.chars().next()) {
                Some(character) => Some((Some(Key::Char(character)), length)),
                // No UTF-8: whatever begins behind it may be.
                None => Some((None, 1)),
            }
        }
    }
}

/// `ESC [ 5 ~`, `ESC O A`: parameters up to a final byte.
fn sequence(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let body = bytes.get(2..)?;
    let end = body.iter().position(|byte| (0x40..=0x7e).contains(byte));
    let Some(end) = end else {
        // No terminal sends so much: it is thrown away rather than waited for.
        return (body.len() > LONGEST).then_some((None, bytes.len()));
    };
    let key = match (&body[..end], body[end]) {
        (_, b'A') => Some(Key::Up),
        (_, b'B') => Some(Key::Down),
        (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
        (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        _ => None,
    };
    Some((key, end + 3))
}

/// What the beginning of a sequence is that is not continued.
fn lone(bytes: &[u8]) -> Option<Key> {
    (bytes.first() == Some(&0x1b)).then_some(Key::Escape)
}

const LONGEST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequences of xterm's manual (ctlseqs, "PC-Style Function Keys"), VT220's editing keys, and
    /// application mode.
    #[test]
    fn sequences_of_xterm() {
        let mut keys = Keys::default();
        let sent = b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[1;5A\x1b[15~q\r\t\x7f\x03";
        assert_eq!(
            keys.feed(sent),
            [
                Key::Up,
                Key::Down,
                Key::PageUp,
                Key::PageDown,
                Key::Home,
                Key::End,
                Key::Up,
                Key::Char('q'),
                Key::Enter,
                Key::Tab,
                Key::Backspace,
                Key::Interrupt,
            ]
        );
        assert_eq!(keys.feed(b""), []);
    }

    /// Wherever a terminal's bytes are cut in two, the keys are the same; an escape that nothing
    /// follows is the key.
    #[test]
    fn cut_anywhere() {
        let sent = "a\x1b[5~é\x1bOA✓".as_bytes();
        let whole = Keys::default().feed(sent);
        assert_eq!(
            whole,
            [
                Key::Char('a'),
                Key::PageUp,
                Key::Char('é'),
                Key::Up,
                Key::Char('✓')
            ]
        );
        for cut in 0..sent.len() {
            let mut keys = Keys::default();
            let mut found = keys.feed(&sent[..cut]);
            if cut > 0 {
                found.extend(keys.feed(&sent[cut..]));
                assert_eq!(found, whole, "cut at {cut}");
            }
        }
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b"), []);
        assert_eq!(keys.feed(b""), [Key::Escape]);
        assert_eq!(keys.feed(b"\x1b\x1b"), [Key::Escape]);
        assert_eq!(keys.feed(b""), [Key::Escape]);
    }

    /// Bytes that are no text, and a sequence without an end, make no key and are not kept.
    #[test]
    fn noise() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\xff\xfe\x80\x01x"), [Key::Char('x')]);
        let mut endless = b"\x1b[".to_vec();
        endless.extend([b'0'; 100]);
        assert_eq!(keys.feed(&endless), []);
        assert_eq!(keys.pending, b"");
        assert_eq!(keys.feed(b"y"), [Key::Char('y')]);
    }
}
