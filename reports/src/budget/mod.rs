//! The budget of system calls per request: exact counts against a reviewed text file.
//!
//! [`Lock`] is that file. [`check`] holds lock-step rounds against it, [`bless`] takes their counts
//! over. What is exact breaks the lock when it changes in every repeat; what depends on the clock of
//! the machine only warns.

mod check;
mod fixed;
mod limit;
mod lock;
mod measured;

pub use check::{bless, check};
pub use fixed::Fixed;
pub use limit::{Bound, Limit, SERVER_CPU};
pub use lock::{CallKey, Figures, Key, Lock, LockError, Section};

/// Calls per request that are not of the requests: timers and housekeeping that happen to fall into
/// a window. Rarer calls are not locked, and what is no whole number may move by so much.
pub const NOISE_PER_REQUEST: f64 = 0.02;
