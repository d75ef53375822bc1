//! The event loop of one thread.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::connection::{Connection, Next, Serving};
use crate::syscall::Events;
use crate::{ServeError, Style};

/// One thread's epoll, listening socket and connections.
pub(crate) struct Worker<'a> {
    epoll: OwnedFd,
    listener: &'a OwnedFd,
    serving: Serving<'a>,
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
        listener: &'a OwnedFd,
        stop: BorrowedFd<'_>,
        serving: Serving<'a>,
    ) -> Result<Self, ServeError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(ServeError::os("epoll_create1"))?;
        // Never read, so that it stays ready and wakes every worker.
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)
            .map_err(ServeError::os("epoll_ctl"))?;
        let mut worker = Self {
            epoll,
            listener,
            serving,
            slots: Vec::new(),
            free_slots: Vec::new(),
            free_buffers: Vec::new(),
            accepting: false,
        };
        worker.resume_accepting()?;
        Ok(worker)
    }

    /// Serves until the stop descriptor is ready.
    pub(crate) fn run(mut self) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(MAX_EVENTS);
        loop {
            if let Err(error) = events.wait(self.epoll.as_fd()) {
                if error.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(ServeError::os("epoll_wait")(error));
            }
            for index in 0..events.len() {
                match events.token(index) {
                    STOP => return Ok(()),
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
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                return self.pause_accepting(error);
            }
            Err(error @ (Errno::BADF | Errno::INVAL | Errno::NOTSOCK)) => {
                return Err(ServeError::os("accept4")(error));
            }
            // The connection ended before it was taken, or the network refused it.
            Err(_) => return Ok(()),
        };
        let connection = Connection::new(socket, self.free_buffers.pop());
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let data = EventData::new_u64(index as u64);
        epoll::add(
            &self.epoll,
            connection.socket(),
            data,
            interest(self.serving.style, EventFlags::IN),
        )
        .map_err(ServeError::os("epoll_ctl"))?;
        self.slots[index] = Some(Slot {
            connection,
            writing: false,
        });
        Ok(())
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
        if writing != slot.writing {
            slot.writing = writing;
            let flags = if writing {
                EventFlags::OUT
            } else {
                EventFlags::IN
            };
            let interest = interest(self.serving.style, flags);
            let data = EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, slot.connection.socket(), data, interest)
                .map_err(ServeError::os("epoll_ctl"))?;
        }
        Ok(())
    }

    /// Ends a connection; its epoll registration goes with the descriptor.
    fn close(&mut self, index: usize) -> Result<(), ServeError> {
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
        let data = EventData::new_u64(LISTENER);
        epoll::add(&self.epoll, self.listener, data, EventFlags::IN)
            .map_err(ServeError::os("epoll_ctl"))
    }

    /// Stops looking at the listening socket, which would be reported without end, until one of the
    /// connections frees a descriptor.
    fn pause_accepting(&mut self, error: Errno) -> Result<(), ServeError> {
        if self.free_slots.len() == self.slots.len() {
            return Err(ServeError::Accept {
                source: error.into(),
            });
        }
        self.accepting = false;
        epoll::delete(&self.epoll, self.listener).map_err(ServeError::os("epoll_ctl"))
    }
}

/// Edge-triggered where the style reads until nothing is left, level-triggered otherwise.
fn interest(style: Style, flags: EventFlags) -> EventFlags {
    match style {
        Style::OpenRead => flags | EventFlags::ET,
        Style::Sendfile => flags,
    }
}

fn slot_index(token: u64) -> usize {
    usize::try_from(token).expect("tokens of connections are indices of slots")
}

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
/// Events per wake-up, as in nginx.
const MAX_EVENTS: u16 = 512;
