//! Counters by group of threads: an open-addressed table of (process or thread, row).
//!
//! An entry is taken once and never given back: a thread that ended stays in the result.

use core::sync::atomic::AtomicU64;

/// Counters of one row of one process or thread, all CPUs.
#[repr(C)]
#[derive(Debug, Default)]
pub struct GroupEntry {
    /// [`group_key`]; zero while free.
    pub key: AtomicU64,
    /// Calls that returned.
    pub count: AtomicU64,
    /// Of them, with an error.
    pub errors: AtomicU64,
    /// Bytes returned by read- and write-like calls.
    pub bytes: AtomicU64,
    /// Time inside the call, ns.
    pub ns_total: AtomicU64,
    /// On a CPU, ns.
    pub on_cpu_ns: AtomicU64,
    /// Asleep, ns.
    pub off_cpu_ns: AtomicU64,
    /// Waiting for a CPU, ns.
    pub run_queue_ns: AtomicU64,
}

/// Entries of the table; a power of two. Room for 10,000 threads with a dozen calls each.
pub const GROUP_ENTRIES: u32 = 131_072;
/// Entries that are looked at before a call is given up as in no group.
pub const GROUP_PROBES: u32 = 16;

/// No grouping.
pub const GROUP_NONE: u8 = 0;
/// By process.
pub const GROUP_PROCESS: u8 = 1;
/// By thread.
pub const GROUP_THREAD: u8 = 2;

/// Packs a thread (0 by process), its process and a row; never zero.
#[inline]
pub const fn group_key(tid: u32, tgid: u32, row: u32) -> u64 {
    (1 << 63) | ((tid as u64) << TID_SHIFT) | ((tgid as u64) << ROW_BITS) | row as u64
}

/// Thread, process and row of a key; `None` for a free entry.
pub const fn group_key_parts(key: u64) -> Option<(u32, u32, u32)> {
    if key == 0 {
        return None;
    }
    let tid = (key >> TID_SHIFT) as u32 & ID_MASK;
    let tgid = (key >> ROW_BITS) as u32 & ID_MASK;
    Some((tid, tgid, key as u32 & ((1 << ROW_BITS) - 1)))
}

/// Where the search for a key begins.
#[inline]
pub const fn group_hash(key: u64) -> u32 {
    // Fibonacci hashing: the high bits of the product are well mixed.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32
}

const ROW_BITS: u32 = 11;
const ID_BITS: u32 = 22;
const ID_MASK: u32 = (1 << ID_BITS) - 1;
const TID_SHIFT: u32 = ROW_BITS + ID_BITS;

const _: () = assert!(crate::ROWS <= 1 << ROW_BITS);
const _: () = assert!(size_of::<GroupEntry>() == 64);
const _: () = assert!(GROUP_ENTRIES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    /// A key gives back what it was made of and is never the free one.
    #[test]
    fn keys_round_trip() {
        for id in [0, 1, (1 << 22) - 1] {
            for row in [0, crate::ROWS - 1] {
                let key = group_key(id, (1 << 22) - 1 - id, row);
                assert_eq!(group_key_parts(key), Some((id, (1 << 22) - 1 - id, row)));
            }
        }
        assert_eq!(group_key_parts(0), None);
    }
}
