//! The calls that no safe wrapper exists for: mapping a BPF map, the CPU clock of another process, a
//! call that does not exist. The only module with unsafe code.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use profiler_common::{
    BelowEvents, CountRow, CpuRow, EndRow, ErrnoRow, Events, GroupEntry, LabelClock, Lives,
    PortWord, SegmentSlot, SleepSlot, SplitRow, StackEntry, StackHead, StartSlot, TargetEntry,
    TimeRow, TlsRow, UnknownEntry, UringRow, WaitRow,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A type of which any bytes are a value, made of atomics only, so that the kernel may write it
/// while it is read.
///
/// # Safety
///
/// The type must be made of atomic integers, without padding.
pub(crate) unsafe trait Shared {}

// SAFETY: each consists of `AtomicU64` without padding; the layout is asserted beside each type.
unsafe impl Shared for CountRow {}
// SAFETY: as above.
unsafe impl Shared for AtomicU64 {}
// SAFETY: as above.
unsafe impl Shared for CpuRow {}
// SAFETY: as above.
unsafe impl Shared for EndRow {}
// SAFETY: as above.
unsafe impl Shared for ErrnoRow {}
// SAFETY: as above.
unsafe impl Shared for Events {}
// SAFETY: as above.
unsafe impl Shared for GroupEntry {}
// SAFETY: as above.
unsafe impl Shared for LabelClock {}
// SAFETY: as above.
unsafe impl Shared for Lives {}
// SAFETY: as above.
unsafe impl Shared for SegmentSlot {}
// SAFETY: as above.
unsafe impl Shared for SplitRow {}
// SAFETY: as above.
unsafe impl Shared for StartSlot {}
// SAFETY: as above.
unsafe impl Shared for TargetEntry {}
// SAFETY: as above.
unsafe impl Shared for TimeRow {}
// SAFETY: as above.
unsafe impl Shared for UnknownEntry {}
// SAFETY: as above.
unsafe impl Shared for WaitRow {}
// SAFETY: as above.
unsafe impl Shared for BelowEvents {}
// SAFETY: as above.
unsafe impl Shared for PortWord {}
// SAFETY: as above.
unsafe impl Shared for UringRow {}
// SAFETY: as above.
unsafe impl Shared for SleepSlot {}
// SAFETY: as above.
unsafe impl Shared for StackEntry {}
// SAFETY: as above.
unsafe impl Shared for StackHead {}
// SAFETY: as above.
unsafe impl Shared for TlsRow {}

/// The entries of an array map, mapped into this process.
#[derive(Debug)]
pub(crate) struct Mapping<T> {
    first: NonNull<T>,
    entries: usize,
    bytes: usize,
    owned: PhantomData<T>,
}

// SAFETY: a mapping belongs to the process, and `T` is atomic throughout.
unsafe impl<T: Shared> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Mapping<T> {}

impl<T: Shared> Mapping<T> {
    /// Maps an array map with `entries` values of `T`, which the kernel checks.
    pub(crate) fn new(map: impl AsFd, entries: u32) -> io::Result<Self> {
        Self::part(map, 0, entries as usize)
    }

    /// Maps the entries from `first` on, which must begin on a page.
    fn part(map: impl AsFd, first: usize, entries: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = (entries * size_of::<T>()).next_multiple_of(page);
        // SAFETY: a fresh shared mapping, of no memory of ours.
        let first = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map,
                (first * size_of::<T>()) as u64,
            )?
        };
        Ok(Self {
            first: NonNull::new(first.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?,
            entries,
            bytes,
            owned: PhantomData,
        })
    }

    /// The entries.
    pub(crate) fn entries(&self) -> &[T] {
        // SAFETY: the mapping is page-aligned, as long as `entries`, lives as long as `self`, and
        // its values are atomics.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.entries) }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: the region was mapped in `new`, and no reference outlives `self`. Unmapping a
        // whole mapping cannot fail.
        let _unmapped = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

/// A large array map of which only the parts are mapped that are looked at: the kernel makes every
/// mapped page resident.
#[derive(Debug)]
pub(crate) struct Parts<T> {
    map: OwnedFd,
    entries: usize,
    mapped: Vec<OnceLock<Option<Mapping<T>>>>,
}

impl<T: Shared> Parts<T> {
    /// Keeps the map, and maps nothing yet.
    pub(crate) fn new(map: impl AsFd, entries: u32) -> io::Result<Self> {
        let parts = (entries as usize).div_ceil(PART);
        Ok(Self {
            map: map.as_fd().try_clone_to_owned()?,
            entries: entries as usize,
            mapped: (0..parts).map(|_| OnceLock::new()).collect(),
        })
    }

    /// An entry; `None` outside of the map, and where its part cannot be mapped.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let first = index / PART * PART;
        let entries = self.entries.checked_sub(first)?.min(PART);
        let part = self.mapped.get(index / PART)?;
        let part = part.get_or_init(|| Mapping::part(&self.map, first, entries).ok());
        part.as_ref()?.entries().get(index % PART)
    }

    /// Entries of the whole map.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }
}

/// Entries of a part: whole pages, whatever is in them.
const PART: usize = 1 << 15;

/// Gives memory that was freed back to the kernel, where the C library keeps it for later.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function has no precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// CPU time of a whole process, ns; `None` when there is no such process. The kernel lets anybody
/// read this clock.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    // CPUCLOCK_SCHED of a process, include/linux/posix-timers_types.h.
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
    Some(seconds * 1_000_000_000 + nanoseconds)
}

/// How long the first touch of this many fresh pages takes, one byte each, ns.
pub(crate) fn touch_fresh_pages(pages: usize) -> io::Result<u64> {
    let page = rustix::param::page_size();
    let bytes = pages * page;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh private mapping, of no memory of ours.
    let first =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
    let begun = Instant::now();
    for index in 0..pages {
        // SAFETY: inside the mapping, which nobody else knows.
        unsafe { first.cast::<u8>().add(index * page).write_volatile(1) };
    }
    let elapsed = begun.elapsed();
    // SAFETY: the whole mapping, to which no reference exists.
    unsafe { munmap(first, bytes)? };
    Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our own clock runs, that of a process which cannot exist does not.
    #[test]
    fn reads_a_process_clock() {
        let before = process_cpu_ns(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while process_cpu_ns(std::process::id()) == Some(before) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(process_cpu_ns(std::process::id()).unwrap() > before);
        assert_eq!(process_cpu_ns(0x7fff_fff0), None);
    }
}
