//! Which rounds are left out although they did not fail. The rule is fixed before any run and looks at the
//! machine alone, never at a result.

use recording::{Recording, Round, RoundRole};

use crate::figures::percent;
use crate::gates::{foreign_time, pinned_apart};

/// Leaves those rounds out of every statistic in which others had more than 5 % of the server's CPUs, and
/// says so in each; their pairs are then not used either, on both sides.
///
/// Where that is more than a quarter of the rounds of an arm, none is left out: then it is no disturbance
/// but how the machine is (or work that the server makes others do), and gate G9 says so.
pub fn leave_out_disturbed(recording: &mut Recording) {
    for round in &mut recording.rounds {
        let by_rule = |why: &String| why.starts_with(DISTURBED);
        round.excluded = round.excluded.take().filter(|why| !by_rule(why));
    }
    // A client on the same CPUs is no disturbance.
    if !pinned_apart(recording)
        || recording
            .arms
            .iter()
            .any(|arm| is_usual(recording, &arm.name))
    {
        return;
    }
    for round in &mut recording.rounds {
        let share = disturbance(round).filter(|_| round.excluded.is_none());
        if let Some(share) = share {
            round.excluded = Some(format!(
                "{DISTURBED}: others had {} of the server's CPUs, limit {}",
                percent(share),
                percent(FOREIGN_LIMIT)
            ));
        }
    }
}

/// Whether so many rounds of an arm are disturbed that it is no exception.
fn is_usual(recording: &Recording, arm: &str) -> bool {
    let judged = |round: &&Round| round.arm == arm && foreign_time(round).is_some();
    let rounds = recording.rounds.iter().filter(judged);
    let (disturbed, all) = rounds.fold((0_u32, 0_u32), |(disturbed, all), round| {
        (disturbed + u32::from(disturbance(round).is_some()), all + 1)
    });
    f64::from(disturbed) > USUAL * f64::from(all)
}

/// The share of others, where it is above the limit.
fn disturbance(round: &Round) -> Option<f64> {
    let (foreign_ns, capacity_ns) = foreign_time(round)?;
    let judged = round.failed.is_none() && round.role != RoundRole::NullServer;
    let share = foreign_ns / capacity_ns;
    (judged && share > FOREIGN_LIMIT).then_some(share)
}

/// What a reason by this rule begins with.
const DISTURBED: &str = "disturbed";
/// Share of the server's CPUs: twice the half-width that a published interval is to have at most (method:
/// 2 % and more), and five times what gate G9 allows on average.
const FOREIGN_LIMIT: f64 = 0.05;
/// Share of the rounds of an arm that can be an exception.
const USUAL: f64 = 0.25;
