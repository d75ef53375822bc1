//! The rounds of a comparison, one after the other, as far as they make sense.

use std::ops::ControlFlow;
use std::time::Instant;

use recording::{NotMeasured, Partial, Probes, Recording, RoundRole};

use crate::compare::access::Access;
use crate::compare::prepare::PreparedArm;
use crate::compare::progress::Progress;
use crate::compare::round::{self, CannotProfile, Stage};
use crate::compare::schedule::{Server, Step, half_width};
use crate::compare::tracers;
use crate::output::note;

/// Runs the rounds of the plan: the ceiling of the client, pairs until there are enough of them, and
/// rounds at equal rates.
pub(crate) fn run_all(
    stage: &mut Stage<'_>,
    prepared: &[PreparedArm],
    null: Option<&PreparedArm>,
    recording: &mut Recording,
) {
    let plan = stage.plan;
    let blind = match stage.access {
        Access::Denied(reason) => Some(reason.clone()),
        _ => None,
    };
    if let Some(reason) = &blind {
        note(&format!("not measured: {}: {}", reason.what, reason.why));
    }
    let equal_rates = plan.equal_rate_shares.len() * plan.equal_rate_pairs() as usize;
    let mut rounds = Rounds {
        stage,
        prepared,
        null,
        recording,
        blind,
        progress: Progress::begin(),
        later: equal_rates * prepared.len(),
    };
    let _broken = rounds
        .run_null()
        .is_continue()
        .then(|| rounds.run_pairs())
        .filter(ControlFlow::is_continue)
        .map(|_done| rounds.run_equal_rates());
    let blind = rounds.blind.take();
    recording.not_measured.extend(blind);
    // Once more, for who came during the last round.
    let mut look = std::mem::take(&mut stage.tracers);
    look.merge(tracers::look(stage.access, &stage.ground.cpus.client, &[]));
    tracers::store(look, recording);
}

struct Rounds<'a, 'b> {
    stage: &'a mut Stage<'b>,
    prepared: &'a [PreparedArm],
    null: Option<&'a PreparedArm>,
    recording: &'a mut Recording,
    /// Why there is no profiler, once that is known.
    blind: Option<NotMeasured>,
    progress: Progress,
    /// Rounds that come after the pairs.
    later: usize,
}

impl Rounds<'_, '_> {
    fn run_null(&mut self) -> ControlFlow<()> {
        match self.null {
            None => ControlFlow::Continue(()),
            Some(_) => self.run_step(Step {
                server: Server::Null,
                pair: 0,
                probes: Probes::Off,
                role: RoundRole::NullServer,
            }),
        }
    }

    /// Pairs, until the rule of the plan says that there are enough.
    fn run_pairs(&mut self) -> ControlFlow<()> {
        let began = Instant::now();
        let plan = self.stage.plan;
        let mut pair = 0;
        loop {
            let elapsed = began.elapsed();
            if !plan.stop.goes_on(pair, elapsed, self.half_width(pair)) {
                return ControlFlow::Continue(());
            }
            let planned = plan.stop.pairs_min.max(pair + 1);
            let left: usize = (pair..planned)
                .map(|pair| plan.schedule.pair(pair))
                .map(|steps| steps.iter().filter(|step| self.is_possible(step)).count())
                .sum();
            self.progress.expect(left + self.later);
            for step in plan.schedule.pair(pair) {
                self.run_step(step)?;
            }
            pair += 1;
        }
    }

    /// The widest interval of throughput after so many pairs; `None` where it is not looked at.
    fn half_width(&mut self, pairs: u32) -> Option<f64> {
        let stop = self.stage.plan.stop;
        if stop.half_width_target.is_none() || pairs < stop.pairs_min {
            return None;
        }
        reports::leave_out_disturbed(self.recording);
        reports::analyse(self.recording);
        let throughput = self.recording.comparisons.iter();
        throughput
            .filter(|comparison| comparison.metric == "throughput_rps")
            .map(|comparison| comparison.interval.map_or(f64::INFINITY, half_width))
            .reduce(f64::max)
    }

    /// All arms at the same rates, which the slowest of them can just keep.
    fn run_equal_rates(&mut self) -> ControlFlow<()> {
        let plan = self.stage.plan;
        let Some(capacity) = self.capacity() else {
            return ControlFlow::Continue(());
        };
        for pair in 0..plan.equal_rate_pairs() {
            for share in plan.equal_rate_shares {
                let rate_rps = (capacity * share).floor().max(1.0);
                for step in plan.schedule.equal_rate(pair, rate_rps) {
                    self.run_step(step)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The least throughput of the slowest arm, probes off; `None` where an arm has no good round.
    fn capacity(&self) -> Option<f64> {
        let of_arm = |arm: &PreparedArm| {
            let rounds = self.recording.rounds.iter().filter(|round| {
                round.arm == arm.arm.name
                    && round.role == RoundRole::Main
                    && round.probes == Probes::Off
                    && round.failed.is_none()
            });
            rounds
                .filter_map(|round| round.load.as_ref())
                .map(|load| load.ledger.ok as f64 / load.window.seconds())
                .reduce(f64::min)
        };
        let least: Option<Vec<f64>> = self.prepared.iter().map(of_arm).collect();
        least?.into_iter().reduce(f64::min)
    }

    fn is_possible(&self, step: &Step) -> bool {
        step.probes == Probes::Off || self.blind.is_none()
    }

    fn run_step(&mut self, step: Step) -> ControlFlow<()> {
        if self.stage.ground.interrupt.is_set() {
            return self.interrupted();
        }
        if !self.is_possible(&step) {
            return ControlFlow::Continue(());
        }
        let arm = match step.server {
            Server::Arm(index) => &self.prepared[index],
            Server::Null => match self.null {
                Some(arm) => arm,
                None => return ControlFlow::Continue(()),
            },
        };
        let order = u32::try_from(self.recording.rounds.len()).unwrap_or(u32::MAX);
        match round::run(self.stage, arm, step, order) {
            Ok(round) => self.recording.rounds.push(round),
            Err(CannotProfile(_)) if self.stage.ground.interrupt.is_set() => {}
            Err(CannotProfile(why)) => {
                self.progress
                    .say(&format!("not measured: system calls per request: {why}"));
                self.blind = Some(NotMeasured {
                    what: "system calls per request and every other figure from the kernel".into(),
                    why,
                    remedy: Some("`whyfast doctor` says what is missing".into()),
                });
                return ControlFlow::Continue(());
            }
        }
        if self.stage.ground.interrupt.is_set() {
            // What the interrupt cut short is no failure of the server.
            self.recording.rounds.retain(|round| round.order != order);
            return self.interrupted();
        }
        self.progress.round_ended(self.recording);
        match hopeless(self.recording) {
            None => ControlFlow::Continue(()),
            Some(why) => {
                self.recording.partial = Some(Partial { why });
                ControlFlow::Break(())
            }
        }
    }

    fn interrupted(&mut self) -> ControlFlow<()> {
        self.recording.partial = Some(Partial {
            why: "interrupted".into(),
        });
        ControlFlow::Break(())
    }
}

/// Whether an arm has failed twice in a row: more rounds would only fail again.
fn hopeless(recording: &Recording) -> Option<String> {
    recording.arms.iter().find_map(|arm| {
        let mut latest = recording
            .rounds
            .iter()
            .rev()
            .filter(|round| round.arm == arm.name)
            .take(2);
        let (last, before) = (latest.next()?, latest.next()?);
        before.failed.as_ref()?;
        last.failed
            .as_ref()
            .map(|why| format!("{} failed twice in a row: {why}", arm.name))
    })
}
