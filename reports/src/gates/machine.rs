//! Gates on the machine: other work on the server's CPUs, and tracers of others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use recording::{Gate, MachineCpu, Probes, Recording, Round, Tracer};

use super::Finding;
use super::saturation::by_count;
use crate::figures::{counted, percent};
use crate::layout::WRITES;
use crate::metrics::good_rounds;

/// G9: other tasks and the hypervisor on the server's CPUs; where that was not read, the load average
/// at the start, in which what ran just before counts too.
pub(super) fn foreign_cpu(recording: &Recording) -> Gate {
    let shares: Option<Vec<(&str, f64)>> = recording
        .arms
        .iter()
        .map(|arm| Some((arm.name.as_str(), foreign_share(recording, &arm.name)?)))
        .collect();
    let finding = match shares.filter(|shares| !shares.is_empty() && pinned_apart(recording)) {
        Some(shares) => judge_foreign(recording, &shares),
        None => load_average(recording),
    };
    finding.gate(
        "G9",
        "quiet machine",
        "other work at most 1% of the server's CPUs; unknown, load average at most half of the CPUs \
         and 0.5 more",
    )
}

fn judge_foreign(recording: &Recording, shares: &[(&str, f64)]) -> Finding {
    let parts: Vec<String> = shares
        .iter()
        .map(|(arm, share)| format!("{arm} {}", percent(*share)))
        .collect();
    let mut value = format!("other work {} of the server's CPUs", parts.join(", "));
    let left_out = recording
        .rounds
        .iter()
        .filter(|round| round.excluded.is_some())
        .count();
    if left_out > 0 {
        let left_out = counted(left_out, "round");
        write!(value, "; {left_out} left out").expect(WRITES);
    }
    if shares.iter().all(|(_, share)| *share <= FOREIGN_SHARE) {
        Finding::ok(value)
    } else {
        Finding::warn(
            value,
            "stop other work, or move it off the server's CPUs (cpuset, isolcpus)",
        )
    }
}

fn load_average(recording: &Recording) -> Finding {
    let host = &recording.host;
    let Some(centi) = host.load_average_centi else {
        return Finding::not_measured("the load average at the start is not known", "");
    };
    let load = f64::from(centi) / 100.0;
    let cpus = counted(host.cpus as usize, "CPU");
    let value = format!("load average {load:.2} at the start, {cpus}");
    if load > QUIET_SHARE * f64::from(host.cpus) + QUIET_ALLOWANCE {
        Finding::warn(value, "stop other work")
    } else {
        Finding::ok(value)
    }
}

/// Whether the client has CPUs of its own, so that it is no foreign work.
pub(crate) fn pinned_apart(recording: &Recording) -> bool {
    recording.scenario.as_ref().is_some_and(|scenario| {
        scenario.server_cpus.is_some() && scenario.server_cpus != scenario.client_cpus
    })
}

/// Time of the server's CPUs that neither the server nor interrupts used, over the rounds without
/// probes. One clock tick per CPU and round is within the resolution.
fn foreign_share(recording: &Recording, arm: &str) -> Option<f64> {
    let (mut foreign_ns, mut capacity_ns) = (0.0, 0.0);
    for round in good_rounds(recording, arm, Probes::Off) {
        let (foreign, capacity) = foreign_time(round)?;
        foreign_ns += foreign;
        capacity_ns += capacity;
    }
    (capacity_ns > 0.0).then(|| foreign_ns / capacity_ns)
}

/// Time of the server's CPUs in a round that neither the server nor interrupts used, and all of it, ns;
/// `None` where it was not read.
pub(crate) fn foreign_time(round: &Round) -> Option<(f64, f64)> {
    let (cpu, server_ns) = machine_and_server(round)?;
    let others = (cpu.tasks_ns as f64 - server_ns).max(0.0) + cpu.steal_ns as f64;
    let foreign_ns = (others - TICK_NS * f64::from(cpu.cpus)).max(0.0);
    Some((
        foreign_ns,
        f64::from(cpu.cpus) * cpu.window.length_ns() as f64,
    ))
}

/// What the CPUs did in a round, and the server's CPU time scaled to the same window.
fn machine_and_server(round: &Round) -> Option<(MachineCpu, f64)> {
    let machine = round.machine_cpu?;
    let server = round.server_cpu.as_ref()?;
    let server_window = server.window.length_ns();
    (server_window > 0).then(|| {
        let scale = machine.window.length_ns() as f64 / server_window as f64;
        (machine, server.total_ns as f64 * scale)
    })
}

/// Share of the server's CPUs that were busy with anything, over the rounds without probes; `None`
/// where it was not read.
pub(crate) fn machine_busy(recording: &Recording, arm: &str) -> Option<f64> {
    let (mut busy_ns, mut capacity_ns) = (0.0, 0.0);
    for round in good_rounds(recording, arm, Probes::Off) {
        let cpu = round.machine_cpu?;
        busy_ns += (cpu.tasks_ns + cpu.interrupts_ns + cpu.steal_ns) as f64;
        capacity_ns += f64::from(cpu.cpus) * cpu.window.length_ns() as f64;
    }
    (capacity_ns > 0.0).then(|| busy_ns / capacity_ns)
}

/// G13: nobody else traced the server or the machine.
pub(super) fn tracers(recording: &Recording) -> Gate {
    let finding = match &recording.tracers {
        None => not_looked(recording),
        Some(tracers) if tracers.is_empty() => Finding::ok("none".to_owned()),
        Some(tracers) => {
            let list = by_kind(tracers);
            if by_count(recording) {
                // They make calls dearer, not more.
                Finding::warn(list, "read counts, not times")
            } else {
                Finding::refuse(
                    list,
                    "stop them (strace, perf, bpftrace, agents), or accept what they cost with \
                     --allow-mismatch G13"
                        .to_owned(),
                )
            }
        }
    };
    finding.gate(
        "G13",
        "other tracers",
        "none attached while servers were measured",
    )
}

/// The tracers by kind, those of one kind together, the first few by name.
fn by_kind(tracers: &[Tracer]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tracer in tracers {
        // Programs have an id, which says nothing to people.
        let what = tracer.what.split(" (id ").next().unwrap_or(&tracer.what);
        kinds.entry(&tracer.kind).or_default().push(what);
    }
    let kinds = kinds.into_iter().map(|(kind, all)| {
        let mut names = all.clone();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(NAMED_TRACERS);
        let mut text = format!("{kind}: {}", names[..names.len() - more].join(", "));
        if more > 0 {
            write!(text, " and {more} more").expect(WRITES);
        }
        if all.len() > names.len() {
            write!(text, " ({} in all)", all.len()).expect(WRITES);
        }
        text
    });
    kinds.collect::<Vec<_>>().join("; ")
}

/// Why nobody looked for tracers.
fn not_looked(recording: &Recording) -> Finding {
    let mut reasons = recording.not_measured.iter();
    match reasons.find(|item| item.what == "other tracers") {
        Some(reason) => {
            let remedy = reason.remedy.as_deref().unwrap_or_default();
            Finding::not_measured(&reason.why, remedy)
        }
        None if recording.rounds.is_empty() => Finding::not_measured("no round was run", ""),
        None => Finding::not_measured("this version of whyfast did not look", ""),
    }
}

/// Tracers of one kind that a gate names.
const NAMED_TRACERS: usize = 4;
/// Share of the server's CPUs that others may use.
const FOREIGN_SHARE: f64 = 0.01;
/// The resolution of `/proc/stat`, ns.
const TICK_NS: f64 = 1e7;
/// Share of the CPUs that other work may have kept busy in the last minute.
const QUIET_SHARE: f64 = 0.5;
/// Load average that is allowed besides: the run's own preparation counts too.
const QUIET_ALLOWANCE: f64 = 0.5;
