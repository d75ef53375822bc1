//! The client threads: starting, ordering and ending them.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::error::LoadError;
use crate::limits;
use crate::orders::{Mailbox, Notice, Order};
use crate::plan::Plan;
use crate::schedule::connections_of_thread;
use crate::worker::{Left, Worker};

/// The running client threads; dropping it ends them.
pub(crate) struct Crew {
    threads: Vec<(Arc<Mailbox>, JoinHandle<Option<Left>>)>,
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
                thread,
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

    /// Ends the threads and returns what they leave.
    pub(crate) fn leave(mut self) -> Vec<Left> {
        self.order(|| Order::Leave);
        self.threads
            .drain(..)
            .filter_map(|(_, thread)| match thread.join() {
                Ok(left) => left,
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
    thread: u32,
    cpu: Option<usize>,
}

impl Job {
    /// The life of a client thread.
    fn run(self) -> Option<Left> {
        let alarm = Alarm(self.notices.clone());
        let notices = self.notices.clone();
        let result = self
            .cpu
            .map_or(Ok(()), limits::pin_thread)
            .and_then(|()| {
                Worker::new(
                    self.plan,
                    self.mailbox,
                    self.notices,
                    self.connections,
                    self.thread,
                )
            })
            .and_then(Worker::run);
        drop(alarm);
        match result {
            Ok(left) => Some(left),
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
