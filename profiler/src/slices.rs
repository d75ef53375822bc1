//! Sub-windows: what lies between two copies of the counters that are made while a window is open.

use recording::{Detail, GroupBy, ProfileSlice, Window};

use crate::delta::{Delta, RowNames};
use crate::groups::{self, GroupCopy};
use crate::snapshot::Snapshot;
use crate::states::{States, StatesDelta};

/// The counters at the border of two slices.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceEdge {
    pub(crate) snapshot: Snapshot,
    /// At detail `sched`, where slices have details.
    pub(crate) states: Option<States>,
    /// Where slices have details.
    pub(crate) groups: GroupCopy,
}

/// The counts between two borders, without details.
pub(crate) fn counts_between<F: Fn(u32) -> Option<(u32, bool)>>(
    from: &Snapshot,
    to: &Snapshot,
    names: &RowNames<F>,
    detail: Detail,
) -> ProfileSlice {
    let delta = Delta::between(from, to);
    ProfileSlice {
        window: Window {
            start_ns: from.end_ns,
            end_ns: to.end_ns,
        },
        calls: names.slice_calls(&delta, detail, &[].into()),
        waits: names.slice_waits(&delta),
        groups: Vec::new(),
        threads: None,
        network: None,
        lost: delta.lost(),
    }
}

/// And with what threads did, inside of the calls too, and by group. `known` tells the name of a thread or
/// process, `process_of` the process of a thread.
pub(crate) fn details_between<F: Fn(u32) -> Option<(u32, bool)>>(
    (from, to): (&SliceEdge, &SliceEdge),
    names: &RowNames<F>,
    detail: Detail,
    group_by: Option<GroupBy>,
    known: impl Fn(u32) -> Option<String>,
    process_of: impl Fn(u32) -> Option<u32>,
) -> ProfileSlice {
    let mut slice = counts_between(&from.snapshot, &to.snapshot, names, detail);
    if let Some((from_states, to_states)) = from.states.as_ref().zip(to.states.as_ref()) {
        let delta = Delta::between(&from.snapshot, &to.snapshot);
        let states = StatesDelta::between(from_states, to_states);
        slice.threads = Some(Box::new(states.threads));
        let mut rows = states.rows;
        for &row in delta.calls.keys() {
            rows.entry(row).or_default();
        }
        slice.calls = names.slice_calls(&delta, detail, &rows);
    }
    if let Some(by) = group_by {
        let edges = (&from.groups, &to.groups);
        slice.groups = groups::between(edges.0, edges.1, by, detail, names, known, process_of);
    }
    slice
}
