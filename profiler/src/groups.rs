//! A copy of the counters by process or thread, and the groups that a difference of two comes to.

use std::collections::BTreeMap;

use profiler_common::{ASLEEP, GroupEntry, OUTSIDE_ROW, RUNNABLE, RUNNING, group_key_parts};
use recording::{Abi, CallTime, Detail, Group, GroupBy, GroupCall, name};

use crate::delta::RowNames;
use crate::snapshot::{kind_of_row, object_of_row};
use crate::source::{Tables, read};
use crate::states::OpenSegment;

/// The table at an edge of the window, and what threads were doing at that moment: their time is in the
/// table only when they go on to something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCopy {
    pub(crate) entries: Entries,
    /// At detail `sched`.
    pub(crate) open: Vec<OpenSegment>,
}

/// Entries of the table, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(Vec<(u64, Counters)>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    count: u64,
    errors: u64,
    bytes: u64,
    ns_total: u64,
    on_cpu_ns: u64,
    off_cpu_ns: u64,
    run_queue_ns: u64,
}

/// The entries that are taken: to look for them takes longer than to copy them.
pub(crate) struct Taken<'a>(Vec<(u64, &'a GroupEntry)>);

impl<'a> Taken<'a> {
    /// Looks for them.
    pub(crate) fn find(tables: &Tables<'a>) -> Self {
        let entries = tables.groups.iter();
        let taken = entries
            .map(|entry| (read(&entry.key), entry))
            .filter(|&(key, _)| key != 0);
        Self(taken.collect())
    }

    /// What they have counted.
    pub(crate) fn copy(&self) -> Entries {
        let entries = self.0.iter();
        Entries(
            entries
                .map(|&(key, entry)| (key, Counters::copy(entry)))
                .collect(),
        )
    }
}

/// The groups of what happened between two edges, busiest first. `known` tells the name of a thread or
/// process, `process_of` the process of a thread.
pub(crate) fn between<F: Fn(u32) -> Option<(u32, bool)>>(
    from: &GroupCopy,
    to: &GroupCopy,
    by: GroupBy,
    detail: Detail,
    names: &RowNames<F>,
    known: impl Fn(u32) -> Option<String>,
    process_of: impl Fn(u32) -> Option<u32>,
) -> Vec<Group> {
    let mut sums: BTreeMap<(u32, u32, u32), Counters> = BTreeMap::new();
    let mut add = |edge: &GroupCopy, sign: fn(u64) -> u64| {
        let closed = edge
            .entries
            .0
            .iter()
            .filter_map(|(key, counters)| Some((group_key_parts(*key)?, *counters)));
        let open = edge.open.iter().filter_map(|segment| {
            let pid = process_of(segment.tid)?;
            let tid = if by == GroupBy::Process {
                0
            } else {
                segment.tid
            };
            Some(((tid, pid, segment.row), Counters::open(segment)))
        });
        for (key, counters) in closed.chain(open) {
            sums.entry(key).or_default().add(&counters, sign);
        }
    };
    add(to, |value| value);
    add(from, u64::wrapping_neg);
    let mut groups: BTreeMap<GroupName, BTreeMap<u32, Counters>> = BTreeMap::new();
    for ((tid, pid, row), counters) in sums {
        let counters = counters.clamped();
        if counters == Counters::default() || pid == std::process::id() {
            continue;
        }
        let rows = groups
            .entry(GroupName::new(by, tid, pid, &known))
            .or_default();
        rows.entry(row).or_default().add(&counters, |value| value);
    }
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|(group, rows)| group.with_calls(&rows, detail, names))
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(busyness(group)));
    groups
}

/// What groups are sorted by: time on a CPU where it is known, else calls.
fn busyness(group: &Group) -> (u64, u64) {
    let calls = group.calls.iter();
    let on_cpu_ns = |split: Option<CallTime>| split.map_or(0, |split| split.on_cpu_ns);
    let inside: u64 = calls.clone().map(|call| on_cpu_ns(call.split)).sum();
    (
        inside + on_cpu_ns(group.outside),
        calls.map(|call| call.count).sum(),
    )
}

/// What a group is told by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupName {
    id: Option<u32>,
    pid: Option<u32>,
    comm: Option<String>,
}

impl GroupName {
    fn new(by: GroupBy, tid: u32, pid: u32, known: impl Fn(u32) -> Option<String>) -> Self {
        match by {
            GroupBy::Process => Self {
                id: Some(pid),
                pid: Some(pid),
                comm: known(pid),
            },
            GroupBy::Thread => Self {
                id: Some(tid),
                pid: Some(pid),
                comm: known(tid),
            },
            // A thread that ended unseen goes with its process.
            GroupBy::Comm => Self {
                id: None,
                pid: None,
                comm: known(tid).or_else(|| known(pid)),
            },
        }
    }

    fn with_calls<F: Fn(u32) -> Option<(u32, bool)>>(
        self,
        rows: &BTreeMap<u32, Counters>,
        detail: Detail,
        names: &RowNames<F>,
    ) -> Group {
        let outside = rows.get(&OUTSIDE_ROW);
        let mut calls: Vec<GroupCall> = rows
            .iter()
            .filter_map(|(row, counters)| {
                let (abi, nr) = names.of(*row)?;
                Some(counters.call(*row, abi, nr, detail))
            })
            .collect();
        calls.sort_by(|a, b| (b.count, &a.name, a.on).cmp(&(a.count, &b.name, b.on)));
        Group {
            id: self.id,
            pid: self.pid,
            comm: self.comm,
            calls,
            outside: (detail >= Detail::Sched)
                .then(|| outside.copied().unwrap_or_default().split()),
        }
    }
}

impl Counters {
    fn copy(entry: &GroupEntry) -> Self {
        Self {
            count: read(&entry.count),
            errors: read(&entry.errors),
            bytes: read(&entry.bytes),
            ns_total: read(&entry.ns_total),
            on_cpu_ns: read(&entry.on_cpu_ns),
            off_cpu_ns: read(&entry.off_cpu_ns),
            run_queue_ns: read(&entry.run_queue_ns),
        }
    }

    /// What a thread is doing and has not been counted for.
    fn open(segment: &OpenSegment) -> Self {
        let mut counters = Self::default();
        match segment.state {
            RUNNING => counters.on_cpu_ns = segment.ns,
            RUNNABLE => counters.run_queue_ns = segment.ns,
            ASLEEP => counters.off_cpu_ns = segment.ns,
            _ => {}
        }
        counters
    }

    /// Adds what `sign` makes of each counter; sums wrap.
    fn add(&mut self, other: &Self, sign: impl Fn(u64) -> u64) {
        for (sum, other) in self.each_mut().into_iter().zip(other.each()) {
            *sum = sum.wrapping_add(sign(other));
        }
    }

    /// What was taken out before it was added is no huge time.
    fn clamped(mut self) -> Self {
        for counter in self.each_mut() {
            if *counter > u64::MAX / 2 {
                *counter = 0;
            }
        }
        self
    }

    fn each(&self) -> [u64; 7] {
        [
            self.count,
            self.errors,
            self.bytes,
            self.ns_total,
            self.on_cpu_ns,
            self.off_cpu_ns,
            self.run_queue_ns,
        ]
    }

    fn each_mut(&mut self) -> [&mut u64; 7] {
        [
            &mut self.count,
            &mut self.errors,
            &mut self.bytes,
            &mut self.ns_total,
            &mut self.on_cpu_ns,
            &mut self.off_cpu_ns,
            &mut self.run_queue_ns,
        ]
    }

    fn split(&self) -> CallTime {
        CallTime {
            on_cpu_ns: self.on_cpu_ns,
            off_cpu_ns: self.off_cpu_ns,
            run_queue_ns: self.run_queue_ns,
            sleeps: None,
        }
    }

    fn call(&self, row: u32, abi: Abi, nr: u32, detail: Detail) -> GroupCall {
        GroupCall {
            abi,
            name: name(abi, nr).into_owned(),
            on: object_of_row(row),
            count: self.count,
            errors: self.errors,
            bytes: kind_of_row(row).counts_bytes().then_some(self.bytes),
            ns_total: (detail >= Detail::Times).then_some(self.ns_total),
            split: (detail >= Detail::Sched).then(|| self.split()),
        }
    }
}
