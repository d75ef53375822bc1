//! What a comparison says while it runs: on stderr, a bar on a terminal, a line per pair elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use recording::{Probes, Recording, RoundRole};

use crate::output::note;

/// The progress of the rounds.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    began: Instant,
    /// Rounds that are over, and that are expected in all.
    done: usize,
    rounds: usize,
}

impl Progress {
    /// Begins; a bar only where stderr is a terminal.
    pub(crate) fn begin() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} rounds  {msg}");
            bar.set_style(style.expect("the template is constant"));
            bar.tick();
            bar
        });
        Self {
            bar,
            began: Instant::now(),
            done: 0,
            rounds: 0,
        }
    }

    /// So many rounds are to come, as far as that is known.
    pub(crate) fn expect(&mut self, rounds: usize) {
        self.rounds = self.done + rounds;
        if let Some(bar) = &self.bar {
            bar.set_length(self.rounds as u64);
        }
    }

    /// A round has ended.
    pub(crate) fn round_ended(&mut self, recording: &Recording) {
        self.done += 1;
        let done = self.done;
        if let Some(round) = recording.rounds.last()
            && let Some(why) = &round.failed
        {
            let whose = match round.role {
                RoundRole::NullServer => "null server",
                _ => &round.arm,
            };
            self.say(&format!("{whose} round {} failed: {why}", round.order + 1));
        }
        let left = time_left(self.began.elapsed(), done, self.rounds);
        let so_far = so_far(recording);
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{left} left  {so_far}"));
            bar.inc(1);
        } else if ends_block(recording) {
            let figures = if so_far.is_empty() {
                String::new()
            } else {
                format!(": {so_far}")
            };
            self.say(&format!(
                "{done} of {} rounds, {left} left{figures}",
                self.rounds
            ));
        }
    }

    /// A line of its own.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Whether every arm has a round of this kind in this pair: a moment to compare.
fn ends_block(recording: &Recording) -> bool {
    let Some(last) = recording.rounds.last() else {
        return false;
    };
    let same = |round: &&recording::Round| {
        round.pair == last.pair && round.probes == last.probes && round.role == last.role
    };
    recording.rounds.iter().filter(same).count() == recording.arms.len()
}

/// The time that the remaining rounds take if they are like those so far.
fn time_left(elapsed: Duration, done: usize, rounds: usize) -> String {
    if done == 0 {
        return "?".to_owned();
    }
    let left = elapsed.mul_f64(rounds.saturating_sub(done) as f64 / done as f64);
    format!("{}:{:02}", left.as_secs() / 60, left.as_secs() % 60)
}

/// The median throughput of each arm so far, probes off; nothing is claimed yet.
fn so_far(recording: &Recording) -> String {
    let arms = recording.arms.iter().filter_map(|arm| {
        let mut rates: Vec<f64> = recording
            .rounds
            .iter()
            .filter(|round| round.arm == arm.name && round.failed.is_none())
            .filter(|round| round.probes == Probes::Off && round.role == RoundRole::Main)
            .filter_map(|round| {
                let load = round.load.as_ref()?;
                Some(load.ledger.ok as f64 / load.window.seconds())
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len() / 2)?;
        Some(format!("{} {median:.0} req/s", arm.name))
    });
    arms.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time left follows the pace so far.
    #[test]
    fn time_left_follows_the_pace() {
        assert_eq!(time_left(Duration::from_secs(10), 2, 14), "1:00");
        assert_eq!(time_left(Duration::from_secs(10), 0, 14), "?");
        assert_eq!(time_left(Duration::from_secs(10), 14, 14), "0:00");
    }
}
