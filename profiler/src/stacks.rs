//! A copy of the table of stacks, and the difference of two. Pure, but for the shared memory that it
//! copies. What the addresses mean is looked up in `symbols`, and put together in `named`.

mod address_space;
mod elf;
mod files;
mod jit;
mod kernel_symbols;
mod known_file;
mod mappings;
mod named;
mod symbols;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use profiler_common::{ASLEEP, LOST_SLEEP, StackEntry, place_parts};

use crate::source::{StackTables, read};
use crate::states::OpenSegment;
pub(crate) use named::{Sampling, named};
pub(crate) use symbols::Symbols;

/// What the table had counted at one moment; sums wrap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackCopy {
    /// By entry.
    counts: BTreeMap<u32, Counts>,
    /// Without an entry.
    lost: Counts,
    /// Of threads that had gone to sleep before they could be seen to.
    unseen: Counts,
}

/// What is counted for a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) samples: u64,
    pub(crate) sleeps: u64,
    pub(crate) asleep_ns: u64,
}

/// What happened between two copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackDelta {
    /// Stacks that were seen.
    pub(crate) stacks: Vec<RawStack>,
    /// Those of which the addresses are not known.
    pub(crate) lost: Counts,
    /// Of threads that slept since before they could be seen to.
    pub(crate) unseen: Counts,
}

/// A stack by its addresses, each part the innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawStack {
    pub(crate) tgid: u32,
    /// Any bytes, lossily decoded.
    pub(crate) comm: String,
    pub(crate) kernel: Vec<u64>,
    pub(crate) user: Vec<u64>,
    pub(crate) counts: Counts,
}

impl StackCopy {
    /// What has been added up, without what threads sleep at this moment.
    pub(crate) fn closed(tables: &StackTables<'_>) -> Self {
        let head = tables.head;
        let counts = taken(tables).map(|(index, entry)| (index, Counts::copy(entry)));
        Self {
            counts: counts.collect(),
            lost: Counts {
                samples: read(&head.lost_samples),
                sleeps: read(&head.lost_sleeps),
                asleep_ns: read(&head.lost_asleep_ns),
            },
            unseen: Counts {
                samples: 0,
                sleeps: read(&head.unseen_sleeps),
                asleep_ns: read(&head.unseen_asleep_ns),
            },
        }
    }

    /// Adds what threads have slept at this moment.
    pub(crate) fn add_open(&mut self, open: &[OpenSegment]) {
        for segment in open.iter().filter(|segment| segment.state == ASLEEP) {
            let counts = match segment.sleep {
                0 => &mut self.unseen,
                LOST_SLEEP => &mut self.lost,
                sleep => match u32::try_from(sleep - 1) {
                    Ok(index) => self.counts.entry(index).or_default(),
                    Err(_) => &mut self.lost,
                },
            };
            counts.asleep_ns = counts.asleep_ns.wrapping_add(segment.ns);
        }
    }
}

impl Counts {
    fn copy(entry: &StackEntry) -> Self {
        Self {
            samples: read(&entry.samples),
            sleeps: read(&entry.sleeps),
            asleep_ns: read(&entry.asleep_ns),
        }
    }

    /// From an earlier moment on. A sleep whose end was seen before its stack may count for less than
    /// nothing.
    fn since(self, from: Self) -> Self {
        let difference =
            |from: u64, to: u64| to.wrapping_sub(from).cast_signed().max(0).unsigned_abs();
        Self {
            samples: difference(from.samples, self.samples),
            sleeps: difference(from.sleeps, self.sleeps),
            asleep_ns: difference(from.asleep_ns, self.asleep_ns),
        }
    }

    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.sleeps += other.sleeps;
        self.asleep_ns += other.asleep_ns;
    }
}

impl StackDelta {
    /// What happened after `from` and until `to`; the addresses are in the tables for ever.
    pub(crate) fn between(from: &StackCopy, to: &StackCopy, tables: &StackTables<'_>) -> Self {
        let mut delta = Self {
            stacks: Vec::new(),
            lost: to.lost.since(from.lost),
            unseen: to.unseen.since(from.unseen),
        };
        for (index, counts) in &to.counts {
            let counts = counts.since(from.counts.get(index).copied().unwrap_or_default());
            if counts == Counts::default() {
                continue;
            }
            match RawStack::read(tables, *index, counts) {
                Some(stack) => delta.stacks.push(stack),
                None => delta.lost.add(counts),
            }
        }
        delta
    }

    /// Runs of our programs that took a stack.
    pub(crate) fn events(&self) -> u64 {
        let counts = self.stacks.iter().map(|stack| stack.counts);
        counts
            .chain([self.lost])
            .map(|counts| counts.samples + counts.sleeps)
            .sum()
    }
}

impl RawStack {
    /// `None` where there was no room for its addresses.
    fn read(tables: &StackTables<'_>, index: u32, counts: Counts) -> Option<Self> {
        let entry = tables.entries.get(index as usize)?;
        let (at, kernel, user) = place_parts(read(&entry.place))?;
        let words = |from: u32, count: u32| {
            let words = tables.words.get(from as usize..(from + count) as usize)?;
            Some(words.iter().map(read).collect())
        };
        let comm: Vec<u8> = entry
            .comm
            .iter()
            .flat_map(|word| read(word).to_ne_bytes())
            .collect();
        let length = comm
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(comm.len());
        Some(Self {
            tgid: u32::try_from(read(&entry.tgid)).ok()?,
            comm: String::from_utf8_lossy(&comm[..length]).into_owned(),
            kernel: words(at, kernel)?,
            user: words(at + kernel, user)?,
            counts,
        })
    }
}

/// The entries that are taken: of 30,000 most are not, and each is in a cache line of its own.
fn taken<'a>(tables: &StackTables<'a>) -> impl Iterator<Item = (u32, &'a StackEntry)> {
    let entries = tables.entries;
    (0..).zip(&tables.head.taken).flat_map(move |(word, bits)| {
        let bits = read(bits);
        (0..64)
            .filter(move |bit| bits >> bit & 1 == 1)
            .filter_map(move |bit| {
                let index = word * 64 + bit;
                Some((index, entries.get(index as usize)?))
            })
    })
}
