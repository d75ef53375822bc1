//! Exact counts of one arm, repeat by repeat, or the reason why there are none.

use std::collections::BTreeMap;

use recording::{Abi, CallRow, Detail, Probes, Profile, Recording, Round, Scenario};

use super::lock::error_name;
use super::{CallKey, Figures, Fixed, Key, LockError};
use crate::clean::clean;
use crate::metrics::{Metric, Missing, good_rounds, why_no_probed_round};

use recording::BudgetOutcome;

/// What was measured of one arm.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) key: Key,
    pub(super) version: Option<String>,
    pub(super) repeats: Vec<Repeat>,
}

/// One lock-step round.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    pub(super) requests: u64,
    pub(super) calls: BTreeMap<CallKey, Figures>,
    pub(super) server_cpu_us: Option<f64>,
}

/// Why there are no exact counts.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) outcome: BudgetOutcome,
    /// What was found, and the remedy.
    pub(super) why: String,
}

impl Measured {
    /// The counts of one arm of a recording.
    pub(super) fn of(recording: &Recording, arm: &str, key: &Key) -> Result<Self, Refusal> {
        let mut repeats = Vec::new();
        for round in good_rounds(recording, arm, Probes::On) {
            repeats.push(Repeat::of(round, &recording.host.arch)?);
        }
        if repeats.is_empty() {
            return Err(no_repeat(recording, arm));
        }
        let versions = recording.arms.iter().filter(|known| known.name == arm);
        Ok(Self {
            key: key.clone(),
            version: versions
                .filter_map(|arm| arm.version.as_deref())
                .map(|version| clean(version.trim()))
                .find(|version| !version.is_empty()),
            repeats,
        })
    }

    /// Requests of the shortest repeat.
    pub(super) fn requests(&self) -> u64 {
        let requests = self.repeats.iter().map(|repeat| repeat.requests);
        requests.min().unwrap_or(0)
    }

    /// Every call of any repeat.
    pub(super) fn calls(&self) -> impl Iterator<Item = &CallKey> {
        self.repeats.iter().flat_map(|repeat| repeat.calls.keys())
    }

    /// The mean of a call over the repeats.
    pub(super) fn mean(&self, call: &CallKey) -> Figures {
        let repeats = self.repeats.len() as f64;
        let rows = || {
            self.repeats
                .iter()
                .filter_map(|repeat| repeat.calls.get(call))
        };
        let mut errors: BTreeMap<String, f64> = BTreeMap::new();
        for (name, count) in rows().flat_map(|row| &row.errors) {
            *errors.entry(name.clone()).or_default() += count.value();
        }
        let bytes: Vec<f64> = rows()
            .filter_map(|row| row.bytes)
            .map(Fixed::value)
            .collect();
        Figures {
            count: Fixed::of(rows().map(|row| row.count.value()).sum::<f64>() / repeats),
            errors: errors
                .into_iter()
                .map(|(name, sum)| (name, Fixed::of(sum / repeats)))
                .collect(),
            bytes: (!bytes.is_empty())
                .then(|| Fixed::of(bytes.iter().sum::<f64>() / bytes.len() as f64)),
        }
    }
}

impl Repeat {
    fn of(round: &Round, arch: &str) -> Result<Self, Refusal> {
        let (Some(profile), Some(requests)) = (&round.profile, round.profile_requests) else {
            return Err(Refusal::not_exact("a round has no counts", REPEAT));
        };
        let failed = round
            .load
            .as_ref()
            .map_or(0, |load| load.ledger.failed_total());
        if failed > 0 {
            let found = format!("{failed} requests failed, and errors make other calls");
            return Err(Refusal::not_exact(
                &found,
                "see the errors of the server first",
            ));
        }
        if profile.lost.of_calls() > 0 {
            let found = format!("{} events were lost", profile.lost.of_calls());
            return Err(Refusal::not_exact(&found, REPEAT));
        }
        if profile.detail < Detail::Counts {
            return Err(Refusal::not_exact(
                "no calls were counted",
                "use --detail counts",
            ));
        }
        // Requests of a lock-step round are counted, so they are whole; a foreign file may say
        // anything.
        if !(1.0..=MOST_REQUESTS).contains(&requests) || requests.fract() != 0.0 {
            let found = format!("its requests are no whole number above zero: {requests}");
            return Err(Refusal::not_exact(&found, REPEAT));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number within limits"
        )]
        let whole = requests as u64;
        Ok(Self {
            requests: whole,
            calls: calls(profile, requests, arch).map_err(|error| Refusal::name(&error))?,
            server_cpu_us: Metric::ServerCpu.of(round).map(|ns| ns / 1e3),
        })
    }
}

impl Refusal {
    pub(super) fn not_exact(found: &str, remedy: &str) -> Self {
        Self {
            outcome: BudgetOutcome::NotComparable,
            why: format!("{found}; {remedy}"),
        }
    }

    pub(super) fn name(error: &LockError) -> Self {
        Self {
            outcome: BudgetOutcome::Failed,
            why: error.to_string(),
        }
    }
}

/// The load of counts that are exact: so many requests, one at a time.
pub(super) fn lock_step(recording: &Recording) -> Result<&Scenario, Refusal> {
    let scenario = recording.scenario.as_ref();
    scenario
        .filter(|scenario| scenario.lock_step_requests.is_some())
        .ok_or_else(|| {
            Refusal::not_exact(
                "the counts are not exact, because requests were not sent one at a time",
                "measure with `whyfast compare --lock-step 1000 ARM...`",
            )
        })
}

/// Why an arm has no good round.
fn no_repeat(recording: &Recording, arm: &str) -> Refusal {
    match why_no_probed_round(recording, arm) {
        Some(Missing::Failed(why)) => Refusal {
            outcome: BudgetOutcome::Failed,
            why,
        },
        Some(Missing::NotMeasured(why)) => Refusal {
            outcome: BudgetOutcome::CannotMeasure,
            why: format!("calls were not counted: {why}"),
        },
        None => Refusal::not_exact("it has no round with probes", REPEAT),
    }
}

fn calls(
    profile: &Profile,
    requests: f64,
    arch: &str,
) -> Result<BTreeMap<CallKey, Figures>, LockError> {
    let own = Abi::of_machine(arch);
    let mut calls = BTreeMap::new();
    for row in profile.calls.iter().filter(|row| row.count > 0) {
        let name = if own == Some(row.abi) {
            row.name.clone()
        } else {
            format!("{:?}:{}", row.abi, row.name).to_lowercase()
        };
        let key = CallKey::new(&name, row.on.map(recording::CallObject::word))?;
        calls.insert(key, figures(row, requests)?);
    }
    Ok(calls)
}

fn figures(row: &CallRow, requests: f64) -> Result<Figures, LockError> {
    let mut errors = BTreeMap::new();
    for (name, count) in &row.errors {
        errors.insert(error_name(name)?, Fixed::of(*count as f64 / requests));
    }
    let successful = row.count.saturating_sub(row.error_count());
    Ok(Figures {
        count: Fixed::of(row.count as f64 / requests),
        errors,
        bytes: row
            .bytes
            .filter(|_| successful > 0)
            .map(|bytes| Fixed::of(bytes as f64 / successful as f64)),
    })
}

/// More than this is not counted one at a time.
const MOST_REQUESTS: f64 = 1e12;
const REPEAT: &str = "measure again with `whyfast compare --lock-step 1000 ARM...`";
