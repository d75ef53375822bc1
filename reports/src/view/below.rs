//! What a profile says about what happened below the calls: operations of `io_uring`, listening
//! sockets, the network and the hardware. Only what there was.

use std::fmt::Write as _;

use recording::{Detail, Hardware, HardwareCount, IoUring, ListenQueue, Network, Profile};

use super::{ABSENT, Line, Table, name, or_absent};
use crate::figures::{counted, grouped, micros, percent, ratio, span};
use crate::layout::{Tone, WRITES};

/// What fits on labelled lines.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    let mut lines: Vec<Line> = profile.io_uring.iter().filter_map(io_uring).collect();
    if let Some(network) = &profile.network {
        lines.extend(listeners(&network.listeners));
        lines.extend(overflows(network));
        lines.extend(tcp(network));
    }
    lines.extend(profile.hardware.as_ref().and_then(hardware));
    lines
}

/// The operations of `io_uring`, the most frequent first; without rows where there was none.
pub(crate) fn operations(profile: &Profile) -> Table {
    let timed = profile.detail >= Detail::Times;
    let mut header = vec!["io_uring", "submitted", "completed", "repeated", "errors"];
    if timed {
        header.extend(["us/op", "p50 in", "p99 in", "max"]);
    }
    let operations = profile.io_uring.iter().flat_map(|uring| &uring.operations);
    let mut operations: Vec<_> = operations.collect();
    operations.sort_by_key(|operation| {
        std::cmp::Reverse(
            operation
                .submitted
                .max(operation.completed + operation.repeated),
        )
    });
    let unless_zero = |count: u64| match count {
        0 => String::new(),
        count => grouped(count),
    };
    let rows = operations.into_iter().map(|operation| {
        let mut cells = vec![
            name(&operation.name),
            grouped(operation.submitted),
            grouped(operation.completed),
            unless_zero(operation.repeated),
            unless_zero(operation.errors),
        ];
        if timed {
            let time = operation.time.as_ref().filter(|time| time.timed > 0);
            cells.push(or_absent(time, |time| {
                micros(time.ns_total as f64 / time.timed as f64)
            }));
            for quantile in [0.5, 0.99] {
                let range = time.and_then(|time| time.histogram.quantile_range(quantile));
                cells.push(or_absent(range, |(low, high)| {
                    format!("{}-{}", span(low as f64), span(high as f64))
                }));
            }
            let longest = time.and_then(|time| time.ns_max);
            cells.push(or_absent(longest, |ns| span(ns as f64)));
        }
        cells
    });
    Table {
        rows: rows.collect(),
        header: header.into_iter().map(str::to_owned).collect(),
        ..Table::default()
    }
}

fn io_uring(uring: &IoUring) -> Option<Line> {
    let sum = |count: fn(&recording::UringOperation) -> u64| -> u64 {
        uring.operations.iter().map(count).sum()
    };
    let submitted = sum(|operation| operation.submitted);
    let completed = sum(|operation| operation.completed + operation.repeated);
    if submitted + completed + uring.overflows == 0 {
        return None;
    }
    let mut text = format!(
        "{} operations submitted, {} completions; not system calls, so not in the table above",
        grouped(submitted),
        grouped(completed)
    );
    if uring.overflows == 0 {
        return Some(Line::new("io_uring", text));
    }
    write!(
        text,
        "; {} completions found their queue full",
        grouped(uring.overflows)
    )
    .expect(WRITES);
    Some(Line::toned("io_uring", text, Tone::Caution))
}

fn listeners(queues: &[ListenQueue]) -> Option<Line> {
    let mut queues: Vec<&ListenQueue> = queues.iter().collect();
    queues.sort_by_key(|queue| (std::cmp::Reverse(queue.deepest), queue.port));
    let hidden = queues.len().saturating_sub(PORTS);
    let shown = queues.iter().take(PORTS);
    let is_full = |queue: &ListenQueue| queue.limit.is_some_and(|limit| queue.deepest > limit);
    let mut parts: Vec<String> = shown
        .map(|queue| {
            let limit = queue.limit.map_or_else(
                || "limit not known".to_owned(),
                |limit| format!("limit {}", grouped(limit)),
            );
            let sockets = match queue.sockets {
                1 => String::new(),
                sockets => format!(" on {sockets} sockets"),
            };
            format!(
                "port {}{sockets} {} ({limit})",
                queue.port,
                grouped(queue.deepest)
            )
        })
        .collect();
    if hidden > 0 {
        parts.push(format!("{} more", counted(hidden, "port")));
    }
    if parts.is_empty() {
        return None;
    }
    let text = format!(
        "most connections seen waiting for accept: {}",
        parts.join("; ")
    );
    Some(if queues.into_iter().any(is_full) {
        Line::toned("listen", text, Tone::Caution)
    } else {
        Line::new("listen", text)
    })
}

fn overflows(network: &Network) -> Option<Line> {
    let sum = |count: fn(&recording::NetworkNamespace) -> u64| -> u64 {
        network.namespaces.iter().map(count).sum()
    };
    let overflows = sum(|namespace| namespace.listen_overflows);
    let drops = sum(|namespace| namespace.listen_drops);
    let timeouts = sum(|namespace| namespace.tcp_timeouts);
    if overflows + drops + timeouts == 0 {
        return None;
    }
    let text = format!(
        "{} listen overflows, {} dropped at listeners, {} retransmission timeouts, of all programs in {}",
        grouped(overflows),
        grouped(drops),
        grouped(timeouts),
        match network.namespaces.len() {
            1 => "the target's network namespace".to_owned(),
            count => format!("the target's {count} network namespaces"),
        }
    );
    Some(if overflows + drops > 0 {
        Line::toned("network", text, Tone::Caution)
    } else {
        Line::new("network", text)
    })
}

fn tcp(network: &Network) -> Option<Line> {
    let counts = [
        (network.retransmits, "retransmits"),
        (network.resets_sent, "resets sent"),
        (network.resets_received, "resets received"),
    ];
    if counts.iter().all(|(count, _)| count.unwrap_or(0) == 0) {
        return None;
    }
    let parts: Vec<String> = counts
        .iter()
        .map(|(count, what)| {
            let count = count.map_or_else(|| ABSENT.to_owned(), grouped);
            format!("{count} {what}")
        })
        .collect();
    let text = format!("on the target's ports: {}", parts.join(", "));
    Some(Line::new("tcp", text))
}

fn hardware(hardware: &Hardware) -> Option<Line> {
    let counts = [
        (hardware.cycles, "cycles"),
        (hardware.instructions, "instructions"),
        (hardware.cache_misses, "cache misses"),
        (hardware.branch_misses, "branch misses"),
    ];
    let mut parts: Vec<String> = counts
        .iter()
        .filter_map(|(count, what)| {
            let count = count.as_ref()?;
            Some(match count.scaled() {
                Some(events) => format!("{} {what}{}", grouped(events), share(count)),
                None => format!("{ABSENT} {what} (never had a turn at a counter)"),
            })
        })
        .collect();
    let scaled = |count: Option<HardwareCount>| count?.scaled();
    if let Some((instructions, cycles)) = scaled(hardware.instructions).zip(scaled(hardware.cycles))
        && cycles > 0
    {
        let per_cycle = ratio(instructions as f64 / cycles as f64);
        parts.push(format!("{per_cycle} instructions per cycle"));
    }
    (!parts.is_empty()).then(|| Line::new("hardware", parts.join(", ")))
}

/// How much of the time a counter ran, where that is not all of it: its count is scaled.
fn share(count: &HardwareCount) -> String {
    if count.running_ns == count.enabled_ns {
        return String::new();
    }
    let share = count.running_ns as f64 / count.enabled_ns as f64;
    format!(" (scaled, counted {} of the time)", percent(share))
}

/// Ports that are named.
const PORTS: usize = 8;
