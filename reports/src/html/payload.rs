//! What a page carries for programs: the recording, compressed, and small tables for its script.

use std::io::{BufWriter, Write as _};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderStringWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use recording::{NotMeasured, Phases, Recording};
use serde::Serialize;

/// A recording as text, small enough for a page.
pub(super) struct Packed {
    /// JSON, gzip, base64.
    pub(super) text: String,
    /// Whether something was left out, and what.
    pub(super) left_out: Option<NotMeasured>,
}

/// Packs a recording; one that would make the page too large without what no comparison is made from.
pub(super) fn packed(recording: &Recording) -> Packed {
    if recording.rounds.len() <= THOROUGH_ROUNDS {
        let text = pack(recording, Compression::default());
        if text.len() <= WHOLE_LIMIT {
            return Packed {
                text,
                left_out: None,
            };
        }
    }
    let left_out = NotMeasured {
        what: "distributions of the phases of requests, and completions by the millisecond"
            .to_owned(),
        why: "left out of the copy of the recording in this page, to keep it small".to_owned(),
        remedy: Some("the file of the recording has them".to_owned()),
    };
    let level = if recording.rounds.len() <= THOROUGH_ROUNDS {
        Compression::default()
    } else {
        Compression::fast()
    };
    Packed {
        text: pack(&reduced(recording, &left_out), level),
        left_out: Some(left_out),
    }
}

/// Written through all at once, so that no copy of the JSON is made; in large pieces, since the compressor
/// clears its output buffer for each.
fn pack(recording: &Recording, level: Compression) -> String {
    let mut gzip = GzEncoder::new(EncoderStringWriter::new(&STANDARD), level);
    let mut pieces = BufWriter::with_capacity(PIECE_BYTES, &mut gzip);
    recording.write_json(&mut pieces).expect(TAKES);
    pieces.flush().expect(TAKES);
    drop(pieces);
    gzip.finish().expect(TAKES).into_inner()
}

/// The recording without the distributions of phases, and with completions in bins of at least ten
/// milliseconds.
fn reduced(recording: &Recording, left_out: &NotMeasured) -> Recording {
    let mut reduced = recording.clone();
    for load in reduced
        .rounds
        .iter_mut()
        .filter_map(|round| round.load.as_mut())
    {
        let timeline = &mut load.timeline;
        let together = BIN_NS.div_ceil(timeline.bin_ns.max(1));
        if let Ok(together) = usize::try_from(together) {
            timeline.bin_ns *= together as u64;
            let bins = timeline.completed.chunks(together);
            timeline.completed = bins.map(|bins| bins.iter().sum()).collect();
        }
        if let Some(measures) = &mut load.measures {
            measures.phases = Phases {
                resolve_ns: measures.phases.resolve_ns,
                ..Phases::default()
            };
            measures.loop_lag = None;
            if let Some(schedule) = &mut measures.schedule {
                schedule.lag = None;
            }
        }
    }
    reduced.not_measured.push(left_out.clone());
    reduced
}

/// JSON for the inside of a `script` element: without the sign that could end it.
pub(super) fn island(value: &impl Serialize) -> String {
    // Outside of strings JSON has no such sign, and inside the escape means the same.
    serde_json::to_string(value)
        .expect("tables have string keys only")
        .replace('<', "\\u003c")
}

/// Why writing cannot fail.
const TAKES: &str = "memory takes everything";
/// Bytes that are compressed at a time.
const PIECE_BYTES: usize = 1 << 18;
/// Characters of a whole recording: a third of the page is left for what is drawn.
const WHOLE_LIMIT: usize = 900_000;
/// Width of a bin in a reduced recording, ns.
const BIN_NS: u64 = 10_000_000;
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
