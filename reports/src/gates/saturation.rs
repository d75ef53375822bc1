//! The gate on the client, and who was busy: a comparison at saturation is one of servers only where
//! the servers are saturated.

use std::fmt::Write as _;

use recording::{Gate, Probes, Recording, Round, RoundRole};

use super::{CLIENT_SATURATED, Finding, SERVER_SATURATED, machine_busy};
use crate::attribution;
use crate::figures::percent;
use crate::layout::WRITES;
use crate::metrics::{Metric, good_rounds, is_good};

/// Who limits an arm, as far as the client and the CPUs of the server tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saturation {
    /// The server's CPUs are busy: it is the limiter, whatever the client does.
    Server,
    /// The client is the limiter.
    Client,
    /// Neither is busy, and the client is not the reason.
    Neither,
    /// The figures do not tell.
    Unknown,
}

/// What limits an arm.
pub(crate) fn saturation(recording: &Recording, arm: &str) -> Saturation {
    if by_count(recording) {
        return Saturation::Unknown;
    }
    let server = machine_busy(recording, arm).or_else(|| server_busy(recording, arm));
    let client = client_busy(recording, arm);
    let (Some(server), Some(client)) = (server, client) else {
        return Saturation::Unknown;
    };
    if server >= SERVER_SATURATED {
        return Saturation::Server;
    }
    let waiting = waiting_share(recording, arm);
    let more = gain_of_more_connections(recording, arm);
    let starved = waiting.is_some_and(|share| share >= WAITING_SHARE)
        && more.is_some_and(|gain| gain >= MORE_GAIN);
    if client >= CLIENT_SATURATED || starved {
        Saturation::Client
    } else {
        Saturation::Neither
    }
}

/// Share of the server's CPUs that was idle because there was nothing to do.
pub(crate) fn waiting_share(recording: &Recording, arm: &str) -> Option<f64> {
    let probed = good_rounds(recording, arm, Probes::On)
        .any(|round| round.profile.as_ref().is_some_and(|p| p.cpus.is_some()));
    let demand = attribution::of_arm(recording, arm).filter(|_| probed)?;
    demand.idle.get("idle.waiting").copied()
}

/// What half as many connections more add to the throughput, as a share, over pairs of rounds.
pub(crate) fn gain_of_more_connections(recording: &Recording, arm: &str) -> Option<f64> {
    let more =
        |round: &&Round| matches!(round.role, RoundRole::MoreConnections { .. }) && is_good(round);
    let rounds = recording.rounds.iter().filter(|round| round.arm == arm);
    let (mut logs, mut count) = (0.0, 0.0);
    for round in rounds.filter(more) {
        let main = good_rounds(recording, arm, Probes::Off).find(|main| main.pair == round.pair);
        let speeds = main.and_then(|main| {
            let speed = Metric::Throughput.of(round)? / Metric::Throughput.of(main)?;
            (speed > 0.0 && speed.is_finite()).then_some(speed)
        });
        if let Some(speed) = speeds {
            logs += speed.ln();
            count += 1.0;
        }
    }
    (count > 0.0).then(|| (logs / count).exp_m1())
}

/// G6: whether the client is the limiter.
pub(super) fn client_saturation(recording: &Recording) -> Gate {
    let arms: Vec<(&str, Saturation)> = recording
        .arms
        .iter()
        .map(|arm| (arm.name.as_str(), saturation(recording, &arm.name)))
        .collect();
    let any = |wanted| arms.iter().any(|(_, found)| *found == wanted);
    let finding = if by_count(recording) {
        Finding::not_measured("one request at a time saturates nothing", "")
    } else if arms.is_empty() || any(Saturation::Unknown) {
        Finding::not_measured(
            "CPU time of the server or its CPUs are not known",
            "let the scenario pin the servers",
        )
    } else {
        let parts: Vec<String> = arms
            .iter()
            .map(|(arm, _)| describe(recording, arm))
            .collect();
        if any(Saturation::Client) {
            Finding::warn(
                parts.join("; "),
                "client-limited: the verdict is on CPU per request; give the client more CPUs or \
                 connections, or the servers fewer CPUs",
            )
        } else {
            Finding::ok(parts.join("; "))
        }
    };
    finding.gate(
        "G6",
        "client saturation",
        "server CPUs at least 97% busy; else the busiest client thread below 90%, and below 5% \
         waiting or no 3% more with half as many connections more",
    )
}

fn describe(recording: &Recording, arm: &str) -> String {
    let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
    let busy = machine_busy(recording, arm).or_else(|| server_busy(recording, arm));
    let mut text = format!(
        "{arm}: server {}, client {}",
        share(busy),
        share(client_busy(recording, arm))
    );
    if let Some(waiting) = waiting_share(recording, arm) {
        write!(text, ", waiting {}", percent(waiting)).expect(WRITES);
    }
    if let Some(gain) = gain_of_more_connections(recording, arm) {
        write!(text, ", {} with more connections", percent(gain)).expect(WRITES);
    }
    if let Some(share) = ceiling_share(recording, arm) {
        write!(text, ", {} of the ceiling", percent(share)).expect(WRITES);
    }
    text
}

/// Throughput of an arm as a share of what the client reaches against a server that does nothing:
/// printed, never judged.
pub(crate) fn ceiling_share(recording: &Recording, arm: &str) -> Option<f64> {
    let mean = |rounds: Vec<f64>| {
        (!rounds.is_empty()).then(|| rounds.iter().sum::<f64>() / rounds.len() as f64)
    };
    let ceiling = recording
        .rounds
        .iter()
        .filter(|round| round.role == RoundRole::NullServer && is_good(round))
        .filter_map(|round| Metric::Throughput.of(round));
    let own = good_rounds(recording, arm, Probes::Off).filter_map(|r| Metric::Throughput.of(r));
    let ceiling = mean(ceiling.collect()).filter(|rps| *rps > 0.0)?;
    Some(mean(own.collect())? / ceiling)
}

/// CPU time of the server as a share of its CPUs over rounds without probes; `None` where either
/// is not known.
pub(crate) fn server_busy(recording: &Recording, arm: &str) -> Option<f64> {
    let cpus = cpu_count(recording.scenario.as_ref()?.server_cpus.as_deref()?)?;
    let (mut busy_ns, mut window_ns) = (0.0, 0.0);
    for cpu in good_rounds(recording, arm, Probes::Off).filter_map(|r| r.server_cpu.as_ref()) {
        busy_ns += cpu.total_ns as f64;
        window_ns += cpu.window.length_ns() as f64;
    }
    (window_ns > 0.0).then(|| busy_ns / (window_ns * f64::from(cpus)))
}

/// CPU time of the busiest client thread as a share of the window, the largest of the rounds
/// without probes.
pub(crate) fn client_busy(recording: &Recording, arm: &str) -> Option<f64> {
    good_rounds(recording, arm, Probes::Off)
        .filter_map(|round| round.load.as_ref())
        .map(|load| load.busiest_thread_share)
        .reduce(f64::max)
}

/// CPUs of a list (`0`, `2-3`, `0,2-3`); `None` for anything else.
pub(crate) fn cpu_count(list: &str) -> Option<u32> {
    list.split(',')
        .map(|part| match part.split_once('-') {
            None => part.trim().parse::<u32>().ok().map(|_| 1),
            Some((low, high)) => {
                let (low, high) = (low.trim().parse::<u32>().ok()?, high.trim().parse().ok()?);
                u32::checked_sub(high, low)?.checked_add(1)
            }
        })
        .try_fold(0, |sum: u32, part| sum.checked_add(part?))
}

/// Whether rounds are a number of requests, one at a time.
pub(super) fn by_count(recording: &Recording) -> bool {
    let scenario = recording.scenario.as_ref();
    scenario.is_some_and(|scenario| scenario.lock_step_requests.is_some())
}

/// Share of its CPUs that a server has to be idle for want of requests to call the client the limiter.
const WAITING_SHARE: f64 = 0.05;
/// What more connections have to add.
const MORE_GAIN: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists as the kernel prints them, and what is none.
    #[test]
    fn counts_cpus_of_a_list() {
        assert_eq!(cpu_count("0"), Some(1));
        assert_eq!(cpu_count("2-3"), Some(2));
        assert_eq!(cpu_count("0,2-5"), Some(5));
        assert_eq!(cpu_count("3-2"), None);
        assert_eq!(cpu_count("0-4294967295"), None);
        assert_eq!(cpu_count("all"), None);
        assert_eq!(cpu_count(""), None);
    }
}
