//! The lines that the halves of a measurement speak: JSON Lines over a child's stdin and stdout.
//!
//! ```text
//! load     <- Go                      profile  -> Hello, Ready
//!          -> Hello, Ready, Phase...           <- Open    -> Opened
//!          -> Slice..., Done                   <- Close   -> Slice..., Done
//! ```
//!
//! Every stamp is `CLOCK_MONOTONIC` of the machine that the half runs on. A half ends when its
//! stdin closes, so that nothing outlives the process that asked for it.

use serde::{Deserialize, Serialize};

use crate::{Load, LoadPhase, LoadSlice, Profile, ProfileSlice};

/// Version of this protocol; the halves refuse another one.
pub const WIRE_VERSION: u32 = 1;

/// What a half says.
///
/// The content has a member of its own: beside the tag, serde would have to buffer it and would lose
/// maps with numbers as keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Message {
    /// The first line.
    Hello {
        /// `load` or `profile`.
        half: String,
        /// [`WIRE_VERSION`].
        wire: u32,
        /// Process id of the half.
        pid: u32,
        /// Its clock while it wrote this line, ns.
        clock_ns: u64,
    },
    /// Load: the connections are open. Profile: the probes are attached.
    Ready {
        /// When, ns.
        at_ns: u64,
    },
    /// Load: a phase begins. At a barrier (lock-step) nothing is in flight, and the half waits for
    /// [`Command::Go`] before it sends more.
    Phase {
        /// Which one.
        phase: LoadPhase,
        /// When, ns.
        at_ns: u64,
        /// Whether it waits.
        barrier: bool,
    },
    /// Profile: the counters at the start of the window were copied.
    Opened {
        /// When the copy was complete, ns.
        at_ns: u64,
    },
    /// Load: a sub-window ended.
    LoadSlice(LoadSlice),
    /// Profile: a sub-window ended.
    ProfileSlice(ProfileSlice),
    /// Load: the result; the half ends.
    LoadDone(Box<Load>),
    /// Profile: the result; the probes are gone when the half has ended.
    ProfileDone(Box<Profile>),
    /// The half failed and ends.
    Error {
        /// What happened and what to do.
        text: String,
        /// The exit code that it ends with.
        exit_code: u8,
    },
}

/// What a half is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// Load: begin, or go on after a barrier.
    Go,
    /// Profile: the window begins. With `quiet`, first wait until two copies of the counters are
    /// equal, so that nothing of the warm-up is still on its way (at most a second).
    Open {
        /// Whether to wait for quiet.
        quiet: bool,
    },
    /// Profile: the window ends; answer with the result.
    Close {
        /// Whether to wait for quiet.
        quiet: bool,
    },
    /// End now, with what was measured so far.
    Stop,
}

impl Message {
    /// The message as one line with its newline.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("messages are plain JSON");
        line.push('\n');
        line
    }
}

impl Command {
    /// The command as one line with its newline.
    pub fn to_line(self) -> String {
        let mut line = serde_json::to_string(&self).expect("commands are plain JSON");
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        ConnectionCounts, CpuTime, HttpVersion, Ledger, LoadPlan, Timeline, Traffic, Window,
    };

    /// A message reads as what was written, maps with numbers as keys included.
    #[test]
    fn messages_round_trip() {
        let load = Load {
            url: "http://h/".into(),
            plan: LoadPlan {
                connections: 1,
                depth: 1,
                http: HttpVersion::default(),
                tls: None,
                threads: 1,
                requests: Some(1),
                duration_ns: None,
                warmup_ns: 0,
                warmup_requests: 0,
                requests_per_connection: None,
                requests_jitter: None,
                connection_lifetime_ns: None,
                resolve_each: false,
                timeout_ns: 1,
                method: "GET".into(),
                headers: Vec::new(),
                shape: None,
            },
            window: Window {
                start_ns: 1,
                end_ns: 2,
            },
            ledger: Ledger {
                sent: 1,
                ok: 1,
                ..Ledger::default()
            },
            connections: ConnectionCounts::default(),
            statuses: BTreeMap::from([(200, 1), (404, 2)]),
            interim_responses: 0,
            latency: None,
            connect_time: None,
            traffic: Traffic::default(),
            tls: None,
            http2: None,
            client_cpu: CpuTime::default(),
            busiest_thread_share: 0.5,
            slices: Vec::new(),
            timeline: Timeline::default(),
            ended_early: None,
            warnings: Vec::new(),
            violations: Vec::new(),
            measures: None,
        };
        for message in [
            Message::LoadDone(Box::new(load)),
            Message::Ready { at_ns: 7 },
        ] {
            let line = message.to_line();
            assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), message);
            assert_eq!(line.matches('\n').count(), 1);
        }
        let command = Command::Open { quiet: true };
        assert_eq!(
            serde_json::from_str::<Command>(&command.to_line()).unwrap(),
            command
        );
    }
}
