//! Watching a target until it is time to end, in steps that whatever shows it can follow.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use profiler::Session;

use super::TICK;
use crate::args_profile::ProfileArgs;
use crate::launch::Launched;
use crate::signals::Interrupt;

/// How the watching ended.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) interrupted: bool,
    pub(super) early: Option<String>,
    pub(super) status: Option<ExitStatus>,
}

/// Watches until the time is over, the target is gone, or somebody interrupts.
pub(super) fn watch(
    session: &mut Session,
    args: &ProfileArgs,
    interrupt: &Interrupt,
    mut launched: Option<&mut Launched>,
) -> anyhow::Result<End> {
    let began = Instant::now();
    let deadline = args.duration.map(|duration| began + duration);
    let mut next_slice = args.interval.map(|interval| began + interval);
    let mut next_tick = began + TICK;
    let mut end = End::default();
    loop {
        if interrupt.is_set() {
            end.interrupted = true;
            end.early = deadline.map(|_| "interrupted".to_owned());
            break;
        }
        if let Some(launched) = &mut launched
            && end.status.is_none()
        {
            end.status = launched.try_wait()?;
        }
        if session.target_ended() {
            end.early = deadline.map(|_| "every process of the target has ended".to_owned());
            break;
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        if let (Some(at), Some(interval)) = (next_slice, args.interval)
            && now >= at
        {
            session.slice()?;
            next_slice = Some(at + interval);
        }
        if now >= next_tick {
            session.tick();
            // Looking costs time where there are many processes; most of it shall stay theirs.
            next_tick = now + TICK.max(now.elapsed() * REST);
        }
        let wake = [deadline, next_slice]
            .into_iter()
            .flatten()
            .fold(now + POLL, Instant::min);
        std::thread::sleep(wake.saturating_duration_since(now));
    }
    Ok(end)
}

/// How often the end of the target is looked for.
const POLL: Duration = Duration::from_millis(10);

/// A look is followed by so many times its own length of rest: at most 5 % of a CPU.
const REST: u32 = 20;
