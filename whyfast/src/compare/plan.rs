//! What a comparison will do: the load, the rounds and their order. Pure but for the scenario file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use recording::{Detail, Probes, Protocol, Scenario};
use serde::Deserialize;

use crate::args::CompareArgs;
use crate::compare::schedule::{Schedule, StopRule};
use crate::failure::Failure;
use crate::machine::CpuSplit;

/// A scenario as its TOML file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    /// One line for `whyfast list`.
    pub(crate) summary: String,
    /// Size of the file that is served.
    body_bytes: u64,
    connections: u32,
    client_threads: u32,
    /// Requests on one connection.
    requests_per_connection: Option<u64>,
}

/// The built-in scenarios.
const BUILT_IN: &[(&str, &str)] = &[("static-1b", include_str!("../../scenarios/static-1b.toml"))];

/// The names of all scenarios.
pub(crate) fn scenario_names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// A built-in scenario, or a TOML file.
pub(crate) fn scenario(name: &str) -> anyhow::Result<(String, ScenarioFile)> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Ok((
            name.to_owned(),
            toml::from_str(text).context("built-in scenario")?,
        ));
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(Failure::usage(format!(
            "no scenario is called {name:?}; there are {}, or name a .toml file",
            scenario_names().join(", ")
        )));
    }
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {name}"))?;
    let file: ScenarioFile = toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("scenario {name}: {error}")))?;
    if file.body_bytes > MAX_BODY {
        return Err(Failure::usage(format!(
            "scenario {name}: body_bytes is at most {MAX_BODY}"
        )));
    }
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    Ok((stem.to_string_lossy().into_owned(), file))
}

/// A body that is made in memory and written once.
const MAX_BODY: u64 = 1 << 30;

/// Everything that is decided before the first server starts.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) detail: Detail,
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

/// Turns the arguments into a plan.
pub(crate) fn plan(args: &CompareArgs, arms: usize, cpus: &CpuSplit) -> anyhow::Result<Plan> {
    if !(args.margin > 0.0 && args.margin < 100.0) {
        return Err(Failure::usage("--margin is a percentage between 0 and 100"));
    }
    let (name, file) = scenario(&args.scenario)?;
    let (pairs, duration, warmup) = if args.publish { PUBLISH } else { QUICK };
    let lock_step = args.lock_step;
    let publish = args.publish && lock_step.is_none();
    let stop = stop_rule(args, if lock_step.is_some() { 1 } else { pairs });
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let scenario = Scenario {
        tls: None,
        streams: None,
        request_headers: Vec::new(),
        requests: None,
        as_published: false,
        published: None,
        name,
        protocol: Protocol::Http1,
        path: format!("/{}", body_name(file.body_bytes)),
        body_bytes: Some(file.body_bytes),
        connections: if lock_step.is_some() {
            1
        } else {
            args.connections.unwrap_or(file.connections)
        },
        client_threads: if lock_step.is_some() {
            1
        } else {
            file.client_threads
        },
        duration_ns: lock_step
            .is_none()
            .then(|| nanoseconds(args.duration.unwrap_or(duration))),
        warmup_ns: if lock_step.is_some() {
            0
        } else {
            nanoseconds(args.warmup.unwrap_or(warmup))
        },
        lock_step_requests: lock_step,
        requests_per_connection: file.requests_per_connection,
        server_cpus: Some(cpus.server.to_string()),
        client_cpus: Some(cpus.client.to_string()),
        pairs: stop.pairs_min,
        margin: args.margin / 100.0,
        half_width_target: stop.half_width_target,
    };
    check_load(&scenario)?;
    let kinds: &[Probes] = if lock_step.is_some() {
        &[Probes::On]
    } else if args.no_probes {
        &[Probes::Off]
    } else {
        &[Probes::Off, Probes::On]
    };
    let connections = scenario.connections;
    Ok(Plan {
        scenario,
        detail: detail(args),
        schedule: Schedule {
            arms,
            kinds: kinds.to_vec(),
            control: publish,
            more_connections: publish.then(|| connections + connections.div_ceil(2)),
        },
        stop,
        null_server: lock_step.is_none(),
        equal_rate_shares: if publish { &EQUAL_RATE_SHARES } else { &[] },
    })
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
fn stop_rule(args: &CompareArgs, pairs: u32) -> StopRule {
    match args.pairs {
        Some(pairs) => StopRule::fixed(pairs),
        None if args.publish && args.lock_step.is_none() => StopRule {
            pairs_min: pairs,
            pairs_max: MAX_PAIRS,
            half_width_target: Some((args.margin / 100.0 / 2.0).max(NARROW)),
            budget: Some(args.budget.unwrap_or(BUDGET)),
        },
        None => StopRule::fixed(pairs),
    }
}

/// What the load half would refuse in every round is refused before the first server starts.
fn check_load(scenario: &Scenario) -> anyhow::Result<()> {
    let mut load = loadgen::Config::new(format!("http://127.0.0.1:1{}", scenario.path));
    load.connections = scenario.connections;
    load.threads = scenario.client_threads;
    load.requests_per_connection = scenario.requests_per_connection;
    load.validate()
        .map_err(|error| Failure::usage(format!("scenario {}: {error}", scenario.name)))?;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    match limit.filter(|&limit| limit < u64::from(scenario.connections) + SPARE_FILES) {
        None => Ok(()),
        Some(limit) => Err(Failure::with_code(
            recording::exit_code::CANNOT_MEASURE,
            format!(
                "{} connections need more open files than the hard limit of {limit}: raise it with \
                 `ulimit -Hn` as root, or ask for fewer with -c",
                scenario.connections
            ),
        )),
    }
}

/// Open files of the client and the server besides connections.
const SPARE_FILES: u64 = 64;

/// The name of the file of so many bytes.
pub(crate) fn body_name(bytes: u64) -> String {
    format!("{bytes}b")
}

/// Pairs, window and warm-up of an indication: two arms are done within a minute. Six short pairs
/// rather than three long ones: at 99 % the interval is 4.0 standard errors wide on each side with
/// six pairs and 9.9 with three, which would leave all but the largest differences open.
const QUICK: (u32, Duration, Duration) =
    (6, Duration::from_millis(1500), Duration::from_millis(300));

/// Pairs, window and warm-up of a published claim.
const PUBLISH: (u32, Duration, Duration) = (10, Duration::from_secs(10), Duration::from_secs(2));

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The built-in scenarios read; an unknown name names them.
    #[test]
    fn scenarios_are_found() {
        for name in scenario_names() {
            assert!(scenario(name).is_ok());
        }
        assert!(scenario("x").unwrap_err().to_string().contains("static-1b"));
    }
}
