//! Operations of `io_uring`: their counters, and how a completion finds its submission.
//!
//! A request is known by its address in the kernel from submission to its last completion.
//! Completions of a request that goes on (multishot) come without it; those are told by ring and
//! user data.

use core::sync::atomic::AtomicU64;

/// Rows of operations: by opcode, of which Linux 6.18 has 63; the last is for operations that are
/// not known.
pub const URING_ROWS: u32 = 80;
/// The row of operations that are not known: an opcode beyond the table, or a completion of a
/// multishot request that was submitted before the programs were attached.
pub const URING_UNKNOWN_ROW: u32 = URING_ROWS - 1;
/// Buckets of [`UringRow`]: up to 2^40 ns, 18 minutes; what took longer is in the last one.
pub const URING_BUCKETS: usize = 41;

/// Counters of one operation on one CPU.
#[repr(C)]
#[derive(Debug)]
pub struct UringRow {
    /// Requests that were submitted.
    pub submitted: AtomicU64,
    /// Requests that are done.
    pub completed: AtomicU64,
    /// Of the completions, `repeated` ones included, those with an error.
    pub errors: AtomicU64,
    /// Completions of requests that went on.
    pub repeated: AtomicU64,
    /// Of `completed`, those with a time.
    pub timed: AtomicU64,
    /// Sum of the times, ns.
    pub ns_total: AtomicU64,
    /// Longest, ns.
    pub ns_max: AtomicU64,
    /// Times by [`log2_bucket`](crate::log2_bucket).
    pub buckets: [AtomicU64; URING_BUCKETS],
}

/// Entries of the table of requests in flight; a power of two.
pub const URING_SLOTS: u32 = 1 << 16;
/// Entries that a request may be in.
pub const URING_PROBES: u32 = 4;

/// A request in flight.
#[repr(C)]
#[derive(Debug, Default)]
pub struct UringSlot {
    /// Its address; zero while free.
    pub request: AtomicU64,
    /// [`pack_submission`].
    pub submission: AtomicU64,
}

/// Where the search for a request begins.
#[inline]
pub const fn request_hash(request: u64) -> u32 {
    (mix(request) >> 48) as u32
}

/// Packs the time of a submission and its opcode. The time is kept modulo 2^56 ns, two years.
#[inline]
pub const fn pack_submission(now_ns: u64, opcode: u8) -> u64 {
    (now_ns << OPCODE_BITS) | opcode as u64
}

/// The opcode of a packed submission.
#[inline]
pub const fn submission_opcode(packed: u64) -> u8 {
    (packed & OPCODE_MASK) as u8
}

/// Nanoseconds from a submission to `now_ns`; `None` when the clock went backwards.
#[inline]
pub const fn submission_age_ns(packed: u64, now_ns: u64) -> Option<u64> {
    let age = (now_ns << OPCODE_BITS).wrapping_sub(packed & !OPCODE_MASK) >> OPCODE_BITS;
    if age >= 1 << (u64::BITS - OPCODE_BITS - 1) {
        return None;
    }
    Some(age)
}

/// Entries of the table of requests that may complete more than once; a power of two.
pub const URING_REPEATS: u32 = 1 << 16;

/// The opcode of requests by ring and user data: [`repeat_entry`].
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct UringRepeat(pub AtomicU64);

/// Whether requests with this opcode may complete more than once.
#[inline]
pub const fn may_repeat(opcode: u8) -> bool {
    opcode < 64 && REPEATING >> opcode & 1 == 1
}

/// What ring and user data are remembered by.
#[inline]
pub const fn repeat_key(ring: u64, user_data: u64) -> u64 {
    mix(mix(ring) ^ user_data)
}

/// The entry of a key.
#[inline]
pub const fn repeat_index(key: u64) -> u32 {
    (key >> 48) as u32
}

/// What is stored for a key.
#[inline]
pub const fn repeat_entry(key: u64, opcode: u8) -> u64 {
    (key & !OPCODE_MASK) | opcode as u64
}

/// The opcode that is stored for a key; `None` where the entry belongs to another one.
#[inline]
pub const fn repeat_opcode(entry: u64, key: u64) -> Option<u8> {
    if (entry ^ key) & !OPCODE_MASK == 0 && entry != 0 {
        Some((entry & OPCODE_MASK) as u8)
    } else {
        None
    }
}

/// Fibonacci hashing: the high bits of the product are well mixed.
#[inline]
const fn mix(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const OPCODE_BITS: u32 = 8;
const OPCODE_MASK: u64 = (1 << OPCODE_BITS) - 1;

/// `POLL_ADD`, `RECVMSG`, `TIMEOUT`, `ACCEPT`, `SEND` (bundles), `RECV`, `URING_CMD`,
/// `READ_MULTISHOT`, `RECV_ZC`.
const REPEATING: u64 =
    1 << 6 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 26 | 1 << 27 | 1 << 46 | 1 << 49 | 1 << 58;

const _: () = assert!(size_of::<UringRow>() == 384 && align_of::<UringRow>() == 8);
const _: () = assert!(core::mem::offset_of!(UringRow, buckets) == 56);
const _: () = assert!(size_of::<UringSlot>() == 16);
const _: () = assert!(size_of::<UringRepeat>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Time and opcode of a submission come back, across the wrap of the packed clock too.
    #[test]
    fn submissions_round_trip() {
        for now_ns in [1, 1 << 40, (1 << 56) - 5, u64::MAX - 10] {
            let packed = pack_submission(now_ns, 62);
            assert_eq!(submission_opcode(packed), 62);
            assert_eq!(submission_age_ns(packed, now_ns.wrapping_add(10)), Some(10));
            assert_eq!(submission_age_ns(packed, now_ns.wrapping_sub(1)), None);
        }
    }

    /// A key finds the opcode that was stored for it; another one and a free entry find none.
    #[test]
    fn repeats_are_found() {
        let key = repeat_key(0xffff_8881_0123_4000, 7);
        let entry = repeat_entry(key, 13);
        assert_eq!(repeat_opcode(entry, key), Some(13));
        assert_eq!(
            repeat_opcode(entry, repeat_key(0xffff_8881_0123_4000, 8)),
            None
        );
        assert_eq!(repeat_opcode(0, 0), None);
        assert!(may_repeat(13) && !may_repeat(0) && !may_repeat(255));
    }

    /// Hashes stay inside of the tables.
    #[test]
    fn hashes_are_in_range() {
        for request in [0, 1, 0xffff_8881_0123_4000, u64::MAX] {
            assert!(request_hash(request) < URING_SLOTS);
            assert!(repeat_index(repeat_key(request, request)) < URING_REPEATS);
        }
    }
}
