//! How a caller follows and steers a run.

use std::fmt;
use std::sync::mpsc::Sender;

use recording::{LoadPhase, LoadSlice};

use crate::orders::Notice;

/// What a caller is told during a run. Everything is called from the thread that called
/// [`crate::run`], never from the threads that send; a call that blocks delays only reports, except
/// where it says that it is waited for.
pub trait Control {
    /// First of all: the handle that ends the run early.
    fn started(&mut self, _stop: StopHandle) {}

    /// The connections are open and nothing was sent; the run begins when this returns.
    fn ready(&mut self, _at_ns: u64) {}

    /// A phase begins. With `barrier` nothing is in flight and nothing is sent until this returns;
    /// the phase then begins with its return, not at `at_ns`.
    fn phase(&mut self, _phase: LoadPhase, _at_ns: u64, _barrier: bool) {}

    /// A slice of the measured window is complete.
    fn slice(&mut self, _slice: &LoadSlice) {}
}

/// A caller that does not want to know.
impl Control for () {}

/// Ends a run early, from any thread; not from inside a signal handler. The run then returns what
/// it has measured so far.
#[derive(Clone)]
pub struct StopHandle {
    notices: Sender<Notice>,
}

impl StopHandle {
    pub(crate) fn new(notices: Sender<Notice>) -> Self {
        Self { notices }
    }

    /// Asks the run to end; `why` is stored ("interrupted"). Once a run has ended it does nothing.
    pub fn stop(&self, why: &str) {
        // The receiver is gone when the run has ended, and then there is nothing to stop.
        let _ended = self.notices.send(Notice::Stop {
            why: why.to_owned(),
        });
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopHandle").finish_non_exhaustive()
    }
}
