//! The table of targets: one byte of flags per process id, eight processes to a word.
//!
//! Array maps round an entry up to eight bytes, and BPF has atomic operations on whole words only,
//! so that is what the table is made of: kernel and user space change flags of neighbours at once.

use core::sync::atomic::AtomicU64;
#[cfg(not(target_arch = "bpf"))]
use core::sync::atomic::Ordering::Relaxed;

/// The process is counted.
pub const TARGET: u8 = 1;
/// The process is counted from its next `execve` on, that call included.
pub const PENDING: u8 = 2;
/// The process was counted and has ended.
pub const ENDED: u8 = 4;

/// Processes per entry of the table.
pub const TARGETS_PER_ENTRY: u32 = 8;

/// Flags of eight processes with consecutive ids: process `entry * 8 + i` has byte `i`.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct TargetEntry(pub AtomicU64);

// Rust has no atomic operations for BPF; the programs bring their own.
#[cfg(not(target_arch = "bpf"))]
impl TargetEntry {
    /// The flags of a process that belongs to this entry.
    pub fn load(&self, tgid: u32) -> u8 {
        flags_in(self.0.load(Relaxed), tgid)
    }

    /// Replaces the flags of a process that belongs to this entry. A reader may see old and new
    /// flags together for a moment, never none.
    pub fn store(&self, tgid: u32, flags: u8) {
        self.0.fetch_or(bits(tgid, flags), Relaxed);
        self.0.fetch_and(!bits(tgid, !flags), Relaxed);
    }
}

/// The flags of a process in the word of its entry.
#[inline]
pub const fn flags_in(word: u64, tgid: u32) -> u8 {
    (word >> shift(tgid)) as u8
}

/// Flags at the place of a process in its entry.
#[inline]
pub const fn bits(tgid: u32, flags: u8) -> u64 {
    (flags as u64) << shift(tgid)
}

#[inline]
const fn shift(tgid: u32) -> u32 {
    (tgid % TARGETS_PER_ENTRY) * u8::BITS
}

const _: () = assert!(size_of::<TargetEntry>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags of one process are replaced, those of its neighbours stay.
    #[test]
    fn neighbours_keep_their_flags() {
        let entry = TargetEntry::default();
        entry.store(16, TARGET);
        entry.store(17, PENDING);
        entry.store(23, TARGET);
        entry.store(17, ENDED);
        entry.store(16, 0);
        assert_eq!(
            [16, 17, 18, 23].map(|tgid| entry.load(tgid)),
            [0, ENDED, 0, TARGET]
        );
    }
}
