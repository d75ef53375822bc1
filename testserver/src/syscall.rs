//! The system calls that have to be exactly the ones that the tables name.
//!
//! The only unsafe module of the crate. The wrappers at hand choose the call themselves:
//! `epoll_pwait` where `epoll_wait` would do, `ppoll` and `pselect6` for `poll` and `select`, and an
//! `fcntl` before each `close` in builds with debug assertions. Mapped memory is handed to the
//! kernel alone: a file that changes under it would break what Rust may assume of memory.

#![expect(
    unsafe_code,
    reason = "raw system calls, so that each is the documented one and no other"
)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Closes a descriptor, with nothing but `close`.
pub(crate) fn close(descriptor: OwnedFd) {
    // SAFETY: the descriptor is owned, so nobody else uses it, and it is not used afterwards. Linux
    // frees it whatever `close` returns.
    unsafe { rustix::io::close(descriptor.into_raw_fd()) };
}

/// Room for the events of one wake-up.
pub(crate) struct Events {
    buffer: Box<[libc::epoll_event]>,
    filled: usize,
}

impl Events {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Self {
            buffer: vec![empty; capacity].into_boxed_slice(),
            filled: 0,
        }
    }

    /// Waits without a limit until at least one descriptor is ready.
    pub(crate) fn wait(&mut self, epoll: BorrowedFd<'_>) -> io::Result<()> {
        self.filled = 0;
        let no_limit: libc::c_int = -1;
        // SAFETY: the buffer is valid for writes of its whole length and borrowed for the call; the
        // kernel writes at most as many events as it is told, and the descriptor is open.
        #[cfg(target_arch = "x86_64")]
        let returned = unsafe {
            libc::syscall(
                libc::SYS_epoll_wait,
                epoll.as_raw_fd(),
                self.buffer.as_mut_ptr(),
                self.buffer.len(),
                no_limit,
            )
        };
        // SAFETY: as above; without a signal mask its size is not looked at.
        #[cfg(not(target_arch = "x86_64"))]
        let returned = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait,
                epoll.as_raw_fd(),
                self.buffer.as_mut_ptr(),
                self.buffer.len(),
                no_limit,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        self.filled = ready(returned)?;
        Ok(())
    }

    /// What the ready descriptors were registered with.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u64> + '_ {
        self.buffer[..self.filled].iter().map(|event| event.u64)
    }
}

/// Watches a descriptor for bytes to read, with the runtime that this runs on.
pub(crate) fn watch_readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open and the same until it is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    watched.map_err(|error| error.into_parts().1)
}

/// Waits without a limit until at least one descriptor is ready; which ones stands in `revents`.
pub(crate) fn poll(descriptors: &mut [libc::pollfd]) -> io::Result<()> {
    // SAFETY: the slice is valid for reads and writes of its whole length and borrowed for the call.
    #[cfg(target_arch = "x86_64")]
    let returned = unsafe {
        let no_limit: libc::c_int = -1;
        libc::syscall(
            libc::SYS_poll,
            descriptors.as_mut_ptr(),
            descriptors.len(),
            no_limit,
        )
    };
    // SAFETY: as above; neither a limit nor a signal mask is given, so neither is looked at.
    #[cfg(not(target_arch = "x86_64"))]
    let returned = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            descriptors.as_mut_ptr(),
            descriptors.len(),
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    ready(returned).map(drop)
}

/// Sets of descriptors, a bit each, as `select` has them. Longer than the C library's, so that they
/// hold any descriptor.
#[derive(Clone, Default)]
pub(crate) struct DescriptorSets {
    pub(crate) readable: Vec<u64>,
    pub(crate) writable: Vec<u64>,
}

/// Waits without a limit until at least one descriptor is ready; the sets hold those afterwards.
pub(crate) fn select(sets: &mut DescriptorSets) -> io::Result<()> {
    let words = sets.readable.len().min(sets.writable.len());
    // SAFETY: both sets are valid for reads and writes of that many words and borrowed for the
    // call; the kernel looks at one bit per descriptor below the given number, which ends with the
    // last word. No limit is given.
    #[cfg(target_arch = "x86_64")]
    let returned = unsafe {
        libc::syscall(
            libc::SYS_select,
            words * 64,
            sets.readable.as_mut_ptr(),
            sets.writable.as_mut_ptr(),
            std::ptr::null_mut::<u64>(),
            std::ptr::null_mut::<libc::timeval>(),
        )
    };
    // SAFETY: as above; no signal mask is given.
    #[cfg(not(target_arch = "x86_64"))]
    let returned = unsafe {
        libc::syscall(
            libc::SYS_pselect6,
            words * 64,
            sets.readable.as_mut_ptr(),
            sets.writable.as_mut_ptr(),
            std::ptr::null_mut::<u64>(),
            std::ptr::null_mut::<libc::timespec>(),
            std::ptr::null_mut::<libc::c_void>(),
        )
    };
    ready(returned).map(drop)
}

fn ready(returned: libc::c_long) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_negative| io::Error::last_os_error())
}

/// An `io_uring` that polls descriptors, once for each time that they are armed.
pub(crate) struct Ring {
    ring: IoUring,
}

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        // Completions are made by the thread that waits for them, rather than in its interrupts;
        // kernels before 6.1 do not know that.
        let deferred = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(RING_ENTRIES);
        let ring = deferred.or_else(|_unknown| IoUring::new(RING_ENTRIES))?;
        Ok(Self { ring })
    }

    /// Reports the token once, when the descriptor is ready. It is submitted by the next wait.
    pub(crate) fn arm(&mut self, descriptor: RawFd, token: u64, events: u32) -> io::Result<()> {
        let entry = opcode::PollAdd::new(types::Fd(descriptor), events)
            .build()
            .user_data(token);
        // SAFETY: a poll refers to no memory, only to a descriptor; one that is closed meanwhile
        // makes it fail.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            self.ring.submit()?;
            // SAFETY: as above.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            return pushed.map_err(io::Error::other);
        }
        Ok(())
    }

    /// Waits without a limit until at least one descriptor is ready, and takes at most `limit`.
    pub(crate) fn wait(&mut self, limit: usize, tokens: &mut Vec<u64>) -> io::Result<()> {
        self.ring.submit_and_wait(1)?;
        let completions = self.ring.completion().take(limit);
        tokens.extend(completions.map(|completion| completion.user_data()));
        Ok(())
    }
}

/// Buffers of a connection, which are the ring's while it works on them.
pub(crate) struct Transfer {
    /// Sent first, where there is any.
    pub(crate) output: Vec<u8>,
    /// Receives what comes, after the bytes that it has already.
    pub(crate) input: Box<[u8]>,
    pub(crate) filled: usize,
}

/// A descriptor that is only waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    Listener,
    Stop,
}

/// What an [`ExchangeRing`] has done.
pub(crate) enum Ended {
    /// A descriptor that was watched is ready.
    Ready(Watched),
    /// The buffers are given back, with the bytes received where that was asked for.
    Transferred {
        token: usize,
        transfer: Transfer,
        outcome: Result<Option<usize>, Errno>,
    },
}

/// An `io_uring` that sends and receives whole buffers, each exchange with one completion.
pub(crate) struct ExchangeRing {
    ring: IoUring,
    /// What the kernel works on, by token, and whether it receives.
    transfers: Vec<Option<(Transfer, bool)>>,
    busy: usize,
}

impl ExchangeRing {
    pub(crate) fn new() -> io::Result<Self> {
        let ring = Ring::new()?.ring;
        if !ring.params().is_feature_skip_cqe_on_success() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            ring,
            transfers: Vec::new(),
            busy: 0,
        })
    }

    /// Reports once when the descriptor has something to read.
    pub(crate) fn watch(&mut self, descriptor: RawFd, which: Watched) -> io::Result<()> {
        let events = u32::from(libc::POLLIN.unsigned_abs());
        let entry = opcode::PollAdd::new(types::Fd(descriptor), events).build();
        let user_data = match which {
            Watched::Listener => LISTENER,
            Watched::Stop => STOP,
        };
        self.push(&[entry.user_data(user_data)])
    }

    /// Sends the output, where there is any, and then receives into the input if `receives`. Both end
    /// as one: a send that fails takes the receive with it, and one that succeeds is not reported. The
    /// token is free once that has ended, and the socket stays open until then.
    pub(crate) fn start(
        &mut self,
        socket: RawFd,
        token: usize,
        mut transfer: Transfer,
        receives: bool,
    ) -> io::Result<()> {
        let room = &mut transfer.input[transfer.filled..];
        let receive = opcode::Recv::new(types::Fd(socket), room.as_mut_ptr(), length(room))
            .build()
            .user_data(token as u64);
        let output = &transfer.output;
        let send = opcode::Send::new(types::Fd(socket), output.as_ptr(), length(output))
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .user_data(token as u64);
        let linked = send.clone().flags(Flags::IO_LINK | Flags::SKIP_SUCCESS);
        let entries: &[Entry] = match (output.is_empty(), receives) {
            (true, _) => &[receive],
            (false, true) => &[linked, receive],
            (false, false) => &[send],
        };
        // Moving the buffers does not move the bytes, which are on the heap.
        let receives = receives || output.is_empty();
        if self.transfers.len() <= token {
            self.transfers.resize_with(token + 1, || None);
        }
        self.transfers[token] = Some((transfer, receives));
        self.busy += 1;
        self.push(entries)
    }

    /// Waits without a limit until something has ended, and takes at most `limit` of it.
    pub(crate) fn wait(&mut self, limit: usize, all: &mut Vec<Ended>) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for completion in self.ring.completion().take(limit) {
            all.push(match completion.user_data() {
                LISTENER => Ended::Ready(Watched::Listener),
                STOP => Ended::Ready(Watched::Stop),
                token => {
                    let token = usize::try_from(token).expect("tokens are indices");
                    let Some((transfer, receives)) =
                        self.transfers.get_mut(token).and_then(Option::take)
                    else {
                        continue;
                    };
                    self.busy -= 1;
                    let bytes =
                        errno(completion.result()).map(|bytes| usize::try_from(bytes).unwrap_or(0));
                    Ended::Transferred {
                        token,
                        transfer,
                        outcome: bytes.map(|bytes| receives.then_some(bytes)),
                    }
                }
            });
        }
        Ok(())
    }

    /// Whether the kernel has buffers.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// Leaves entries to the next wait, all of them together.
    fn push(&mut self, entries: &[Entry]) -> io::Result<()> {
        let left = |ring: &mut IoUring| {
            let queue = ring.submission();
            queue.capacity() - queue.len()
        };
        if left(&mut self.ring) < entries.len() {
            self.ring.submit()?;
        }
        // SAFETY: the buffers that an entry names are kept in `transfers` until its completion, or for
        // good where there is none.
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        pushed.map_err(io::Error::other)
    }
}

impl Drop for ExchangeRing {
    fn drop(&mut self) {
        // The kernel may still write to what it has.
        if self.is_busy() {
            std::mem::forget(std::mem::take(&mut self.transfers));
        }
    }
}

fn errno(result: i32) -> Result<i32, Errno> {
    if result < 0 {
        Err(Errno::from_raw_os_error(-result))
    } else {
        Ok(result)
    }
}

/// The kernel takes less at once than fits into 32 bits.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// A file in memory, to be written from there.
pub(crate) struct Mapping {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    /// Maps the first bytes of a file, at least one of them.
    pub(crate) fn new(file: impl AsFd, length: usize) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory in use, and
        // nothing here reads it.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Self { start, length })
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Writes bytes, then a part of the mapping, with one `writev`. A file that has become shorter
    /// makes it fail (`EFAULT`) or write less.
    pub(crate) fn write_after(
        &self,
        socket: &OwnedFd,
        head: &[u8],
        part: Range<usize>,
    ) -> rustix::io::Result<usize> {
        let part = part.start.min(self.length)..part.end.min(self.length);
        let vectors = [
            libc::iovec {
                iov_base: head.as_ptr().cast_mut().cast(),
                iov_len: head.len(),
            },
            libc::iovec {
                iov_base: self.start.wrapping_byte_add(part.start),
                iov_len: part.len(),
            },
        ];
        let count: libc::c_int = if part.is_empty() { 1 } else { 2 };
        // SAFETY: the kernel reads the head, which is borrowed, and of the mapping, which lives as
        // long as `self`, a part inside of it.
        let written = unsafe {
            libc::syscall(
                libc::SYS_writev,
                socket.as_raw_fd(),
                &raw const vectors,
                count,
            )
        };
        ready(written).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned and not used afterwards; it fails only where there is none.
        let _unmapped = unsafe { rustix::mm::munmap(self.start, self.length) };
    }
}

/// What completions are for that are no exchange; tokens of those are indices.
const STOP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;
/// Polls that can be submitted at once: as many as one wake-up arms again.
const RING_ENTRIES: u32 = 1024;
