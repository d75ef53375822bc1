//! What limited each arm at saturation: the question that has to be answered before a ratio means
//! anything.

use recording::{ArmLimit, ArmLimiter, Probes, Recording, RecordingKind};

use crate::attribution;
use crate::figures::percent;
use crate::gates::{Saturation, client_busy, machine_busy, saturation, server_busy};
use crate::metrics::good_rounds;

/// The limiter of every arm of a comparison with good rounds.
pub(crate) fn limiters(recording: &Recording) -> Vec<ArmLimiter> {
    if recording.kind != RecordingKind::Compare {
        return Vec::new();
    }
    recording
        .arms
        .iter()
        .filter(|arm| {
            let mut rounds = good_rounds(recording, &arm.name, Probes::Off);
            rounds.next().is_some()
        })
        .map(|arm| limiter(recording, &arm.name))
        .collect()
}

fn limiter(recording: &Recording, arm: &str) -> ArmLimiter {
    let named = |limit, why| ArmLimiter {
        arm: arm.to_owned(),
        limit,
        why,
    };
    let probed = good_rounds(recording, arm, Probes::On)
        .any(|round| round.profile.as_ref().is_some_and(|p| p.cpus.is_some()));
    let idle = attribution::of_arm(recording, arm)
        .filter(|_| probed)
        .map(|demand| demand.idle)
        .unwrap_or_default();
    let share = |cause: &str| idle.get(cause).copied().unwrap_or(0.0);
    let busy = machine_busy(recording, arm).or_else(|| server_busy(recording, arm));
    let cpus = busy.map_or("CPUs not known".to_owned(), |share| {
        format!("CPUs {} busy", percent(share))
    });
    let throttled = share("idle.throttled");
    if throttled >= MATTERS {
        let held = percent(throttled);
        return named(
            ArmLimit::Throttled,
            format!("throttled by a quota {held} of the time, {cpus}"),
        );
    }
    match saturation(recording, arm) {
        Saturation::Server => return named(ArmLimit::ServerCpu, cpus),
        Saturation::Client => {
            let client = client_busy(recording, arm).map_or(String::new(), |share| {
                format!(", client {} busy", percent(share))
            });
            return named(ArmLimit::Client, format!("client-limited: {cpus}{client}"));
        }
        Saturation::Neither | Saturation::Unknown => {}
    }
    let labels = [
        ("idle.blocked", ArmLimit::Blocked, "blocked in calls"),
        ("idle.parked", ArmLimit::Lock, "threads waiting on futexes"),
        (
            "idle.runnable_elsewhere",
            ArmLimit::Placement,
            "a thread waiting for another CPU",
        ),
    ];
    let largest = labels
        .into_iter()
        .map(|(cause, limit, words)| (share(cause), limit, words))
        .max_by(|x, y| x.0.total_cmp(&y.0))
        .filter(|(found, ..)| *found >= MATTERS && *found > share("idle.waiting"));
    match largest {
        Some((found, limit, words)) => named(limit, format!("{cpus}, {words} {}", percent(found))),
        None => named(ArmLimit::Unknown, cpus),
    }
}

/// Share of the CPUs' time from which a reason to be idle is named.
const MATTERS: f64 = 0.05;
