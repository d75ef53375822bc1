//! Requests of a server that whyfast did not load: what "per request" is divided by.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Window;

/// How many requests a live server answered during the window of a profile, and who says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestCount {
    /// Where the count comes from.
    pub source: RequestSource,
    /// The same for people: the log's path, the page's address, the way sockets were read.
    pub origin: String,
    /// Requests in `window`; `null` where the source could not be read, and `not_measured` says why.
    pub requests: Option<u64>,
    /// The span that they were counted over, which may differ a little from that of the profile.
    pub window: Option<Window>,
    /// By so many requests the count may be off at the edges; `null` where that is not known.
    pub uncertainty: Option<u64>,
}

/// Who counts the requests of a live server, the most trusted first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RequestSource {
    /// Lines of its access log, followed as it grows.
    AccessLog,
    /// A counter that it exposes.
    Counter,
    /// Turns from receiving to sending on its sockets, in the kernel.
    Turns,
}

impl RequestSource {
    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::AccessLog => "lines of its access log",
            Self::Counter => "its own counter",
            Self::Turns => "turns from receiving to sending",
        }
    }
}
