//! Gates on the measurement: errors, the probes, and what was lost.

use recording::{Detail, Gate, Probes, Recording};

use super::saturation::by_count;
use super::{ERROR_SHARE_LIMIT, Finding, LOST_SHARE_LIMIT};
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

/// G11: throughput with probes over throughput without.
pub(super) fn probe_cost(recording: &Recording) -> Gate {
    let profiles = recording.rounds.iter().filter_map(|r| r.profile.as_ref());
    let detail = profiles.map(|profile| profile.detail).max();
    let (limit, title) = match detail {
        Some(Detail::Sched) => (0.80, "sched"),
        Some(Detail::Stacks) => (0.80, "stacks"),
        Some(Detail::Times) => (0.85, "times"),
        _ => (0.90, "counts"),
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
            let fix = match detail {
                Some(Detail::Sched | Detail::Stacks) => "probe less: --detail times",
                Some(Detail::Times) => "probe less: --detail counts",
                _ => "read counts, not times",
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
