//! The event loop of one thread that has the kernel do whole exchanges: send this response, then
//! receive the next request.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::connection::{Connection, Next};
use crate::serving::Serving;
use crate::syscall::{Ended, ExchangeRing, Transfer, Watched};
use crate::timing::InjectionTimes;
use crate::worker;
use crate::{Config, ServeError};

/// One thread's ring, listening socket and connections.
pub(crate) struct RingWorker<'a> {
    ring: ExchangeRing,
    max_events: usize,
    listener: &'a OwnedFd,
    serving: Serving,
    slots: Vec<Option<Connection>>,
    free_slots: Vec<usize>,
    /// Buffers of ended connections, so that a new one allocates nothing.
    free_buffers: Vec<Box<[u8]>>,
    /// Whether a connection is being waited for; not while descriptors have run out.
    accepting: bool,
}

impl<'a> RingWorker<'a> {
    pub(crate) fn new(
        config: &Config,
        listener: &'a OwnedFd,
        stop: BorrowedFd<'_>,
        serving: Serving,
    ) -> Result<Self, ServeError> {
        let mut ring = ExchangeRing::new().map_err(|source| ServeError::Ring { source })?;
        ring.watch(stop.as_raw_fd(), Watched::Stop)
            .map_err(entered)?;
        let mut worker = Self {
            ring,
            max_events: config.max_events(),
            listener,
            serving,
            slots: Vec::new(),
            free_slots: Vec::new(),
            free_buffers: Vec::new(),
            accepting: false,
        };
        worker.go_on_accepting()?;
        Ok(worker)
    }

    /// Serves until the stop descriptor is ready; returns the times of injections, where taken.
    pub(crate) fn run(mut self) -> Result<Option<InjectionTimes>, ServeError> {
        let mut all = Vec::with_capacity(self.max_events);
        loop {
            self.ring.wait(self.max_events, &mut all).map_err(entered)?;
            for ended in all.drain(..) {
                match ended {
                    Ended::Ready(Watched::Stop) => return self.stop(),
                    Ended::Ready(Watched::Listener) => self.accept()?,
                    Ended::Transferred {
                        token,
                        transfer,
                        outcome,
                    } => self.advance(token, transfer, outcome)?,
                }
            }
        }
    }

    /// Takes one connection. The listening socket is reported again while there are others.
    fn accept(&mut self) -> Result<(), ServeError> {
        // The kernel waits for a socket only where it may block.
        let socket = match rustix::net::accept_with(self.listener, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(error) if worker::ends_with_a_connection(error) => {
                self.accepting = false;
                return worker::check_connections(error, self.free_slots.len() < self.slots.len());
            }
            Err(error) if worker::is_fatal(error) => return Err(ServeError::os("accept4")(error)),
            // Another worker took it, it ended before it was taken, or the network refused it.
            Err(_) => return self.go_on_accepting(),
        };
        let connection = Connection::that_queues(socket, self.free_buffers.pop());
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(connection);
        self.transfer(index, true)?;
        self.go_on_accepting()
    }

    fn go_on_accepting(&mut self) -> Result<(), ServeError> {
        self.accepting = true;
        self.ring
            .watch(self.listener.as_raw_fd(), Watched::Listener)
            .map_err(entered)
    }

    /// Goes on with a connection whose exchange has ended, with the bytes that were received or, where
    /// nothing was to be received, none.
    fn advance(
        &mut self,
        index: usize,
        transfer: Transfer,
        outcome: Result<Option<usize>, Errno>,
    ) -> Result<(), ServeError> {
        let Some(connection) = &mut self.slots[index] else {
            return Ok(());
        };
        connection.take_back(transfer);
        let next = match outcome {
            Ok(Some(received)) => connection.received(received, &mut self.serving),
            Ok(None) => connection.sent(&mut self.serving),
            Err(_) => Next::Close,
        };
        match next {
            Next::Close => self.close(index),
            Next::Read => self.transfer(index, true),
            Next::Write => self.transfer(index, false),
        }
    }

    /// Has the kernel send what is to be sent, and then receive.
    fn transfer(&mut self, index: usize, receives: bool) -> Result<(), ServeError> {
        let Some(connection) = &mut self.slots[index] else {
            return Ok(());
        };
        let transfer = connection.lend();
        let socket = connection.socket().as_raw_fd();
        self.ring
            .start(socket, index, transfer, receives)
            .map_err(entered)
    }

    fn close(&mut self, index: usize) -> Result<(), ServeError> {
        if let Some(connection) = self.slots[index].take() {
            self.free_buffers.push(connection.close());
            self.free_slots.push(index);
        }
        if self.accepting {
            Ok(())
        } else {
            self.go_on_accepting()
        }
    }

    /// Ends every connection, which ends its exchange, so that the kernel has none of the buffers.
    fn stop(mut self) -> Result<Option<InjectionTimes>, ServeError> {
        for connection in self.slots.iter().flatten() {
            // Fails only where the client is gone already.
            let _gone = rustix::net::shutdown(connection.socket(), rustix::net::Shutdown::Both);
        }
        let mut ended = Vec::new();
        while self.ring.is_busy() {
            self.ring
                .wait(self.max_events, &mut ended)
                .map_err(entered)?;
            ended.clear();
        }
        Ok(self.serving.times)
    }
}

fn entered(error: std::io::Error) -> ServeError {
    ServeError::os("io_uring_enter")(error)
}
