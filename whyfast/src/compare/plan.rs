//! What a comparison will do: the load, the rounds and their order. Pure but for the scenario file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use recording::{Detail, Probes, Protocol, Scenario};
use serde::Deserialize;

use crate::args::CompareArgs;
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
    /// Windows with and without probes; lock-step has the first kind only.
    pub(crate) steps: Vec<Step>,
}

/// One round to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Index of the arm.
    pub(crate) arm: usize,
    pub(crate) pair: u32,
    pub(crate) probes: Probes,
}

/// Turns the arguments into a plan.
pub(crate) fn plan(args: &CompareArgs, arms: usize, cpus: &CpuSplit) -> anyhow::Result<Plan> {
    if !(args.margin > 0.0 && args.margin < 100.0) {
        return Err(Failure::usage("--margin is a percentage between 0 and 100"));
    }
    let (name, file) = scenario(&args.scenario)?;
    let (pairs, duration, warmup) = if args.publish { PUBLISH } else { QUICK };
    let lock_step = args.lock_step;
    let pairs = args
        .pairs
        .unwrap_or(if lock_step.is_some() { 1 } else { pairs });
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let scenario = Scenario {
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
        pairs,
        margin: args.margin / 100.0,
        half_width_target: None,
    };
    check_load(&scenario)?;
    let kinds: &[Probes] = if lock_step.is_some() {
        &[Probes::On]
    } else if args.no_probes {
        &[Probes::Off]
    } else {
        &[Probes::Off, Probes::On]
    };
    Ok(Plan {
        scenario,
        detail: args.detail.into(),
        steps: schedule(arms, pairs, kinds),
    })
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

/// The order of rounds: within a pair each kind of round runs all arms next to each other, and
/// every other such block runs backwards (A B, B A), so that a drift of the machine hits both sides
/// alike.
fn schedule(arms: usize, pairs: u32, kinds: &[Probes]) -> Vec<Step> {
    let mut steps = Vec::new();
    for pair in 0..pairs {
        for (index, &probes) in kinds.iter().enumerate() {
            let backwards = (pair as usize + index) % 2 == 1;
            let order = |position| {
                if backwards {
                    arms - 1 - position
                } else {
                    position
                }
            };
            steps.extend((0..arms).map(|position| Step {
                arm: order(position),
                pair,
                probes,
            }));
        }
    }
    steps
}

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

/// Requests before a lock-step window: caches are filled, connections are open.
pub(crate) const LOCK_STEP_WARMUP: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs alternate their order, so each arm runs first equally often.
    #[test]
    fn rounds_run_in_abba_order() {
        let order = |kinds: &[Probes]| -> Vec<(usize, u32)> {
            schedule(2, 2, kinds)
                .into_iter()
                .map(|step| (step.arm, step.pair))
                .collect()
        };
        assert_eq!(order(&[Probes::Off]), [(0, 0), (1, 0), (1, 1), (0, 1)]);
        assert_eq!(
            order(&[Probes::Off, Probes::On]),
            [
                (0, 0),
                (1, 0),
                (1, 0),
                (0, 0),
                (1, 1),
                (0, 1),
                (0, 1),
                (1, 1)
            ]
        );
    }

    /// Every arm has one round of each kind in each pair.
    #[test]
    fn every_pair_is_complete() {
        let steps = schedule(3, 5, &[Probes::Off, Probes::On]);
        for pair in 0..5 {
            for arm in 0..3 {
                for probes in [Probes::Off, Probes::On] {
                    let wanted = Step { arm, pair, probes };
                    assert_eq!(steps.iter().filter(|&&step| step == wanted).count(), 1);
                }
            }
        }
    }

    /// The built-in scenarios read; an unknown name names them.
    #[test]
    fn scenarios_are_found() {
        for name in scenario_names() {
            assert!(scenario(name).is_ok());
        }
        assert!(scenario("x").unwrap_err().to_string().contains("static-1b"));
    }
}
