//! What descriptors are, remembered: (process, descriptor) to object.
//!
//! A direct-mapped table of one word per entry; an entry that does not match is looked up again in
//! the kernel's own tables. An entry is dropped when its descriptor is closed; where many change at
//! once, the epoch does, and with it all entries are forgotten.

use core::sync::atomic::AtomicU64;

/// One remembered descriptor.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct DescriptorEntry(pub AtomicU64);

/// Entries of the table.
pub const DESCRIPTOR_ENTRIES: u32 = 65_536;
/// Descriptors from this on are not remembered, but looked up each time.
pub const DESCRIPTOR_LIMIT: u64 = 1 << FD_BITS;

/// The entry of a descriptor.
#[inline]
pub const fn descriptor_index(tgid: u32, fd: u64) -> u32 {
    // Descriptors of a process are dense, so they share no entry.
    (tgid.wrapping_mul(40_503).wrapping_add(fd as u32)) % DESCRIPTOR_ENTRIES
}

/// What an entry of this descriptor holds beside the object. Never zero.
#[inline]
pub const fn descriptor_key(tgid: u32, fd: u64, epoch: u64) -> u64 {
    let id = ((tgid as u64) << FD_BITS) | fd;
    (1 << 63) | ((epoch & EPOCH_MASK) << EPOCH_SHIFT) | (id << OBJECT_BITS)
}

/// The object of an entry, if the entry is of this key.
#[inline]
pub const fn remembered(entry: u64, key: u64) -> Option<u32> {
    if entry & !OBJECT_MASK == key {
        Some((entry & OBJECT_MASK) as u32)
    } else {
        None
    }
}

const OBJECT_BITS: u32 = 3;
const OBJECT_MASK: u64 = (1 << OBJECT_BITS) - 1;
const FD_BITS: u32 = 20;
/// As many as process ids have at most.
const TGID_BITS: u32 = 22;
const EPOCH_SHIFT: u32 = OBJECT_BITS + FD_BITS + TGID_BITS;
const EPOCH_MASK: u64 = (1 << (63 - EPOCH_SHIFT)) - 1;

const _: () = assert!(size_of::<DescriptorEntry>() == 8);
const _: () = assert!(crate::OBJECTS <= OBJECT_MASK as u32);

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry matches its own descriptor in its own epoch and nothing else.
    #[test]
    fn entries_match_their_descriptor() {
        let key = descriptor_key(4_194_303, DESCRIPTOR_LIMIT - 1, 7);
        let entry = key | 4;
        assert_eq!(remembered(entry, key), Some(4));
        for other in [
            descriptor_key(4_194_302, DESCRIPTOR_LIMIT - 1, 7),
            descriptor_key(4_194_303, DESCRIPTOR_LIMIT - 2, 7),
            descriptor_key(4_194_303, DESCRIPTOR_LIMIT - 1, 8),
        ] {
            assert_eq!(remembered(entry, other), None);
        }
        assert_eq!(remembered(0, key), None);
    }
}
