//! Detail `stacks`: a table of the stacks that threads were seen with, found by a hash of the whole stack.
//!
//! An entry is taken once and never given back. Its addresses lie in a list of words that only grows;
//! what has no room is counted as lost. Two stacks are one only where two hashes of 64 bits agree.

use core::sync::atomic::AtomicU64;

/// One stack of one process and thread name, all CPUs.
#[repr(C)]
#[derive(Debug, Default)]
pub struct StackEntry {
    /// First hash; zero while free.
    pub key: AtomicU64,
    /// Second hash; zero while the entry is being taken.
    pub check: AtomicU64,
    /// Where its addresses are, by [`pack_place`]; zero while it is being taken, [`NO_PLACE`] where there
    /// was no room for them.
    pub place: AtomicU64,
    /// The process.
    pub tgid: AtomicU64,
    /// Name of the thread, as the kernel has it.
    pub comm: [AtomicU64; COMM_WORDS],
    /// Samples on a CPU.
    pub samples: AtomicU64,
    /// Times that a thread went to sleep here.
    pub sleeps: AtomicU64,
    /// Asleep, ns, by the wake-ups that ended it.
    pub asleep_ns: AtomicU64,
}

/// What the table as a whole has.
#[repr(C)]
#[derive(Debug)]
pub struct StackHead {
    /// Words of the list that are taken, or were wanted.
    pub words: AtomicU64,
    /// Samples that found no entry.
    pub lost_samples: AtomicU64,
    /// Sleeps that found no entry.
    pub lost_sleeps: AtomicU64,
    /// Time of those, ns.
    pub lost_asleep_ns: AtomicU64,
    /// Sleeps that began before anything was attached.
    pub unseen_sleeps: AtomicU64,
    /// Time of those, ns.
    pub unseen_asleep_ns: AtomicU64,
    /// Bit set of the entries that are taken: a reader need not look at the others.
    pub taken: [AtomicU64; TAKEN_WORDS],
}

/// Where a program collects the addresses of a stack, each part the innermost first.
#[repr(C)]
#[derive(Debug)]
pub struct StackScratch {
    /// Addresses in the kernel.
    pub kernel_depth: AtomicU64,
    /// Addresses in the program.
    pub user_depth: AtomicU64,
    /// In the kernel.
    pub kernel: [AtomicU64; STACK_DEPTH],
    /// In the program.
    pub user: [AtomicU64; STACK_DEPTH],
}

/// The entry that a sleeping thread went to sleep with, plus one, by tid; zero where nobody saw it.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct SleepSlot(pub AtomicU64);

/// Words of a thread's name.
pub const COMM_WORDS: usize = 2;
/// Addresses of a part of a stack: as many as the kernel walks (`kernel.perf_event_max_stack`).
pub const STACK_DEPTH: usize = 127;
/// Contexts in which stacks are taken, of which one may interrupt the other.
pub const STACK_CONTEXTS: u32 = 2;
/// Entries of the table; a power of two. A minute of samples of 64 CPUs has fewer different stacks.
pub const STACK_ENTRIES: u32 = 32_768;
/// Entries that are looked at before a stack is given up.
pub const STACK_PROBES: u32 = 16;
/// Words for the addresses of all entries: 64 each.
pub const STACK_WORDS: u32 = STACK_ENTRIES * 64;
/// Words of the bit set of entries.
pub const TAKEN_WORDS: usize = STACK_ENTRIES as usize / 64;

/// The place of a stack without room for its addresses.
pub const NO_PLACE: u64 = u64::MAX;
/// What stands for an entry where there was none to take.
pub const LOST_SLEEP: u64 = u64::MAX;

/// Packs where the addresses of a stack begin and how many they are, those in the kernel first; never zero.
#[inline]
pub const fn pack_place(at: u32, kernel: u32, user: u32) -> u64 {
    (1 << 63) | ((kernel as u64) << KERNEL_SHIFT) | ((user as u64) << USER_SHIFT) | at as u64
}

/// Where the addresses begin, and how many are in the kernel and in the program; `None` for an entry
/// without a place.
pub const fn place_parts(place: u64) -> Option<(u32, u32, u32)> {
    if place == 0 || place == NO_PLACE {
        return None;
    }
    let kernel = (place >> KERNEL_SHIFT) as u32 & COUNT_MASK;
    let user = (place >> USER_SHIFT) as u32 & COUNT_MASK;
    Some((place as u32, kernel, user))
}

const USER_SHIFT: u32 = 32;
const KERNEL_SHIFT: u32 = 40;
const COUNT_MASK: u32 = 0xff;

/// Two hashes of the same words, each of which alone is good enough to find an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackHash {
    key: u64,
    check: u64,
}

impl StackHash {
    /// Of nothing.
    #[inline]
    pub const fn new() -> Self {
        Self {
            key: 0x243f_6a88_85a3_08d3,
            check: 0x1319_8a2e_0370_7344,
        }
    }

    /// With another word.
    #[inline]
    #[must_use]
    pub const fn with(self, word: u64) -> Self {
        // The round of splitmix64 without its last step, on two different constants.
        let key = (self.key ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let check = (self.check.wrapping_add(word) ^ (self.check >> 29))
            .wrapping_mul(0x94d0_49bb_1331_11eb);
        Self {
            key: key ^ (key >> 31),
            check: check ^ (check >> 32),
        }
    }

    /// The first; never zero.
    #[inline]
    pub const fn key(self) -> u64 {
        self.key | 1
    }

    /// The second; never zero.
    #[inline]
    pub const fn check(self) -> u64 {
        self.check | 1
    }

    /// Where the search for an entry begins.
    #[inline]
    pub const fn first(self) -> u32 {
        (self.key >> 40) as u32
    }
}

impl Default for StackHash {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = assert!(size_of::<StackEntry>() == 72 && align_of::<StackEntry>() == 8);
const _: () = assert!(size_of::<StackHead>() == 8 * (6 + TAKEN_WORDS));
const _: () = assert!(size_of::<StackScratch>() == 16 * (1 + STACK_DEPTH));
const _: () = assert!(STACK_ENTRIES.is_power_of_two());
const _: () = assert!(STACK_DEPTH <= COUNT_MASK as usize);

#[cfg(test)]
mod tests {
    use super::*;

    /// A place gives back what it was made of, is never that of an entry that is being taken, and the
    /// two special ones are none.
    #[test]
    fn places_round_trip() {
        for (at, kernel, user) in [(0, 0, 0), (STACK_WORDS - 1, 127, 127), (5, 1, 0)] {
            let place = pack_place(at, kernel, user);
            assert_eq!(place_parts(place), Some((at, kernel, user)));
        }
        assert_eq!(place_parts(0), None);
        assert_eq!(place_parts(NO_PLACE), None);
    }

    /// Words in another order, or one more, make other hashes of both kinds; the first addresses of half a
    /// million stacks are all different, and spread over the table.
    #[test]
    fn hashes_tell_stacks_apart() {
        extern crate std;
        use std::collections::BTreeSet;

        let hash = |words: &[u64]| {
            words
                .iter()
                .fold(StackHash::new(), |hash, &word| hash.with(word))
        };
        for (one, other) in [(&[1, 2][..], &[2, 1][..]), (&[0], &[0, 0]), (&[7], &[8])] {
            assert_ne!(hash(one).key(), hash(other).key());
            assert_ne!(hash(one).check(), hash(other).check());
        }
        let base = 0xffff_ffff_8100_0000_u64;
        let stacks = (0..500_000).map(|index| hash(&[base + index / 700, base + index % 700]));
        let (mut keys, mut checks, mut firsts) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for stack in stacks {
            keys.insert(stack.key());
            checks.insert(stack.check());
            firsts.insert(stack.first() % STACK_ENTRIES);
        }
        assert_eq!(keys.len(), 500_000);
        assert_eq!(checks.len(), 500_000);
        assert_eq!(firsts.len(), STACK_ENTRIES as usize);
    }
}
