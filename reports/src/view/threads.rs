//! Where the time of threads and CPUs went (detail `sched`), and the calls by process, thread or name.

use std::cmp::Reverse;
use std::fmt::Write as _;

use recording::{CallRow, CallTime, CpuView, Group, GroupBy, IdleLabel, Profile, ThreadTime};

use super::{ABSENT, Line, Table, name, or_absent};
use crate::figures::{counted, grouped, micros, percent, span};
use crate::layout::{Tone, WRITES};

/// What fits on labelled lines; none below detail `sched`.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(threads) = &profile.threads {
        lines.push(lived(profile, threads));
        lines.push(agreement(profile, threads));
        lines.push(switches(threads));
    }
    lines.extend(profile.cpus.as_ref().map(cpus));
    lines
}

/// Every term of the threads' time, with its share; empty below detail `sched`.
pub(crate) fn terms(profile: &Profile) -> Table {
    let Some(threads) = &profile.threads else {
        return Table::default();
    };
    let lived_ns = threads.lifetime_ns.max(1) as f64;
    let term = |what: &str, ns: f64| vec![what.to_owned(), span_signed(ns), percent(ns / lived_ns)];
    let rows = [
        ("user code", threads.user_ns),
        ("in system calls, on a CPU", threads.kernel_ns),
        ("in system calls, asleep", threads.off_cpu_in_calls_ns),
        ("asleep outside of calls", threads.off_cpu_outside_ns),
        ("waiting for a CPU", threads.run_queue_ns),
        ("interrupts", threads.irq_ns),
        ("soft interrupts", threads.softirq_ns),
    ];
    let mut rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(what, ns)| term(what, ns as f64))
        .collect();
    rows.push(term("unexplained", threads.residual_ns as f64));
    rows.push(term("threads times window", threads.lifetime_ns as f64));
    Table {
        header: ["threads' time", "time", "share"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        ..Table::default()
    }
}

/// The calls that time was spent in, by what the threads did there; empty below detail `sched`.
pub(crate) fn calls(profile: &Profile, limit: usize) -> Table {
    let spent = |split: &CallTime| split.on_cpu_ns + split.off_cpu_ns + split.run_queue_ns;
    let mut calls: Vec<(&CallRow, &CallTime)> = profile
        .calls
        .iter()
        .filter_map(|row| Some((row, row.split.as_ref()?)))
        .filter(|(_, split)| spent(split) > 0)
        .collect();
    if calls.is_empty() {
        return Table::default();
    }
    calls.sort_by_key(|(row, split)| (Reverse(split.on_cpu_ns), Reverse(spent(split)), row.nr));
    let hidden = calls.len().saturating_sub(limit);
    let mut rows: Vec<Vec<String>> = calls
        .into_iter()
        .take(limit)
        .map(|(row, split)| {
            let per_call = (row.count > 0).then(|| split.on_cpu_ns as f64 / row.count as f64);
            vec![
                name(&row.label()),
                span(split.on_cpu_ns as f64),
                or_absent(per_call, micros),
                span(split.off_cpu_ns as f64),
                or_absent(split.sleeps, grouped),
                span(split.run_queue_ns as f64),
            ]
        })
        .collect();
    others(&mut rows, hidden, "call", 6);
    Table {
        header: ["call", "on CPU", "us/call", "asleep", "sleeps", "run queue"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        ..Table::default()
    }
}

/// The groups, busiest first; empty where none were asked for.
pub(crate) fn groups(profile: &Profile, limit: usize) -> Table {
    let Some(by) = profile.grouped_by else {
        return Table::default();
    };
    let hidden = profile.groups.len().saturating_sub(limit);
    let timed = profile.groups.iter().any(|group| group.outside.is_some());
    let mut rows: Vec<Vec<String>> = profile
        .groups
        .iter()
        .take(limit)
        .map(|group| group_cells(group, by, timed))
        .collect();
    let mut header = vec![word(by), "name", "calls", "errors"];
    if timed {
        header.extend(["on CPU", "asleep", "run queue"]);
    }
    header.push("most frequent");
    others(&mut rows, hidden, word(by), header.len());
    Table {
        left: vec![1, header.len() - 1],
        header: header.into_iter().map(str::to_owned).collect(),
        rows,
        ..Table::default()
    }
}

fn group_cells(group: &Group, by: GroupBy, timed: bool) -> Vec<String> {
    let made: u64 = group.calls.iter().map(|call| call.count).sum();
    let errors: u64 = group.calls.iter().map(|call| call.errors).sum();
    let id = match by {
        GroupBy::Process | GroupBy::Thread => or_absent(group.id, |id| id.to_string()),
        GroupBy::Comm => ABSENT.to_owned(),
    };
    let comm = group
        .comm
        .as_ref()
        .map_or_else(|| "(gone)".to_owned(), |comm| name(comm));
    let mut row = vec![id, comm, grouped(made), grouped(errors)];
    if timed {
        let splits = || {
            group
                .calls
                .iter()
                .filter_map(|call| call.split)
                .chain(group.outside)
        };
        let sum = |term: fn(&CallTime) -> u64| {
            span(splits().map(|split| term(&split)).sum::<u64>() as f64)
        };
        row.push(sum(|split| split.on_cpu_ns));
        row.push(sum(|split| split.off_cpu_ns));
        row.push(sum(|split| split.run_queue_ns));
    }
    let frequent: Vec<String> = group
        .calls
        .iter()
        .filter(|call| call.count > 0)
        .take(FREQUENT)
        .map(|call| {
            let on = call
                .on
                .map_or_else(String::new, |on| format!("({})", on.word()));
            format!("{}{on} {}", name(&call.name), grouped(call.count))
        })
        .collect();
    row.push(frequent.join(", "));
    row
}

/// A row that says how many are not shown.
fn others(rows: &mut Vec<Vec<String>>, hidden: usize, noun: &str, columns: usize) {
    if hidden > 0 {
        let mut row = vec![String::new(); columns];
        row[0] = format!(
            "({hidden} more {noun}{})",
            if hidden == 1 {
                ""
            } else if noun.ends_with('s') {
                "es"
            } else {
                "s"
            }
        );
        rows.push(row);
    }
}

fn word(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Process => "process",
        GroupBy::Thread => "thread",
        GroupBy::Comm => "name",
    }
}

fn lived(profile: &Profile, threads: &ThreadTime) -> Line {
    let window_ns = profile.window.length_ns().max(1) as f64;
    Line::new(
        "threads",
        format!(
            "{} of threads ({:.2} on average), {} began and {} ended; unexplained {}",
            span(threads.lifetime_ns as f64),
            threads.lifetime_ns as f64 / window_ns,
            grouped(threads.threads_began),
            grouped(threads.threads_ended),
            span_signed(threads.residual_ns as f64),
        ),
    )
}

/// Our account of CPU time beside the kernel's own.
fn agreement(profile: &Profile, threads: &ThreadTime) -> Line {
    let ours = threads.cpu_clock_ns();
    let mut text = format!("{} by our account", span(ours as f64));
    let at_switches = threads.charged_at_switches_ns.filter(|&ns| ns != 0);
    if let Some(ns) = at_switches {
        let (word, span) = (
            if ns < 0 { "less " } else { "with " },
            span(ns.unsigned_abs() as f64),
        );
        write!(text, " ({word}{span} from wake-up to CPU)").expect(WRITES);
    }
    let Some(clock_ns) = profile.cpu_ns else {
        text.push_str("; the kernel's clock was not read: a process ended before that");
        return Line::new("on cpu", text);
    };
    let share = (ours as f64 - clock_ns as f64) / clock_ns.max(1) as f64;
    write!(
        text,
        ", {} by the kernel's clock ({}{}), which may leave out interrupts ({})",
        span(clock_ns as f64),
        if share < 0.0 { "" } else { "+" },
        percent(share),
        span((threads.irq_ns + threads.softirq_ns) as f64)
    )
    .expect(WRITES);
    if let Some(steal_ns) = profile.cpus.as_ref().and_then(|cpus| cpus.steal_ns) {
        write!(
            text,
            " and what the hypervisor took ({} of all CPUs)",
            span(steal_ns as f64)
        )
        .expect(WRITES);
    }
    Line::new("on cpu", text)
}

fn switches(threads: &ThreadTime) -> Line {
    let mut text = format!(
        "{} voluntary, {} involuntary, {} migrations, {} wake-ups, {} page faults",
        grouped(threads.voluntary_switches),
        grouped(threads.involuntary_switches),
        grouped(threads.migrations),
        grouped(threads.wakeups),
        grouped(threads.page_faults),
    );
    if let Some(ns) = threads.page_fault_ns_estimate {
        write!(text, " (estimated {} of user time)", span(ns as f64)).expect(WRITES);
    }
    let waits = &threads.run_queue_waits;
    if let (Some((low, high)), Some((_, most))) =
        (waits.quantile_range(0.5), waits.quantile_range(0.99))
    {
        write!(
            text,
            "; a wait for a CPU took {}-{} in the median, at most {} in 99 %",
            span(low as f64),
            span(high as f64),
            span(most as f64)
        )
        .expect(WRITES);
    }
    Line::new("switches", text)
}

fn cpus(cpus: &CpuView) -> Line {
    let capacity_ns = cpus.capacity_ns.max(1) as f64;
    let share = |ns: u64| percent(ns as f64 / capacity_ns);
    let mut text = format!(
        "{} that the target may use: target {}, others {}, interrupts {}",
        counted(cpus.cpus.len(), "CPU"),
        share(cpus.target_ns),
        share(cpus.other_ns),
        share(cpus.irq_ns + cpus.softirq_ns),
    );
    for label in IdleLabel::ALL {
        let ns = cpus.idle.get(&label).copied().unwrap_or(0);
        if ns > 0 {
            write!(text, ", idle {} {}", label.describe(), share(ns)).expect(WRITES);
        }
    }
    write!(
        text,
        ", unexplained {}",
        percent(cpus.residual_ns as f64 / capacity_ns)
    )
    .expect(WRITES);
    match cpus.throttled_ns {
        Some(ns) if ns > 0 => {
            write!(
                text,
                "; THROTTLED by the quota of its control group for {}",
                span(ns as f64)
            )
            .expect(WRITES);
            Line::toned("cpus", text, Tone::Bad)
        }
        _ => Line::new("cpus", text),
    }
}

/// [`span`] of what may be negative.
fn span_signed(ns: f64) -> String {
    if ns < 0.0 {
        format!("-{}", span(-ns))
    } else {
        span(ns)
    }
}

/// Calls that are named per group.
const FREQUENT: usize = 3;
