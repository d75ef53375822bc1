//! The two system calls that have to be exactly the ones that the tables name.
//!
//! The only unsafe module of the crate. The wrappers at hand choose the call themselves:
//! `epoll_pwait` where `epoll_wait` would do, and an `fcntl` before each `close` in builds with
//! debug assertions.

#![expect(
    unsafe_code,
    reason = "raw system calls, so that each is the documented one and no other"
)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};

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
    pub(crate) fn with_capacity(capacity: u16) -> Self {
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Self {
            buffer: vec![empty; capacity.into()].into_boxed_slice(),
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
        self.filled = usize::try_from(returned).map_err(|_negative| io::Error::last_os_error())?;
        Ok(())
    }

    /// How many descriptors are ready.
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// What a ready descriptor was registered with.
    pub(crate) fn token(&self, index: usize) -> u64 {
        self.buffer[..self.filled][index].u64
    }
}
