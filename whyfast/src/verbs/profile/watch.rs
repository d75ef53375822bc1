//! Watching a target until it is time to end, with somebody who is shown the slices.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use profiler::Session;
use recording::ProfileSlice;

use super::TICK;
use crate::args_profile::ProfileArgs;
use crate::launch::Launched;
use crate::requests::Counting;
use crate::signals::Interrupt;

/// Somebody who is shown slices while a target is watched.
pub(crate) trait Onlooker {
    /// How often a slice is taken.
    fn interval(&self) -> Option<Duration>;

    /// Whether a slice can be taken in now. One that cannot is not taken: what belongs to it is in the
    /// next.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// A slice, as it was taken.
    fn show(&mut self, slice: ProfileSlice) -> anyhow::Result<()>;

    /// Called every few milliseconds: whether to end.
    fn attend(&mut self, _session: &Session) -> anyhow::Result<Option<Leave>> {
        Ok(None)
    }
}

/// Why an onlooker wants to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// The user asked for it.
    Asked,
    /// Nobody is there any more who could be shown anything.
    Gone,
}

/// Nobody: slices are kept in the recording, if any are asked for.
#[derive(Debug)]
pub(super) struct Nobody(pub(super) Option<Duration>);

impl Onlooker for Nobody {
    fn interval(&self) -> Option<Duration> {
        self.0
    }

    fn show(&mut self, _slice: ProfileSlice) -> anyhow::Result<()> {
        Ok(())
    }
}

/// How the watching ended.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(super) interrupted: bool,
    pub(super) early: Option<String>,
    pub(super) status: Option<ExitStatus>,
    /// Whether the target has ended.
    pub(crate) target_gone: bool,
    /// Whether the onlooker wanted it.
    pub(crate) left: Option<Leave>,
}

/// How long is watched; `None` is until somebody ends it.
pub(super) fn limit(args: &ProfileArgs) -> Option<Duration> {
    args.duration.filter(|duration| !duration.is_zero())
}

/// What is looked after meanwhile.
pub(super) struct Watched<'a> {
    pub(super) session: &'a mut Session,
    pub(super) launched: Option<&'a mut Launched>,
    pub(super) counting: Option<&'a mut Counting>,
}

/// Watches until the time is over, the target is gone, or somebody ends it.
pub(super) fn watch(
    watched: Watched<'_>,
    args: &ProfileArgs,
    interrupt: &Interrupt,
    onlooker: &mut dyn Onlooker,
) -> anyhow::Result<End> {
    let Watched {
        session,
        mut launched,
        mut counting,
    } = watched;
    let began = Instant::now();
    let deadline = limit(args).map(|limit| began + limit);
    let mut next_slice = onlooker.interval().map(|interval| began + interval);
    let mut next_tick = began + TICK;
    let mut end = End::default();
    loop {
        end.left = onlooker.attend(session)?;
        if interrupt.is_set() || end.left.is_some() {
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
            end.target_gone = true;
            end.early = deadline.map(|_| "every process of the target has ended".to_owned());
            break;
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        if let (Some(at), Some(interval)) = (next_slice, onlooker.interval())
            && now >= at
        {
            if onlooker.is_ready() {
                onlooker.show(session.slice()?)?;
            }
            next_slice = Some(following(at, interval, now));
        }
        if now >= next_tick {
            session.tick();
            if let Some(counting) = &mut counting {
                counting.attend();
            }
            // Looking costs time where there are many processes; most of it shall stay theirs.
            next_tick = now + TICK.max(now.elapsed() * REST);
        }
        let wake = [deadline, next_slice]
            .into_iter()
            .flatten()
            .fold(now + POLL, Instant::min);
        std::thread::sleep(wake.saturating_duration_since(Instant::now()));
    }
    Ok(end)
}

/// When the next slice is due. Those that were missed, because this machine stood still, are not made up
/// for one after the other.
fn following(at: Instant, interval: Duration, now: Instant) -> Instant {
    let next = at + interval;
    if next > now { next } else { now + interval }
}

/// How often the end of the target is looked for.
const POLL: Duration = Duration::from_millis(10);

/// A look is followed by so many times its own length of rest: at most 5 % of a CPU.
const REST: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices keep their grid, until one is missed.
    #[test]
    fn slices_keep_their_grid() {
        let began = Instant::now();
        let ms = |ms: u64| began + Duration::from_millis(ms);
        let interval = Duration::from_millis(100);
        assert_eq!(following(ms(100), interval, ms(103)), ms(200));
        assert_eq!(following(ms(100), interval, ms(199)), ms(200));
        assert_eq!(following(ms(100), interval, ms(950)), ms(1050));
    }
}
