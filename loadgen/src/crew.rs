//! The client threads as the coordinating thread sees them: orders go in, notices come out.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use hdrhistogram::Histogram;
use recording::CpuTime;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::error::LoadError;
use crate::limits;
use crate::schedule::{Budget, connections_of_thread};
use crate::tally::Tally;
use crate::timeline::Bins;
use crate::worker::{Plan, Worker};

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
    /// End the current leg now, and forget those after it.
    Halt,
    /// Close everything and end.
    Leave,
}

/// What the coordinating thread is told.
pub(crate) enum Notice {
    /// All connections of a thread are open or have failed once.
    Opened { open: u32, failed: Option<Errno> },
    /// A slice of a thread has ended.
    Slice(Box<SliceCounts>),
    /// A leg of a thread has ended.
    LegDone(Box<LegCounts>),
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
    /// Age of the oldest request in flight at the end.
    pub(crate) oldest_unfinished_ns: Option<u64>,
}

/// The orders of one thread, with the descriptor that wakes it.
#[derive(Debug)]
pub(crate) struct Mailbox {
    orders: Mutex<VecDeque<Order>>,
    wake: OwnedFd,
}

impl Mailbox {
    fn new() -> Result<Self, LoadError> {
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

    fn put(&self, order: Order) {
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

/// The running client threads; dropping it ends them.
pub(crate) struct Crew {
    threads: Vec<(Arc<Mailbox>, JoinHandle<Option<Bins>>)>,
}

impl Crew {
    /// Starts the threads, each of which opens its connections at once.
    pub(crate) fn start(
        plan: &Arc<Plan>,
        connections: u32,
        threads: u32,
        cpus: &[usize],
        notices: &Sender<Notice>,
    ) -> Result<Self, LoadError> {
        let mut crew = Self {
            threads: Vec::new(),
        };
        for thread in 0..threads {
            let mailbox = Arc::new(Mailbox::new()?);
            let job = Job {
                plan: Arc::clone(plan),
                mailbox: Arc::clone(&mailbox),
                notices: notices.clone(),
                connections: connections_of_thread(connections, threads, thread),
                cpu: cpus.get(thread as usize % cpus.len().max(1)).copied(),
            };
            let handle = std::thread::Builder::new()
                .name(format!("load-{thread}"))
                .spawn(move || job.run())
                .map_err(|error| LoadError::Os {
                    call: "clone of a client thread",
                    errno: Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
                })?;
            crew.threads.push((mailbox, handle));
        }
        Ok(crew)
    }

    /// Gives every thread the same order.
    pub(crate) fn order(&self, order: impl Fn() -> Order) {
        for (mailbox, _) in &self.threads {
            mailbox.put(order());
        }
    }

    /// Ends the threads and returns their completions over time.
    pub(crate) fn leave(mut self) -> Vec<Bins> {
        self.order(|| Order::Leave);
        self.threads
            .drain(..)
            .filter_map(|(_, thread)| match thread.join() {
                Ok(bins) => bins,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.order(|| Order::Leave);
        for (_, thread) in self.threads.drain(..) {
            // Only reached on the way out of an error, which is the one to report.
            let _panic = thread.join();
        }
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew")
            .field("threads", &self.threads.len())
            .finish()
    }
}

/// What a thread needs to begin.
struct Job {
    plan: Arc<Plan>,
    mailbox: Arc<Mailbox>,
    notices: Sender<Notice>,
    connections: u32,
    cpu: Option<usize>,
}

impl Job {
    /// The life of a client thread.
    fn run(self) -> Option<Bins> {
        let alarm = Alarm(self.notices.clone());
        let notices = self.notices.clone();
        let result = self
            .cpu
            .map_or(Ok(()), limits::pin_thread)
            .and_then(|()| Worker::new(self.plan, self.mailbox, self.notices, self.connections))
            .and_then(Worker::run);
        drop(alarm);
        match result {
            Ok(bins) => bins,
            Err(error) => {
                // The receiver is gone when the run has failed elsewhere.
                let _gone = notices.send(Notice::Failed(error));
                None
            }
        }
    }
}

/// Tells the coordinating thread when its thread dies, so that nobody waits for it for ever.
struct Alarm(Sender<Notice>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The receiver is gone when the run has failed elsewhere.
            let _gone = self.0.send(Notice::Panicked);
        }
    }
}
