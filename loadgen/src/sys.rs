//! The one unsafe corner: what the kernel offers and no safe crate wraps.
#![expect(unsafe_code, reason = "system calls that no safe crate wraps")]

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};

use recording::CpuTime;
use rustix::io::Errno;

/// User and system time of the calling thread.
pub(crate) fn thread_rusage() -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes of an rusage, which the kernel fills.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(result, 0, "getrusage of the calling thread cannot fail");
    // SAFETY: an rusage is plain integers, zeroed above and filled by the kernel.
    let usage = unsafe { usage.assume_init() };
    CpuTime {
        user_ns: timeval_ns(usage.ru_utime),
        system_ns: timeval_ns(usage.ru_stime),
    }
}

/// Lets `connect` choose the local port instead of `bind`.
pub(crate) fn bind_address_no_port(socket: &OwnedFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).expect("an int is small");
    // SAFETY: the descriptor is open for as long as it is borrowed, and the pointer and the length
    // describe an int that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            length,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1_000
}
