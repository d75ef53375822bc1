//! What each hop of a chain costs per request: the sum over its processes, and what is left over.
//!
//! CPU time is that of the process CPU clocks in rounds without probes; calls and bytes are those of the
//! groups by process in rounds with probes. Nothing is estimated: what was not measured is `None`, with
//! the reason.

use std::collections::BTreeSet;

use recording::{GroupBy, Probes, Recording, Round};

use crate::metrics::{Missing, good_rounds, requests_under_cpu, why_no_probed_round};

/// What something costs per request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU time, ns.
    pub cpu_ns: Option<f64>,
    /// System calls that returned.
    pub calls: Option<f64>,
    /// Bytes that system calls read and wrote, whatever from.
    pub bytes: Option<f64>,
}

/// The cost of one hop.
#[derive(Clone, Debug, PartialEq)]
pub struct HopCost {
    /// Name of the hop.
    pub hop: String,
    /// Its program.
    pub program: String,
    /// Per request.
    pub cost: Cost,
}

/// The cost of a chain, hop by hop.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainCost {
    /// Name of the arm.
    pub arm: String,
    /// In the order of the chain.
    pub hops: Vec<HopCost>,
    /// The sum of the hops.
    pub sum: Cost,
    /// What the arm cost as a whole: that which everything else is printed from.
    pub whole: Cost,
    /// Why something was not measured, one sentence each.
    pub not_measured: Vec<String>,
}

impl ChainCost {
    /// What belongs to no hop: processes that ended before they were looked at, and what happened
    /// while the counters were copied. Negative where the groups were copied later than the whole.
    pub fn rest(&self) -> Cost {
        let minus = |whole: Option<f64>, sum: Option<f64>| Some(whole? - sum?);
        Cost {
            cpu_ns: minus(self.whole.cpu_ns, self.sum.cpu_ns),
            calls: minus(self.whole.calls, self.sum.calls),
            bytes: minus(self.whole.bytes, self.sum.bytes),
        }
    }
}

/// The cost of every arm that is a chain.
pub fn chains(recording: &Recording) -> Vec<ChainCost> {
    let arms = recording.arms.iter().filter(|arm| !arm.hops.is_empty());
    arms.map(|arm| {
        let names: Vec<&str> = arm.hops.iter().map(|hop| hop.name.as_str()).collect();
        let mut not_measured = Vec::new();
        let cpu = Parts::add_up(&cpu_rounds(recording, &arm.name), &names, cpu_of);
        if cpu.is_none() {
            not_measured.push(format!("CPU time by hop: {NO_CPU}"));
        }
        let probed: Vec<&Round> = good_rounds(recording, &arm.name, Probes::On).collect();
        let calls = Parts::add_up(&probed, &names, calls_of);
        let bytes = Parts::add_up(&probed, &names, bytes_of);
        if calls.is_none() {
            let why = match why_no_probed_round(recording, &arm.name) {
                Some(Missing::Failed(why) | Missing::NotMeasured(why)) => why,
                None => NO_GROUPS.to_owned(),
            };
            not_measured.push(format!("calls and bytes by hop: {why}"));
        }
        let cost = |pick: &dyn Fn(&Parts) -> f64| Cost {
            cpu_ns: cpu.as_ref().map(pick),
            calls: calls.as_ref().map(pick),
            bytes: bytes.as_ref().map(pick),
        };
        ChainCost {
            arm: arm.name.clone(),
            hops: arm
                .hops
                .iter()
                .enumerate()
                .map(|(index, hop)| HopCost {
                    hop: hop.name.clone(),
                    program: hop.program.clone(),
                    cost: cost(&|parts: &Parts| parts.hops[index] / parts.requests),
                })
                .collect(),
            sum: cost(&|parts: &Parts| parts.hops.iter().sum::<f64>() / parts.requests),
            whole: cost(&|parts: &Parts| parts.whole / parts.requests),
            not_measured,
        }
    })
    .collect()
}

/// Rounds without probes, or with them where there are no others.
fn cpu_rounds<'a>(recording: &'a Recording, arm: &'a str) -> Vec<&'a Round> {
    let rounds = |probes| good_rounds(recording, arm, probes).collect::<Vec<_>>();
    let off = rounds(Probes::Off);
    if off.is_empty() {
        rounds(Probes::On)
    } else {
        off
    }
}

/// One figure of several rounds, by hop.
struct Parts {
    requests: f64,
    hops: Vec<f64>,
    whole: f64,
}

/// A figure of one round: requests, by process, and as a whole.
type Figure = (f64, Vec<(u32, u64)>, u64);

impl Parts {
    /// The sums over the rounds that have the figure; `None` where none has.
    fn add_up(
        rounds: &[&Round],
        names: &[&str],
        figure: impl Fn(&Round) -> Option<Figure>,
    ) -> Option<Self> {
        let mut sum = Self {
            requests: 0.0,
            hops: vec![0.0; names.len()],
            whole: 0.0,
        };
        for round in rounds {
            let Some((requests, by_process, whole)) = figure(round) else {
                continue;
            };
            sum.requests += requests;
            sum.whole += whole as f64;
            for (total, name) in sum.hops.iter_mut().zip(names) {
                let hops = round.hops.iter().filter(|hop| hop.hop == *name);
                let pids: BTreeSet<u32> = hops.flat_map(|hop| hop.pids.iter().copied()).collect();
                let own = by_process.iter().filter(|(pid, _)| pids.contains(pid));
                *total += own.map(|(_, value)| *value as f64).sum::<f64>();
            }
        }
        (sum.requests > 0.0).then_some(sum)
    }
}

fn cpu_of(round: &Round) -> Option<Figure> {
    let cpu = round.server_cpu.as_ref()?;
    let processes = cpu.by_process.iter();
    let by_process: Vec<(u32, u64)> = processes.map(|p| (p.pid, p.total_ns)).collect();
    let known = !by_process.is_empty() && !round.hops.is_empty();
    known.then_some((requests_under_cpu(round)?, by_process, cpu.total_ns))
}

fn calls_of(round: &Round) -> Option<Figure> {
    let whole = &round.profile.as_ref()?.calls;
    let whole = whole.iter().map(|row| row.count).sum();
    grouped(round, |call| call.count, whole)
}

fn bytes_of(round: &Round) -> Option<Figure> {
    let whole = &round.profile.as_ref()?.calls;
    let whole = whole.iter().filter_map(|row| row.bytes).sum();
    grouped(round, |call| call.bytes.unwrap_or(0), whole)
}

fn grouped(
    round: &Round,
    value: impl Fn(&recording::GroupCall) -> u64,
    whole: u64,
) -> Option<Figure> {
    let profile = round.profile.as_ref()?;
    if profile.grouped_by != Some(GroupBy::Process) || round.hops.is_empty() {
        return None;
    }
    let groups = profile.groups.iter();
    let by_process = groups.filter_map(|group| {
        let sum = group.calls.iter().map(&value).sum();
        Some((group.id?, sum))
    });
    let requests = round.profile_requests.filter(|requests| *requests > 0.0)?;
    Some((requests, by_process.collect(), whole))
}

const NO_CPU: &str =
    "no good round in which every process lived to its end and its clock could be read";
const NO_GROUPS: &str = "no good round with probes that counts by process";
