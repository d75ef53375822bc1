//! `bench probes`: what the probes add to a system call, and what a profiled server keeps of its
//! throughput.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use super::profiler::Attached;
use super::report::{Bound, Report};
use super::servers::Server;
use super::{Setting, clients, cpus, rotated};
use crate::command::{self, Guarded};
use crate::packages;

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    if !command::is_root() && command::output(&mut packages::as_root("true")).is_err() {
        report.not_measured("cost of probes", "needs root", "run with sudo");
        return Ok(());
    }
    measure_calls(setting, report)?;
    measure_server(setting, report)
}

/// A loop of `getppid`, alone and under each kind of probe, as the target and beside it.
fn measure_calls(setting: &Setting, report: &mut Report) -> Result<()> {
    let mut workload = Workload::start(setting.server_cpu)?;
    // Somebody else's process, so that the loop is no target.
    let other = Workload::start(setting.server_cpu)?;
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
    for (detail, limit) in [("counts", 1.0), ("times", 2.0)] {
        let name = format!("added to a call, {detail} / floor");
        report.limit(
            &name,
            (&added((Some(detail), true)), &floor),
            Bound::AtMost,
            limit,
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
    let mut rate: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
    for repetition in 0..setting.repetitions {
        for detail in rotated(&arms, repetition) {
            let pid = server.pid();
            let attached = detail
                .map(|detail| Attached::to(&setting.whyfast, setting.client_cpu, detail, pid))
                .transpose()?;
            let run = client()?;
            if let Some(attached) = attached {
                attached.detach()?;
            }
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
    measure_peers(setting, &server, &client, report)?;
    let bare = &rate[&None][..];
    for (detail, limit) in [("counts", 0.90), ("times", 0.85)] {
        let name = format!("throughput kept, {detail} / no probe");
        report.limit(&name, (&rate[&Some(detail)], bare), Bound::AtLeast, limit);
    }
    Ok(())
}

/// The same under the tools that people use, for the record; they have no limit.
fn measure_peers(
    setting: &Setting,
    server: &Server,
    client: &dyn Fn() -> Result<clients::Run>,
    report: &mut Report,
) -> Result<()> {
    for (tool, arguments) in PEERS {
        let name = format!("{}, {tool} {}", server.name, arguments.join(" "));
        let Some(program) = command::find(tool, &[]) else {
            let why = format!("{tool} is not installed");
            report.not_measured(&name, why, "install it to compare");
            continue;
        };
        if !command::is_root() {
            report.not_measured(&name, "this part needs to be root itself", "run with sudo");
            continue;
        }
        let mut rates = Vec::new();
        for _repetition in 0..PEER_REPETITIONS {
            let mut command = peer(setting, &program, arguments, server.pid());
            let mut tracer = Guarded::spawn(&mut command)?;
            // Neither of them says when it has begun.
            std::thread::sleep(PEER_START);
            ensure!(tracer.child.try_wait()?.is_none(), "{tool} ended at once");
            rates.push(client()?.requests_per_second);
            tracer.end(Signal::INT)?;
        }
        report.figure(name, "requests/s", rates);
    }
    Ok(())
}

/// A tracer on a process; with a trace file system of its own, which not every host mounts.
fn peer(setting: &Setting, program: &Path, arguments: &[&str], pid: u32) -> Command {
    let mut command = cpus::pinned(setting.client_cpu, "unshare");
    command
        .args(["--mount", "sh", "-c", WITH_TRACEFS, "sh"])
        .arg(program)
        .args(arguments)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
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
    fn start(cpu: u32) -> Result<Self> {
        let this = std::env::current_exe().context("the path of this program")?;
        let mut command = cpus::pinned(cpu, this);
        command
            .args(["workload", &CALLS.to_string()])
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

const DETAILS: [&str; 3] = ["floor", "counts", "times"];
/// Tools with what makes them count like `whyfast profile`.
const PEERS: [(&str, &[&str]); 2] = [("perf", &["trace", "-s"]), ("strace", &["-c", "-f"])];
const WITH_TRACEFS: &str = "mountpoint -q /sys/kernel/tracing \
    || mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
/// They are slower by factors, so two repetitions show it.
const PEER_REPETITIONS: u32 = 2;
const PEER_START: Duration = Duration::from_secs(1);
/// A fifth of a second at 200 ns: long against a time slice.
const CALLS: u32 = 1_000_000;
const SECONDS: u32 = 2;
