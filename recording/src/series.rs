//! A profile as a series: a line for each slice as it is taken, and one of the whole window at the end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NotMeasured, Profile, ProfileSlice, ProfiledProcess, SliceCall, SliceWait, Warning};

/// A line of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SeriesLine {
    /// A slice: begins where the one before ended.
    Slice(ProfileSlice),
    /// The whole window, once, at the end: the sum of all slices.
    Total(Box<SeriesTotal>),
}

impl SeriesLine {
    /// The line, with its newline, as JSON.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("a series is plain JSON");
        line.push('\n');
        line
    }
}

/// What a series adds up to, and what its reader has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesTotal {
    /// The window as one slice.
    #[serde(flatten)]
    pub sum: ProfileSlice,
    /// Slices that were written.
    pub slices: u64,
    /// Slices that were not taken when they were due, because the reader of the series was behind: what
    /// belongs to them is in the next one.
    pub late: u64,
    /// The processes that were counted.
    pub processes: Vec<ProfiledProcess>,
    /// CPU time of the processes, ns; `null` where a process ended before it could be read.
    pub cpu_ns: Option<u64>,
    /// Why the window ended early; `null` when it did not.
    pub ended_early: Option<String>,
    /// What was not measured, and why.
    pub not_measured: Vec<NotMeasured>,
    /// What the reader has to know.
    pub warnings: Vec<Warning>,
}

impl SeriesTotal {
    /// The total of a profile, after so many slices.
    pub fn of(profile: &Profile, slices: u64, late: u64) -> Self {
        let made = profile.calls.iter().filter(|call| call.count > 0);
        let calls = made.map(|call| SliceCall {
            abi: call.abi,
            name: call.name.clone(),
            on: call.on,
            count: call.count,
            errors: call.error_count(),
            bytes: call.bytes,
            ns_total: call.time.as_ref().map(|time| time.ns_total),
            split: None,
        });
        let waits = profile.waits.iter().map(|wait| SliceWait {
            abi: wait.abi,
            name: wait.name.clone(),
            wakes: wait.wakes,
            events: wait.events,
            timeouts: wait.timeouts,
        });
        Self {
            sum: ProfileSlice {
                window: profile.window,
                calls: calls.collect(),
                waits: waits.collect(),
                groups: Vec::new(),
                threads: None,
                network: None,
                lost: profile.lost.clone(),
            },
            slices,
            late,
            processes: profile.processes.clone(),
            cpu_ns: profile.cpu_ns,
            ended_early: profile.ended_early.clone(),
            not_measured: profile.not_measured.clone(),
            warnings: profile.warnings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Detail, Window};

    /// A line is one line, says what it is, and is read back as it was; the total has its figures
    /// beside those of the slice that it is.
    #[test]
    fn lines_are_read_back() {
        let window = Window {
            start_ns: 5,
            end_ns: 9,
        };
        let mut profile = Profile::empty(Detail::Counts, window);
        profile.ended_early = Some("two\nlines".into());
        let total = SeriesTotal::of(&profile, 3, 1);
        for line in [
            SeriesLine::Slice(total.sum.clone()),
            SeriesLine::Total(Box::new(total)),
        ] {
            let text = line.to_line();
            assert_eq!(text.matches('\n').count(), 1);
            assert_eq!(serde_json::from_str::<SeriesLine>(&text).unwrap(), line);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["window"]["start_ns"], 5);
            let is_total = value["type"] == "total";
            assert_eq!(value.get("slices").is_some(), is_total);
        }
    }
}
