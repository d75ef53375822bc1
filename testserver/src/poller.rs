//! What a worker waits with, for each way to wait.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::syscall::{self, DescriptorSets, Events, Ring};
use crate::{Polling, ServeError};

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Connections to take; `exclusive` wakes one worker of those that wait.
    Accept { exclusive: bool },
    /// Bytes to read.
    Read,
    /// Room to write.
    Write,
}

/// The descriptors that a worker waits for, each with a token.
pub(crate) struct Poller {
    waits_with: WaitsWith,
    /// Tokens of what is ready.
    ready: Vec<u64>,
    max_events: usize,
}

enum WaitsWith {
    Epoll {
        epoll: OwnedFd,
        events: Events,
        edge: bool,
    },
    Poll(Watched),
    Ring(Ring),
    Select {
        watched: Watched,
        sets: DescriptorSets,
    },
}

/// Descriptors that each call names anew.
#[derive(Default)]
struct Watched {
    descriptors: Vec<libc::pollfd>,
    /// In the same order.
    tokens: Vec<u64>,
}

impl Poller {
    pub(crate) fn new(polling: Polling, max_events: usize) -> Result<Self, ServeError> {
        let waits_with = match polling {
            Polling::Epoll | Polling::EpollEdge => WaitsWith::Epoll {
                epoll: epoll::create(CreateFlags::CLOEXEC)
                    .map_err(ServeError::os("epoll_create1"))?,
                events: Events::with_capacity(max_events),
                edge: polling == Polling::EpollEdge,
            },
            Polling::IoUring => {
                WaitsWith::Ring(Ring::new().map_err(|source| ServeError::Ring { source })?)
            }
            Polling::Poll => WaitsWith::Poll(Watched::default()),
            Polling::Select => WaitsWith::Select {
                watched: Watched::default(),
                sets: DescriptorSets::default(),
            },
        };
        Ok(Self {
            waits_with,
            ready: Vec::with_capacity(max_events),
            max_events,
        })
    }

    /// Waits for a descriptor from now on.
    pub(crate) fn watch(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> Result<(), ServeError> {
        match &mut self.waits_with {
            WaitsWith::Epoll { epoll, edge, .. } => {
                let flags = epoll_flags(interest, *edge);
                epoll::add(epoll, descriptor, EventData::new_u64(token), flags)
                    .map_err(ServeError::os("epoll_ctl"))
            }
            WaitsWith::Poll(watched) | WaitsWith::Select { watched, .. } => {
                watched.add(descriptor, token, interest);
                Ok(())
            }
            WaitsWith::Ring(ring) => arm(ring, descriptor, token, interest),
        }
    }

    /// Goes on after an event of the descriptor was worked off, for something else if `changed`.
    pub(crate) fn go_on(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
        changed: bool,
    ) -> Result<(), ServeError> {
        match &mut self.waits_with {
            WaitsWith::Epoll { epoll, edge, .. } if changed => {
                let flags = epoll_flags(interest, *edge);
                epoll::modify(epoll, descriptor, EventData::new_u64(token), flags)
                    .map_err(ServeError::os("epoll_ctl"))
            }
            WaitsWith::Poll(watched) | WaitsWith::Select { watched, .. } if changed => {
                watched.remove(token);
                watched.add(descriptor, token, interest);
                Ok(())
            }
            // What was reported has to be armed again, changed or not.
            WaitsWith::Ring(ring) => arm(ring, descriptor, token, interest),
            WaitsWith::Epoll { .. } | WaitsWith::Poll(_) | WaitsWith::Select { .. } => Ok(()),
        }
    }

    /// Waits no longer for a descriptor whose event was worked off, and which stays open.
    pub(crate) fn leave(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: u64,
    ) -> Result<(), ServeError> {
        if let WaitsWith::Epoll { epoll, .. } = &self.waits_with {
            return epoll::delete(epoll, descriptor).map_err(ServeError::os("epoll_ctl"));
        }
        self.forget(token);
        Ok(())
    }

    /// Forgets a descriptor whose event was worked off, and which is closed: epoll does that by
    /// itself, and a poll in a ring is over when it has been reported.
    pub(crate) fn forget(&mut self, token: u64) {
        if let WaitsWith::Poll(watched) | WaitsWith::Select { watched, .. } = &mut self.waits_with {
            watched.remove(token);
        }
    }

    /// Waits without a limit until at least one descriptor is ready.
    pub(crate) fn wait(&mut self) -> Result<(), ServeError> {
        self.ready.clear();
        let (call, waited) = match &mut self.waits_with {
            WaitsWith::Epoll { epoll, events, .. } => {
                let waited = events.wait(epoll.as_fd());
                if waited.is_ok() {
                    self.ready.extend(events.tokens());
                }
                ("epoll_wait", waited)
            }
            WaitsWith::Poll(watched) => ("poll", watched.poll(&mut self.ready)),
            WaitsWith::Ring(ring) => (
                "io_uring_enter",
                ring.wait(self.max_events, &mut self.ready),
            ),
            WaitsWith::Select { watched, sets } => {
                ("select", watched.select(sets, &mut self.ready))
            }
        };
        match waited {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                Err(ServeError::os(call)(error))
            }
            _ => Ok(()),
        }
    }

    /// How many descriptors are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The token of one of them.
    pub(crate) fn token(&self, index: usize) -> u64 {
        self.ready[index]
    }
}

impl Watched {
    fn add(&mut self, descriptor: BorrowedFd<'_>, token: u64, interest: Interest) {
        self.descriptors.push(libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: poll_events(interest),
            revents: 0,
        });
        self.tokens.push(token);
    }

    fn remove(&mut self, token: u64) {
        if let Some(index) = self.tokens.iter().position(|&known| known == token) {
            self.tokens.swap_remove(index);
            self.descriptors.swap_remove(index);
        }
    }

    fn poll(&mut self, ready: &mut Vec<u64>) -> io::Result<()> {
        syscall::poll(&mut self.descriptors)?;
        let reported = self.descriptors.iter().zip(&self.tokens);
        ready.extend(
            reported
                .filter(|(descriptor, _)| descriptor.revents != 0)
                .map(|(_, &token)| token),
        );
        Ok(())
    }

    fn select(&self, sets: &mut DescriptorSets, ready: &mut Vec<u64>) -> io::Result<()> {
        sets.readable.fill(0);
        sets.writable.fill(0);
        for &descriptor in &self.descriptors {
            let (word, bit) = place(descriptor);
            if sets.readable.len() <= word {
                sets.readable.resize(word + 1, 0);
                sets.writable.resize(word + 1, 0);
            }
            wanted(sets, descriptor)[word] |= bit;
        }
        syscall::select(sets)?;
        for (&descriptor, &token) in self.descriptors.iter().zip(&self.tokens) {
            let (word, bit) = place(descriptor);
            if wanted(sets, descriptor)[word] & bit != 0 {
                ready.push(token);
            }
        }
        Ok(())
    }
}

/// The set that a descriptor belongs to.
fn wanted(sets: &mut DescriptorSets, descriptor: libc::pollfd) -> &mut Vec<u64> {
    if descriptor.events == libc::POLLOUT {
        &mut sets.writable
    } else {
        &mut sets.readable
    }
}

/// Word and bit of a descriptor in its set.
fn place(descriptor: libc::pollfd) -> (usize, u64) {
    let number = usize::try_from(descriptor.fd).expect("an open descriptor is not negative");
    (number / 64, 1 << (number % 64))
}

fn arm(
    ring: &mut Ring,
    descriptor: BorrowedFd<'_>,
    token: u64,
    interest: Interest,
) -> Result<(), ServeError> {
    let events = u32::from(poll_events(interest).unsigned_abs());
    ring.arm(descriptor.as_raw_fd(), token, events)
        .map_err(ServeError::os("io_uring_enter"))
}

fn poll_events(interest: Interest) -> libc::c_short {
    match interest {
        Interest::Accept { .. } | Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
    }
}

/// Connections are edge-triggered where the worker is told so; other descriptors never are.
fn epoll_flags(interest: Interest, edge: bool) -> EventFlags {
    let mode = if edge {
        EventFlags::ET
    } else {
        EventFlags::empty()
    };
    match interest {
        Interest::Accept { exclusive: true } => EventFlags::IN | EventFlags::EXCLUSIVE,
        Interest::Accept { exclusive: false } => EventFlags::IN,
        Interest::Read => EventFlags::IN | mode,
        Interest::Write => EventFlags::OUT | mode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to wait reports what is ready and nothing else, again only when asked to go on,
    /// and nothing of what was forgotten.
    #[test]
    fn every_way_reports_what_is_ready() {
        for polling in [
            Polling::Epoll,
            Polling::EpollEdge,
            Polling::IoUring,
            Polling::Poll,
            Polling::Select,
        ] {
            let (quiet, _quiet_writer) = rustix::pipe::pipe().expect("descriptors are left");
            let (reader, writer) = rustix::pipe::pipe().expect("descriptors are left");
            rustix::io::write(&writer, b"x").expect("a pipe has room");
            let mut poller = Poller::new(polling, 8).expect("the kernel has it");
            let mut watch = |descriptor: &OwnedFd, token, interest| {
                poller
                    .watch(descriptor.as_fd(), token, interest)
                    .expect("it is open");
            };
            watch(&quiet, 1, Interest::Read);
            watch(&reader, 2, Interest::Read);
            poller.wait().expect("one is ready");
            assert_eq!(poller.ready, [2], "{polling:?}");

            poller.leave(reader.as_fd(), 2).expect("it was watched");
            poller
                .watch(writer.as_fd(), 3, Interest::Write)
                .expect("it is open");
            poller.wait().expect("one is ready");
            assert_eq!(poller.ready, [3], "{polling:?}");
        }
    }

    /// A limit on events leaves the others for the next wait.
    #[test]
    fn a_limit_leaves_the_others_for_later() {
        for polling in [Polling::Epoll, Polling::IoUring] {
            let pipes: Vec<_> = (0..3)
                .map(|_pipe| rustix::pipe::pipe().expect("descriptors are left"))
                .collect();
            let mut poller = Poller::new(polling, 1).expect("the kernel has it");
            for ((_, writer), token) in pipes.iter().zip(0..) {
                poller
                    .watch(writer.as_fd(), token, Interest::Write)
                    .expect("it is open");
            }
            let mut seen: Vec<u64> = Vec::new();
            while seen.len() < 3 {
                poller.wait().expect("one is ready");
                assert_eq!(poller.ready(), 1, "{polling:?}");
                let token = poller.token(0);
                seen.push(token);
                let (_, writer) = &pipes[usize::try_from(token).expect("a small number")];
                poller.leave(writer.as_fd(), token).expect("it was watched");
            }
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2], "{polling:?}");
        }
    }
}
