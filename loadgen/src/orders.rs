//! What the coordinating thread and the client threads say to each other: orders go in, notices
//! come out. It holds no logic.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use recording::CpuTime;
use rustix::event::{EventfdFlags, eventfd};

use crate::error::{LoadError, OpenFailure};
use crate::observed::Observed;
use crate::resolver::Answer;
use crate::schedule::Budget;
use crate::tally::Tally;

/// One phase, as a client thread carries it out.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    /// Whether it is the measured window.
    pub(crate) measured: bool,
    /// How many requests may be sent.
    pub(crate) budget: Arc<Budget>,
    /// Its first instant.
    pub(crate) starts_ns: u64,
    /// Its end, if it ends by time; else it ends when the budget is spent and nothing is in flight.
    pub(crate) ends_ns: Option<u64>,
    /// Length of its slices.
    pub(crate) slice_ns: Option<u64>,
}

/// What a client thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Carry out a leg, at once or after the one before it.
    Run(Leg),
    /// Open a connection that waited for its name to be resolved.
    Connect(Answer),
    /// End the current leg now, and forget those after it.
    Halt,
    /// Close everything and end.
    Leave,
}

/// What the coordinating thread is told.
pub(crate) enum Notice {
    /// All connections of a thread are open or have failed once.
    Opened {
        open: u32,
        failed: Option<OpenFailure>,
    },
    /// A slice of a thread has ended.
    Slice(Box<SliceCounts>),
    /// A leg of a thread has ended.
    LegDone(Box<LegCounts>),
    /// What was in flight at the end of the window has ended, or was given up.
    Drained(Drained),
    /// An order to halt was obeyed.
    Halted,
    /// Nothing can be sent any more.
    GaveUp { why: String },
    /// A thread could not go on.
    Failed(LoadError),
    /// A thread panicked.
    Panicked,
    /// Somebody asked for the end of the run.
    Stop { why: String },
}

/// What a thread counted in a slice.
#[derive(Debug)]
pub(crate) struct SliceCounts {
    pub(crate) index: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) latency: Histogram<u64>,
}

/// What a thread counted in a leg.
#[derive(Debug)]
pub(crate) struct LegCounts {
    pub(crate) measured: bool,
    pub(crate) tally: Tally,
    /// The slice that the end of the leg cut.
    pub(crate) last_slice: SliceCounts,
    /// CPU time of the thread.
    pub(crate) cpu: CpuTime,
    /// When the leg ended for this thread.
    pub(crate) ended_ns: u64,
    /// What the thread saw beside.
    pub(crate) observed: Observed,
}

/// What became of the requests in flight at the end of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drained {
    /// Answered as expected.
    pub(crate) ok: u64,
    /// Failed.
    pub(crate) failed: u64,
}

/// The orders of one thread, with the descriptor that wakes it.
#[derive(Debug)]
pub(crate) struct Mailbox {
    orders: Mutex<VecDeque<Order>>,
    wake: OwnedFd,
}

impl Mailbox {
    /// An empty mailbox.
    pub(crate) fn new() -> Result<Self, LoadError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
            LoadError::Os {
                call: "eventfd",
                errno,
            }
        })?;
        Ok(Self {
            orders: Mutex::new(VecDeque::new()),
            wake,
        })
    }

    /// Adds an order and wakes the thread.
    pub(crate) fn put(&self, order: Order) {
        self.lock().push_back(order);
        // It can only fail when the counter is full, and then the thread is awake already.
        let _full = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// The next order.
    pub(crate) fn take(&self) -> Option<Order> {
        self.lock().pop_front()
    }

    /// Readable when an order was put; registered edge-triggered, so it is never read.
    pub(crate) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Order>> {
        // A panic elsewhere cannot leave the queue half changed.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
