//! `bench probes`: what the probes add to a system call, and what a profiled server keeps of its
//! throughput.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::peers::PEERS;
use super::profiler::Attached;
use super::report::{Bound, Report, median};
use super::servers::Server;
use super::{Setting, clients, rotated};
use crate::command::{self, Guarded};
use crate::cpus;
use crate::packages;

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    if !command::is_root() && command::output(&mut packages::as_root("true")).is_err() {
        report.not_measured("cost of probes", "needs root", "run with sudo");
        return Ok(());
    }
    let per_call = measure_calls(setting, report)?;
    measure_switches(setting, per_call, report)?;
    measure_crowd(setting, report)?;
    measure_server(setting, report)
}

/// A loop of `getppid`, alone and under each kind of probe, as the target and beside it; what detail
/// `sched` adds to a call, ns.
fn measure_calls(setting: &Setting, report: &mut Report) -> Result<f64> {
    let mut workload = Workload::start(setting.server_cpu, CALLS, &[])?;
    // Somebody else's process, so that the loop is no target.
    let other = Workload::start(setting.server_cpu, CALLS, &[])?;
    let mut arms = vec![(None, false)];
    for detail in DETAILS {
        arms.extend([(Some(detail), true), (Some(detail), false)]);
    }
    let mut ns: BTreeMap<(Option<&str>, bool), Vec<f64>> = BTreeMap::new();
    workload.ns_per_call()?;
    for repetition in 0..setting.repetitions {
        for (detail, is_target) in rotated(&arms, repetition) {
            let ns_per_call = match detail {
                None => workload.ns_per_call()?,
                Some(detail) => {
                    let target = if is_target { &workload } else { &other };
                    let pid = target.child.pid();
                    under_probes(setting, detail, pid, is_target, &mut workload)?
                }
            };
            eprintln!(
                "{repetition}: getppid, {}: {ns_per_call:.1} ns",
                arm_name(detail, is_target)
            );
            ns.entry((detail, is_target)).or_default().push(ns_per_call);
        }
    }
    let bare = ns[&(None, false)].clone();
    let added = |arm: (Option<&str>, bool)| -> Vec<f64> {
        let pairs = ns[&arm].iter().zip(&bare);
        pairs.map(|(with, without)| with - without).collect()
    };
    report.figure("getppid, no probe".to_owned(), "ns/call", bare.clone());
    for &(detail, is_target) in arms.iter().filter(|arm| arm.0.is_some()) {
        let name = format!("getppid, added by {}", arm_name(detail, is_target));
        report.figure(name, "ns/call", added((detail, is_target)));
    }
    let floor = added((Some("floor"), true));
    for (detail, limit) in [("counts", 1.0), ("times", 1.8), ("sched", 3.0)] {
        for (is_target, limit) in [(true, limit), (false, OTHERS_PAY)] {
            report.limit(
                &format!(
                    "added to a call, {} / floor",
                    arm_name(Some(detail), is_target)
                ),
                (&added((Some(detail), is_target)), &floor),
                Bound::AtMost,
                limit,
            );
        }
    }
    report.no_figure(
        "getppid, added by the fexit hook",
        "ns/call",
        "it is loaded and counts in virtual machines only, which are emulated: their times say nothing",
        "a machine whose kernel allows fexit on x64_sys_call",
    );
    let peers = measure_peers_on_calls(setting, &mut workload, &bare, report)?;
    let floor = median(&floor).context("no repetition was measured")?;
    for (name, added) in peers {
        let ratios = added.iter().map(|ns| ns / floor).collect();
        report.figure(format!("added to a call, {name} / floor"), "", ratios);
    }
    let sched = added((Some("sched"), true));
    median(&sched).context("no repetition was measured")
}

/// The same loop under the tools that people use, for the record; they have no limit. What each adds
/// to a call, ns.
fn measure_peers_on_calls(
    setting: &Setting,
    workload: &mut Workload,
    bare: &[f64],
    report: &mut Report,
) -> Result<Vec<(String, Vec<f64>)>> {
    let mut peers = Vec::new();
    let without = median(bare).context("no repetition was measured")?;
    let mut small = Workload::start(setting.server_cpu, TRACED_CALLS, &[])?;
    for peer in &PEERS {
        // The slow ones get fewer calls.
        let workload = if peer.is_slow {
            &mut small
        } else {
            &mut *workload
        };
        let name = format!("getppid, added by {}", peer.name());
        let pid = workload.child.pid();
        let measured = peer.measure(setting, pid, report, &name, || workload.ns_per_call())?;
        if let Some(ns) = measured {
            let added: Vec<f64> = ns.iter().map(|ns| ns - without).collect();
            report.figure(name, "ns/call", added.clone());
            peers.push((peer.name(), added));
        }
    }
    Ok(peers)
}

/// Two threads that wake each other on one CPU: four calls, two switches and two wake-ups there and
/// back. `per_call` is what detail `sched` adds to one of the calls, ns.
fn measure_switches(setting: &Setting, per_call: f64, report: &mut Report) -> Result<()> {
    let mut workload = Workload::start(setting.server_cpu, ROUND_TRIPS, &["--round-trips"])?;
    let mut arms = vec![None];
    arms.extend(DETAILS.map(Some));
    let mut ns: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
    workload.ns_per_call()?;
    for repetition in 0..setting.repetitions {
        for detail in rotated(&arms, repetition) {
            let pid = workload.child.pid();
            let attached = detail
                .map(|detail| Attached::to(&setting.whyfast, setting.client_cpu, detail, pid))
                .transpose()?;
            let ns_per_trip = workload.ns_per_call()?;
            attached.map(Attached::detach).transpose()?;
            eprintln!(
                "{repetition}: round trip, {}: {ns_per_trip:.0} ns",
                arm_name(detail, true)
            );
            ns.entry(detail).or_default().push(ns_per_trip);
        }
    }
    report.figure("round trip, no probe".to_owned(), "ns", ns[&None].clone());
    for detail in DETAILS {
        let pairs = ns[&Some(detail)].iter().zip(&ns[&None]);
        let halves: Vec<f64> = pairs
            .map(|(with, without)| (with - without) / 2.0)
            .collect();
        let name = format!("half a round trip (2 calls, 1 switch, 1 wake-up), added by {detail}");
        report.figure(name, "ns", halves.clone());
        if detail == "sched" {
            let per_switch = halves.iter().map(|half| half - 2.0 * per_call).collect();
            report.figure(
                "switch with its wake-up, added by sched".to_owned(),
                "ns",
                per_switch,
            );
        }
    }
    Ok(())
}

/// Memory with 10,000 threads told apart, for small and for large tables of thread ids.
fn measure_crowd(setting: &Setting, report: &mut Report) -> Result<()> {
    let threads = CROWD.to_string();
    let mut workload = Workload::start(setting.server_cpu, 1, &["--threads", &threads])?;
    workload.ns_per_call()?;
    let pid = workload.child.pid();
    for (ids, limit) in [("32768", 40.0), ("4194304", 120.0)] {
        let options = [
            "--by",
            "thread",
            "--limit-targets",
            ids,
            "--limit-threads",
            ids,
        ];
        let (mut megabytes, mut attach) = (Vec::new(), Vec::new());
        for repetition in 0..CROWD_REPETITIONS {
            let (whyfast, cpu) = (&setting.whyfast, setting.client_cpu);
            let attached = Attached::with(whyfast, cpu, "sched", pid, &options)?;
            workload.ns_per_call()?;
            let resident = attached.resident_bytes()?;
            let profile = attached.detach()?;
            let row = profile.calls.iter().find(|row| row.name == "getppid");
            let counted = row.map_or(0, |row| row.count);
            ensure!(
                counted == u64::from(CROWD) && profile.lost.of_calls() == 0,
                "counted {counted} of {CROWD} calls, lost {:?}",
                profile.lost
            );
            ensure!(
                profile.groups.len() > CROWD as usize,
                "not every thread is listed"
            );
            let total = (resident + profile.cost.map_bytes) as f64 / 1e6;
            eprintln!("{repetition}: {CROWD} threads, {ids} ids: {total:.1} MB");
            megabytes.push(total);
            attach.push(profile.cost.attach_ns as f64 / 1e9);
        }
        let bounds = vec![1.0; megabytes.len()];
        report.limit(
            &format!("MB of profiler and maps, {CROWD} threads by thread, pid_max {ids}"),
            (&megabytes, &bounds),
            Bound::AtMost,
            limit,
        );
        report.limit(
            &format!("s from start to attached, {CROWD} threads, pid_max {ids}"),
            (&attach, &bounds),
            Bound::AtMost,
            0.5,
        );
    }
    Ok(())
}

/// The time of a call while probes are attached to a process.
fn under_probes(
    setting: &Setting,
    detail: &str,
    pid: u32,
    is_target: bool,
    workload: &mut Workload,
) -> Result<f64> {
    let attached = Attached::to(&setting.whyfast, setting.client_cpu, detail, pid)?;
    let ns_per_call = workload.ns_per_call()?;
    let profile = attached.detach()?;
    if is_target && detail != "floor" {
        let row = profile.calls.iter().find(|row| row.name == "getppid");
        let counted = row.map_or(0, |row| row.count);
        ensure!(
            counted == u64::from(CALLS),
            "{detail}: counted {counted} of {CALLS} calls"
        );
    }
    Ok(ns_per_call)
}

/// Throughput of a server with one busy CPU, alone and under each kind of probe.
fn measure_server(setting: &Setting, report: &mut Report) -> Result<()> {
    let server = Server::start(setting)?;
    let wrk = command::find("wrk", &[]);
    let client = || match &wrk {
        Some(wrk) => clients::wrk(wrk, setting.client_cpu, &server.url, SECONDS),
        None => clients::whyfast(&setting.whyfast, setting.client_cpu, &server.url, SECONDS),
    };
    client()?;
    let mut arms = vec![None];
    arms.extend(DETAILS.map(Some));
    arms.push(Some("stacks"));
    let mut rate: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
    for repetition in 0..setting.repetitions {
        for detail in rotated(&arms, repetition) {
            let pid = server.pid();
            let attached = detail
                .map(|detail| Attached::to(&setting.whyfast, setting.client_cpu, detail, pid))
                .transpose()?;
            let run = client()?;
            attached.map(Attached::detach).transpose()?;
            let name = arm_name(detail, true);
            eprintln!(
                "{repetition}: {}, {name}: {:.0} requests/s",
                server.name, run.requests_per_second
            );
            rate.entry(detail)
                .or_default()
                .push(run.requests_per_second);
        }
    }
    for &detail in &arms {
        let name = format!("{}, {}", server.name, arm_name(detail, true));
        report.figure(name, "requests/s", rate[&detail].clone());
    }
    for peer in &PEERS {
        let name = format!("{}, {}", server.name, peer.name());
        let one = || Ok(client()?.requests_per_second);
        if let Some(rates) = peer.measure(setting, server.pid(), report, &name, one)? {
            report.figure(name, "requests/s", rates);
        }
    }
    let floor = &rate[&Some("floor")][..];
    report.figure(
        "throughput kept, floor / no probe".to_owned(),
        "",
        floor
            .iter()
            .zip(&rate[&None])
            .map(|(with, without)| with / without)
            .collect(),
    );
    for (detail, limit) in [("counts", 0.99), ("times", 0.96), ("sched", 0.88)] {
        let name = format!("throughput kept, {detail} / floor");
        report.limit(&name, (&rate[&Some(detail)], floor), Bound::AtLeast, limit);
    }
    let stacks = (&rate[&Some("stacks")][..], &rate[&Some("sched")][..]);
    report.limit(
        "throughput kept, stacks / sched",
        stacks,
        Bound::AtLeast,
        STACKS_KEEP,
    );
    Ok(())
}

fn arm_name(detail: Option<&str>, is_target: bool) -> String {
    match (detail, is_target) {
        (None, _) => "no probe".to_owned(),
        (Some(detail), true) => detail.to_owned(),
        (Some(detail), false) => format!("{detail} on another process"),
    }
}

/// This program as a loop of `getppid`, which runs when it is told to.
#[derive(Debug)]
struct Workload {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    child: Guarded,
}

impl Workload {
    fn start(cpu: u32, calls: u32, options: &[&str]) -> Result<Self> {
        let this = std::env::current_exe().context("the path of this program")?;
        let mut command = cpus::pinned(cpu, this);
        command
            .args(["workload", &calls.to_string()])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Guarded::spawn(&mut command)?;
        Ok(Self {
            stdin: child.child.stdin.take().context("stdin is a pipe")?,
            stdout: BufReader::new(child.child.stdout.take().context("stdout is a pipe")?),
            child,
        })
    }

    fn ns_per_call(&mut self) -> Result<f64> {
        self.stdin.write_all(b"\n")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let ns = line.trim().parse();
        ns.with_context(|| format!("the workload printed {line:?}"))
    }
}

const DETAILS: [&str; 4] = ["floor", "counts", "times", "sched"];
/// What a process that is no target may pay, as a multiple of the floor.
const OTHERS_PAY: f64 = 1.15;
/// What samples and the stacks of sleeps may leave of the throughput.
const STACKS_KEEP: f64 = 0.99;
/// A fifth of a second at 200 ns: long against a time slice.
const CALLS: u32 = 1_000_000;
const TRACED_CALLS: u32 = 20_000;
const ROUND_TRIPS: u32 = 50_000;
const CROWD: u32 = 10_000;
const CROWD_REPETITIONS: u32 = 3;
const SECONDS: u32 = 2;
