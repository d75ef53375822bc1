//! What a comparison will do: the load, the rounds and their order. Pure.

use std::time::Duration;

use recording::{Detail, HttpVersion, Probes, Protocol, Scenario};

use crate::args::CompareArgs;
use crate::compare::certificate::KeyKind;
use crate::compare::scenario::{BodyKind, Chosen};
use crate::compare::schedule::{Schedule, StopRule};
use crate::failure::Failure;
use crate::machine::CpuSplit;

/// Everything that is decided before the first server starts.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    /// The header fields of requests as they are sent; those of the scenario have no secrets.
    pub(crate) request_headers: Vec<(String, String)>,
    /// Limit on one request; `None` is that of the load generator.
    pub(crate) timeout: Option<Duration>,
    /// What the body is made of.
    pub(crate) body: BodyKind,
    /// The kind of key of the certificate, where connections are encrypted.
    pub(crate) key: Option<KeyKind>,
    pub(crate) detail: Detail,
    /// Whether functions of TLS libraries are probed.
    pub(crate) tls_time: bool,
    pub(crate) schedule: Schedule,
    pub(crate) stop: StopRule,
    /// Whether the client is driven against a minimal responder, to see what it can do at most.
    pub(crate) null_server: bool,
    /// Shares of the slower arm's throughput at which all arms are loaded at the same rate.
    pub(crate) equal_rate_shares: &'static [f64],
}

impl Plan {
    /// Pairs of rounds at each equal rate.
    pub(crate) fn equal_rate_pairs(&self) -> u32 {
        self.stop.pairs_min.min(EQUAL_RATE_PAIRS)
    }
}

/// Turns the arguments into a plan for so many arms.
pub(crate) fn plan(
    args: &CompareArgs,
    chosen: &Chosen,
    arms: usize,
    cpus: &CpuSplit,
) -> anyhow::Result<Plan> {
    if !(args.margin > 0.0 && args.margin < 100.0) {
        return Err(Failure::usage("--margin is a percentage between 0 and 100"));
    }
    let lock_step = args.lock_step;
    let publish = args.publish && lock_step.is_none();
    let kinds: &[Probes] = if lock_step.is_some() {
        &[Probes::On]
    } else if args.no_probes {
        &[Probes::Off]
    } else {
        &[Probes::Off, Probes::On]
    };
    let stop = stop_rule(args, chosen);
    let rounds = stop.pairs_min as usize * kinds.len() * arms;
    let scenario = stored(args, chosen, stop, rounds, cpus);
    check_load(&scenario, chosen)?;
    let connections = scenario.connections;
    // Few of them are likely to be what limits, also where nothing is published.
    let few = lock_step.is_none() && chosen.requests.is_none() && connections < FEW_CONNECTIONS;
    let asks_for_more = publish || few;
    Ok(Plan {
        request_headers: chosen.request_headers.clone(),
        timeout: chosen.timeout,
        body: chosen.body,
        key: scenario.tls.as_ref().map(|_| chosen.key),
        scenario,
        detail: detail(args),
        tls_time: args.tls,
        schedule: Schedule {
            arms,
            kinds: kinds.to_vec(),
            control: publish,
            more_connections: asks_for_more.then(|| connections + connections.div_ceil(2)),
        },
        stop,
        // The minimal responder speaks HTTP/1.1 in clear.
        null_server: lock_step.is_none() && chosen.is_plain(),
        equal_rate_shares: if publish { &EQUAL_RATE_SHARES } else { &[] },
    })
}

/// The scenario of the recording.
fn stored(
    args: &CompareArgs,
    chosen: &Chosen,
    stop: StopRule,
    rounds: usize,
    cpus: &CpuSplit,
) -> Scenario {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let lock_step = args.lock_step;
    let (duration, warmup) = if args.publish {
        PUBLISH_TIMES
    } else {
        quick_times(rounds)
    };
    let requests = chosen.requests.filter(|_| lock_step.is_none());
    let by_time = lock_step.is_none() && requests.is_none();
    let secretless = |(name, value): &(String, String)| {
        (name.clone(), loadgen::redact::header_value(name, value))
    };
    Scenario {
        name: chosen.name.clone(),
        protocol: chosen.protocol,
        path: chosen.path.clone(),
        body_bytes: Some(chosen.body_bytes),
        connections: if lock_step.is_some() {
            1
        } else {
            chosen.connections
        },
        client_threads: if lock_step.is_some() {
            1
        } else {
            chosen.client_threads
        },
        duration_ns: by_time.then(|| nanoseconds(chosen.duration.unwrap_or(duration))),
        warmup_ns: if by_time {
            nanoseconds(chosen.warmup.unwrap_or(warmup))
        } else {
            0
        },
        lock_step_requests: lock_step,
        requests_per_connection: chosen.requests_per_connection,
        server_cpus: Some(cpus.server.to_string()),
        client_cpus: Some(cpus.client.to_string()),
        pairs: stop.pairs_min,
        margin: args.margin / 100.0,
        half_width_target: stop.half_width_target,
        tls: chosen.tls.clone(),
        streams: chosen.streams.filter(|_| lock_step.is_none()),
        request_headers: chosen.request_headers.iter().map(secretless).collect(),
        requests,
        as_published: chosen.as_published,
        published: chosen.published.clone(),
        warmup_requests: requests.map(warmup_requests),
        unfair: chosen.unfair.clone(),
    }
}

/// Window and warm-up of a round of an indication that has so many rounds: all of it within 90 seconds,
/// with what starting and stopping servers takes.
fn quick_times(rounds: usize) -> (Duration, Duration) {
    let rounds = u32::try_from(rounds.max(1)).unwrap_or(u32::MAX);
    let share = (QUICK_TIME / rounds).saturating_sub(QUICK_WARMUP + QUICK_RESTART);
    (share.clamp(QUICK_WINDOW_MIN, QUICK_WINDOW), QUICK_WARMUP)
}

/// Requests before a window of so many: a tenth, and no more than fill caches.
fn warmup_requests(requests: u64) -> u64 {
    (requests / 10).clamp(1, WARMUP_REQUESTS_MAX)
}

/// Rounds with probes are there to explain, and only the scheduler tells user code from interrupts and why
/// CPUs were idle. What it costs more than times is no matter for the headline, whose rounds have no
/// probes. Counts of rounds in lock-step are the same at any detail.
fn detail(args: &CompareArgs) -> Detail {
    match args.detail {
        Some(detail) => detail.into(),
        None if args.lock_step.is_some() => Detail::Times,
        None => Detail::Sched,
    }
}

/// A fixed number of pairs where one was asked for or an indication is enough, else as many as it
/// takes for an interval that is half as wide as the margin.
fn stop_rule(args: &CompareArgs, chosen: &Chosen) -> StopRule {
    match (args.pairs, args.lock_step) {
        (Some(pairs), _) => StopRule::fixed(pairs),
        (None, Some(_)) => StopRule::fixed(1),
        (None, None) if args.publish => StopRule {
            pairs_min: PUBLISH_PAIRS,
            pairs_max: MAX_PAIRS,
            half_width_target: Some((args.margin / 100.0 / 2.0).max(NARROW)),
            budget: Some(args.budget.unwrap_or(BUDGET)),
        },
        (None, None) => StopRule::fixed(chosen.pairs.unwrap_or(QUICK_PAIRS)),
    }
}

/// What the load half would refuse in every round is refused before the first server starts.
fn check_load(scenario: &Scenario, chosen: &Chosen) -> anyhow::Result<()> {
    let usage = |what: String| Failure::usage(format!("scenario {}: {what}", scenario.name));
    if scenario.requests.is_some() && chosen.warmup.is_some() {
        return Err(usage(
            "a round of a number of requests is warmed up by a tenth of them, not by --warmup"
                .to_owned(),
        ));
    }
    let mut load = loadgen::Config::new(format!("http://127.0.0.1:1{}", scenario.path));
    load.connections = scenario.connections;
    load.threads = scenario.client_threads;
    load.depth = scenario.streams.unwrap_or(1);
    load.requests_per_connection = scenario.requests_per_connection;
    load.headers.clone_from(&chosen.request_headers);
    load.http = match scenario.protocol {
        Protocol::Http1 => HttpVersion::Http1,
        Protocol::Http2 => HttpVersion::Http2,
    };
    load.validate().map_err(|error| usage(error.to_string()))
}

/// Pairs of an indication: two arms are done within a minute. Six short pairs rather than three long
/// ones: at 99 % the interval is 4.0 standard errors wide on each side with six pairs and 9.9 with three,
/// which would leave all but the largest differences open.
const QUICK_PAIRS: u32 = 6;

/// The window of a round of an indication of two arms, and the shortest one of many arms: in a shorter
/// one the requests at its edges would show.
const QUICK_WINDOW: Duration = Duration::from_millis(1500);
const QUICK_WINDOW_MIN: Duration = Duration::from_millis(500);
const QUICK_WARMUP: Duration = Duration::from_millis(300);

/// What all rounds of an indication may take, so that with the parity check it is done within 90
/// seconds; and what it takes to start and to stop a server and both halves.
const QUICK_TIME: Duration = Duration::from_secs(72);
const QUICK_RESTART: Duration = Duration::from_millis(700);

/// Requests that fill every cache.
const WARMUP_REQUESTS_MAX: u64 = 1000;

/// With fewer connections than this, rounds with more of them are run in every comparison.
const FEW_CONNECTIONS: u32 = 8;
/// Pairs, window and warm-up of a published claim.
const PUBLISH_PAIRS: u32 = 10;
const PUBLISH_TIMES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(2));

/// No interval is asked to be narrower: fewer percent than machines differ from day to day.
const NARROW: f64 = 0.01;

/// More pairs than this would not make an interval much narrower.
const MAX_PAIRS: u32 = 40;

/// The time after which no further pair of a published claim begins.
const BUDGET: Duration = Duration::from_mins(45);

/// Half loaded, well loaded and nearly saturated.
const EQUAL_RATE_SHARES: [f64; 3] = [0.5, 0.7, 0.9];

/// Pairs of rounds at each equal rate, where there are as many pairs at all.
const EQUAL_RATE_PAIRS: u32 = 4;

/// Requests before a lock-step window: caches are filled, connections are open.
pub(crate) const LOCK_STEP_WARMUP: u64 = 100;
