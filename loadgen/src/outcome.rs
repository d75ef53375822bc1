//! From what the threads counted to the load half of a recording.

use std::time::Duration;

use recording::FailureClass;
use recording::{
    CpuTime, HttpVersion, LatencyHistogram, Load, LoadPlan, LoadSlice, Timeline, TlsPlan, Warning,
    Window,
};

use crate::config::{Config, Stop, Warmup};
use crate::error::OpenFailure;
use crate::measures;
use crate::orders::{Drained, LegCounts};
use crate::redact;
use crate::tally::Tally;
use crate::timeline::Bins;
use crate::tls::TlsTally;
use crate::worker::Left;

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) is_tls: bool,
    /// How long the resolver took, ns.
    pub(crate) resolve_ns: Option<u64>,
    pub(crate) window: Window,
    pub(crate) legs: Vec<LegCounts>,
    pub(crate) slices: Vec<LoadSlice>,
    /// What the threads know of the whole run.
    pub(crate) left: Vec<Left>,
    pub(crate) ended_early: Option<String>,
    /// Connections that were open at the start.
    pub(crate) open: u32,
    /// Why another one was not open.
    pub(crate) open_failure: Option<OpenFailure>,
    /// What became of what was in flight at the end of the window.
    pub(crate) drained: Drained,
    /// The soft limit on open files, before and after it was raised for the run.
    pub(crate) raised: Option<(u64, u64)>,
}

/// Puts the result together.
pub(crate) fn load(config: &Config, outcome: Outcome) -> Load {
    let mut tally = Tally::new(0);
    let mut client_cpu = CpuTime::default();
    for leg in &outcome.legs {
        tally.merge(&leg.tally);
        client_cpu.user_ns += leg.cpu.user_ns;
        client_cpu.system_ns += leg.cpu.system_ns;
    }
    tally.connections.asked = config.connections;
    tally
        .ledger
        .failed
        .sort_by(|a, b| (a.class, &a.phase).cmp(&(b.class, &b.phase)));
    let busiest_thread_share = busiest_share(&outcome);
    let mut measures = measures::of(config, &outcome, &tally, busiest_thread_share);
    let mut warnings = warnings(config, &outcome, &tally, busiest_thread_share);
    warnings.extend(measures::warnings(&measures, outcome.window));
    let tls = outcome.is_tls.then(|| {
        let mut sum = TlsTally::new(0, false);
        for left in &outcome.left {
            sum.merge(&left.tls);
        }
        sum.report(tally.clear)
    });
    if tls.is_none() {
        measures.phases.open = None;
    }
    measures.phases.tls = tls.as_ref().and_then(|tls| tls.handshake_time.clone());
    let bins = outcome
        .left
        .into_iter()
        .filter_map(|left| left.bins)
        .collect();
    Load {
        url: redact::url(&config.url),
        plan: plan(config, outcome.is_tls),
        window: outcome.window,
        statuses: tally.statuses(),
        latency: LatencyHistogram::from_hdr(&tally.latency),
        connect_time: LatencyHistogram::from_hdr(&tally.connect_time),
        ledger: tally.ledger,
        connections: tally.connections,
        interim_responses: tally.interim,
        traffic: tally.traffic,
        tls,
        http2: (config.http != HttpVersion::Http1).then_some(tally.http2),
        client_cpu,
        busiest_thread_share,
        slices: outcome.slices,
        timeline: Bins::merge(bins).unwrap_or(Timeline {
            start_ns: outcome.window.start_ns,
            ..Timeline::default()
        }),
        ended_early: outcome.ended_early,
        warnings,
        violations: tally.violations.report(),
        measures: Some(Box::new(measures)),
    }
}

fn plan(config: &Config, is_tls: bool) -> LoadPlan {
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    LoadPlan {
        connections: config.connections,
        depth: config.depth,
        http: config.http,
        tls: is_tls.then(|| TlsPlan {
            verified: config.tls.verify,
            resumed_percent: config.tls.resumption.percent(),
        }),
        threads: config.threads,
        requests: match config.stop {
            Stop::Requests(requests) => Some(requests),
            Stop::Duration(_) => None,
        },
        duration_ns: match config.stop {
            Stop::Requests(_) => None,
            Stop::Duration(duration) => Some(ns(duration)),
        },
        warmup_ns: match config.warmup {
            Warmup::Time(warmup) => ns(warmup),
            Warmup::None | Warmup::Requests(_) => 0,
        },
        warmup_requests: match config.warmup {
            Warmup::Requests(requests) => requests,
            Warmup::None | Warmup::Time(_) => 0,
        },
        requests_per_connection: config.requests_per_connection,
        requests_jitter: Some(config.requests_jitter).filter(|&jitter| jitter > 0),
        connection_lifetime_ns: config.connection_lifetime.map(ns),
        resolve_each: config.resolve_each,
        timeout_ns: ns(config.timeout),
        method: config.method.clone(),
        headers: config
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), redact::header_value(name, value)))
            .collect(),
        shape: config.shape.stored(config.timeout),
    }
}

fn busiest_share(outcome: &Outcome) -> f64 {
    let window_ns = outcome.window.length_ns();
    let busiest_ns = outcome
        .legs
        .iter()
        .map(|leg| leg.cpu.total_ns())
        .max()
        .unwrap_or(0);
    if window_ns == 0 {
        0.0
    } else {
        (busiest_ns as f64 / window_ns as f64).min(1.0)
    }
}

fn warnings(config: &Config, outcome: &Outcome, tally: &Tally, busiest: f64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, text: String| {
        warnings.push(Warning {
            code: code.to_owned(),
            text,
        });
    };
    if let Some((before, after)) = outcome.raised {
        let text = format!(
            "the limit on open files of this process was raised from {before} to {after} (`ulimit -n`) for {} connections",
            config.connections
        );
        warn("file_limit_raised", text);
    }
    if outcome.open < config.connections
        && let Some(failure) = &outcome.open_failure
    {
        let text = format!(
            "only {} of {} connections could be opened at the start ({failure}); the others were tried again later",
            outcome.open, config.connections
        );
        warn("connections_missing", text);
    }
    if busiest > CLIENT_LIMITED_SHARE {
        let text = format!(
            "a client thread was busy for {:.0} % of the window, so the client may be what limits the rate: \
             give it more threads (and CPUs)",
            busiest * 100.0
        );
        warn("client_limited", text);
    }
    let no_address: u64 = tally
        .ledger
        .failed
        .iter()
        .filter(|failure| failure.class == FailureClass::AddressUnavailable)
        .map(|failure| failure.count)
        .sum();
    if no_address > 0 {
        let text = format!(
            "{no_address} connections found no free local port: closed ones hold theirs for a minute (TIME_WAIT). \
             Make more requests per connection, widen net.ipv4.ip_local_port_range, or give several source \
             addresses (each has the whole range, as they are bound with IP_BIND_ADDRESS_NO_PORT)"
        );
        warn("no_local_port", text);
    }
    let timed_out: u64 = tally
        .ledger
        .failed
        .iter()
        .filter(|failure| failure.class == FailureClass::Timeout)
        .map(|failure| failure.count)
        .sum();
    if timed_out > 0 {
        let text = format!(
            "{timed_out} requests had no complete response within the limit of {:?} and are not in the latency: it is \
             understated",
            config.timeout
        );
        warn("timed_out", text);
    }
    let slowest_ok_ns = tally.latency.max();
    let oldest_ns = outcome
        .legs
        .iter()
        .filter(|leg| !leg.observed.ages.is_empty())
        .map(|leg| leg.observed.ages.max())
        .max();
    if let Some(oldest_ns) = oldest_ns.filter(|&oldest_ns| oldest_ns > slowest_ok_ns) {
        let text = format!(
            "{} requests had no complete response when the window ended, the oldest for {:.1} ms, longer than any \
             that was answered: latency is understated",
            tally.ledger.unfinished,
            oldest_ns as f64 / 1e6
        );
        warn("unfinished_oldest", text);
    }
    warnings
}

/// Above this share of its window a thread has hardly ever waited for the server.
const CLIENT_LIMITED_SHARE: f64 = 0.95;
