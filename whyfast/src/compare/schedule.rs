//! The order of rounds, what each is for, and when to stop. Pure.

use std::time::Duration;

use recording::{Probes, RoundRole};

/// One round to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) server: Server,
    pub(crate) pair: u32,
    pub(crate) probes: Probes,
    pub(crate) role: RoundRole,
}

/// Whose round it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The arm with this index.
    Arm(usize),
    /// A minimal responder.
    Null,
}

/// Which rounds a pair has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) arms: usize,
    /// Windows with and without probes; lock-step has the first kind only.
    pub(crate) kinds: Vec<Probes>,
    /// Whether a second copy of the first arm runs in every pair: the A/A control.
    pub(crate) control: bool,
    /// Connections of the rounds that ask whether more of them raise throughput.
    pub(crate) more_connections: Option<u32>,
}

impl Schedule {
    /// The rounds of a pair: each kind of round runs all arms next to each other, and every other
    /// such block runs backwards (A B, B A), so that a drift of the machine hits all sides alike.
    pub(crate) fn pair(&self, pair: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, &probes) in self.kinds.iter().enumerate() {
            let mut block = self.block(pair, probes, RoundRole::Main);
            if self.control && probes == Probes::Off {
                block.push(Step {
                    role: RoundRole::Aa,
                    ..block[0]
                });
            }
            steps.extend(turned(block, pair as usize + index));
        }
        if let Some(connections) = self.more_connections.filter(|_| pair < MORE_PAIRS) {
            let role = RoundRole::MoreConnections { connections };
            steps.extend(turned(self.block(pair, Probes::Off, role), pair as usize));
        }
        steps
    }

    /// One round of each arm at a rate.
    pub(crate) fn equal_rate(&self, pair: u32, rate_rps: f64) -> Vec<Step> {
        let role = RoundRole::EqualRate { rate_rps };
        turned(self.block(pair, Probes::Off, role), pair as usize)
    }

    fn block(&self, pair: u32, probes: Probes, role: RoundRole) -> Vec<Step> {
        let arms = 0..self.arms;
        arms.map(|arm| Step {
            server: Server::Arm(arm),
            pair,
            probes,
            role,
        })
        .collect()
    }
}

fn turned(mut block: Vec<Step>, index: usize) -> Vec<Step> {
    if index % 2 == 1 {
        block.reverse();
    }
    block
}

/// When there are enough pairs. Never because a difference shows: whoever stops then declares too
/// many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StopRule {
    pub(crate) pairs_min: u32,
    pub(crate) pairs_max: u32,
    /// Relative half-width of the interval that is narrow enough; `None` runs the least pairs.
    pub(crate) half_width_target: Option<f64>,
    /// No pair begins that would end after this time, once there are the least pairs.
    pub(crate) budget: Option<Duration>,
}

impl StopRule {
    /// A fixed number of pairs.
    pub(crate) fn fixed(pairs: u32) -> Self {
        Self {
            pairs_min: pairs,
            pairs_max: pairs,
            half_width_target: None,
            budget: None,
        }
    }

    /// Whether another pair is to be run after so many, which took so long; `half_width` is that of
    /// the widest interval now.
    pub(crate) fn goes_on(self, pairs: u32, elapsed: Duration, half_width: Option<f64>) -> bool {
        if pairs < self.pairs_min {
            return true;
        }
        let wide = self
            .half_width_target
            .is_some_and(|target| half_width.is_none_or(|half_width| half_width > target));
        let next_end = elapsed + elapsed / pairs.max(1);
        wide && pairs < self.pairs_max && self.budget.is_none_or(|budget| next_end <= budget)
    }
}

/// Relative half-width of the interval of a ratio.
pub(crate) fn half_width((low, high): (f64, f64)) -> f64 {
    (high / low).sqrt() - 1.0
}

/// Pairs that are run with more connections as well: enough to see 3 %.
const MORE_PAIRS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(arms: usize, kinds: &[Probes]) -> Schedule {
        Schedule {
            arms,
            kinds: kinds.to_vec(),
            control: false,
            more_connections: None,
        }
    }

    fn order(schedule: &Schedule, pairs: u32) -> Vec<(Server, u32)> {
        (0..pairs)
            .flat_map(|pair| schedule.pair(pair))
            .map(|step| (step.server, step.pair))
            .collect()
    }

    /// Pairs alternate their order, so each arm runs first equally often.
    #[test]
    fn rounds_run_in_abba_order() {
        let [a, b] = [Server::Arm(0), Server::Arm(1)];
        assert_eq!(
            order(&schedule(2, &[Probes::Off]), 2),
            [(a, 0), (b, 0), (b, 1), (a, 1)]
        );
        assert_eq!(
            order(&schedule(2, &[Probes::Off, Probes::On]), 2),
            [
                (a, 0),
                (b, 0),
                (b, 0),
                (a, 0),
                (b, 1),
                (a, 1),
                (a, 1),
                (b, 1)
            ]
        );
    }

    /// Every arm has one round of each kind in each pair, and the first one a second copy where
    /// there is a control, as far from it as the block allows.
    #[test]
    fn every_pair_is_complete() {
        let schedule = Schedule {
            control: true,
            more_connections: Some(96),
            ..schedule(3, &[Probes::Off, Probes::On])
        };
        for pair in 0..6 {
            let steps = schedule.pair(pair);
            for arm in 0..3 {
                for probes in [Probes::Off, Probes::On] {
                    let wanted = Step {
                        server: Server::Arm(arm),
                        pair,
                        probes,
                        role: RoundRole::Main,
                    };
                    assert_eq!(steps.iter().filter(|&&step| step == wanted).count(), 1);
                }
            }
            let with_role = |role| steps.iter().filter(move |step| step.role == role);
            let control: Vec<&Step> = with_role(RoundRole::Aa).collect();
            assert_eq!(control.len(), 1);
            assert_eq!(control[0].server, Server::Arm(0));
            assert_eq!(control[0].probes, Probes::Off);
            let more = with_role(RoundRole::MoreConnections { connections: 96 }).count();
            assert_eq!(more, if pair < MORE_PAIRS { 3 } else { 0 });
        }
    }

    /// It stops when the interval is narrow, at the most pairs or at the budget, and never before the
    /// least pairs.
    #[test]
    fn stops_on_width_and_budget() {
        let rule = StopRule {
            pairs_min: 10,
            pairs_max: 40,
            half_width_target: Some(0.01),
            budget: Some(Duration::from_secs(1000)),
        };
        let seconds = Duration::from_secs;
        assert!(rule.goes_on(9, seconds(5000), Some(0.0)));
        assert!(rule.goes_on(10, seconds(100), Some(0.011)));
        assert!(rule.goes_on(10, seconds(100), None));
        assert!(!rule.goes_on(10, seconds(100), Some(0.01)));
        assert!(!rule.goes_on(40, seconds(100), Some(0.5)));
        // One more pair would take 100 seconds.
        assert!(rule.goes_on(10, seconds(900), Some(0.5)));
        assert!(!rule.goes_on(10, seconds(950), Some(0.5)));
        assert!(!StopRule::fixed(6).goes_on(6, seconds(0), None));
        assert!((half_width((0.99, 1.0099)) - 0.01).abs() < 1e-4);
    }
}
