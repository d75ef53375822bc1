//! Gates on the measurement: errors, the client, the probes, and what was lost.

use recording::{Detail, Gate, Probes, Recording};

use super::{CLIENT_SATURATED, ERROR_SHARE_LIMIT, Finding, LOST_SHARE_LIMIT, SERVER_SATURATED};
use crate::figures::{counted, percent, ratio};
use crate::join::ArmFigures;
use crate::metrics::{PROBES_THROUGHPUT, good_rounds};

/// G5: failed requests as a share of all finished ones, over good rounds of either kind.
pub(super) fn errors(recording: &Recording) -> Gate {
    let shares: Vec<(&str, f64, u64)> = recording
        .arms
        .iter()
        .filter_map(|arm| {
            let (ok, failed) = finished(recording, &arm.name);
            let all = (ok + failed) as f64;
            (all > 0.0).then(|| (arm.name.as_str(), failed as f64 / all, failed))
        })
        .collect();
    let finding = if shares.is_empty() || shares.len() < recording.arms.len() {
        Finding::not_measured("no finished request on every arm", "")
    } else {
        let value = shares
            .iter()
            .map(|(arm, share, failed)| format!("{arm} {failed} ({})", percent(*share)))
            .collect::<Vec<_>>()
            .join(", ");
        if shares
            .iter()
            .all(|(_, share, _)| *share <= ERROR_SHARE_LIMIT)
        {
            Finding::ok(value)
        } else {
            Finding::refuse(
                value,
                "look at the failures by class (whyfast load URL), then repair the server or \
                 lower the load: fewer connections (-c), a longer --timeout"
                    .to_owned(),
            )
        }
    };
    finding.gate("G5", "errors", "at most 0.01% of requests fail")
}

/// G6: whether the client may be the limiter. CPU time of the server's processes is a lower bound
/// of how busy its CPUs are, so "client-limited" is never established here, only not excluded.
pub(super) fn client_saturation(recording: &Recording) -> Gate {
    let shares: Vec<(&str, Option<f64>, Option<f64>)> = recording
        .arms
        .iter()
        .map(|arm| {
            let name = arm.name.as_str();
            (
                name,
                server_busy(recording, name),
                client_busy(recording, name),
            )
        })
        .collect();
    let finding = if by_count(recording) {
        Finding::not_measured("one request at a time saturates nothing", "")
    } else if shares
        .iter()
        .any(|(_, server, client)| server.is_none() || client.is_none())
    {
        Finding::not_measured(
            "CPU time of the server or its CPUs are not known",
            "let the scenario pin the servers",
        )
    } else {
        let describe = |share: Option<f64>| share.map_or("-".to_owned(), percent);
        let value = shares
            .iter()
            .map(|(arm, server, client)| {
                format!(
                    "{arm}: server {}, client {}",
                    describe(*server),
                    describe(*client)
                )
            })
            .collect::<Vec<_>>()
            .join("; ");
        let free = |server: Option<f64>, client: Option<f64>| {
            server.is_some_and(|share| share >= SERVER_SATURATED)
                || client.is_some_and(|share| share < CLIENT_SATURATED)
        };
        if shares
            .iter()
            .all(|(_, server, client)| free(*server, *client))
        {
            Finding::ok(value)
        } else {
            Finding::warn(
                value,
                "the client may be the limiter: read CPU per request first, give the client more \
                 CPUs, or the servers fewer",
            )
        }
    };
    finding.gate(
        "G6",
        "client saturation",
        "server CPUs at least 97% busy, or the busiest client thread below 90%",
    )
}

/// G9: other work on the machine, as the load average tells it. What ran just before counts too.
pub(super) fn quiet_machine(recording: &Recording) -> Gate {
    let host = &recording.host;
    let finding = match host.load_average_centi {
        None => Finding::not_measured("the load average at the start is not known", ""),
        Some(centi) => {
            let load = f64::from(centi) / 100.0;
            let cpus = counted(host.cpus as usize, "CPU");
            let value = format!("load average {load:.2} at the start, {cpus}");
            if load > QUIET_SHARE * f64::from(host.cpus) + QUIET_ALLOWANCE {
                Finding::warn(value, "stop other work")
            } else {
                Finding::ok(value)
            }
        }
    };
    finding.gate(
        "G9",
        "quiet machine",
        "load average at most half of the CPUs and 0.5 more",
    )
}

/// G10: needs rounds of a second copy of the first arm.
pub(super) fn a_a_control() -> Gate {
    Finding::not_measured("no A/A rounds were run: the verdict is indicative", "").gate(
        "G10",
        "A/A control",
        "the interval of A/A contains 1 and is narrow",
    )
}

/// G11: throughput with probes over throughput without.
pub(super) fn probe_cost(recording: &Recording) -> Gate {
    let times = recording
        .rounds
        .iter()
        .filter_map(|round| round.profile.as_ref())
        .any(|profile| profile.detail >= Detail::Times);
    let (limit, title) = if times {
        (0.85, "times")
    } else {
        (0.90, "counts")
    };
    let ratios: Vec<(&str, f64)> = recording
        .comparisons
        .iter()
        .filter(|comparison| comparison.metric == PROBES_THROUGHPUT)
        .map(|comparison| (comparison.a.as_str(), comparison.ratio))
        .collect();
    let finding = if by_count(recording) {
        Finding::not_measured("rounds in lock-step have no counterpart without probes", "")
    } else if ratios.is_empty() {
        Finding::not_measured(
            "no good rounds with and without probes",
            "run as root (sudo), so that rounds with probes are run",
        )
    } else {
        let value = ratios
            .iter()
            .map(|(arm, value)| format!("{arm} {}", ratio(*value)))
            .collect::<Vec<_>>()
            .join(", ");
        if ratios.iter().all(|(_, value)| *value >= limit) {
            Finding::ok(value)
        } else {
            let fix = if times {
                "probe less: --detail counts"
            } else {
                "read counts, not times"
            };
            Finding::warn(value, fix)
        }
    };
    finding.gate(
        "G11",
        "probe cost",
        &format!("throughput with probes at least {limit:.2} of without, at detail {title}"),
    )
}

/// G12: events that are missing from the counts.
pub(super) fn lost_events(figures: &[ArmFigures]) -> Gate {
    let shares: Vec<(&str, f64, u64)> = figures
        .iter()
        .filter_map(|arm| {
            arm.lost_share
                .map(|share| (arm.arm.as_str(), share, arm.lost))
        })
        .collect();
    let finding = if shares.is_empty() {
        Finding::not_measured("nothing was profiled", "run as root (sudo)")
    } else if shares
        .iter()
        .all(|(_, share, _)| *share <= LOST_SHARE_LIMIT)
    {
        let lost: u64 = shares.iter().map(|(.., lost)| lost).sum();
        Finding::ok(if lost == 0 {
            "lost nothing".to_owned()
        } else {
            format!(
                "lost {}",
                counted(usize::try_from(lost).unwrap_or(usize::MAX), "event")
            )
        })
    } else {
        let value = shares
            .iter()
            .map(|(arm, share, lost)| format!("{arm} lost {lost} ({})", percent(*share)))
            .collect::<Vec<_>>()
            .join(", ");
        Finding::warn(
            value,
            "counts per request are hidden; probe less: --detail counts",
        )
    };
    finding.gate(
        "G12",
        "lost events",
        "at most 0.001% of events, else counts are hidden",
    )
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
fn by_count(recording: &Recording) -> bool {
    let scenario = recording.scenario.as_ref();
    scenario.is_some_and(|scenario| scenario.lock_step_requests.is_some())
}

/// Ok and failed requests of an arm over its good rounds.
fn finished(recording: &Recording, arm: &str) -> (u64, u64) {
    let both = [Probes::Off, Probes::On];
    both.into_iter()
        .flat_map(|probes| good_rounds(recording, arm, probes))
        .filter_map(|round| round.load.as_ref())
        .fold((0, 0), |(ok, failed), load| {
            (ok + load.ledger.ok, failed + load.ledger.failed_total())
        })
}

/// Share of the CPUs that other work may have kept busy in the last minute.
const QUIET_SHARE: f64 = 0.5;
/// Load average that is allowed besides: the run's own preparation counts too.
const QUIET_ALLOWANCE: f64 = 0.5;

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
