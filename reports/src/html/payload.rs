//! What a page carries for programs: the recording, compressed, and small tables for its script.

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderStringWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use recording::Recording;
use serde::Serialize;

/// The recording as JSON, gzip, base64, written through all three at once: no copy of it is made.
pub(super) fn compressed(recording: &Recording) -> String {
    let level = if recording.rounds.len() <= THOROUGH_ROUNDS {
        Compression::default()
    } else {
        Compression::fast()
    };
    let mut gzip = GzEncoder::new(EncoderStringWriter::new(&STANDARD), level);
    recording
        .write_json(&mut gzip)
        .expect("memory takes everything");
    gzip.finish()
        .expect("memory takes everything")
        .into_inner()
}

/// JSON for the inside of a `script` element: without the sign that could end it.
pub(super) fn island(value: &impl Serialize) -> String {
    // Outside of strings JSON has no such sign, and inside the escape means the same.
    serde_json::to_string(value)
        .expect("tables have string keys only")
        .replace('<', "\\u003c")
}

/// Rounds up to which size matters more than time: 100 pairs of two arms.
const THOROUGH_ROUNDS: usize = 500;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No text can leave its script element, and it arrives as it was.
        #[test]
        fn islands_hold_what_is_in_them(text in "(?s).*|</script>.*|<!--.*") {
            let island = island(&text);
            prop_assert!(!island.contains('<'));
            prop_assert_eq!(serde_json::from_str::<String>(&island).unwrap(), text);
        }
    }
}
