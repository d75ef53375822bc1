//! Limits of a lock file: a metric and how far it may go.

use std::fmt;

use super::Fixed;
use crate::clean::clean;

/// A limit on one metric of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `syscalls` (all calls), `errors`, a call (`openat`), a call on one kind of descriptor
    /// (`read.socket`), or [`SERVER_CPU`].
    pub metric: String,
    /// How far.
    pub bound: Bound,
    /// The comment behind it, without its `#`.
    pub comment: Option<String>,
}

/// How far a metric may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most so much per request.
    Hard(Fixed),
    /// From what is locked, by at most so many percent.
    Soft(Fixed),
}

/// CPU time of the server per request, us. It depends on the machine, so it only warns.
pub const SERVER_CPU: &str = "server_cpu_us";

impl Limit {
    /// Reads the words of a line that begins with `hard` or `soft`; the error says what is wrong.
    pub(super) fn parse(words: &[&str], comment: Option<&str>) -> Result<Self, String> {
        let (metric, bound) = match words {
            ["hard", metric, "<=", limit] => (metric, limit.parse().map(Bound::Hard)),
            ["soft", metric, percent] => {
                let Some(percent) = percent.strip_suffix('%') else {
                    return Err("a soft limit is a percentage: soft epoll_wait 2%".to_owned());
                };
                (metric, percent.parse().map(Bound::Soft))
            }
            _ => {
                return Err(
                    "a limit is `hard METRIC <= NUMBER` or `soft METRIC NUMBER%`".to_owned(),
                );
            }
        };
        let bound = bound.map_err(|error| format!("the limit on {} is {error}", clean(metric)))?;
        if *metric == SERVER_CPU && matches!(bound, Bound::Soft(_)) {
            return Err(format!(
                "{SERVER_CPU} has no locked value, because it differs from machine to machine: use \
                 `hard {SERVER_CPU} <= NUMBER`"
            ));
        }
        Ok(Self {
            metric: (*metric).to_owned(),
            bound,
            comment: comment.map(str::to_owned),
        })
    }

    /// Whether it can fail a build: counts can, times can not.
    pub(super) fn is_noisy(&self) -> bool {
        self.metric == SERVER_CPU
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = &self.metric;
        match self.bound {
            Bound::Hard(limit) => write!(formatter, "hard {metric} <= {}", limit.short()),
            Bound::Soft(percent) => write!(formatter, "soft {metric} {}%", percent.short()),
        }
    }
}
