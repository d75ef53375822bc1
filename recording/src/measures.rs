//! What a load shows beyond its account: where the time of a request went, how well the schedule
//! was kept, and who limited the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LatencyHistogram, Ledger};

/// Figures of the measured window, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadMeasures {
    /// Where the time of ok requests and of connections went.
    pub phases: Phases,
    /// How the schedule of an open loop was kept; `null` in a closed loop, which has none.
    pub schedule: Option<ScheduleKept>,
    /// Connections that were open, averaged over the time of the window.
    pub live_connections: Option<f64>,
    /// Responses per place for a connection, whatever the number of connections that it had.
    pub responses_per_connection: Option<Spread>,
    /// Responses per second of each thread in each tenth of a second.
    pub thread_rate_rps: Option<Spread>,
    /// Time from the end of a wait until the last of its events was looked at.
    pub loop_lag: Option<LatencyHistogram>,
    /// Time that the client's threads were ready to run and had no CPU, ns; `null` where the kernel
    /// does not say (`/proc/self/task/TID/schedstat`).
    pub run_queue_ns: Option<u64>,
    /// Who limited the run.
    pub limiter: Limiter,
    /// What became of the requests in flight at the end of the window.
    pub unfinished: Unfinished,
    /// Results by class of request; empty where all requests are alike.
    pub classes: Vec<ClassResult>,
    /// Bodies whose hash was compared; all of them, or a sample.
    pub hashed_bodies: u64,
    /// Bytes of names and values of response header lines, without separators and status lines;
    /// `null` where the protocol does not count them.
    pub header_field_bytes: Option<u64>,
    /// Times at which connecting was put off because of the connection rate.
    pub connects_delayed: u64,
    /// Bytes, after decryption, that came while the connections of the start were opened, before
    /// anything was sent: the settings of servers of HTTP/2. Absent in recordings of versions without
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening_received_bytes: Option<u64>,
    /// The search that this run is the result of.
    pub search: Option<Search>,
}

/// Where the time went, as distributions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phases {
    /// Time to resolve the name, once, before the first connection; `null` where an address was
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve_ns: Option<u64>,
    /// Time to connect of every connection of the run, those before the window included.
    pub connect: Option<LatencyHistogram>,
    /// TLS handshakes of every connection of the run; `null` in clear.
    pub tls: Option<LatencyHistogram>,
    /// From the start of connecting until requests can be sent, handshake included; `null` in clear,
    /// where it is the time to connect.
    pub open: Option<LatencyHistogram>,
    /// From the first byte of a request written to the first byte of the head of its response.
    pub first_byte: Option<LatencyHistogram>,
    /// From the first byte of a response to its last one.
    pub receive: Option<LatencyHistogram>,
    /// From the first byte of a request written to the last byte of its response, where the latency
    /// begins when the request was due; `null` in a closed loop, where the latency is just that.
    pub service: Option<LatencyHistogram>,
    /// Time until a connection was open, and from there to the first byte of its first response;
    /// the time that it waited for a request is left out. Once per connection of the run.
    pub connection_first_byte: Option<LatencyHistogram>,
    /// From the start of connecting to the end of a connection, or to that of the window; of those
    /// connections that brought a response.
    pub connection_life: Option<LatencyHistogram>,
}

/// How the schedule of an open loop was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleKept {
    /// Requests that were due in the window, the dropped ones included.
    pub due: u64,
    /// Requests that were due and not sent: late by more than the catch-up limit, or still waiting
    /// for a connection when the window closed.
    pub dropped: u64,
    /// How late requests were written, ns after they were due.
    pub lag: Option<LatencyHistogram>,
    /// Asked rate over the window, requests per second.
    pub asked_rps: f64,
    /// Requests written per second of the window.
    pub achieved_rps: f64,
}

impl ScheduleKept {
    /// What was sent as a share of what was due. (Of random arrivals more or fewer are due than the
    /// rate says, which is nobody's fault.)
    pub fn share(&self) -> f64 {
        match self.due {
            0 => 1.0,
            due => due.saturating_sub(self.dropped) as f64 / due as f64,
        }
    }
}

/// Who limited a run, and how it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limiter {
    /// Who.
    pub who: LimitedBy,
    /// The figures behind it, for people.
    pub why: String,
}

/// Who can limit a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The load generator, or the CPUs that it had.
    Client,
    /// All connections were busy nearly all the time while server and client may have had time
    /// left: more connections could give more.
    Connections,
    /// The asked rate was kept.
    Rate,
    /// The server: requests waited for it while the client had time left.
    Server,
    /// The figures do not say.
    Unknown,
}

/// The requests in flight when the window closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unfinished {
    /// Age of each when the window closed, since its first byte was written or was due.
    pub age: Option<LatencyHistogram>,
    /// Of them, answered as expected while the run waited for them (`--drain`).
    pub drained_ok: u64,
    /// Of them, failed while the run waited for them.
    pub drained_failed: u64,
    /// Of them, given up.
    pub aborted: u64,
}

/// Results of one class of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassResult {
    /// Its name in the request file.
    pub name: String,
    /// Its weight there.
    pub weight: u32,
    /// Its part of the account.
    pub ledger: Ledger,
    /// Latency of its ok requests.
    pub latency: Option<LatencyHistogram>,
}

/// A search for the highest rate under a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// The limit as it was typed (`p99<5ms`).
    pub limit: String,
    /// The highest rate that kept the limit, requests per second; `null` when none did.
    pub highest_rps: Option<f64>,
    /// The lowest rate that broke it; `null` when none did.
    pub lowest_broken_rps: Option<f64>,
    /// Every rate that was tried, in order.
    pub trials: Vec<Trial>,
}

/// One rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The rate, requests per second.
    pub rate_rps: f64,
    /// The limited figure, ns; `null` when too few requests were ok.
    pub figure_ns: Option<u64>,
    /// Whether the limit was kept.
    pub kept: bool,
    /// Why not, or what else is to be known.
    pub why: Option<String>,
}

/// Mean and spread of a set of figures, in the unit of the field that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Number of figures.
    pub count: u64,
    /// Smallest one.
    pub min: f64,
    /// Largest one.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample (n - 1); 0 for a single figure.
    pub sd: f64,
    /// Share of figures within one standard deviation of the mean, 0..=1.
    pub within_sd: f64,
}

impl Spread {
    /// The spread of some figures; `None` when there are none.
    pub fn of(figures: &[f64]) -> Option<Self> {
        if figures.is_empty() {
            return None;
        }
        let count = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / count;
        let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
        let sd = if figures.len() > 1 {
            (squares / (count - 1.0)).sqrt()
        } else {
            0.0
        };
        let within = figures
            .iter()
            .filter(|&&figure| (mean - sd..=mean + sd).contains(&figure))
            .count();
        Some(Self {
            count: figures.len() as u64,
            min: figures.iter().copied().fold(f64::INFINITY, f64::min),
            max: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean,
            sd,
            within_sd: within as f64 / count,
        })
    }
}

/// The shape of a load, where it is more than a closed loop of equal requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadShape {
    /// The law by which requests become due.
    pub arrivals: Arrivals,
    /// The rates of an open loop, one after the other; the last one goes on.
    pub rates: Vec<RateStage>,
    /// Limits on requests in flight, one after the other; empty when only the connections limit them.
    pub concurrency: Vec<RateStage>,
    /// Lateness from which on a due request is dropped, ns; `null` in a closed loop.
    pub catch_up_ns: Option<u64>,
    /// Connections opened per second at most.
    pub connections_per_s: Option<f64>,
    /// Mean time between a response and the next request on its connection, ns.
    pub think_ns: Option<u64>,
    /// Whether requests in flight at the end of the window were waited for.
    pub drain: bool,
}

/// When requests become due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// When the one before it on its connection has ended.
    #[default]
    Closed,
    /// At equal distances.
    Constant,
    /// At random, independently of each other.
    Poisson,
}

/// A figure that stays or changes evenly for a while.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateStage {
    /// Figure at its start, requests per second or requests.
    pub from: f64,
    /// Figure at its end.
    pub to: f64,
    /// Length, ns; `null` for the rest of the run.
    pub length_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean, deviation and share of a small sample; a single figure has no deviation.
    #[test]
    fn spread_of_small_samples() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((spread.mean - 5.0).abs() < 1e-12);
        assert!((spread.sd - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!((spread.within_sd - 0.75).abs() < 1e-12);
        let single = Spread::of(&[3.0]).unwrap();
        assert!(single.sd.abs() < 1e-12 && (single.within_sd - 1.0).abs() < 1e-12);
        assert_eq!(Spread::of(&[]), None);
    }
}
