//! How long the injections of a request take while requests are served, by the clock on the wall.
//!
//! In a loop of their own they would be faster than they are among requests, which use the same
//! caches.

use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

/// Times of one worker, by size: 32 classes for each power of two.
#[derive(Clone, Debug)]
pub(crate) struct InjectionTimes {
    /// Count and sum, ns.
    classes: Box<[(u64, u64)]>,
}

/// Times of all workers that have ended.
#[derive(Debug, Default)]
pub(crate) struct AllTimes(Mutex<InjectionTimes>);

impl Default for InjectionTimes {
    fn default() -> Self {
        Self {
            classes: vec![(0, 0); CLASSES].into_boxed_slice(),
        }
    }
}

impl InjectionTimes {
    /// Does something and takes its time.
    pub(crate) fn of(&mut self, work: impl FnOnce()) {
        let start_ns = now_ns();
        work();
        self.add(now_ns().saturating_sub(start_ns));
    }

    fn add(&mut self, ns: u64) {
        let class = &mut self.classes[class_of(ns)];
        class.0 += 1;
        class.1 += ns;
    }

    /// The mean, ns, of those up to three times the median: a longer one was interrupted by another
    /// task. `None` without any.
    fn mean_ns(&self) -> Option<f64> {
        let count: u64 = self.classes.iter().map(|class| class.0).sum();
        let mut below = 0;
        let median = self.classes.iter().find(|class| {
            below += class.0;
            below * 2 > count
        })?;
        let longest = 3 * (median.1 / median.0.max(1)).max(1);
        let (mut kept, mut sum) = (0, 0);
        for &(count, ns) in self.classes.iter().filter(|class| class.0 > 0) {
            if ns / count <= longest {
                kept += count;
                sum += ns;
            }
        }
        Some(sum as f64 / kept as f64)
    }
}

impl AllTimes {
    /// Takes over what a worker measured.
    pub(crate) fn merge(&self, times: &InjectionTimes) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (sum, class) in all.classes.iter_mut().zip(&times.classes) {
            sum.0 += class.0;
            sum.1 += class.1;
        }
    }

    /// The mean time of the injections of a request, ns, that of reading the clock taken out.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nothing = InjectionTimes::default();
        for _time in 0..1_000 {
            nothing.of(|| {});
        }
        Some((all.mean_ns()? - nothing.mean_ns()?).max(0.0))
    }
}

/// Power of two and the next five bits.
fn class_of(ns: u64) -> usize {
    if ns < 32 {
        return usize::try_from(ns).expect("less than 32");
    }
    let power = ns.ilog2();
    let fraction = (ns >> (power - 5)) & 31;
    power as usize * 32 + usize::try_from(fraction).expect("less than 32")
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, nanoseconds] =
        [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds * 1_000_000_000 + nanoseconds
}

const CLASSES: usize = 64 * 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Interrupted times are left out of the mean, and equal ones are their own mean.
    #[test]
    fn interrupted_times_are_left_out() {
        let mut times = InjectionTimes::default();
        assert_eq!(times.mean_ns(), None);
        (0..100).for_each(|_| times.add(5_000));
        assert_eq!(times.mean_ns(), Some(5_000.0));
        times.add(4_000_000);
        assert_eq!(times.mean_ns(), Some(5_000.0));
        times.add(5_202);
        assert_eq!(times.mean_ns(), Some(5_002.0));
    }

    proptest! {
        /// Every time has a class, and longer ones never have a smaller one.
        #[test]
        fn classes_are_in_order(a: u64, b: u64) {
            let (short, long) = (a.min(b), a.max(b));
            prop_assert!(class_of(short) <= class_of(long));
            prop_assert!(class_of(long) < CLASSES);
        }
    }
}
