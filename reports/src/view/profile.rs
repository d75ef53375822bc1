//! What a profile says beyond its table of calls: rates, errors, waits, what was in flight, what
//! was lost, and what the measurement cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use recording::{
    Abi, CallRow, Detail, InFlightCall, LostClass, Profile, Recording, RequestCount, TimeStats,
};

use super::compare::range;
use super::{ABSENT, Line, Table, name, or_absent, processes, sentence, threads};
use crate::figures::{bytes, counted, grouped, micros, percent, rate, span};
use crate::layout::{Tone, WRITES};

/// The profile of a recording: the first round that has one.
pub(crate) fn profile(recording: &Recording) -> Option<&Profile> {
    recording
        .rounds
        .iter()
        .find_map(|round| round.profile.as_ref())
}

/// What was profiled: the name of the arm.
pub(crate) fn target(recording: &Recording) -> Option<String> {
    recording.arms.first().map(|arm| name(&arm.name))
}

/// Everything that fits on labelled lines.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    let mut lines = vec![window(profile), totals(profile)];
    lines.extend(requests(profile));
    lines.extend(times_missing(profile));
    lines.extend(errors(profile));
    lines.extend(waits(profile));
    lines.extend(in_flight(
        "started",
        "in flight at start",
        &profile.in_flight_at_start,
    ));
    lines.extend(in_flight(
        "open",
        "in flight at end, not counted",
        &profile.in_flight_at_end,
    ));
    lines.extend(never_returned(profile));
    lines.extend(super::below::lines(profile));
    lines.extend(super::tls::lines(profile));
    lines.push(cpu(profile));
    lines.extend(threads::lines(profile));
    lines.push(cost(profile));
    lines.push(lost(profile));
    lines.push(processes::line(profile));
    lines
}

/// The table of calls with its totals, times as measured.
pub(crate) fn totals_table(profile: &Profile) -> Table {
    let timed = profile.detail >= Detail::Times;
    let mut header = vec!["call", "calls", "errors"];
    if timed {
        header.extend(["time", "us/call"]);
    }
    let rows = by_cost(profile);
    let mut table = Table {
        header: header.into_iter().map(str::to_owned).collect(),
        ..Table::default()
    };
    let several_abis = rows.iter().any(|row| row.abi != rows[0].abi);
    for row in rows {
        let call = if several_abis {
            format!("{} ({:?})", name(&row.label()), row.abi).to_lowercase()
        } else {
            name(&row.label())
        };
        let errors = row.error_count();
        let errors = if errors == 0 {
            String::new()
        } else {
            grouped(errors)
        };
        let mut cells = vec![call, grouped(row.count), errors];
        if timed {
            let time = row.time.as_ref().filter(|time| time.timed > 0);
            cells.push(or_absent(time, |time| span(time.ns_total as f64)));
            cells.push(or_absent(time, |time| {
                micros(time.ns_total as f64 / time.timed as f64)
            }));
        }
        table.rows.push(cells);
    }
    table
}

/// Per call and second, with the distribution of its time where it was measured.
pub(crate) fn rates(profile: &Profile, limit: usize) -> Table {
    let seconds = profile.window.seconds();
    let timed = profile.detail >= Detail::Times;
    let requests = profile
        .requests_in_window()
        .filter(|requests| *requests > 0.0);
    let volume = if requests.is_some() {
        "calls/req"
    } else {
        "bytes/s"
    };
    let mut header = vec!["call", "calls/s", "errors/s", volume, "B/call"];
    if timed {
        header.extend(["min", "p50 in", "p99 in", "max"]);
    }
    let rows = by_cost(profile);
    let left_out = rows.len().saturating_sub(limit);
    let per_second = |count: u64| {
        if seconds > 0.0 {
            rate(count as f64 / seconds)
        } else {
            ABSENT.to_owned()
        }
    };
    let mut rows: Vec<Vec<String>> = rows
        .into_iter()
        .take(limit)
        .map(|row| {
            let errors = row.error_count();
            let successful = row.count.saturating_sub(errors);
            let mut cells = vec![
                if row.abi == Abi::I386 || row.abi == Abi::Arm {
                    format!("{} (32 bit)", name(&row.label()))
                } else {
                    name(&row.label())
                },
                per_second(row.count),
                if errors == 0 {
                    String::new()
                } else {
                    per_second(errors)
                },
                match (requests, row.bytes) {
                    (Some(requests), _) => rate(row.count as f64 / requests),
                    (None, Some(total)) if seconds > 0.0 => bytes(total as f64 / seconds),
                    _ => String::new(),
                },
                row.bytes
                    .filter(|_| successful > 0)
                    .map_or(String::new(), |total| {
                        bytes(total as f64 / successful as f64)
                    }),
            ];
            if timed {
                cells.extend(time_cells(row.time.as_ref()));
            }
            cells
        })
        .collect();
    if left_out > 0 {
        rows.push(vec![String::new(); header.len()]);
        rows[limit][0] = format!(
            "({left_out} more {})",
            if left_out == 1 { "call" } else { "calls" }
        );
    }
    Table {
        header: header.into_iter().map(str::to_owned).collect(),
        rows,
        ..Table::default()
    }
}

/// Calls that returned, in the order of the first table: by time where it was measured, else by
/// number, ties in the order of their numbers.
pub(crate) fn by_cost(profile: &Profile) -> Vec<&CallRow> {
    let timed = profile.detail >= Detail::Times;
    let mut rows: Vec<&CallRow> = profile.calls.iter().filter(|row| row.count > 0).collect();
    rows.sort_by_key(|row| {
        let spent = row
            .time
            .as_ref()
            .filter(|_| timed)
            .map(|time| time.ns_total);
        let cost = if timed { spent.unwrap_or(0) } else { row.count };
        (std::cmp::Reverse(cost), row.nr)
    });
    rows
}

fn time_cells(time: Option<&TimeStats>) -> [String; 4] {
    let bucket = |quantile: f64| {
        let found = time.and_then(|time| time.histogram.quantile_range(quantile));
        or_absent(found, |(low, high)| {
            format!("{}-{}", span(low as f64), span(high as f64))
        })
    };
    let edge = |value: Option<u64>| or_absent(value, |ns| span(ns as f64));
    [
        edge(time.and_then(|time| time.ns_min)),
        bucket(0.5),
        bucket(0.99),
        edge(time.and_then(|time| time.ns_max)),
    ]
}

fn window(profile: &Profile) -> Line {
    let detail = match profile.detail {
        Detail::Floor => "floor (nothing is counted)",
        Detail::Counts => "counts",
        Detail::Times => "times (wall clock inside each call)",
        Detail::Sched => "sched (what each thread did, to the nanosecond)",
        Detail::Stacks => "stacks (sched, and the functions that threads were in)",
    };
    let mut text = format!(
        "{:.3} s, detail {detail}, copying the counters took {}",
        profile.window.seconds(),
        span(profile.boundary_ns as f64)
    );
    if let Some(why) = &profile.ended_early {
        write!(text, "; ended early: {}", sentence(why)).expect(WRITES);
    }
    Line::new("window", text)
}

fn totals(profile: &Profile) -> Line {
    let seconds = profile.window.seconds();
    let calls: u64 = profile.calls.iter().map(|row| row.count).sum();
    let errors: u64 = profile.calls.iter().map(CallRow::error_count).sum();
    if seconds <= 0.0 {
        return Line::new("rate", "the window is empty");
    }
    let per_second = |count: u64| rate(count as f64 / seconds);
    Line::new(
        "rate",
        format!(
            "{} calls/s, {} errors/s",
            per_second(calls),
            per_second(errors)
        ),
    )
}

/// Requests, who counted them, and what one of them takes.
fn requests(profile: &Profile) -> Option<Line> {
    let counted = profile.requests.as_ref()?;
    let requests = profile.requests_in_window()?;
    let mut text = format!("{} by {}", rate(requests), counter(counted));
    if requests > 0.0 {
        let calls: u64 = profile.calls.iter().map(|row| row.count).sum();
        write!(
            text,
            ": {}/s, {} calls each",
            rate(requests / profile.window.seconds()),
            rate(calls as f64 / requests)
        )
        .expect(WRITES);
        if let Some(ns) = profile.cpu_ns {
            write!(text, ", {} of CPU each", span(ns as f64 / requests)).expect(WRITES);
        }
    }
    if let Some(uncertainty) = counted.uncertainty {
        write!(
            text,
            "; off by at most {} at the edges",
            grouped(uncertainty)
        )
        .expect(WRITES);
    }
    Some(Line::new("requests", text))
}

/// Who counted requests.
pub(crate) fn counter(counted: &RequestCount) -> String {
    format!("{} ({})", counted.source.describe(), name(&counted.origin))
}

fn times_missing(profile: &Profile) -> Option<Line> {
    (profile.detail < Detail::Times).then(|| {
        Line::new(
            "times",
            format!("{ABSENT} above: not measured at detail counts (run with --detail times)"),
        )
    })
}

/// Errors by name, the most frequent call first.
fn errors(profile: &Profile) -> Option<Line> {
    let mut rows: Vec<&CallRow> = profile
        .calls
        .iter()
        .filter(|row| row.error_count() > 0)
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.error_count()));
    let hidden = rows.len().saturating_sub(ERROR_ROWS);
    let mut parts: Vec<String> = rows
        .into_iter()
        .take(ERROR_ROWS)
        .map(|row| {
            let mut errors: Vec<_> = row.errors.iter().filter(|(_, count)| **count > 0).collect();
            errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let errors: Vec<String> = errors
                .into_iter()
                .map(|(errno, count)| format!("{} {}", name(errno), grouped(*count)))
                .collect();
            format!("{} {}", name(&row.label()), errors.join(" "))
        })
        .collect();
    if hidden > 0 {
        parts.push(format!("{} more", counted(hidden, "call")));
    }
    (!parts.is_empty()).then(|| Line::new("errors", parts.join("; ")))
}

fn waits(profile: &Profile) -> Vec<Line> {
    profile
        .waits
        .iter()
        .map(|wait| {
            let mut text = format!("{} {} wakes", name(&wait.name), grouped(wait.wakes));
            if wait.wakes > 0 {
                let mean = wait.events as f64 / wait.wakes as f64;
                write!(text, ", {} events per wake", rate(mean)).expect(WRITES);
            }
            if let Some((low, high)) = wait.events_per_wake.quantile_range(0.5) {
                write!(text, " (median {})", range(low, high)).expect(WRITES);
            }
            if let Some(truncated) = wait.truncated.filter(|&truncated| truncated > 0) {
                write!(
                    text,
                    ", {} with all that there was room for",
                    grouped(truncated)
                )
                .expect(WRITES);
            }
            write!(text, ", {} without an event", grouped(wait.timeouts)).expect(WRITES);
            if let Some(polls) = wait.polls.filter(|&polls| polls > 0) {
                write!(text, " ({} that did not wait)", grouped(polls)).expect(WRITES);
            }
            write!(text, ", {} interrupted", grouped(wait.interrupted)).expect(WRITES);
            if let Some(ns) = wait.ns_total {
                write!(text, ", {} inside", span(ns as f64)).expect(WRITES);
            }
            Line::new("waits", text)
        })
        .collect()
}

/// Calls in flight at an edge, by name, with the oldest of each.
fn in_flight(label: &'static str, title: &str, calls: &[InFlightCall]) -> Option<Line> {
    let mut by_name: BTreeMap<&str, (usize, &InFlightCall)> = BTreeMap::new();
    for call in calls {
        let entry = by_name.entry(&call.name).or_insert((0, call));
        entry.0 += 1;
        if call.age_ns > entry.1.age_ns {
            entry.1 = call;
        }
    }
    let parts: Vec<String> = by_name
        .into_iter()
        .map(|(call, (count, oldest))| {
            let age = oldest.age_ns.map_or_else(
                || "age not measured".to_owned(),
                |age| {
                    format!(
                        "longest {} in pid {} tid {}",
                        span(age as f64),
                        oldest.pid,
                        oldest.tid
                    )
                },
            );
            format!("{} {} ({age})", name(call), counted(count, "time"))
        })
        .collect();
    (!parts.is_empty()).then(|| Line::new(label, format!("{title}: {}", parts.join("; "))))
}

fn never_returned(profile: &Profile) -> Option<Line> {
    let mut parts = Vec::new();
    for row in profile.calls.iter().filter(|row| row.no_return > 0) {
        parts.push(format!("{} {}", name(&row.label()), grouped(row.no_return)));
    }
    for row in profile.calls.iter().filter(|row| row.died_in_call > 0) {
        parts.push(format!(
            "killed inside {} {}",
            name(&row.label()),
            grouped(row.died_in_call)
        ));
    }
    (!parts.is_empty()).then(|| {
        Line::new(
            "ended",
            format!("not counted above, never returned: {}", parts.join("; ")),
        )
    })
}

fn cpu(profile: &Profile) -> Line {
    let text = match profile.cpu_ns {
        None => "of the target: not measured, a process ended before it could be read".to_owned(),
        Some(ns) => {
            let share = ns as f64 / (profile.window.length_ns().max(1)) as f64;
            format!(
                "of the target: {}, {} of one CPU",
                span(ns as f64),
                percent(share)
            )
        }
    };
    Line::new("cpu", text)
}

fn cost(profile: &Profile) -> Line {
    let cost = &profile.cost;
    let mut text = format!(
        "{} program runs on the target's calls",
        grouped(cost.target_events)
    );
    if cost.sched_events > 0 {
        write!(
            text,
            ", {} on switches and interrupts",
            grouped(cost.sched_events)
        )
        .expect(WRITES);
    }
    if cost.uring_events > 0 {
        write!(text, ", {} on io_uring", grouped(cost.uring_events)).expect(WRITES);
    }
    if let (Some(calibration), Some(ns)) = (&cost.calibration, cost.target_ns_estimate) {
        write!(
            text,
            ", about {} of the target ({} ns per call",
            span(ns as f64),
            rate(calibration.probe_ns_per_call)
        )
        .expect(WRITES);
        if let Some(per_switch) = calibration.probe_ns_per_switch {
            write!(text, ", {} per switch", rate(per_switch)).expect(WRITES);
        }
        text.push_str(", measured at start)");
    }
    if let Some(ns) = cost.bpf_run_ns {
        let runs = cost.bpf_runs.unwrap_or(0);
        write!(
            text,
            "; the kernel says {} in {} runs for all processes",
            span(ns as f64),
            grouped(runs)
        )
        .expect(WRITES);
    }
    write!(
        text,
        "; reader {} CPU, maps {}, attached in {}",
        span(cost.reader_cpu_ns as f64),
        bytes(cost.map_bytes as f64),
        span(cost.attach_ns as f64)
    )
    .expect(WRITES);
    Line::new("our cost", text)
}

fn lost(profile: &Profile) -> Line {
    let classes: Vec<String> = LostClass::ALL
        .iter()
        .filter_map(|class| {
            let count = profile.lost.0.get(class).filter(|count| **count > 0)?;
            Some(format!("{} {}", grouped(*count), class.describe()))
        })
        .collect();
    if classes.is_empty() {
        Line::new("lost", "nothing")
    } else {
        Line::toned("LOST", classes.join("; "), Tone::Bad)
    }
}

/// Calls whose errors are named; more would push what follows off the screen.
const ERROR_ROWS: usize = 12;
