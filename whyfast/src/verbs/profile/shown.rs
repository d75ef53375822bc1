//! Who is shown the slices of a profile, as the options ask: nobody, a reader of a series, or a user at a
//! terminal.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use profiler::Config;
use recording::{Detail, Profile};

use super::series::{Series, SeriesFormat};
use super::watch::{End, Nobody, Onlooker};
use crate::args_profile::{ProfileArgs, ProfileFormat};
use crate::failure::Failure;
use crate::live::{self, About, Live};
use crate::output::Output;
use crate::requests::RequestsFrom;
use crate::serve::Scraped;
use crate::signals::Interrupt;

/// Who will be shown the slices, before the window is open.
pub(super) enum Planned {
    Nobody(Option<Duration>),
    Reader(SeriesFormat, Duration, Box<dyn Write + Send>),
    Scrapers(TcpListener),
    User(About, Duration),
}

/// Who is shown the slices.
#[derive(Debug)]
pub(super) enum Shown {
    Nobody(Nobody),
    Reader(Series),
    Scrapers(Scraped),
    User(Box<Live>),
}

/// Refuses what the options cannot mean together, before anything is started.
pub(super) fn check(args: &ProfileArgs) -> anyhow::Result<()> {
    let is_series = SeriesFormat::of(args.output.format).is_some();
    let is_endless = args.duration.is_some_and(|duration| duration.is_zero());
    if is_series && args.serve.is_some() {
        return Err(Failure::usage(
            "--serve answers who asks for the counters, and --format jsonl or csv writes slices: choose one of both",
        ));
    }
    if is_series && args.live {
        return Err(Failure::usage(
            "--live shows the slices, and --format jsonl or csv writes them: choose one of both",
        ));
    }
    if is_series && args.interval.is_none() {
        return Err(Failure::usage(
            "--format jsonl and csv write a slice for each interval: say how long one is with --interval \
             100ms",
        ));
    }
    if is_endless && args.interval.is_some() && !is_series && !args.live {
        return Err(Failure::usage(
            "--duration 0 has no end, and --interval keeps every slice until there: write them as they are \
             taken with --format jsonl or csv, show them with --live, or leave --interval out",
        ));
    }
    let draws_stacks = matches!(
        args.output.format,
        ProfileFormat::Svg | ProfileFormat::Folded | ProfileFormat::FoldedOffCpu
    );
    if draws_stacks && Detail::from(args.detail) < Detail::Stacks {
        return Err(Failure::usage(
            "--format svg, folded and folded-off-cpu show the functions that threads were in, which are not \
             sampled at this detail: add --detail stacks",
        ));
    }
    if !args.command.is_empty() && matches!(args.requests_from, Some(RequestsFrom::Counter(_))) {
        return Err(Failure::usage(
            "--requests-from url=... reads a counter before the window, when the command has not been started: \
             start it, and profile it with --pid",
        ));
    }
    if args.live {
        live::require_terminal()?;
    }
    Ok(())
}

/// What the options mean for how the target is followed.
pub(super) fn configure(config: &mut Config, args: &ProfileArgs) {
    let is_endless =
        args.serve.is_some() || args.duration.is_some_and(|duration| duration.is_zero());
    config.endless = is_endless || args.live || SeriesFormat::of(args.output.format).is_some();
    config.slice_details = args.live || args.serve.is_some();
    let can_return = config.targets.iter().any(profiler::Target::can_return);
    config.return_within = args
        .wait
        .filter(|_| can_return && (is_endless || args.live))
        .map(|longest| longest.unwrap_or(Duration::MAX));
}

impl Planned {
    /// Opens what takes privileges; the output itself is left where slices do not go to it.
    pub(super) fn new(
        args: &ProfileArgs,
        target: String,
        output: Output,
        listener: Option<TcpListener>,
    ) -> anyhow::Result<(Self, Option<Output>)> {
        if let Some(listener) = listener {
            return Ok((Self::Scrapers(listener), Some(output)));
        }
        if args.live {
            let about = About {
                target,
                detail: args.detail.into(),
                by: args.by.map(Into::into),
                can_return: args.wait.is_some(),
            };
            let refresh = args.interval.unwrap_or(REFRESH);
            return Ok((Self::User(about, refresh), Some(output)));
        }
        match SeriesFormat::of(args.output.format).zip(args.interval) {
            Some((format, interval)) => {
                let stream = output.stream()?;
                Ok((Self::Reader(format, interval, stream), None))
            }
            None => Ok((Self::Nobody(args.interval), Some(output))),
        }
    }

    /// Begins to show. Privileges have been given up: no thread that this starts has any.
    pub(super) fn begin(self) -> anyhow::Result<Shown> {
        Ok(match self {
            Self::Nobody(interval) => Shown::Nobody(Nobody(interval)),
            Self::Reader(format, interval, stream) => {
                Shown::Reader(Series::begin(format, interval, stream))
            }
            Self::Scrapers(listener) => Shown::Scrapers(Scraped::begin(listener)?),
            Self::User(about, refresh) => Shown::User(Box::new(Live::begin(about, refresh)?)),
        })
    }
}

impl Shown {
    /// Who takes the slices.
    pub(super) fn onlooker(&mut self) -> &mut dyn Onlooker {
        match self {
            Self::Nobody(nobody) => nobody,
            Self::Reader(series) => series,
            Self::Scrapers(scraped) => scraped,
            Self::User(live) => &mut **live,
        }
    }

    /// Shows what is left, once the window is closed.
    pub(super) fn end(
        self,
        profile: &mut Profile,
        end: &End,
        format: ProfileFormat,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        match self {
            Self::Nobody(_) => Ok(()),
            Self::Reader(series) => series.end(profile, interrupt),
            Self::Scrapers(_) => {
                // Only the last one was kept, which is no series.
                profile.slices.clear();
                Ok(())
            }
            Self::User(live) => {
                // Only the last one was kept, which is no series.
                profile.slices.clear();
                live.end(end, format == ProfileFormat::Text)
            }
        }
    }
}

/// How often the screen changes.
const REFRESH: Duration = Duration::from_secs(1);
