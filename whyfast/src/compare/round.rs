//! One round: a server started, loaded, perhaps profiled, and stopped.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use recording::wire::{Command, Message};
use recording::{
    HopProcesses, Load, LoadPhase, MachineCpu, Probes, Profile, Round, RoundRole, Scenario,
    ServerCpu, Timeline, TracerLook, Window,
};

use crate::compare::access::Access;
use crate::compare::parity;
use crate::compare::plan::{LOCK_STEP_WARMUP, Plan};
use crate::compare::prepare::PreparedArm;
use crate::compare::schedule::{Server, Step};
use crate::compare::server::{Ground, Running};
use crate::compare::tracers;
use crate::compare::wire;
use crate::failure::exit_code_of;
use crate::half::Half;
use crate::identity::Identity;
use crate::machine_cpu::CpusReading;
use crate::output::note;
use crate::process_tree::{CpuReading, cpu_between, read_cpu};
use crate::spawn::{Birth, Program};
use crate::verbs::render::blank_round;

/// What all rounds share.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) access: &'a Access,
    pub(crate) ground: Ground<'a>,
    /// Addresses that the client connects from, where one has too few ports.
    pub(crate) sources: Vec<Ipv4Addr>,
    /// Tracers of others, as far as rounds have looked.
    pub(crate) tracers: TracerLook,
}

/// A round that could not be profiled because this machine cannot: the reason, once for all.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CannotProfile(pub(crate) String);

/// Runs one round. A failure is part of the round; only [`CannotProfile`] is an error, since it
/// concerns every round.
///
/// Nothing holds a load by time back until the profiler is ready. On a machine that is too busy to
/// wake it before the window of the load is over, the round is run again, and fails in the end.
pub(crate) fn run(
    stage: &mut Stage<'_>,
    arm: &PreparedArm,
    step: Step,
    order: u32,
) -> Result<Round, CannotProfile> {
    for attempt in 1..MISSED_MAX {
        let round = run_once(stage, arm, step, order)?;
        let is_missed = round.failed.as_deref() == Some(MISSED);
        if !is_missed || stage.ground.interrupt.is_set() {
            return Ok(round);
        }
        note(&format!("round {} again ({attempt}): {MISSED}", order + 1));
    }
    run_once(stage, arm, step, order)
}

fn run_once(
    stage: &mut Stage<'_>,
    arm: &PreparedArm,
    step: Step,
    order: u32,
) -> Result<Round, CannotProfile> {
    let mut round = blank_round(&arm.arm.name, step.probes);
    round.order = order;
    round.pair = step.pair;
    round.role = step.role;
    if step.server == Server::Null {
        round.arm.clear();
    }
    let mut server = match Running::start(arm, &mut stage.ground) {
        Ok(server) => server,
        Err(error) => {
            round.failed = Some(format!("{error:#}"));
            return Ok(round);
        }
    };
    if let Err(error) = parity::prime(stage, &arm.arm, &server) {
        round.failed = Some(server.ended().unwrap_or_else(|| format!("{error:#}")));
        server.stop(stage.ground.guard);
        return Ok(round);
    }
    // Before the profiler comes, so that what is found is not ours.
    let look = tracers::look(stage.access, &stage.ground.cpus.client, &server.pids());
    stage.tracers.merge(look);
    let mut blind = false;
    let measured = measure(stage, &server, step, &mut blind);
    // A server that died explains what the halves saw.
    let died = server.ended();
    server.stop(stage.ground.guard);
    match measured {
        Ok(measured) => {
            round.failed = died
                .or_else(|| measured.load.ended_early.clone())
                .or_else(|| beside_the_load(&measured));
            round.window = Some(measured.load.window);
            round.profile_requests = measured
                .profile
                .as_ref()
                .map(|profile| requests_in(&measured.load, profile, &stage.plan.scenario));
            round.server_cpu = measured.server_cpu;
            round.machine_cpu = measured.machine_cpu;
            round.profile = measured.profile;
            round.hops = measured.hops;
            round.load = Some(measured.load);
        }
        Err(error) if blind && exit_code_of(&error) == recording::exit_code::CANNOT_MEASURE => {
            return Err(CannotProfile(format!("{error:#}")));
        }
        Err(error) => round.failed = Some(died.unwrap_or_else(|| format!("{error:#}"))),
    }
    Ok(round)
}

/// The denominator of "per request": where the window is a number of requests exactly those between the
/// two barriers, else the completions between the two copies of the counters.
fn requests_in(load: &Load, profile: &Profile, scenario: &Scenario) -> f64 {
    if requests_of(scenario).is_some() {
        (load.ledger.ok + load.ledger.failed_total()) as f64
    } else {
        load.timeline.completed_in(profile.window)
    }
}

/// Requests of a window that is a number of them.
fn requests_of(scenario: &Scenario) -> Option<u64> {
    scenario.lock_step_requests.or(scenario.requests)
}

struct Measured {
    load: Load,
    profile: Option<Profile>,
    server_cpu: Option<ServerCpu>,
    machine_cpu: Option<MachineCpu>,
    hops: Vec<HopProcesses>,
}

/// A profile that says nothing about the load: it came too late, or somebody else answered, as there
/// is not a single system call.
fn beside_the_load(measured: &Measured) -> Option<String> {
    let profile = measured.profile.as_ref()?;
    let load = &measured.load;
    if profile.window.start_ns >= load.window.end_ns {
        return Some(MISSED.to_owned());
    }
    let calls: u64 = profile.calls.iter().map(|row| row.count).sum();
    if load.ledger.ok == 0 || calls > 0 || profile.detail == recording::Detail::Floor {
        return None;
    }
    let seen = surely_completed_in(&load.timeline, profile.window);
    if seen < 1.0 {
        return Some(MISSED.to_owned());
    }
    Some(format!(
        "{seen:.0} requests were answered while the profiled processes made no system call, so they \
         are not the server; keep the server in the foreground, or choose its processes"
    ))
}

/// Completions in a window, without the bins that its edges cut: when in such a bin a response came
/// is not known.
fn surely_completed_in(timeline: &Timeline, window: Window) -> f64 {
    timeline.completed_in(Window {
        start_ns: window.start_ns.saturating_add(timeline.bin_ns),
        end_ns: window.end_ns.saturating_sub(timeline.bin_ns),
    })
}

/// Loads the server, and profiles it where the round has probes.
///
/// `blind` is set where it is the profiler that failed.
fn measure(
    stage: &Stage<'_>,
    server: &Running,
    step: Step,
    blind: &mut bool,
) -> anyhow::Result<Measured> {
    let interrupt = stage.ground.interrupt;
    let lock_step = stage.plan.scenario.lock_step_requests.is_some();
    let mut load = start_load(stage, server, step.role)?;
    let mut profiler = match step.probes {
        Probes::On => start_profiler(stage, server).inspect_err(|_| *blind = true)?,
        Probes::Off => None,
    };
    let deadline = Instant::now() + longest_round(&stage.plan.scenario);
    load.tell(Command::Go);
    let mut cpu_start: Option<CpuReading> = None;
    let mut machine_start = None;
    let (mut server_cpu, mut machine_cpu) = (None, None);
    let mut profile = None;
    let mut hops = Vec::new();
    loop {
        match load.next(deadline, Some(interrupt))? {
            Message::Phase {
                phase: LoadPhase::Measure,
                barrier,
                ..
            } => {
                if let Some(profiler) = &mut profiler {
                    profiler.tell(Command::Open { quiet: lock_step });
                    expect_opened(profiler, deadline)?;
                }
                cpu_start = Some(read_cpu(&server.pids()));
                machine_start = CpusReading::take(&stage.ground.cpus.server);
                if barrier {
                    load.tell(Command::Go);
                }
            }
            Message::Phase {
                phase: LoadPhase::Drain,
                barrier,
                ..
            } => {
                let machine_end = CpusReading::take(&stage.ground.cpus.server);
                machine_cpu = machine_start
                    .as_ref()
                    .zip(machine_end)
                    .and_then(|(start, end)| end.since(start));
                let cpu_end = read_cpu(&server.pids());
                server_cpu = cpu_start
                    .as_ref()
                    .and_then(|start| cpu_between(start, &cpu_end));
                hops = server.hops();
                if let Some(profiler) = &mut profiler {
                    profiler.tell(Command::Close { quiet: lock_step });
                    profile = Some(expect_profile(profiler, deadline)?);
                }
                if barrier {
                    load.tell(Command::Go);
                }
            }
            Message::LoadDone(load) => {
                return Ok(Measured {
                    load: *load,
                    profile,
                    server_cpu,
                    machine_cpu,
                    hops,
                });
            }
            _ => {}
        }
    }
}

fn start_load(stage: &Stage<'_>, server: &Running, role: RoundRole) -> anyhow::Result<Half> {
    let scenario = &stage.plan.scenario;
    let birth = Birth {
        identity: stage.identity.cloned(),
        cpus: Some(stage.ground.cpus.client.clone()),
        session: true,
    };
    let seconds = |ns: u64| format!("{}ns", ns.max(1));
    let mut arguments: Vec<String> = vec!["load".into(), server.url.clone(), "--control".into()];
    arguments.extend(wire::options(stage.plan, stage.ground.workspace));
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    let connections = match role {
        RoundRole::MoreConnections { connections } => connections,
        _ => scenario.connections,
    };
    option("--connections", connections.to_string());
    if let RoundRole::EqualRate { rate_rps } = role {
        option("--rate", rate_rps.to_string());
    }
    option("--threads", scenario.client_threads.to_string());
    // A trial may find one thing for one server and another for the next, and whether the client has to be
    // woken by each response is a third of what some servers spend on softirqs.
    option("--pauses", "always".into());
    if let Some(timeout) = stage.plan.timeout {
        option("--timeout", format!("{}ns", timeout.as_nanos()));
    }
    option("--interval", "100ms".into());
    let window = requests_of(scenario);
    if let Some(requests) = window {
        let warmup = scenario.warmup_requests.unwrap_or(LOCK_STEP_WARMUP);
        option("--requests", requests.to_string());
        option("--warmup-requests", warmup.to_string());
    }
    if let Some(duration_ns) = scenario.duration_ns {
        option("--duration", seconds(duration_ns));
        option("--warmup", seconds(scenario.warmup_ns));
    }
    if let Some(requests) = scenario.requests_per_connection {
        option("--requests-per-connection", requests.to_string());
    }
    if let Some(streams) = scenario.streams {
        option("--streams", streams.to_string());
    }
    if scenario.tls.as_ref().is_some_and(|tls| tls.resumption) {
        option("--resumption", "resume".into());
    }
    if server.is_ours() && !stage.sources.is_empty() {
        let sources = stage.sources.iter().map(Ipv4Addr::to_string);
        option("--source", sources.collect::<Vec<_>>().join(","));
    }
    // A rate and permission to begin exclude each other.
    if window.is_some() && !matches!(role, RoundRole::EqualRate { .. }) {
        arguments.push("--barriers".into());
    }
    let mut command = Program::own(stage.identity)?.command(&birth);
    command.args(arguments).current_dir("/");
    Half::start("load", &mut command, HELLO_PATIENCE)
}

fn start_profiler(stage: &Stage<'_>, server: &Running) -> anyhow::Result<Option<Half>> {
    let Some(mut command) = stage.access.profiler(&stage.ground.cpus.client)? else {
        return Ok(None);
    };
    let detail = match stage.plan.detail {
        recording::Detail::Floor => "floor",
        recording::Detail::Counts => "counts",
        recording::Detail::Times => "times",
        recording::Detail::Sched => "sched",
        recording::Detail::Stacks => "stacks",
    };
    command
        .arg("profile")
        .arg("--control")
        .args(["--detail", detail]);
    if stage.plan.tls_time {
        command.arg("--tls");
    }
    if let Some(duration_ns) = stage.plan.scenario.duration_ns {
        let interval_ns = (duration_ns / PROFILE_SLICES).max(SHORTEST_SLICE_NS);
        command.args(["--interval", &format!("{interval_ns}ns")]);
    }
    command.args(&server.profile_options);
    // Whoever is asked for a password takes as long as people do.
    let patience = match stage.access {
        Access::Sudo { ask: true, .. } => Duration::from_mins(2),
        _ => HELLO_PATIENCE,
    };
    let mut half = Half::start("profile", &mut command, patience)?;
    match half.next(Instant::now() + HELLO_PATIENCE, None)? {
        Message::Ready { .. } => Ok(Some(half)),
        other => anyhow::bail!("the profile half said {other:?} instead of being ready"),
    }
}

fn expect_opened(profiler: &mut Half, deadline: Instant) -> anyhow::Result<()> {
    loop {
        match profiler.next(deadline, None)? {
            Message::Opened { .. } => return Ok(()),
            Message::ProfileDone(profile) => anyhow::bail!(
                "the profile ended before the window: {}",
                profile.ended_early.as_deref().unwrap_or("no reason given")
            ),
            _ => {}
        }
    }
}

fn expect_profile(profiler: &mut Half, deadline: Instant) -> anyhow::Result<Profile> {
    loop {
        if let Message::ProfileDone(profile) = profiler.next(deadline, None)? {
            return Ok(*profile);
        }
    }
}

/// A round that takes longer hangs.
fn longest_round(scenario: &Scenario) -> Duration {
    let asked = scenario.warmup_ns + scenario.duration_ns.unwrap_or(0);
    // A request that takes 10 ms is slower than any server meant here, even one at a time.
    let by_count = requests_of(scenario).map_or(0, |n| n.saturating_mul(10_000_000));
    Duration::from_nanos(asked.saturating_add(by_count)) + Duration::from_mins(1)
}

/// How long a child of ours may take to say hello.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Attempts at a round that the profiler was too late for.
const MISSED_MAX: u32 = 3;
const MISSED: &str = "the window of the load was over before that of the profiler began: the machine is too busy, or \
                      the window too short (--duration)";
/// Slices of a profile: enough to see calls per request over time, few enough to cost nothing.
const PROFILE_SLICES: u64 = 10;
/// In a shorter slice the requests at its edges would show.
const SHORTEST_SLICE_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Only bins that are whole inside of a window count, and a window before or after everything
    /// has none.
    #[test]
    fn edges_do_not_count() {
        let timeline = Timeline {
            start_ns: 1000,
            bin_ns: 10,
            completed: vec![5; 4],
        };
        let count = |start_ns, end_ns| surely_completed_in(&timeline, Window { start_ns, end_ns });
        assert!((count(990, 1050) - 20.0).abs() < 1e-9);
        assert!((count(1000, 1040) - 10.0).abs() < 1e-9);
        for (start_ns, end_ns) in [(1039, 2000), (0, 1000), (1015, 1025), (0, 5), (7, 7)] {
            assert!(count(start_ns, end_ns).abs() < 1e-9, "{start_ns} {end_ns}");
        }
    }
}
