//! The shape of a load as it is asked for: an open loop at rates, limits on requests in flight, think
//! time, and how fast connections are opened.

use std::time::Duration;

use recording::{Arrivals, LoadShape, RateStage};

/// The shape of a load; the default is a plain closed loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// The law by which requests become due.
    pub arrivals: Arrivals,
    /// Requests per second of an open loop, one stage after the other; the last one goes on.
    pub rates: Vec<Stage>,
    /// Requests in flight at most, one stage after the other; empty for no limit but connections.
    pub concurrency: Vec<Stage>,
    /// Lateness from which on a due request is dropped; the timeout where nothing else is given,
    /// because a request that waits that long has failed by any measure.
    pub catch_up: Option<Duration>,
    /// Connections opened per second at most.
    pub connection_rate: Option<f64>,
    /// Time between a response and the next request on its connection.
    pub think: Option<Think>,
    /// Whether what is in flight at the end of a window by time is waited for.
    pub drain: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether a closed loop pauses to let responses come together.
    pub pausing: Pausing,
}

/// Whether the client pauses after a turn of its loop that found few of many responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pausing {
    /// Where it was found to save CPU time and to cost no throughput, which is tried again and again.
    #[default]
    Tried,
    /// Always: two servers that are compared have the same client, whatever a trial would have found.
    Always,
    /// Never.
    Never,
}

/// A figure that stays or changes evenly for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Figure at its start.
    pub from: f64,
    /// Figure at its end.
    pub to: f64,
    /// How long; `None` for the rest of the run.
    pub length: Option<Duration>,
}

/// Time between a response and the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// Its mean.
    pub mean: Duration,
    /// Whether it varies (exponentially) or is always the same.
    pub random: bool,
}

/// A shape that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A stage that is no number with an optional time.
    #[error(
        "{stage:?} is no stage: write VALUE, VALUE:TIME or FROM-TO:TIME, separated by commas (100:30s,100-500:1m,500)"
    )]
    Stage {
        /// What was found.
        stage: String,
    },
    /// A figure that is negative, not finite or too large.
    #[error("{figure} is out of range: it must be at least 0 and at most {FIGURE_MAX}")]
    Figure {
        /// What was found.
        figure: String,
    },
    /// A stage after one without an end.
    #[error("stage {stage:?} is never reached: the one before it has no time")]
    Unreachable {
        /// The stage.
        stage: String,
    },
    /// Nothing would ever be sent.
    #[error("all stages are 0: nothing would be sent")]
    Nothing,
    /// The last stage goes on for ever.
    #[error("the last stage ends at 0: nothing would be sent after it, give -d instead")]
    EndsAtNothing,
}

impl Stage {
    /// A figure that stays.
    pub fn constant(figure: f64) -> Self {
        Self {
            from: figure,
            to: figure,
            length: None,
        }
    }

    /// Reads stages: `100`, `100:30s,200:30s` (steps), `0-500:1m,500` (a ramp).
    pub fn parse_all(text: &str) -> Result<Vec<Self>, ShapeError> {
        let mut stages: Vec<Self> = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            if stages.last().is_some_and(|stage| stage.length.is_none()) {
                return Err(ShapeError::Unreachable {
                    stage: part.to_owned(),
                });
            }
            stages.push(Self::parse(part)?);
        }
        if stages.iter().all(|stage| stage.from + stage.to <= 0.0) {
            return Err(ShapeError::Nothing);
        }
        if stages
            .last()
            .is_some_and(|stage| stage.to <= 0.0 && stage.length.is_none())
        {
            return Err(ShapeError::EndsAtNothing);
        }
        Ok(stages)
    }

    fn parse(part: &str) -> Result<Self, ShapeError> {
        let refused = || ShapeError::Stage {
            stage: part.to_owned(),
        };
        let (figures, length) = match part.split_once(':') {
            Some((figures, time)) => (figures, Some(time_of(time).ok_or_else(refused)?)),
            None => (part, None),
        };
        let figure = |text: &str| {
            let value: f64 = text.trim().parse().map_err(|_not_a_number| refused())?;
            if (0.0..=FIGURE_MAX).contains(&value) {
                Ok(value)
            } else {
                Err(ShapeError::Figure {
                    figure: text.to_owned(),
                })
            }
        };
        // A leading minus is a sign, not a range.
        if let Some(at) = figures.get(1..).and_then(|rest| rest.find('-')) {
            let (from, to) = (figure(&figures[..=at])?, figure(&figures[at + 2..])?);
            let length = Some(length.ok_or_else(refused)?);
            return Ok(Self { from, to, length });
        }
        let value = figure(figures)?;
        Ok(Self {
            from: value,
            to: value,
            length,
        })
    }

    fn stored(&self) -> RateStage {
        RateStage {
            from: self.from,
            to: self.to,
            length_ns: self.length.map(nanoseconds),
        }
    }
}

impl Shape {
    /// Whether requests are due at times of their own.
    pub fn is_open_loop(&self) -> bool {
        self.arrivals != Arrivals::Closed
    }

    /// Whether anything but responses decides when requests are sent.
    pub(crate) fn is_paced(&self) -> bool {
        self.is_open_loop() || !self.concurrency.is_empty() || self.think.is_some()
    }

    /// As it is stored; `None` for a plain closed loop.
    pub(crate) fn stored(&self, timeout: Duration) -> Option<LoadShape> {
        let is_plain = !self.is_paced() && self.connection_rate.is_none() && !self.drain;
        (!is_plain).then(|| LoadShape {
            arrivals: self.arrivals,
            rates: self.rates.iter().map(Stage::stored).collect(),
            concurrency: self.concurrency.iter().map(Stage::stored).collect(),
            catch_up_ns: self
                .is_open_loop()
                .then(|| nanoseconds(self.catch_up.unwrap_or(timeout))),
            connections_per_s: self.connection_rate,
            think_ns: self.think.map(|think| nanoseconds(think.mean)),
            drain: self.drain,
        })
    }
}

/// `30s`, `500ms`, `1m`, or seconds; at least a millisecond and at most 30 days.
fn time_of(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds: f64 = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let time = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
    (Duration::from_millis(1)..=Duration::from_hours(30 * 24))
        .contains(&time)
        .then_some(time)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// More than a machine can send, and few enough that those that are not sent can be counted one by
/// one.
const FIGURE_MAX: f64 = 1e7;

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(from: f64, to: f64, seconds: Option<u64>) -> Stage {
        Stage {
            from,
            to,
            length: seconds.map(Duration::from_secs),
        }
    }

    /// Constants, steps and ramps.
    #[test]
    fn reads_stages() {
        let check = |text: &str, wanted: &[Stage]| {
            assert_eq!(Stage::parse_all(text).unwrap(), wanted, "{text}");
        };
        check("100", &[stage(100.0, 100.0, None)]);
        check(
            "100:30s, 200:1m,300",
            &[
                stage(100.0, 100.0, Some(30)),
                stage(200.0, 200.0, Some(60)),
                stage(300.0, 300.0, None),
            ],
        );
        check("0-500.5:10", &[stage(0.0, 500.5, Some(10))]);
    }

    /// Nonsense is named.
    #[test]
    fn refuses_nonsense() {
        let check = |text: &str, wanted: &str| {
            let error = Stage::parse_all(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        };
        check("", "no stage");
        check("fast", "no stage");
        check("100:", "no stage");
        check("100:5x", "no stage");
        check("1-2", "no stage");
        check("-5", "out of range");
        check("1e300", "out of range");
        check("10000001", "at most 10000000");
        check("inf", "out of range");
        check("100,200", "never reached");
        check("0:5s", "all stages are 0");
        check("5-0:1s,0", "ends at 0");
    }
}
