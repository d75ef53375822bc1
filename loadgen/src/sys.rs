//! The one unsafe corner: what the kernel offers and no safe crate wraps.
#![expect(unsafe_code, reason = "system calls that no safe crate wraps")]

use std::mem::MaybeUninit;

use recording::CpuTime;

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

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1_000
}
