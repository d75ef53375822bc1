//! The search for the highest rate under a limit: runs of an open loop, each at one rate.

use std::time::Duration;

use recording::{Arrivals, Load, Search, Trial};

use crate::config::{Config, Stop};
use crate::control::Control;
use crate::error::LoadError;
use crate::run::run;
use crate::shape::Stage;

/// A limit on a figure of the latency, `p99<5ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    text: String,
    quantile: f64,
    most_ns: u64,
}

/// A limit that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no limit: write pN<TIME, such as p99<5ms, p99.9<20ms or max<1s")]
pub struct LimitError {
    text: String,
}

impl Limit {
    /// Reads `p50<1ms`, `p99.9<=5ms`, `max<1s`.
    pub fn parse(text: &str) -> Result<Self, LimitError> {
        let refused = || LimitError {
            text: text.to_owned(),
        };
        let (figure, time) = text.split_once('<').ok_or_else(refused)?;
        let time = time.strip_prefix('=').unwrap_or(time).trim();
        let quantile = match figure.trim() {
            "max" => 1.0,
            figure => {
                let percent: f64 = figure
                    .strip_prefix('p')
                    .and_then(|percent| percent.parse().ok())
                    .ok_or_else(refused)?;
                percent / 100.0
            }
        };
        let most_ns = nanoseconds(time).ok_or_else(refused)?;
        if !(quantile > 0.0 && quantile <= 1.0) || most_ns == 0 {
            return Err(refused());
        }
        Ok(Self {
            text: text.to_owned(),
            quantile,
            most_ns,
        })
    }

    /// So many values make one lie beyond the quantile.
    fn values_needed(&self) -> u64 {
        // Quantiles have a few digits; the sum of rounding errors is far below one value.
        let needed = 1.0 / (1.0 - self.quantile).max(1e-6) - 1e-6;
        if self.quantile < 1.0 {
            ceiling(needed)
        } else {
            1
        }
    }

    /// What a run at a rate shows.
    fn judge(&self, rate_rps: f64, load: &Load) -> Trial {
        let figure_ns = load
            .latency
            .as_ref()
            .and_then(|latency| latency.to_hdr().ok())
            .map(|latency| latency.value_at_quantile(self.quantile));
        let count = load.latency.as_ref().map_or(0, |latency| latency.count);
        let share = load
            .measures
            .as_ref()
            .and_then(|measures| measures.schedule.as_ref())
            .map_or(1.0, recording::ScheduleKept::share);
        let failed = load.ledger.failed_total();
        let why = if let Some(why) = &load.ended_early {
            Some(why.clone())
        } else if failed > 0 {
            Some(format!("{failed} requests failed"))
        } else if share < RATE_SHARE {
            Some(format!("{:.1} % of the rate was sent", share * 100.0))
        } else if count < self.values_needed() {
            Some(format!(
                "{} needs {} values, has {count}: try each rate for longer",
                self.text,
                self.values_needed()
            ))
        } else if figure_ns > Some(self.most_ns) {
            Some(format!("{} was broken", self.text))
        } else {
            None
        };
        Trial {
            rate_rps,
            figure_ns,
            kept: why.is_none(),
            why,
        }
    }
}

/// Which rate to try next: doubled until the limit breaks, then halves of what is left.
#[derive(Clone, Debug)]
struct Steps {
    kept: Option<f64>,
    broken: Option<f64>,
    next: f64,
    trials: u32,
    /// Lower rates are not tried.
    lowest: f64,
}

impl Steps {
    fn new(first: f64, lowest: f64) -> Self {
        Self {
            kept: None,
            broken: None,
            next: first.max(lowest),
            trials: 0,
            lowest,
        }
    }

    /// The next rate; `None` when the highest one is known well enough.
    fn next(&self) -> Option<f64> {
        let close = matches!((self.kept, self.broken), (Some(kept), Some(broken))
            if broken / kept <= CLOSE_RATIO);
        let hopeless = self.broken.is_some_and(|broken| broken <= self.lowest);
        (self.trials < TRIALS_MAX && !close && !hopeless).then_some(self.next)
    }

    fn add(&mut self, rate: f64, kept: bool) {
        self.trials += 1;
        if kept {
            self.kept = Some(self.kept.unwrap_or(0.0).max(rate));
        } else {
            self.broken = Some(self.broken.unwrap_or(f64::INFINITY).min(rate));
        }
        self.next = match (self.kept, self.broken) {
            (Some(kept), None) => kept * 2.0,
            // In the middle of a ratio, since rates are compared by ratios.
            (Some(kept), Some(broken)) => (kept * broken).sqrt(),
            (None, Some(broken)) => (broken / 4.0).max(self.lowest),
            (None, None) => rate,
        };
    }
}

/// Looks for the highest rate at which `limit` holds and no request fails. Each rate is tried for the
/// duration of `config`, whose own rate is the first one tried. The result is the load at the highest
/// rate that kept the limit, else at the last one, with every trial in its measures.
pub fn find_max(
    config: &Config,
    limit: &Limit,
    control: &mut dyn Control,
) -> Result<Load, LoadError> {
    let mut config = config.clone();
    if !config.shape.is_open_loop() {
        config.shape.arrivals = Arrivals::Constant;
    }
    if let Stop::Requests(_) = config.stop {
        config.stop = Stop::Duration(TRIAL);
    }
    let first = config
        .shape
        .rates
        .first()
        .map_or(FIRST_RATE, |stage| stage.to);
    // A rate whose quantile nobody can know is not worth a run.
    let Stop::Duration(length) = config.stop else {
        unreachable!("a run by count was made one by time above");
    };
    let lowest = 1.2 * limit.values_needed() as f64 / length.as_secs_f64();
    let mut steps = Steps::new(first, lowest.max(RATE_MIN));
    let mut trials = Vec::new();
    let mut best: Option<(f64, Load)> = None;
    let mut last = None;
    let mut ended_early = None;
    while let Some(rate) = steps.next() {
        config.shape.rates = vec![Stage::constant(rate)];
        let load = run(&config, control)?;
        let trial = limit.judge(rate, &load);
        ended_early.clone_from(&load.ended_early);
        steps.add(rate, trial.kept);
        if trial.kept && best.as_ref().is_none_or(|(best, _)| rate > *best) {
            best = Some((rate, load));
        } else {
            last = Some(load);
        }
        trials.push(trial);
        if ended_early.is_some() {
            break;
        }
    }
    let highest_rps = best.as_ref().map(|(rate, _)| *rate);
    let mut load = best
        .map(|(_, load)| load)
        .or(last)
        .expect("at least one rate is tried");
    let search = Search {
        limit: limit.text.clone(),
        highest_rps,
        lowest_broken_rps: steps.broken,
        trials,
    };
    load.ended_early = ended_early;
    if let Some(measures) = &mut load.measures {
        measures.search = Some(search);
    }
    Ok(load)
}

/// The next whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the value is not negative"
)]
fn ceiling(value: f64) -> u64 {
    value.ceil() as u64
}

/// `5ms`, `1.5s`, `800us`.
fn nanoseconds(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    let time = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()?;
    u64::try_from(time.as_nanos()).ok()
}

/// What is tried first where no rate is given: slow enough for any server.
const FIRST_RATE: f64 = 100.0;
const RATE_MIN: f64 = 0.1;
/// Highest and lowest broken rate this close are one.
const CLOSE_RATIO: f64 = 1.05;
/// Up to a million requests per second from the first rate, and close enough after that.
const TRIALS_MAX: u32 = 24;
/// A rate that is not sent was not tried.
const RATE_SHARE: f64 = 0.98;
/// How long a rate is tried where a number of requests was asked for.
const TRIAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the highest rate, the search ends beside it.
        #[test]
        fn search_ends_beside_the_highest_rate(highest in 1.0_f64..400_000.0, first in 1.0_f64..10_000.0) {
            let mut steps = Steps::new(first, RATE_MIN);
            while let Some(rate) = steps.next() {
                steps.add(rate, rate <= highest);
            }
            let (kept, broken) = (steps.kept.unwrap(), steps.broken.unwrap());
            prop_assert!(kept <= highest && highest < broken);
            prop_assert!(broken / kept <= CLOSE_RATIO);
        }
    }

    /// A server that never keeps the limit ends the search.
    #[test]
    fn hopeless_search_ends() {
        let mut steps = Steps::new(100.0, 7.0);
        while let Some(rate) = steps.next() {
            steps.add(rate, false);
        }
        assert_eq!(steps.kept, None);
        assert!(steps.trials < TRIALS_MAX);
        assert_eq!(steps.broken, Some(7.0));
    }

    /// Limits are read; nonsense is named.
    #[test]
    fn reads_limits() {
        let limit = Limit::parse("p99.9<5ms").unwrap();
        assert!((limit.quantile - 0.999).abs() < 1e-12);
        assert_eq!(limit.most_ns, 5_000_000);
        assert_eq!(Limit::parse("max<=1.5s").unwrap().most_ns, 1_500_000_000);
        for wrong in [
            "", "p99", "p99<5", "p0<5ms", "p101<5ms", "x<5ms", "p99<0ms", "p99<5h",
        ] {
            let error = Limit::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("p99<5ms"), "{error}");
        }
    }
}
