//! What rules look at: the figures of one arm over its good rounds with probes, per request.

use recording::{Arm, CallObject, CallRow, Detail, ListenQueue, Probes, Profile, Recording};

use crate::attribution::CallGroup;
use crate::gates::LOST_SHARE_LIMIT;
use crate::metrics::good_rounds;

/// The figures of one arm.
pub(super) struct Facts<'a> {
    pub(super) recording: &'a Recording,
    pub(super) arm: &'a Arm,
    pub(super) calls: Vec<CallFacts>,
    /// Requests that everything is divided by.
    pub(super) requests: f64,
    /// Time of all rounds together, ns.
    pub(super) window_ns: f64,
    pub(super) detail: Detail,
    /// What entering and leaving the kernel costs, ns; 0 where it was not calibrated.
    entry_exit_ns: f64,
    /// Lost events as a share of all.
    pub(super) lost_share: f64,
    profiles: Vec<&'a Profile>,
}

/// One call of an arm, per request.
#[derive(Clone, Debug)]
pub(super) struct CallFacts {
    pub(super) name: String,
    pub(super) label: String,
    pub(super) on: Option<CallObject>,
    pub(super) group: CallGroup,
    pub(super) count: f64,
    /// Of them, failed with EAGAIN.
    pub(super) again: f64,
    /// Of them, failed.
    pub(super) errors: f64,
    pub(super) bytes: f64,
    /// CPU time inside, ns, the probes' part taken out; `None` where it was not measured.
    pub(super) ns: Option<f64>,
    /// Sleep inside, ns; `None` below detail `sched`.
    pub(super) asleep_ns: Option<f64>,
    pub(super) sleeps: f64,
    /// The shortest of them by the wall clock, ns, the probes' part taken out; `None` where none was
    /// timed.
    shortest_ns: Option<f64>,
}

impl CallFacts {
    pub(super) fn named(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }
}

impl<'a> Facts<'a> {
    /// `None` without a good round with probes and a number of requests.
    pub(super) fn of(recording: &'a Recording, arm: &'a Arm) -> Option<Self> {
        let probed: Vec<(&Profile, f64)> = good_rounds(recording, &arm.name, Probes::On)
            .filter_map(|round| round.profile.as_ref().zip(round.profile_requests))
            .filter(|(_, requests)| *requests > 0.0)
            .collect();
        let detail = probed.iter().map(|(profile, _)| profile.detail).min()?;
        let requests: f64 = probed.iter().map(|(_, requests)| requests).sum();
        let profiles: Vec<&Profile> = probed.into_iter().map(|(profile, _)| profile).collect();
        let calls = sum_calls(&profiles, requests, detail);
        let seen: f64 = calls.iter().map(|call| call.count * requests).sum();
        let lost: u64 = profiles.iter().map(|profile| profile.lost.of_calls()).sum();
        let entries = profiles.iter().map(|profile| {
            let calibration = profile.cost.calibration.as_ref();
            calibration.map_or(0.0, |calibration| calibration.entry_exit_ns)
        });
        Some(Self {
            recording,
            arm,
            requests,
            window_ns: profiles.iter().map(|p| p.window.length_ns() as f64).sum(),
            detail,
            entry_exit_ns: entries.sum::<f64>() / profiles.len() as f64,
            lost_share: lost as f64 / (seen + lost as f64).max(1.0),
            calls,
            profiles,
        })
    }

    /// Calls per request of those that a test holds for.
    pub(super) fn count(&self, test: impl Fn(&CallFacts) -> bool) -> f64 {
        self.of_calls(test, |call| call.count)
    }

    /// A figure summed over the calls that a test holds for.
    pub(super) fn of_calls(
        &self,
        test: impl Fn(&CallFacts) -> bool,
        figure: impl Fn(&CallFacts) -> f64,
    ) -> f64 {
        let calls = self.calls.iter().filter(|call| test(call));
        calls.map(figure).sum()
    }

    /// What the calls cost per request, ns, entering the kernel included; `None` where one of them
    /// was not timed.
    pub(super) fn cost(&self, test: impl Fn(&CallFacts) -> bool) -> Option<f64> {
        let calls = self.calls.iter().filter(|call| test(call));
        calls
            .map(|call| Some(call.ns? + call.count * self.entry_exit_ns))
            .sum()
    }

    /// What so many of the calls would cost per request, ns, if each took as long as the shortest of its
    /// kind: what is saved without them at least, where some of them do work that stays. `None` where
    /// none was timed.
    pub(super) fn least_cost(
        &self,
        test: impl Fn(&CallFacts) -> bool,
        count: impl Fn(&CallFacts) -> f64,
    ) -> Option<f64> {
        let calls = self.calls.iter().filter(|call| test(call));
        calls
            .map(|call| Some(count(call) * (call.shortest_ns? + self.entry_exit_ns)))
            .sum()
    }

    /// Labels of the calls that a test holds for.
    pub(super) fn labels(&self, test: impl Fn(&CallFacts) -> bool) -> Vec<String> {
        let calls = self.calls.iter().filter(|call| test(call));
        calls.map(|call| call.label.clone()).collect()
    }

    /// Connections that the client keeps open; 0 where that is not known.
    pub(super) fn connections(&self) -> f64 {
        let scenario = self.recording.scenario.as_ref();
        scenario.map_or(0.0, |scenario| f64::from(scenario.connections))
    }

    /// Whether figures rest on enough requests and nothing to speak of was lost.
    pub(super) fn is_solid(&self) -> bool {
        self.requests >= FEW_REQUESTS && self.lost_share <= LOST_SHARE_LIMIT
    }

    pub(super) fn profiles(&self) -> impl Iterator<Item = &'a Profile> + '_ {
        self.profiles.iter().copied()
    }

    /// Listening sockets, at their fullest.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &'a ListenQueue> + '_ {
        self.profiles()
            .filter_map(|profile| profile.network.as_ref())
            .flat_map(|network| &network.listeners)
    }

    /// Returns of waiting calls with events, events, and full returns, per request; `None` where no
    /// call waited.
    pub(super) fn wakes(&self) -> Option<Wakes> {
        let mut sum = Wakes::default();
        for row in self.profiles().flat_map(|profile| &profile.waits) {
            sum.count += row.wakes as f64 / self.requests;
            sum.events += row.events as f64 / self.requests;
            sum.full += row.truncated.unwrap_or(0) as f64 / self.requests;
        }
        (sum.count > 0.0).then_some(sum)
    }
}

/// What waiting calls returned, per request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wakes {
    pub(super) count: f64,
    pub(super) events: f64,
    /// Wakes with as many events as the program had room for.
    pub(super) full: f64,
}

fn sum_calls(profiles: &[&Profile], requests: f64, detail: Detail) -> Vec<CallFacts> {
    let mut calls: Vec<CallFacts> = Vec::new();
    for profile in profiles {
        let inside = profile
            .cost
            .calibration
            .as_ref()
            .and_then(|calibration| calibration.null_call_inside_ns)
            .unwrap_or(0.0);
        for row in &profile.calls {
            let label = row.label();
            let known = calls.iter().position(|call| call.label == label);
            let at = known.unwrap_or_else(|| {
                calls.push(blank(row, label));
                calls.len() - 1
            });
            add(&mut calls[at], row, requests, detail, inside);
        }
    }
    calls
}

fn blank(row: &CallRow, label: String) -> CallFacts {
    CallFacts {
        name: row.name.clone(),
        label,
        on: row.on,
        group: CallGroup::of(&row.name, row.family, row.on),
        count: 0.0,
        again: 0.0,
        errors: 0.0,
        bytes: 0.0,
        ns: Some(0.0),
        asleep_ns: Some(0.0),
        sleeps: 0.0,
        shortest_ns: None,
    }
}

fn add(call: &mut CallFacts, row: &CallRow, requests: f64, detail: Detail, inside_ns: f64) {
    let count = row.count as f64;
    call.count += count / requests;
    call.errors += row.error_count() as f64 / requests;
    call.again += row.errors.get("EAGAIN").copied().unwrap_or(0) as f64 / requests;
    call.bytes += row.bytes.unwrap_or(0) as f64 / requests;
    let split = row.split.as_ref().filter(|_| detail >= Detail::Sched);
    let timed = detail >= Detail::Times && !call.group.may_sleep();
    let ns = match (split, &row.time) {
        (Some(split), _) => Some(split.on_cpu_ns),
        (None, Some(time)) if timed => Some(time.ns_total),
        _ => None,
    };
    let ns = ns.map(|ns| (ns as f64 - count * inside_ns).max(0.0) / requests);
    call.ns = call.ns.zip(ns).map(|(sum, ns)| sum + ns);
    let asleep = split.map(|split| split.off_cpu_ns as f64 / requests);
    call.asleep_ns = call.asleep_ns.zip(asleep).map(|(sum, ns)| sum + ns);
    let shortest = row.time.as_ref().and_then(|time| time.ns_min);
    let shortest = shortest.map(|ns| (ns as f64 - inside_ns).max(0.0));
    call.shortest_ns = match (call.shortest_ns, shortest) {
        (Some(known), Some(ns)) => Some(known.min(ns)),
        (known, ns) => known.or(ns),
    };
    call.sleeps += split.and_then(|split| split.sleeps).unwrap_or(0) as f64 / requests;
}

/// Requests below which counts per request are no pattern.
const FEW_REQUESTS: f64 = 100.0;
