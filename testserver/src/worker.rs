//! The event loop of one thread.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::connection::{Connection, Next};
use crate::poller::{Interest, Poller};
use crate::serving::Serving;
use crate::stream::Stream;
use crate::timing::InjectionTimes;
use crate::{Accepting, Config, ServeError};

/// One thread's poller, listening socket and connections.
pub(crate) struct Worker<'a> {
    poller: Poller,
    listener: &'a OwnedFd,
    /// Whether the kernel is to wake one of the workers that wait for the listening socket.
    exclusive: bool,
    serving: Serving,
    slots: Vec<Option<Slot>>,
    free_slots: Vec<usize>,
    /// Buffers of ended connections, so that a new one allocates nothing.
    free_buffers: Vec<Box<[u8]>>,
    /// Whether the listening socket is waited for; not while descriptors have run out.
    accepting: bool,
}

struct Slot {
    connection: Connection,
    writing: bool,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        config: &Config,
        listener: &'a OwnedFd,
        stop: BorrowedFd<'_>,
        serving: Serving,
    ) -> Result<Self, ServeError> {
        let mut poller = Poller::new(config.polling, config.max_events())?;
        // Never read, so that it stays ready and wakes every worker.
        poller.watch(stop, STOP, Interest::Accept { exclusive: false })?;
        let mut worker = Self {
            poller,
            listener,
            exclusive: config.accepting == Accepting::Exclusive,
            serving,
            slots: Vec::new(),
            free_slots: Vec::new(),
            free_buffers: Vec::new(),
            accepting: false,
        };
        worker.resume_accepting()?;
        Ok(worker)
    }

    /// Serves until the stop descriptor is ready; returns the times of injections, where taken.
    pub(crate) fn run(mut self) -> Result<Option<InjectionTimes>, ServeError> {
        loop {
            self.poller.wait()?;
            for index in 0..self.poller.ready() {
                match self.poller.token(index) {
                    STOP => return Ok(self.serving.times),
                    LISTENER => self.accept()?,
                    // A descriptor has one event per wake-up, and slots are freed only by their
                    // own, so the slot cannot have changed hands since.
                    token => self.advance(slot_index(token))?,
                }
            }
        }
    }

    /// Takes one connection. The listening socket is level-triggered, so the others are reported
    /// again, and no call is spent on finding that there is none left.
    fn accept(&mut self) -> Result<(), ServeError> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = match rustix::net::accept_with(self.listener, flags) {
            Ok(socket) => socket,
            Err(error) if ends_with_a_connection(error) => return self.pause_accepting(error),
            Err(error) if is_fatal(error) => return Err(ServeError::os("accept4")(error)),
            // Another worker took it, it ended before it was taken, or the network refused it.
            Err(_) => return self.go_on_accepting(),
        };
        let Ok(stream) = Stream::new(socket, self.serving.tls.as_ref()) else {
            return self.go_on_accepting();
        };
        let connection = Connection::new(stream, self.free_buffers.pop());
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.poller
            .watch(connection.socket().as_fd(), index as u64, Interest::Read)?;
        self.slots[index] = Some(Slot {
            connection,
            writing: false,
        });
        self.go_on_accepting()
    }

    fn go_on_accepting(&mut self) -> Result<(), ServeError> {
        let interest = self.accept_interest();
        self.poller
            .go_on(self.listener.as_fd(), LISTENER, interest, false)
    }

    fn accept_interest(&self) -> Interest {
        Interest::Accept {
            exclusive: self.exclusive,
        }
    }

    fn advance(&mut self, index: usize) -> Result<(), ServeError> {
        let Some(slot) = &mut self.slots[index] else {
            return Ok(());
        };
        let next = slot.connection.advance(&mut self.serving, slot.writing);
        let writing = match next {
            Next::Close => return self.close(index),
            Next::Read => false,
            Next::Write => true,
        };
        let changed = writing != slot.writing;
        slot.writing = writing;
        let interest = if writing {
            Interest::Write
        } else {
            Interest::Read
        };
        let socket = slot.connection.socket().as_fd();
        self.poller.go_on(socket, index as u64, interest, changed)
    }

    /// Ends a connection.
    fn close(&mut self, index: usize) -> Result<(), ServeError> {
        self.poller.forget(index as u64);
        if let Some(slot) = self.slots[index].take() {
            self.free_buffers.push(slot.connection.close());
            self.free_slots.push(index);
        }
        if self.accepting {
            Ok(())
        } else {
            self.resume_accepting()
        }
    }

    fn resume_accepting(&mut self) -> Result<(), ServeError> {
        self.accepting = true;
        let interest = self.accept_interest();
        self.poller.watch(self.listener.as_fd(), LISTENER, interest)
    }

    /// Stops looking at the listening socket, which would be reported without end, until one of the
    /// connections frees a descriptor.
    fn pause_accepting(&mut self, error: Errno) -> Result<(), ServeError> {
        check_connections(error, self.free_slots.len() < self.slots.len())?;
        self.accepting = false;
        self.poller.leave(self.listener.as_fd(), LISTENER)
    }
}

/// Whether a connection can be taken once another one has ended.
pub(crate) fn ends_with_a_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM
    )
}

/// Whether no connection will ever be taken.
pub(crate) fn is_fatal(error: Errno) -> bool {
    matches!(error, Errno::BADF | Errno::INVAL | Errno::NOTSOCK)
}

/// Without a connection that could end there is no reason to wait for it.
pub(crate) fn check_connections(error: Errno, are_some: bool) -> Result<(), ServeError> {
    if are_some {
        return Ok(());
    }
    Err(ServeError::Accept {
        source: error.into(),
    })
}

fn slot_index(token: u64) -> usize {
    usize::try_from(token).expect("tokens of connections are indices of slots")
}

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
