//! The join of both halves: what the kernel did for a server, per request of the client.
//!
//! Per arm, all good rounds with probes are merged into one table. A figure is a sum over rounds
//! divided by a sum over rounds, never a mean of ratios. Nothing is estimated: what a round did
//! not measure is `None` for the arm.

use std::collections::BTreeMap;

use recording::{Abi, Detail, Family, Log2Histogram, Probes, Profile, Recording, Round};

use crate::metrics::{good_rounds, requests_under_cpu};

/// The figures of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmFigures {
    /// Name of the arm.
    pub arm: String,
    /// Good rounds with probes that the tables are the sum of.
    pub rounds: u32,
    /// The lowest detail of those rounds; `None` when there is none.
    pub detail: Option<Detail>,
    /// Requests that everything "per request" is divided by; `None` when nothing was profiled.
    pub requests: Option<f64>,
    /// Whether `requests` is a counted integer (lock-step rounds), so that figures are exact.
    pub exact: bool,
    /// One row per call, by ABI and name.
    pub calls: Vec<CallFigures>,
    /// One row per waiting call, by ABI and name.
    pub waits: Vec<WaitFigures>,
    /// All calls per request; `None` when nothing was profiled.
    pub syscalls_per_request: Option<f64>,
    /// CPU time of the server per request with probes off, ns.
    pub server_cpu_ns_per_request: Option<f64>,
    /// The same with probes on.
    pub server_cpu_ns_per_request_probed: Option<f64>,
    /// Events that are missing from the counts.
    pub lost: u64,
    /// Lost events as a share of all calls seen and lost; `None` when nothing was profiled.
    pub lost_share: Option<f64>,
}

/// One call of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFigures {
    /// The table of the call.
    pub abi: Abi,
    /// Its name, with what it was done to where calls are told apart by that: `read(socket)`.
    pub name: String,
    /// What it is for.
    pub family: Family,
    /// Calls that returned, over all rounds.
    pub count: u64,
    /// Calls per request.
    pub per_request: f64,
    /// Whether `count` is a multiple of the requests; `None` where the requests are no counted
    /// integer.
    pub integer: Option<bool>,
    /// Errors per request, by name.
    pub errors_per_request: BTreeMap<String, f64>,
    /// Errors of all names.
    pub error_count: u64,
    /// Bytes per call that returned without an error; `None` for calls that move no bytes.
    pub bytes_per_call: Option<f64>,
    /// Time inside the call per request, ns; `None` below detail `times`.
    pub ns_per_request: Option<f64>,
    /// Time inside the call per timed call, ns; `None` below detail `times`, and where no call was
    /// timed.
    pub ns_per_call: Option<f64>,
    /// Calls that a signal ended together with their thread.
    pub died_in_call: u64,
    /// Entered and never to return.
    pub no_return: u64,
    /// Whether it waits for events, so that the time inside is sleep and no cost.
    pub waits: bool,
}

/// One waiting call of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitFigures {
    /// The table of the call.
    pub abi: Abi,
    /// Its name.
    pub name: String,
    /// Returns with at least one event, over all rounds.
    pub wakes: u64,
    /// Such returns per request.
    pub wakes_per_request: f64,
    /// Mean events of a wake; `None` when there was none.
    pub events_per_wake: Option<f64>,
    /// Events by wake.
    pub histogram: Log2Histogram,
    /// Returns without an event, over all rounds.
    pub timeouts: u64,
    /// Ended by a signal.
    pub interrupted: u64,
    /// Time inside per request, ns; `None` below detail `times`.
    pub ns_per_request: Option<f64>,
}

impl ArmFigures {
    /// The row of a call.
    pub fn call(&self, abi: Abi, name: &str) -> Option<&CallFigures> {
        self.calls
            .iter()
            .find(|call| call.abi == abi && call.name == name)
    }

    /// Time inside calls that do not wait, per request, ns; `None` below detail `times`.
    pub fn ns_in_calls_per_request(&self) -> Option<f64> {
        self.calls
            .iter()
            .filter(|call| !call.waits)
            .map(|call| call.ns_per_request)
            .sum()
    }
}

/// The figures of every arm, in the order of the recording.
pub fn join(recording: &Recording) -> Vec<ArmFigures> {
    recording
        .arms
        .iter()
        .map(|arm| join_arm(recording, &arm.name))
        .collect()
}

/// The figures of one arm.
pub fn join_arm(recording: &Recording, arm: &str) -> ArmFigures {
    let probed: Vec<(&Profile, f64)> = good_rounds(recording, arm, Probes::On)
        .filter_map(|round| round.profile.as_ref().zip(round.profile_requests))
        .filter(|(_, requests)| *requests > 0.0)
        .collect();
    let mut sums = Sums::default();
    for (profile, requests) in &probed {
        sums.add(profile, *requests);
    }
    let lock_step = recording
        .scenario
        .as_ref()
        .is_some_and(|s| s.lock_step_requests.is_some());
    let exact = lock_step && !probed.is_empty() && sums.requests.fract() == 0.0;
    let requests = (!probed.is_empty()).then_some(sums.requests);
    let timed = sums.detail.is_some_and(|detail| detail >= Detail::Times);
    let total: u64 = sums.calls.values().map(|call| call.count).sum();
    let seen = (total + sums.lost) as f64;
    ArmFigures {
        arm: arm.to_owned(),
        rounds: u32::try_from(probed.len()).unwrap_or(u32::MAX),
        detail: sums.detail,
        requests,
        exact,
        calls: sums
            .calls
            .iter()
            .map(|(key, sum)| sum.figures(key, &sums, exact, timed))
            .collect(),
        waits: sums
            .waits
            .iter()
            .map(|(key, sum)| sum.figures(key, sums.requests, timed))
            .collect(),
        syscalls_per_request: requests.map(|requests| total as f64 / requests),
        server_cpu_ns_per_request: cpu_per_request(good_rounds(recording, arm, Probes::Off)),
        server_cpu_ns_per_request_probed: cpu_per_request(good_rounds(recording, arm, Probes::On)),
        lost: sums.lost,
        lost_share: requests.map(|_| {
            if seen > 0.0 {
                sums.lost as f64 / seen
            } else {
                0.0
            }
        }),
    }
}

/// Everything of an arm, added up.
#[derive(Default)]
struct Sums {
    requests: f64,
    detail: Option<Detail>,
    lost: u64,
    calls: BTreeMap<Key, CallSum>,
    waits: BTreeMap<Key, WaitSum>,
}

type Key = (Abi, String);

struct CallSum {
    family: Family,
    count: u64,
    errors: BTreeMap<String, u64>,
    bytes: Option<u64>,
    ns_total: u64,
    timed: u64,
    died_in_call: u64,
    no_return: u64,
}

#[derive(Default)]
struct WaitSum {
    wakes: u64,
    events: u64,
    histogram: Log2Histogram,
    timeouts: u64,
    interrupted: u64,
    ns_total: u64,
}

impl Sums {
    fn add(&mut self, profile: &Profile, requests: f64) {
        self.requests += requests;
        self.lost += profile.lost.of_calls();
        self.detail = Some(
            self.detail
                .map_or(profile.detail, |d| d.min(profile.detail)),
        );
        for row in &profile.calls {
            let sum = self
                .calls
                .entry((row.abi, row.label()))
                .or_insert_with(|| CallSum {
                    family: row.family,
                    count: 0,
                    errors: BTreeMap::new(),
                    bytes: None,
                    ns_total: 0,
                    timed: 0,
                    died_in_call: 0,
                    no_return: 0,
                });
            sum.count += row.count;
            for (errno, count) in &row.errors {
                *sum.errors.entry(errno.clone()).or_default() += count;
            }
            sum.bytes = match (sum.bytes, row.bytes) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
            };
            if let Some(time) = &row.time {
                sum.ns_total += time.ns_total;
                sum.timed += time.timed;
            }
            sum.died_in_call += row.died_in_call;
            sum.no_return += row.no_return;
        }
        for row in &profile.waits {
            let sum = self.waits.entry((row.abi, row.name.clone())).or_default();
            sum.wakes += row.wakes;
            sum.events += row.events;
            sum.histogram.merge(&row.events_per_wake);
            sum.timeouts += row.timeouts;
            sum.interrupted += row.interrupted;
            sum.ns_total += row.ns_total.unwrap_or(0);
        }
    }
}

impl CallSum {
    fn figures(&self, (abi, name): &Key, sums: &Sums, exact: bool, timed: bool) -> CallFigures {
        let requests = sums.requests;
        let errors: u64 = self.errors.values().sum();
        let successful = self.count.saturating_sub(errors);
        CallFigures {
            abi: *abi,
            name: name.clone(),
            family: self.family,
            count: self.count,
            per_request: self.count as f64 / requests,
            integer: exact.then(|| self.count as f64 % requests == 0.0),
            errors_per_request: self
                .errors
                .iter()
                .map(|(errno, count)| (errno.clone(), *count as f64 / requests))
                .collect(),
            error_count: errors,
            bytes_per_call: self
                .bytes
                .filter(|_| successful > 0)
                .map(|bytes| bytes as f64 / successful as f64),
            ns_per_request: timed.then(|| self.ns_total as f64 / requests),
            ns_per_call: (timed && self.timed > 0)
                .then(|| self.ns_total as f64 / self.timed as f64),
            died_in_call: self.died_in_call,
            no_return: self.no_return,
            waits: sums.waits.contains_key(&(*abi, name.clone())),
        }
    }
}

impl WaitSum {
    fn figures(&self, (abi, name): &Key, requests: f64, timed: bool) -> WaitFigures {
        WaitFigures {
            abi: *abi,
            name: name.clone(),
            wakes: self.wakes,
            wakes_per_request: self.wakes as f64 / requests,
            events_per_wake: (self.wakes > 0).then(|| self.events as f64 / self.wakes as f64),
            histogram: self.histogram.clone(),
            timeouts: self.timeouts,
            interrupted: self.interrupted,
            ns_per_request: timed.then(|| self.ns_total as f64 / requests),
        }
    }
}

/// CPU time over requests, both summed over the rounds in which CPU time could be read.
#[expect(
    single_use_lifetimes,
    reason = "an anonymous lifetime in impl Trait is unstable"
)]
fn cpu_per_request<'a>(rounds: impl Iterator<Item = &'a Round>) -> Option<f64> {
    let (mut cpu_ns, mut requests) = (0.0, 0.0);
    for round in rounds {
        if let (Some(cpu), Some(completed)) = (&round.server_cpu, requests_under_cpu(round)) {
            cpu_ns += cpu.total_ns as f64;
            requests += completed;
        }
    }
    (requests > 0.0).then(|| cpu_ns / requests)
}
