//! How long the injections of requests take while requests are served, by the clock on the wall.
//!
//! In a loop of their own they would be faster than they are among requests, which use the same
//! caches. The times come in slices with a start, so that those of a certain window can be chosen.

use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

/// One kind of injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    Spin,
    Getppid,
    Open,
    Fstat,
    Sleep,
    Lock,
}

/// What the injections of the requests of some milliseconds took.
#[derive(Clone, Debug, PartialEq)]
pub struct InjectedTimes {
    /// Start of the slice, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Requests of the slice.
    pub requests: u64,
    /// Mean time of each kind of injection in a request, ns, that of reading the clock taken out, by
    /// the knob that asks for it. Requests that another task interrupted are not in it.
    pub mean_ns: [(&'static str, f64); KINDS],
}

/// Times of one worker.
#[derive(Clone, Debug)]
pub(crate) struct InjectionTimes {
    /// Has its full capacity from the start: serving allocates nothing.
    slices: Vec<Slice>,
    current: Slice,
    /// Per kind, the longest time that is believed: three times the shortest one of the slice before.
    /// A longer one was interrupted by another task.
    limits: [u64; KINDS],
}

/// Times of all workers that have ended.
#[derive(Debug, Default)]
pub(crate) struct AllTimes(Mutex<Vec<Slice>>);

#[derive(Clone, Copy, Debug)]
struct Slice {
    start_ns: u64,
    requests: u64,
    sums: [Sum; KINDS],
}

/// Times of one kind within its limit.
#[derive(Clone, Copy, Debug)]
struct Sum {
    count: u64,
    total_ns: u64,
    least_ns: u64,
}

impl Injection {
    /// Every kind, in the order in which they are done.
    pub(crate) const ALL: [Self; KINDS] = [
        Self::Spin,
        Self::Getppid,
        Self::Open,
        Self::Fstat,
        Self::Sleep,
        Self::Lock,
    ];

    /// The knob that asks for it.
    fn knob(self) -> &'static str {
        match self {
            Self::Spin => "spin-us",
            Self::Getppid => "getppid",
            Self::Open => "open",
            Self::Fstat => "fstat",
            Self::Sleep => "sleep-us",
            Self::Lock => "lock-us",
        }
    }
}

impl Default for InjectionTimes {
    fn default() -> Self {
        Self {
            slices: Vec::with_capacity(MAX_SLICES),
            current: Slice::starting(0),
            limits: [u64::MAX; KINDS],
        }
    }
}

impl InjectionTimes {
    /// Does what each kind stands for, and takes its time. The clock is read as often whatever is
    /// injected, so two servers whose injections are timed differ by the injections alone.
    pub(crate) fn of_each(&mut self, mut work: impl FnMut(Injection)) {
        let mut before_ns = now_ns();
        self.begin_request(before_ns);
        for (index, kind) in Injection::ALL.into_iter().enumerate() {
            work(kind);
            let after_ns = now_ns();
            self.add(index, after_ns.saturating_sub(before_ns));
            before_ns = after_ns;
        }
    }

    fn begin_request(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.current.start_ns) >= SLICE_NS {
            let ended = std::mem::replace(&mut self.current, Slice::starting(now_ns));
            self.limits = ended.sums.map(|sum| sum.least_ns.saturating_mul(3));
            if ended.requests > 0 && self.slices.len() < MAX_SLICES {
                self.slices.push(ended);
            }
        }
        self.current.requests += 1;
    }

    fn add(&mut self, index: usize, ns: u64) {
        let sum = &mut self.current.sums[index];
        sum.least_ns = sum.least_ns.min(ns);
        if ns <= self.limits[index] {
            sum.count += 1;
            sum.total_ns += ns;
        }
    }
}

impl AllTimes {
    /// Takes over what a worker measured, but for its last slice, which is not whole.
    pub(crate) fn merge(&self, times: InjectionTimes) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(times.slices);
    }

    /// The slices of all workers in the order of time. One in which a kind was never undisturbed is
    /// left out.
    pub(crate) fn slices(&self) -> Vec<InjectedTimes> {
        let clock_ns = clock_ns();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slices: Vec<InjectedTimes> = all
            .iter()
            .filter_map(|slice| slice.means(clock_ns))
            .collect();
        slices.sort_by_key(|slice| slice.start_ns);
        slices
    }
}

impl Slice {
    fn starting(start_ns: u64) -> Self {
        let nothing = Sum {
            count: 0,
            total_ns: 0,
            least_ns: u64::MAX,
        };
        Self {
            start_ns,
            requests: 0,
            sums: [nothing; KINDS],
        }
    }

    fn means(&self, clock_ns: f64) -> Option<InjectedTimes> {
        let mut mean_ns = Injection::ALL.map(|kind| (kind.knob(), 0.0));
        for (mean, sum) in mean_ns.iter_mut().zip(&self.sums) {
            if sum.count == 0 {
                return None;
            }
            mean.1 = (sum.total_ns as f64 / sum.count as f64 - clock_ns).max(0.0);
        }
        Some(InjectedTimes {
            start_ns: self.start_ns,
            requests: self.requests,
            mean_ns,
        })
    }
}

/// What reading the clock takes: the median of many readings.
fn clock_ns() -> f64 {
    let mut times: Vec<u64> = (0..1_001)
        .map(|_reading| {
            let before_ns = now_ns();
            now_ns().saturating_sub(before_ns)
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2] as f64
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, nanoseconds] =
        [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds * 1_000_000_000 + nanoseconds
}

const KINDS: usize = 6;
/// Short against the shortest window that somebody measures in, long enough for many requests.
const SLICE_NS: u64 = 10_000_000;
/// Ten minutes; later ones are not kept.
const MAX_SLICES: usize = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices end by the clock, and interrupted times are left out of their means.
    #[test]
    fn interrupted_times_are_left_out() {
        let mut times = InjectionTimes::default();
        let mut request = |now_ns: u64, ns: u64| {
            times.begin_request(now_ns);
            (0..KINDS).for_each(|index| times.add(index, ns));
        };
        request(SLICE_NS, 5_000);
        request(SLICE_NS + 1, 5_200);
        request(2 * SLICE_NS, 5_000);
        request(2 * SLICE_NS + 1, 15_001);
        request(2 * SLICE_NS + 2, 5_400);
        request(3 * SLICE_NS, 1);
        let means: Vec<(u64, u64, f64)> = times
            .slices
            .iter()
            .filter_map(|slice| slice.means(100.0))
            .map(|slice| (slice.start_ns, slice.requests, slice.mean_ns[2].1))
            .collect();
        assert_eq!(means, [(SLICE_NS, 2, 5_000.0), (2 * SLICE_NS, 3, 5_100.0)]);
    }

    /// A slice without an undisturbed time has no means.
    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(Slice::starting(1).means(0.0), None);
    }
}
