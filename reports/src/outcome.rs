//! The exit code that a recording deserves, the same words as its verdict.

use recording::{Load, Recording, RecordingKind, VerdictWord, exit_code as code};

use crate::gates::{ERROR_SHARE_LIMIT, LOST_SHARE_LIMIT};

/// Limits whose breach is an exit code of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Failed requests as a share of the finished ones (`load`).
    pub max_errors: f64,
    /// Requests of an open loop that were sent as a share of those asked for (`load`).
    pub min_rate: f64,
    /// Lost events as a share of the events seen and lost (`profile`).
    pub max_lost: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_errors: ERROR_SHARE_LIMIT,
            min_rate: RATE_SHARE_LIMIT,
            max_lost: LOST_SHARE_LIMIT,
        }
    }
}

/// The exit code of a finished run, from its recording alone.
pub fn exit_code(recording: &Recording, limits: &Limits) -> u8 {
    if let Some(partial) = &recording.partial {
        let interrupted = partial.why.starts_with("interrupted");
        return if interrupted {
            code::INTERRUPTED
        } else {
            code::FAILED
        };
    }
    match recording.kind {
        RecordingKind::Compare => compare_code(recording),
        RecordingKind::Load => load_code(recording, limits),
        RecordingKind::Profile => profile_code(recording, limits),
    }
}

fn compare_code(recording: &Recording) -> u8 {
    let lock_step = recording
        .scenario
        .as_ref()
        .is_some_and(|s| s.lock_step_requests.is_some());
    match recording.verdict.as_ref().map(|verdict| verdict.word) {
        Some(
            VerdictWord::Equivalent
            | VerdictWord::Faster
            | VerdictWord::Immaterial
            | VerdictWord::Mixed,
        ) => code::DONE,
        Some(VerdictWord::Inconclusive) => code::INCONCLUSIVE,
        Some(VerdictWord::NotComparable) => code::NOT_COMPARABLE,
        // Exact counts are the result, so every arm has to have one good round.
        None if lock_step && every_arm_has_a_good_round(recording) => code::DONE,
        // Nothing but the kernel can count, and it could not be asked.
        None if lock_step && recording.rounds.is_empty() && !recording.not_measured.is_empty() => {
            code::CANNOT_MEASURE
        }
        None => code::FAILED,
    }
}

fn every_arm_has_a_good_round(recording: &Recording) -> bool {
    recording.arms.iter().all(|arm| {
        recording
            .rounds
            .iter()
            .any(|round| round.arm == arm.name && round.failed.is_none())
    })
}

fn load_code(recording: &Recording, limits: &Limits) -> u8 {
    let loads = || {
        recording
            .rounds
            .iter()
            .filter_map(|round| round.load.as_ref())
    };
    let ok: u64 = loads().map(|load| load.ledger.ok).sum();
    let failed: u64 = loads().map(|load| load.ledger.failed_total()).sum();
    if recording.rounds.iter().any(|round| round.failed.is_some()) || ok + failed == 0 {
        code::FAILED
    } else if failed as f64 > limits.max_errors * (ok + failed) as f64
        || loads().any(|load| misses_rate(load, limits.min_rate))
    {
        code::LIMIT_BROKEN
    } else {
        code::DONE
    }
}

/// Whether a load sent less than it was asked for, or looked for a rate and found none.
fn misses_rate(load: &Load, min_rate: f64) -> bool {
    let Some(measures) = &load.measures else {
        return false;
    };
    match (&measures.search, &measures.schedule) {
        (Some(search), _) => search.highest_rps.is_none(),
        (None, Some(schedule)) => schedule.share() < min_rate,
        (None, None) => false,
    }
}

fn profile_code(recording: &Recording, limits: &Limits) -> u8 {
    let profiles = || {
        recording
            .rounds
            .iter()
            .filter_map(|round| round.profile.as_ref())
    };
    let seen: u64 = profiles()
        .flat_map(|profile| &profile.calls)
        .map(|call| call.count)
        .sum();
    let lost: u64 = profiles().map(|profile| profile.lost.of_calls()).sum();
    let failed = recording.rounds.iter().any(|round| round.failed.is_some());
    if failed || profiles().next().is_none() {
        code::FAILED
    } else if lost as f64 > limits.max_lost * (seen + lost) as f64 {
        code::LIMIT_BROKEN
    } else {
        code::DONE
    }
}

/// An open loop that sends less than this share of its rate has measured something else.
const RATE_SHARE_LIMIT: f64 = 0.9;
