// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! Counters by process or thread, where that is asked for.

use profiler_common::{
    GROUP_ENTRIES, GROUP_NONE, GROUP_PROBES, GROUP_PROCESS, GroupEntry, group_hash, group_key,
};

use crate::{
    kernel::{self, Task, fetch_add, load, replace_zero},
    maps::{EVENTS, GROUP_BY, GROUPS},
};

/// Whether calls are grouped. A constant to the verifier, which removes what depends on it.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    GROUP_BY.load() != GROUP_NONE
}

/// The counters of a row of the group that a thread is in; `None` when the table is full.
#[inline(always)]
pub(crate) fn entry(task: Task, row: u64) -> Option<&'static GroupEntry> {
    let tid = if GROUP_BY.load() == GROUP_PROCESS {
        0
    } else {
        task.tid()
    };
    let index = find(group_key(tid, task.tgid(), row as u32));
    let entry = GROUPS.get(index);
    if entry.is_none() {
        kernel::add(EVENTS.get(0).map(|events| &events.lost_ungrouped), 1);
    }
    entry
}

/// What a call adds to its group.
#[derive(Default)]
pub(crate) struct Part {
    /// 1, or 0 where the call is not counted.
    pub(crate) count: u64,
    /// 1 for one that returned an error.
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
    /// From entry to exit, ns.
    pub(crate) inside_ns: u64,
    /// On a CPU since it was last accounted for, ns.
    pub(crate) on_cpu_ns: u64,
}

/// Adds a call.
#[inline(always)]
pub(crate) fn add(task: Task, row: u64, part: &Part) {
    if let Some(entry) = entry(task, row) {
        fetch_add(&entry.on_cpu_ns, part.on_cpu_ns);
        fetch_add(&entry.count, part.count);
        fetch_add(&entry.errors, part.errors);
        fetch_add(&entry.bytes, part.bytes);
        fetch_add(&entry.ns_total, part.inside_ns);
    }
}

/// Finds or takes the entry of a key; [`GROUP_ENTRIES`] when all that it may have are taken.
#[inline(never)]
fn find(key: u64) -> u32 {
    let first = group_hash(key);
    for probe in 0..GROUP_PROBES {
        let index = first.wrapping_add(probe) % GROUP_ENTRIES;
        let Some(entry) = GROUPS.get(index) else {
            break;
        };
        let found = load(&entry.key);
        if found == key || (found == 0 && is_ours(replace_zero(&entry.key, key), key)) {
            return index;
        }
    }
    GROUP_ENTRIES
}

#[inline(always)]
fn is_ours(found: u64, key: u64) -> bool {
    found == 0 || found == key
}
