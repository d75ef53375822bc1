//! Brings the loopback interface up: all that is unsafe here.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};

/// Gives the machine the addresses of the loopback interface.
pub(crate) fn loopback_up() -> Result<()> {
    set_up().context("failed to bring the loopback interface up")
}

fn set_up() -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).expect("a small flag");
    // SAFETY: the request lives until the call returns.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
