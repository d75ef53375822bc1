//! The stacks of one server over all its rounds, and what they are divided by.

use recording::{Denominator, Probes, Profile, Recording, Round, StackClock, StackSet, Stacks};

use super::tree::{Gathered, Tree, Weight};
use crate::metrics::good_rounds;
use crate::statistics::proportion::{Z, share_error};

/// Which time of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Running.
    OnCpu,
    /// Waiting.
    OffCpu,
}

impl Time {
    /// Both, in the order of reports.
    pub(crate) const ALL: [Self; 2] = [Self::OnCpu, Self::OffCpu];

    /// In words: `on-CPU time`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::OnCpu => "on-CPU time",
            Self::OffCpu => "off-CPU time",
        }
    }
}

/// The stacks of an arm.
#[derive(Clone, Debug)]
pub(crate) struct Sampled<'a> {
    pub(crate) arm: &'a str,
    rounds: Vec<(&'a Round, &'a Profile, &'a Stacks)>,
}

/// What is known of one time of an arm beside its tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    pub(crate) time: Time,
    /// All that was stored.
    pub(crate) whole: Weight,
    /// Of it, in stacks that end early.
    pub(crate) early: Weight,
    /// Not stored.
    pub(crate) lost: u64,
    pub(crate) lost_ns: Option<u64>,
    pub(crate) clock: StackClock,
    pub(crate) hz: u32,
    /// Requests or seconds.
    pub(crate) units: f64,
    pub(crate) per: Denominator,
}

impl<'a> Sampled<'a> {
    /// The stacks of an arm; `None` where no good round has any.
    pub(crate) fn of(recording: &'a Recording, arm: &'a str) -> Option<Self> {
        let rounds: Vec<_> = good_rounds(recording, arm, Probes::On)
            .filter_map(|round| {
                let profile = round.profile.as_ref()?;
                Some((round, profile, profile.stacks.as_ref()?))
            })
            .collect();
        (!rounds.is_empty()).then_some(Self { arm, rounds })
    }

    /// Every arm that has stacks.
    pub(crate) fn all(recording: &'a Recording) -> Vec<Self> {
        let arms = recording.arms.iter();
        arms.filter_map(|arm| Self::of(recording, &arm.name))
            .collect()
    }

    /// What its times are divided by: requests, where every round counted them.
    pub(crate) fn per(&self) -> Denominator {
        if self.units(Denominator::Request).is_some() {
            Denominator::Request
        } else {
            Denominator::Second
        }
    }

    /// Requests or seconds of all rounds; `None` where a round has none.
    fn units(&self, per: Denominator) -> Option<f64> {
        let of = |(round, profile, _): &(&Round, &Profile, &Stacks)| match per {
            Denominator::Request => round.requests_under_probes(),
            Denominator::Second => Some(profile.window.seconds()),
            Denominator::Connection => None,
        };
        let units: Option<Vec<f64>> = self.rounds.iter().map(of).collect();
        let positive = |units: &f64| units.is_finite() && *units > 0.0;
        Some(units?.iter().sum()).filter(positive)
    }

    /// The sets of one time; none where a round has none.
    fn sets(&self, time: Time) -> Vec<(&'a Stacks, &'a StackSet)> {
        let rounds = self.rounds.iter();
        let sets: Option<Vec<_>> = rounds
            .map(|(_, _, stacks)| match time {
                Time::OnCpu => Some((*stacks, &stacks.on_cpu)),
                Time::OffCpu => Some((*stacks, stacks.off_cpu.as_ref()?)),
            })
            .collect();
        sets.unwrap_or_default()
    }

    /// What is known of a time; `None` where it has no stacks or cannot be divided.
    pub(crate) fn facts(&self, time: Time, per: Denominator) -> Option<Facts> {
        let sets = self.sets(time);
        let (first, _) = sets.first()?;
        let mut facts = Facts {
            time,
            whole: Weight::default(),
            early: Weight::default(),
            lost: 0,
            lost_ns: Some(0),
            clock: first.clock,
            hz: first.hz,
            units: self.units(per)?,
            per,
        };
        for (_, set) in &sets {
            facts.lost = facts.lost.saturating_add(set.lost);
            let lost_ns = facts.lost_ns.zip(set.lost_ns);
            facts.lost_ns = lost_ns.map(|(sum, more)| sum.saturating_add(more));
            for stack in &set.stacks {
                let weight = Weight {
                    count: stack.count,
                    ns: stack.ns,
                };
                facts.whole.add(weight);
                if stack.ends_early {
                    facts.early.add(weight);
                }
            }
        }
        (facts.whole.ns > 0).then_some(facts)
    }

    /// Adds the stacks of a time to a side of a tree.
    pub(crate) fn gather(&self, time: Time, into: &mut Gathered, side: usize, threads: bool) {
        for (stacks, set) in self.sets(time) {
            into.add(stacks, set, side, threads);
        }
    }

    /// The tree of a time, with the names of threads at its root.
    pub(crate) fn tree(&self, time: Time) -> Tree {
        let mut gathered = Gathered::default();
        self.gather(time, &mut gathered, 0, true);
        gathered.tree()
    }

    /// The first round's stacks: where names came from is the same in each.
    pub(crate) fn first(&self) -> &'a Stacks {
        self.rounds[0].2
    }
}

impl Facts {
    /// Time per request or second, ns.
    pub(crate) fn per_unit(&self, weight: Weight) -> f64 {
        weight.ns as f64 / self.units
    }

    /// A part of the whole, 0..=1.
    pub(crate) fn share(&self, weight: Weight) -> f64 {
        weight.ns as f64 / self.whole.ns as f64
    }

    /// By how much a share may be off, because it was sampled; `None` where every wait is counted.
    pub(crate) fn share_error(&self, weight: Weight) -> Option<f64> {
        match self.time {
            Time::OnCpu => share_error(weight.count, self.whole.count),
            Time::OffCpu => None,
        }
    }

    /// By how much a share of this size may be off; likewise.
    pub(crate) fn error_of_share(&self, share: f64) -> Option<f64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of samples"
        )]
        let count = (self.whole.count as f64 * share).round() as u64;
        let ns = 0;
        self.share_error(Weight { count, ns })
    }

    /// By how much time per unit may be off as that of a server, ns: binomial of the samples; of waits, the
    /// Poisson error of their number, which is the least that it can be.
    pub(crate) fn error_ns(&self, weight: Weight) -> f64 {
        match self.time {
            Time::OnCpu => {
                let error = share_error(weight.count, self.whole.count).unwrap_or(1.0);
                error * self.per_unit(self.whole)
            }
            Time::OffCpu => Z * self.per_unit(weight) / (weight.count.max(1) as f64).sqrt(),
        }
    }
}
