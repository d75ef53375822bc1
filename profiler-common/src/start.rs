//! The stamp that `sys_enter` leaves for `sys_exit`: time and row in one word.
//!
//! One word per thread halves the table (the default `pid_max` of 4,194,304 makes it 32 MiB) and
//! makes entry a single store. The time is kept modulo 2^53 ns, 104 days: differences are exact
//! for every call shorter than half of that.

use core::sync::atomic::AtomicU64;

/// The call that a thread is inside of; zero when it is in none.
#[repr(transparent)]
#[derive(Debug)]
pub struct StartSlot(pub AtomicU64);

/// Packs the time of entry and the row of the call.
#[inline]
pub const fn pack_start(now_ns: u64, row: u64) -> u64 {
    (now_ns << ROW_BITS) | row
}

/// The row of a packed stamp.
#[inline]
pub const fn start_row(packed: u64) -> u32 {
    (packed & ROW_MASK) as u32
}

/// Nanoseconds from the stamp to `now_ns`; `None` when the clock went backwards.
#[inline]
pub const fn elapsed_ns(packed: u64, now_ns: u64) -> Option<u64> {
    let elapsed = (now_ns << ROW_BITS).wrapping_sub(packed & !ROW_MASK) >> ROW_BITS;
    if elapsed >= BACKWARDS_NS {
        return None;
    }
    Some(elapsed)
}

/// Enough for every row.
const ROW_BITS: u32 = 11;
const ROW_MASK: u64 = (1 << ROW_BITS) - 1;
/// Half of the range: a larger difference is a negative one.
const BACKWARDS_NS: u64 = 1 << (u64::BITS - ROW_BITS - 1);

const _: () = assert!(crate::ROWS <= 1 << ROW_BITS);
const _: () = assert!(size_of::<StartSlot>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Time and row come back, across the wrap of the packed clock too.
    #[test]
    fn stamp_round_trips() {
        for start_ns in [1, 1 << 40, (1 << 53) - 5, (1 << 53) + 7, u64::MAX - 10] {
            let packed = pack_start(start_ns, 1023);
            assert_eq!(start_row(packed), 1023);
            assert_eq!(elapsed_ns(packed, start_ns.wrapping_add(10)), Some(10));
        }
    }

    /// A clock that goes backwards is not a huge duration.
    #[test]
    fn backwards_is_none() {
        assert_eq!(elapsed_ns(pack_start(1000, 3), 999), None);
        assert_eq!(elapsed_ns(pack_start(1000, 3), 1000), Some(0));
    }
}
