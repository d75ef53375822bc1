//! What fuzzers drive: every reader of a file that somebody else chose, with what has to hold for
//! each. Not part of the crate but for them.

use recording::Recording;

use crate::autopsy::{Source, examine};
use crate::budget::{Lock, bless, check};
use crate::{Style, markdown, text};

/// A recording: what is read is what is written, and its counts are locked or refused.
pub fn recording(data: &[u8]) {
    let Ok(recording) = Recording::parse(data) else {
        return;
    };
    let json = recording.to_json();
    let again = Recording::parse(json.as_bytes()).expect("what was written reads");
    assert!(again == recording, "what was read is not what was written");
    let recordings = [recording.upgraded()];
    let (lock, blessed) = bless(&Lock::default(), &recordings);
    assert_eq!(Lock::parse(&lock.to_string()).as_ref(), Ok(&lock));
    assert_eq!(check(&lock, &recordings).outcome, blessed.outcome);
    shows_itself(&text::budget(&blessed, "", &Style::default()));
    shows_itself(&markdown::budget(&blessed, ""));
}

/// A lock file: what is read is what is written.
pub fn lock(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Lock::parse(&text) {
        Ok(lock) => assert_eq!(Lock::parse(&lock.to_string()).as_ref(), Ok(&lock)),
        Err(error) => shows_itself(&error.to_string()),
    }
}

/// Output of other tools.
pub fn autopsy(data: &[u8]) {
    let post = String::from_utf8_lossy(data);
    let source = Source {
        name: "post",
        text: &post,
    };
    if let Some(autopsy) = examine(&[source], &["nginx", "h2o"]) {
        shows_itself(&text::autopsy(&autopsy, &Style::default()));
        shows_itself(&markdown::autopsy(&autopsy));
    }
}

/// No text steers a terminal.
fn shows_itself(text: &str) {
    let lines = text.lines();
    assert!(
        lines.flat_map(str::chars).all(|c| !c.is_control()),
        "{text:?}"
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Target = (&'static str, fn(&[u8]));
    const TARGETS: [Target; 3] = [
        ("autopsy", autopsy),
        ("lock", lock),
        ("recording", recording),
    ];

    /// The committed corpus of every fuzz target.
    #[test]
    fn corpus_is_survived() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        for (target, play) in TARGETS {
            let mut played = 0;
            for entry in std::fs::read_dir(folder.join(target)).unwrap() {
                play(&std::fs::read(entry.unwrap().path()).unwrap());
                played += 1;
            }
            assert!(played > 0, "{target}");
        }
    }

    proptest! {
        /// A file that was cut off or has one other byte is read or refused, and steers no terminal.
        #[test]
        fn damage_is_survived(at in 0.0..1.0_f64, byte: u8, cut: bool) {
            let whole = include_bytes!("../fuzz/corpus/recording/lock-step");
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in it")]
            let at = (at * whole.len() as f64) as usize;
            let mut data = whole.to_vec();
            data[at] = byte;
            if cut {
                data.truncate(at);
            }
            recording(&data);
            if let Err(error) = Recording::parse(&data) {
                shows_itself(&crate::clean(&error.to_string()));
            }
        }

        /// Any text is a lock file or says in which line it is not.
        #[test]
        fn any_text_is_a_lock_or_none(text in "(\\[[a-z #]{0,12}\\]|[a-z0-9 .=,%#<-]{0,40}|\\PC{0,12}|\n){0,12}") {
            lock(text.as_bytes());
        }
    }
}
