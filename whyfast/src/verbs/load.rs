//! `whyfast load`: the load generator alone, or as a half that is told when to go.

mod selftest;
mod watching;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use loadgen::{Config, Control, LoadError, Stop, StopHandle, Warmup};
use recording::wire::{Command, Message, WIRE_VERSION};
use recording::{LoadPhase, LoadSlice, Partial, Recording, RecordingKind, exit_code};
use reports::Limits;

use crate::args::LoadArgs;
use crate::args_shape::LoadFormat;
use crate::failure::Failure;
use crate::machine::now_ns;
use crate::output::{self, Output};
use crate::signals::leave_to_parent;
use crate::verbs::profile::commands;
use crate::verbs::render;
use watching::Watching;

/// Loads and renders, or speaks as a half.
pub(crate) fn load(args: &LoadArgs) -> anyhow::Result<u8> {
    if args.selftest {
        return selftest::run();
    }
    let config = config(args)?;
    if args.control {
        leave_to_parent()?;
        return Ok(as_half(&config));
    }
    for (name, percent) in [
        ("--max-errors", args.max_errors),
        ("--min-rate", args.shape.min_rate),
    ] {
        if !(0.0..=100.0).contains(&percent) {
            return Err(Failure::usage(format!(
                "{name} is a percentage between 0 and 100"
            )));
        }
    }
    let outputs = Outputs::open(args)?;
    let mut control = Watching::new(&config)?;
    let result = match &args.shape.find_max {
        Some(limit) => loadgen::find_max(&config, limit, &mut control),
        None => loadgen::run(&config, &mut control),
    };
    let load = result.map_err(|error| explain(&error))?;
    drop(control);
    let mut recording = render::blank(RecordingKind::Load);
    recording.partial = load.ended_early.clone().map(|why| Partial { why });
    render::add_load(&mut recording, load);
    outputs.write(&recording)?;
    let limits = Limits {
        max_errors: args.max_errors / 100.0,
        min_rate: args.shape.min_rate / 100.0,
        ..Limits::default()
    };
    Ok(reports::exit_code(&recording, &limits))
}

/// The files of a result, checked before anything is sent.
struct Outputs {
    result: Output,
    format: LoadFormat,
    hdr: Option<Output>,
    hgrm: Option<Output>,
}

impl Outputs {
    fn open(args: &LoadArgs) -> anyhow::Result<Self> {
        let output = &args.output;
        let paths: Vec<&PathBuf> = [&output.output, &output.hdr, &output.hgrm]
            .into_iter()
            .flatten()
            .collect();
        let twice = paths
            .iter()
            .enumerate()
            .find(|(place, path)| paths[..*place].contains(path));
        if let Some((_, path)) = twice {
            return Err(Failure::usage(format!(
                "two results cannot be written to {}: give each a file of its own",
                path.display()
            )));
        }
        let file = |path: &Option<PathBuf>| path.as_deref().map(|path| Output::open(Some(path)));
        Ok(Self {
            result: Output::open(output.output.as_deref())?,
            format: output.format,
            hdr: file(&output.hdr).transpose()?,
            hgrm: file(&output.hgrm).transpose()?,
        })
    }

    fn write(self, recording: &Recording) -> anyhow::Result<()> {
        let style = output::style(&self.result);
        let text = render::result(recording, self.format.into(), &style)?;
        self.result.write(&text)?;
        if let Some(hdr) = self.hdr {
            hdr.write(&reports::hdr::log(recording))?;
        }
        if let Some(hgrm) = self.hgrm {
            hgrm.write(&reports::hdr::percentiles(recording))?;
        }
        Ok(())
    }
}

/// The arguments as a load.
fn config(args: &LoadArgs) -> anyhow::Result<Config> {
    let mut config = Config::new(args.url.clone().unwrap_or_default());
    config.connections = args.connections;
    config.threads = args.threads;
    config.stop = match (args.requests, args.duration) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "-n and -d are two ends for one run; give one of them",
            ));
        }
        (Some(requests), None) => Stop::Requests(requests),
        (None, Some(duration)) => Stop::Duration(duration),
        (None, None) if args.shape.find_max.is_some() => Stop::Duration(DEFAULT_TRIAL),
        (None, None) => Stop::Duration(DEFAULT_DURATION),
    };
    config.warmup = match (args.warmup, args.warmup_requests) {
        (Some(time), _) => Warmup::Time(time),
        (None, Some(requests)) => Warmup::Requests(requests),
        (None, None) => Warmup::None,
    };
    config.requests_per_connection = args.requests_per_connection;
    config.requests_jitter = args.requests_jitter;
    config.connection_lifetime = args.connection_lifetime;
    config.headers = args
        .header
        .iter()
        .map(|line| header(line))
        .collect::<anyhow::Result<_>>()?;
    if let Some(path) = &args.data {
        let body = loadgen::read_body(path)
            .with_context(|| format!("failed to read the body from {}", path.display()))?;
        config.body = Some(body);
        "POST".clone_into(&mut config.method);
    }
    if let Some(method) = &args.method {
        config.method.clone_from(method);
    }
    config.timeout = args.timeout;
    args.http.apply(&mut config);
    args.shape.apply(&mut config);
    args.request.apply(&mut config)?;
    config.slice_interval = Some(args.interval);
    config.barriers = args.barriers;
    config.validate().map_err(|error| explain(&error.into()))?;
    Ok(config)
}

/// `Name: value`; a value without a space before it is a value all the same.
pub(crate) fn header(line: &str) -> anyhow::Result<(String, String)> {
    match line.split_once(':') {
        Some((name, value)) => Ok((name.to_owned(), value.trim_start().to_owned())),
        None => Err(Failure::usage(format!(
            "-H {line:?}: a header is \"Name: value\""
        ))),
    }
}

fn explain(error: &LoadError) -> anyhow::Error {
    Failure::with_code(error.exit_code(), error.to_string())
}

/// The half of a comparison.
fn as_half(config: &Config) -> u8 {
    let mut half = LoadHalf::begin();
    if half.wait_for_go() == Go::Away {
        return exit_code::DONE;
    }
    match loadgen::run(config, &mut half) {
        Ok(load) => {
            say(&Message::LoadDone(Box::new(load)));
            exit_code::DONE
        }
        Err(error) => {
            let exit_code = error.exit_code();
            say(&Message::Error {
                text: error.to_string(),
                exit_code,
            });
            exit_code
        }
    }
}

/// Permission, or the end of whoever gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Go {
    On,
    Away,
}

struct LoadHalf {
    permissions: Receiver<Go>,
    /// Handed to the thread that reads commands, once there is something to stop.
    stop: Sender<StopHandle>,
}

impl LoadHalf {
    fn begin() -> Self {
        let (permit, permissions) = channel();
        let (stop, stops) = channel::<StopHandle>();
        std::thread::spawn(move || {
            for command in commands() {
                if command == Command::Go {
                    if permit.send(Go::On).is_err() {
                        return;
                    }
                } else {
                    break;
                }
            }
            // Told to stop, or stdin is closed: whoever waits goes on and ends.
            let _nobody_waits = permit.send(Go::Away);
            if let Ok(stop) = stops.recv() {
                stop.stop("interrupted");
            }
        });
        let half = Self { permissions, stop };
        say(&Message::Hello {
            half: "load".to_owned(),
            wire: WIRE_VERSION,
            pid: std::process::id(),
            clock_ns: now_ns(),
        });
        half
    }

    fn wait_for_go(&self) -> Go {
        self.permissions.recv().unwrap_or(Go::Away)
    }
}

/// A line that nobody reads any more is lost with its reader; the closed stdin ends this half.
fn say(message: &Message) {
    drop(Output::Stdout.write(&message.to_line()));
}

impl Control for LoadHalf {
    fn started(&mut self, stop: StopHandle) {
        // The thread that would take it ends only with this process.
        drop(self.stop.send(stop));
    }

    fn ready(&mut self, at_ns: u64) {
        say(&Message::Ready { at_ns });
    }

    fn phase(&mut self, phase: LoadPhase, at_ns: u64, barrier: bool) {
        say(&Message::Phase {
            phase,
            at_ns,
            barrier,
        });
        if barrier {
            let _go_or_stop = self.wait_for_go();
        }
    }

    fn slice(&mut self, slice: &LoadSlice) {
        say(&Message::LoadSlice(slice.clone()));
    }
}

/// The window where nothing says how long.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// The window of each rate of a search.
const DEFAULT_TRIAL: Duration = Duration::from_secs(2);
