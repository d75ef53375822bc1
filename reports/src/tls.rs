//! What TLS libraries cost per request: handshakes, reads and writes, each in the terms of an attribution. CPU time
//! outside of system calls is part of user code, that inside is part of the bars of those calls.

use recording::{Probes, Profile, Recording, TlsPurpose, TlsTime};

use crate::metrics::good_rounds;

/// The cost of what a library does for one purpose, per request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TlsCost {
    /// What it is for.
    pub purpose: TlsPurpose,
    /// Calls that returned.
    pub calls: f64,
    /// CPU time outside of system calls, ns; `None` where the clocks or the calls were not read.
    pub library_ns: Option<f64>,
    /// Time inside of system calls, ns; `None` where calls were not timed.
    pub in_calls_ns: Option<f64>,
}

/// The cost of an arm's TLS libraries, from its good rounds with probes.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmTls {
    /// Its name.
    pub arm: String,
    /// What was called, in the order of [`TlsPurpose`].
    pub costs: Vec<TlsCost>,
    /// Of user code of the same rounds, ns per request; `None` below detail `sched`.
    pub user_ns: Option<f64>,
    /// Libraries that were not seen into, each with the reason; and why nothing was measured.
    pub not_seen: Vec<String>,
}

impl ArmTls {
    /// Calls for all purposes; `None` where nothing was called.
    pub fn calls(&self) -> Option<f64> {
        self.sum(|cost| Some(cost.calls))
    }

    /// CPU time outside of system calls for all purposes, ns; `None` where nothing was called.
    pub fn library_ns(&self) -> Option<f64> {
        self.sum(|cost| cost.library_ns)
    }

    /// Time inside of system calls for all purposes, ns; `None` where nothing was called.
    pub fn in_calls_ns(&self) -> Option<f64> {
        self.sum(|cost| cost.in_calls_ns)
    }

    fn sum(&self, of: impl Fn(&TlsCost) -> Option<f64>) -> Option<f64> {
        let sum = self.costs.iter().map(of).sum();
        if self.costs.is_empty() { None } else { sum }
    }
}

/// The arms of a comparison that asked for it; none where nobody did.
pub fn by_arm(recording: &Recording) -> Vec<ArmTls> {
    let arms = recording
        .arms
        .iter()
        .map(|arm| of_arm(recording, &arm.name));
    let arms: Vec<Option<ArmTls>> = arms.collect();
    if arms.iter().all(Option::is_none) {
        return Vec::new();
    }
    arms.into_iter().flatten().collect()
}

/// Of a profile of which the requests are known.
pub fn of_profile(profile: &Profile) -> Option<Vec<TlsCost>> {
    let requests = profile
        .requests_in_window()
        .filter(|requests| *requests > 0.0)?;
    Some(costs(&[profile.tls_time.as_ref()?], requests))
}

fn of_arm(recording: &Recording, arm: &str) -> Option<ArmTls> {
    let rounds = good_rounds(recording, arm, Probes::On).filter_map(|round| {
        let requests = round.profile_requests.filter(|requests| *requests > 0.0)?;
        let profile = round.profile.as_ref()?;
        Some((profile, profile.tls_time.as_ref()?, requests))
    });
    let rounds: Vec<_> = rounds.collect();
    if rounds.is_empty() {
        return None;
    }
    let requests: f64 = rounds.iter().map(|(.., requests)| requests).sum();
    let times: Vec<&TlsTime> = rounds.iter().map(|(_, time, _)| *time).collect();
    let user_ns = rounds
        .iter()
        .map(|(profile, ..)| Some(profile.threads.as_ref()?.user_ns));
    let user_ns: Option<u64> = user_ns.sum();
    let mut not_seen: Vec<String> = Vec::new();
    for library in times.iter().flat_map(|time| &time.libraries) {
        if let Some(why) = &library.not_probed {
            let text = format!(
                "{} ({}) is not seen into: {why}",
                library.name, library.file
            );
            if !not_seen.contains(&text) {
                not_seen.push(text);
            }
        }
    }
    let costs = costs(&times, requests);
    let mut libraries = times.iter().flat_map(|time| &time.libraries);
    if times.iter().all(|time| time.libraries.is_empty()) {
        not_seen.push("no TLS library was found in its processes".to_owned());
    } else if costs.is_empty() && libraries.any(|library| library.not_probed.is_none()) {
        not_seen.push("no probed function of its TLS library returned".to_owned());
    }
    Some(ArmTls {
        arm: arm.to_owned(),
        costs,
        user_ns: user_ns.map(|ns| ns as f64 / requests),
        not_seen,
    })
}

fn costs(times: &[&TlsTime], requests: f64) -> Vec<TlsCost> {
    let of = |purpose: TlsPurpose| {
        let functions = times.iter().flat_map(|time| &time.functions);
        let functions: Vec<_> = functions
            .filter(|function| function.purpose == purpose && function.count > 0)
            .collect();
        let calls: u64 = functions.iter().map(|function| function.count).sum();
        let cpu_ns: Option<u64> = functions.iter().map(|function| function.cpu_ns).sum();
        let calls_ns: Option<u64> = functions.iter().map(|function| function.calls_ns).sum();
        let library_ns = cpu_ns
            .zip(calls_ns)
            .map(|(cpu, calls)| cpu.saturating_sub(calls));
        (calls > 0).then(|| TlsCost {
            purpose,
            calls: calls as f64 / requests,
            library_ns: library_ns.map(|ns| ns as f64 / requests),
            in_calls_ns: calls_ns.map(|ns| ns as f64 / requests),
        })
    };
    PURPOSES.into_iter().filter_map(of).collect()
}

const PURPOSES: [TlsPurpose; 4] = [
    TlsPurpose::Handshake,
    TlsPurpose::Read,
    TlsPurpose::Session,
    TlsPurpose::Write,
];
