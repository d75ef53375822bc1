//! `--wait`: attaches once every target is there.

use std::time::{Duration, Instant};

use profiler::{Config, ProfilerError, Session, Target};
use recording::exit_code;

use crate::failure::Failure;
use crate::output::note;
use crate::signals::Interrupt;

/// Waits for the targets, at most as long as asked, and attaches to them.
pub(crate) fn attach(
    config: &Config,
    longest: Option<Duration>,
    interrupt: &Interrupt,
) -> anyhow::Result<Session> {
    let begun = Instant::now();
    let deadline = longest.map(|longest| begun + longest);
    let mut said = false;
    loop {
        let looked = Instant::now();
        let missing = match config.targets.iter().find(|target| !target.is_there()) {
            Some(missing) => missing.clone(),
            None => match Session::attach(config.clone()) {
                Ok(session) => return Ok(session),
                Err(error) if error.is_absence() => gone(config, &error)?,
                Err(error) => return Err(failed(&error)),
            },
        };
        if !said {
            note(&format!("waiting for {missing}; Ctrl-C ends"));
            said = true;
        }
        // Looking costs time where there are many processes; most of it shall stay theirs.
        let next = Instant::now() + POLL.max(looked.elapsed() * REST);
        loop {
            let now = Instant::now();
            if interrupt.is_set() {
                let text = format!("interrupted while waiting for {missing}");
                return Err(Failure::with_code(exit_code::INTERRUPTED, text));
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(in_vain(&missing, begun.elapsed()));
            }
            if now >= next {
                break;
            }
            std::thread::sleep(POLL.min(next - now));
        }
    }
}

/// A target that was there and is not any more.
fn gone(config: &Config, error: &ProfilerError) -> anyhow::Result<Target> {
    let mut targets = config.targets.iter();
    let gone = targets.find(|target| target.resolve().is_err());
    // All of them are back: the next look attaches.
    let gone = gone.or(config.targets.first());
    gone.cloned().ok_or_else(|| failed(error))
}

/// What there is instead of the target, as without waiting.
fn in_vain(missing: &Target, waited: Duration) -> anyhow::Error {
    let waited = humantime::format_duration(Duration::from_millis(
        u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
    ));
    match missing.resolve() {
        Err(error) => Failure::with_code(
            error.exit_code(),
            format!("waited {waited} in vain: {error}"),
        ),
        Ok(_) => Failure::with_code(
            exit_code::USAGE,
            format!("waited {waited} for {missing}, which came too late; allow more with --wait"),
        ),
    }
}

/// An error of the profiler with its own exit code.
pub(super) fn failed(error: &ProfilerError) -> anyhow::Error {
    Failure::with_code(error.exit_code(), error.to_string())
}

/// How often a target is looked for.
const POLL: Duration = Duration::from_millis(50);
/// A look is followed by so many times its own length of rest: at most 5 % of a CPU.
const REST: u32 = 20;
