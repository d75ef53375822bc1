//! Tracers of others: whoever else watches the server or the machine slows both down.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NotMeasured;

/// A tracer that was attached to the server or the machine while it was measured, and is not ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tracer {
    /// How it traces: `ptrace`, `ftrace`, `perf`, or the type of its program in the kernel (`kprobe`,
    /// `tracepoint`, `raw_tracepoint`, `tracing`, `perf_event`).
    pub kind: String,
    /// Its name, program or process, for people.
    pub what: String,
}

/// What one look for tracers saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracerLook {
    /// The tracers.
    pub tracers: Vec<Tracer>,
    /// Programs of other types in the kernel (`cgroup_device`, `sched_cls`), counted by type: they run
    /// for packets or for a few calls, and are noted. `null` where they could not be listed.
    pub other_programs: Option<BTreeMap<String, u32>>,
    /// What could not be looked at; `null` where everything was.
    pub unseen: Option<NotMeasured>,
}

impl TracerLook {
    /// Adds what another look saw.
    pub fn merge(&mut self, other: Self) {
        for tracer in other.tracers {
            if !self.tracers.contains(&tracer) {
                self.tracers.push(tracer);
            }
        }
        self.other_programs = other.other_programs.or_else(|| self.other_programs.take());
        self.unseen = self.unseen.take().or(other.unseen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each tracer is kept once, and one look that could not see everything stays known.
    #[test]
    fn looks_add_up() {
        let strace = Tracer {
            kind: "ptrace".to_owned(),
            what: "strace (7)".to_owned(),
        };
        let mut sum = TracerLook::default();
        for unseen in [None, Some("needs root"), None] {
            sum.merge(TracerLook {
                tracers: vec![strace.clone()],
                other_programs: None,
                unseen: unseen.map(|why| NotMeasured {
                    what: "other tracers".to_owned(),
                    why: why.to_owned(),
                    remedy: None,
                }),
            });
        }
        assert_eq!(sum.tracers, [strace]);
        assert_eq!(sum.unseen.unwrap().why, "needs root");
    }
}
