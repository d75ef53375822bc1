//! Rows of the counters: how a call number becomes a row, and what a row holds.
//!
//! Rows 0..512 are the native numbers, 512..1024 those of 32-bit programs, the next 64 are given to
//! numbers outside the table as they appear, then come the rows of calls that are told apart by
//! what they are done to ([`split_row`]), and the last is for the time outside of calls.

use core::sync::atomic::AtomicU64;

use crate::{OBJECTS, SPLIT_CALLS};

/// Rows of native numbers; the highest number of Linux 6.18 is 469.
pub const NATIVE_ROWS: u32 = 512;
/// Rows of the numbers of 32-bit programs.
pub const COMPAT_ROWS: u32 = 512;
/// Rows for numbers outside the table.
pub const UNKNOWN_ROWS: u32 = 64;
/// First row of the calls that are told apart by what they are done to.
pub const FIRST_SPLIT_ROW: u32 = NATIVE_ROWS + COMPAT_ROWS + UNKNOWN_ROWS;
/// The row of time outside of calls: user mode, and sleeping outside of calls.
pub const OUTSIDE_ROW: u32 = FIRST_SPLIT_ROW + SPLIT_CALLS.len() as u32 * OBJECTS;
/// All rows.
pub const ROWS: u32 = OUTSIDE_ROW + 1;

/// The row of a call that is told apart, by its place in [`SPLIT_CALLS`] and its object.
#[inline]
pub const fn split_row(split: u32, object: u32) -> u32 {
    FIRST_SPLIT_ROW + split * OBJECTS + object
}

/// The number of the call and the object of a row made by [`split_row`]; `None` for other rows.
pub const fn split_parts(row: u32) -> Option<(u32, u32)> {
    if row < FIRST_SPLIT_ROW || row >= OUTSIDE_ROW {
        return None;
    }
    let index = row - FIRST_SPLIT_ROW;
    Some((SPLIT_CALLS[(index / OBJECTS) as usize], index % OBJECTS))
}

/// `rt_sigreturn` of x86-64. It replaces the registers, the number among them, so it leaves with
/// number -1.
pub const NR_SIGRETURN_NATIVE: u32 = 15;
/// `rt_sigreturn` of i386. `sigreturn` (119) leaves with -1 as well and is counted here.
pub const NR_SIGRETURN_COMPAT: u32 = 173;

/// Returns in -4095..=-1 are errors.
pub const MAX_ERRNO: u64 = 4095;
/// The error of a descriptor that is not ready: counted per CPU, as servers see it all the time.
pub const EAGAIN: u64 = 11;
/// ERESTARTSYS: 512 to 516 tell the kernel what to do after a signal; programs never see them.
pub const FIRST_RESTART_ERRNO: u64 = 512;
/// How many such codes there are.
pub const DIED_ERRNOS: usize = 5;
/// The last ordinary error number, EHWPOISON.
const LAST_ERRNO: u64 = 133;
/// The slot of every number without one of its own.
pub const ERRNO_OTHER: usize = 0;
/// Slots of an [`ErrnoRow`].
pub const ERRNO_SLOTS: usize = LAST_ERRNO as usize + 1 + DIED_ERRNOS;

/// The slot of an error number.
///
/// In whole registers throughout: the verifier loses the bounds of a number that is cut to 32 bits.
#[inline]
pub const fn errno_slot(errno: u64) -> usize {
    let restart = errno.wrapping_sub(FIRST_RESTART_ERRNO);
    if errno <= LAST_ERRNO {
        errno as usize
    } else if restart < DIED_ERRNOS as u64 {
        LAST_ERRNO as usize + 1 + restart as usize
    } else {
        ERRNO_OTHER
    }
}

/// The error number of a slot; `None` for the slot of all others.
pub const fn errno_of_slot(slot: usize) -> Option<u64> {
    if slot == ERRNO_OTHER || slot >= ERRNO_SLOTS {
        None
    } else if slot as u64 <= LAST_ERRNO {
        Some(slot as u64)
    } else {
        Some(slot as u64 - LAST_ERRNO - 1 + FIRST_RESTART_ERRNO)
    }
}

/// Counters of one call on one CPU.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CountRow {
    /// Calls that returned.
    pub count: AtomicU64,
    /// Calls that returned an error.
    pub errors: AtomicU64,
    /// Of them, `EAGAIN`.
    pub again: AtomicU64,
    /// Bytes returned by read- and write-like calls.
    pub bytes: AtomicU64,
}

/// Errors of one call by number, all CPUs; `EAGAIN` is in [`CountRow`].
#[repr(C)]
#[derive(Debug)]
pub struct ErrnoRow {
    /// By [`errno_slot`].
    pub slots: [AtomicU64; ERRNO_SLOTS],
}

/// Calls that did not return to their program, all CPUs.
#[repr(C)]
#[derive(Debug, Default)]
pub struct EndRow {
    /// Entered and never to return.
    pub no_return: AtomicU64,
    /// Counted as an error -512..=-516 and then the last of their thread, by code.
    pub died: [AtomicU64; DIED_ERRNOS],
}

/// Buckets of [`TimeRow`]: up to 2^44 ns, five hours; a longer call is in the last one.
pub const TIME_BUCKETS: usize = 45;

/// Time of one call on one CPU.
#[repr(C)]
#[derive(Debug)]
pub struct TimeRow {
    /// Sum, ns.
    pub ns_total: AtomicU64,
    /// Longest, ns.
    pub ns_max: AtomicU64,
    /// Complement of the shortest, so that zero means none: `!ns`.
    pub ns_min_inverted: AtomicU64,
    /// Counts by [`log2_bucket`].
    pub buckets: [AtomicU64; TIME_BUCKETS],
}

/// Buckets of [`WaitRow`]: a return value is below 2^31.
pub const WAIT_BUCKETS: usize = 32;

/// One waiting call on one CPU.
#[repr(C)]
#[derive(Debug)]
pub struct WaitRow {
    /// Returns with at least one event.
    pub wakes: AtomicU64,
    /// Events of all wakes.
    pub events: AtomicU64,
    /// Returns without an event.
    pub timeouts: AtomicU64,
    /// Ended by a signal.
    pub interrupted: AtomicU64,
    /// Of the returns without an event, those with a timeout of zero.
    pub polls: AtomicU64,
    /// Of the returns with events, those with as many as there was room for.
    pub truncated: AtomicU64,
    /// Events per wake, by [`log2_bucket`].
    pub buckets: [AtomicU64; WAIT_BUCKETS],
}

/// A number outside the table and the row that it was given: entry `i` has row `1024 + i`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct UnknownEntry {
    /// [`unknown_key`]; zero while free.
    pub key: AtomicU64,
}

/// Packs a number and its ABI; never zero.
#[inline]
pub const fn unknown_key(nr: u32, compat: bool) -> u64 {
    (nr as u64) | ((compat as u64) << 32) | (1 << 33)
}

/// Number and ABI of a key; `None` for a free entry.
pub const fn unknown_key_parts(key: u64) -> Option<(u32, bool)> {
    if key == 0 {
        return None;
    }
    Some((key as u32, (key >> 32) & 1 == 1))
}

/// The bucket of a value: 0 for 0, `i` for `2^(i-1) <= v < 2^i`. What lies beyond the buckets of a
/// row belongs into its last one.
///
/// A search over constants: BPF has no instruction that counts leading zeros, and what the compiler
/// makes of `leading_zeros` is longer than six compares. A look-up table was not faster.
#[inline]
pub const fn log2_bucket(value: u64) -> usize {
    let mut bucket = 0;
    let mut rest = value;
    if rest >> 32 != 0 {
        bucket += 32;
        rest >>= 32;
    }
    if rest >> 16 != 0 {
        bucket += 16;
        rest >>= 16;
    }
    if rest >> 8 != 0 {
        bucket += 8;
        rest >>= 8;
    }
    if rest >> 4 != 0 {
        bucket += 4;
        rest >>= 4;
    }
    if rest >> 2 != 0 {
        bucket += 2;
        rest >>= 2;
    }
    if rest >> 1 != 0 {
        bucket += 1;
        rest >>= 1;
    }
    bucket + rest as usize
}

const _: () = assert!(size_of::<CountRow>() == 32 && align_of::<CountRow>() == 8);
const _: () = assert!(size_of::<ErrnoRow>() == 139 * 8 && align_of::<ErrnoRow>() == 8);
const _: () = assert!(size_of::<EndRow>() == 48 && align_of::<EndRow>() == 8);
const _: () = assert!(size_of::<TimeRow>() == 384 && align_of::<TimeRow>() == 8);
const _: () = assert!(size_of::<WaitRow>() == 304 && align_of::<WaitRow>() == 8);
const _: () = assert!(size_of::<UnknownEntry>() == 8);
const _: () = assert!(core::mem::offset_of!(CountRow, bytes) == 24);
const _: () = assert!(core::mem::offset_of!(TimeRow, buckets) == 24);
const _: () = assert!(core::mem::offset_of!(WaitRow, buckets) == 48);
const _: () = assert!(core::mem::offset_of!(EndRow, died) == 8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every slot but the shared one leads back to its number.
    #[test]
    fn errno_slots_round_trip() {
        for slot in 0..ERRNO_SLOTS {
            match errno_of_slot(slot) {
                Some(errno) => assert_eq!(errno_slot(errno), slot),
                None => assert_eq!(slot, ERRNO_OTHER),
            }
        }
        assert_eq!(errno_slot(4095), ERRNO_OTHER);
        assert_eq!(errno_slot(511), ERRNO_OTHER);
        assert_eq!(errno_slot(517), ERRNO_OTHER);
    }

    /// The search agrees with the definition at every power of two and beside it.
    #[test]
    fn bucket_matches_definition() {
        for bit in 0..64 {
            for value in [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1, u64::MAX] {
                let expected = (u64::BITS - value.leading_zeros()) as usize;
                assert_eq!(log2_bucket(value), expected, "{value}");
            }
        }
    }

    /// Every row of a call that is told apart leads back to it, and no two share one.
    #[test]
    fn split_rows_round_trip() {
        for (split, &nr) in (0..).zip(SPLIT_CALLS) {
            for object in 0..OBJECTS {
                let row = split_row(split, object);
                assert!(row < OUTSIDE_ROW);
                assert_eq!(split_parts(row), Some((nr, object)));
            }
        }
        assert_eq!(split_parts(FIRST_SPLIT_ROW - 1), None);
        assert_eq!(split_parts(OUTSIDE_ROW), None);
    }

    /// A key gives its number and ABI back and is never the free one.
    #[test]
    fn unknown_keys_round_trip() {
        for nr in [0, 600, u32::MAX] {
            for compat in [false, true] {
                assert_eq!(
                    unknown_key_parts(unknown_key(nr, compat)),
                    Some((nr, compat))
                );
            }
        }
        assert_eq!(unknown_key_parts(0), None);
    }
}
