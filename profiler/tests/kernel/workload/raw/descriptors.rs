//! Descriptors by their number, which no owner of a descriptor would let one do.

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// `dup2`: replaces what has the number.
pub(crate) fn dup_to(from: RawFd, number: RawFd) {
    // SAFETY: the workloads give this number no owner while they use it like this.
    assert_eq!(unsafe { libc::dup2(from, number) }, number);
}

/// `dup3` with a descriptor that exec closes.
pub(crate) fn dup3_cloexec(from: RawFd, number: RawFd) {
    // SAFETY: as above.
    let made = unsafe { libc::dup3(from, number, libc::O_CLOEXEC) };
    assert_eq!(made, number);
}

/// `fcntl(F_DUPFD)` to a number that is free.
pub(crate) fn fcntl_dup_to(from: RawFd, number: RawFd) {
    // SAFETY: as above.
    let made = unsafe { libc::fcntl(from, libc::F_DUPFD, number) };
    assert_eq!(made, number);
}

/// `close`.
pub(crate) fn close(number: RawFd) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::close(number) }, 0);
}

/// `close_range` of one number.
pub(crate) fn close_range(number: RawFd) {
    // SAFETY: as above.
    let result = unsafe { libc::syscall(libc::SYS_close_range, number, number, 0) };
    assert_eq!(result, 0);
}

/// `write` of all bytes.
pub(crate) fn write_number(number: RawFd, bytes: &[u8]) {
    // SAFETY: the buffer is as long as is said.
    let written = unsafe { libc::write(number, bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(usize::try_from(written), Ok(bytes.len()));
}

/// `read` that fills the buffer.
pub(crate) fn read_number(number: RawFd, buffer: &mut [u8]) {
    // SAFETY: the buffer is as long as is said.
    let taken = unsafe { libc::read(number, buffer.as_mut_ptr().cast(), buffer.len()) };
    assert_eq!(usize::try_from(taken), Ok(buffer.len()));
}

/// `lseek`, which only some kinds allow.
pub(crate) fn seek_to_start(number: RawFd) {
    // SAFETY: takes numbers.
    unsafe { libc::lseek(number, 0, libc::SEEK_SET) };
}

/// Two sockets for messages, of which one is never read in vain: a full one drops nothing.
pub(crate) fn datagram_sockets() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are owned from here on.
    unsafe {
        let result = libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ends.as_mut_ptr());
        assert_eq!(result, 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// `sendto`, as a client of a server would.
pub(crate) fn send(number: RawFd, bytes: &[u8]) {
    // SAFETY: the buffer is as long as is said.
    let sent = unsafe { libc::send(number, bytes.as_ptr().cast(), bytes.len(), 0) };
    assert_eq!(usize::try_from(sent), Ok(bytes.len()));
}

/// `recvfrom`.
pub(crate) fn receive(number: RawFd, buffer: &mut [u8]) {
    // SAFETY: the buffer is as long as is said.
    let taken = unsafe { libc::recv(number, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    assert_eq!(usize::try_from(taken), Ok(buffer.len()));
}
