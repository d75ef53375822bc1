//! When requests of an open loop are due: the part of a schedule that belongs to one thread.
//!
//! All threads together keep the law that was asked for: with equal distances each takes every
//! n-th request, and independent Poisson processes add up to one.

use recording::Arrivals;

use crate::random::Random;
use crate::stages::Stages;

/// The due times of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    stages: Stages,
    start_ns: u64,
    threads: f64,
    /// Place of the next request in the sum of the rates.
    place: f64,
    /// `None` for equal distances.
    random: Option<Random>,
    next_ns: u64,
    /// Requests that have become due and were taken or dropped.
    pub(crate) due: u64,
}

impl Pacer {
    /// The share of `thread` of a schedule that begins at `start_ns`.
    pub(crate) fn new(
        stages: Stages,
        arrivals: Arrivals,
        start_ns: u64,
        (thread, threads): (u32, u32),
        seed: u64,
    ) -> Self {
        let random = (arrivals == Arrivals::Poisson).then(|| Random::new(seed, u64::from(thread)));
        let mut pacer = Self {
            stages,
            start_ns,
            threads: f64::from(threads),
            place: f64::from(thread),
            random,
            next_ns: 0,
            due: 0,
        };
        if pacer.random.is_some() {
            pacer.place = 0.0;
            pacer.step();
        }
        pacer.next_ns = pacer.time_of_place();
        pacer
    }

    /// When the next request is due; the largest number for never.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes the next request, which has to be due, and returns when it was.
    #[inline]
    pub(crate) fn take(&mut self) -> u64 {
        let due_ns = self.next_ns;
        self.due += 1;
        self.step();
        self.next_ns = self.time_of_place().max(due_ns);
        due_ns
    }

    /// Drops what was due before `before_ns`; returns how many.
    pub(crate) fn drop_before(&mut self, before_ns: u64) -> u64 {
        let before = self.due;
        while self.next_ns < before_ns {
            self.take();
        }
        self.due - before
    }

    fn step(&mut self) {
        let gap = self.random.as_mut().map_or(1.0, Random::exponential);
        self.place += gap * self.threads;
    }

    fn time_of_place(&self) -> u64 {
        self.start_ns
            .saturating_add(self.stages.time_of(self.place))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pacers(rate: f64, arrivals: Arrivals, threads: u32) -> Vec<Pacer> {
        (0..threads)
            .map(|thread| {
                let stages = Stages::constant(rate);
                Pacer::new(stages, arrivals, 1000, (thread, threads), 5)
            })
            .collect()
    }

    proptest! {
        /// However many threads, the due times together are those of one thread.
        #[test]
        fn threads_share_one_schedule(rate in 1.0_f64..100_000.0, threads in 1_u32..9) {
            let mut due: Vec<u64> = pacers(rate, Arrivals::Constant, threads)
                .iter_mut()
                .flat_map(|pacer| (0..50).map(|_| pacer.take()).collect::<Vec<_>>())
                .collect();
            due.sort_unstable();
            let single = &mut pacers(rate, Arrivals::Constant, 1)[0];
            for found in due {
                prop_assert!(found.abs_diff(single.take()) <= 1);
            }
        }
    }

    /// Poisson arrivals of several threads together have the asked mean.
    #[test]
    fn poisson_keeps_the_rate() {
        let mut count = 0;
        for pacer in &mut pacers(10_000.0, Arrivals::Poisson, 4) {
            count += pacer.drop_before(1000 + 10_000_000_000);
        }
        // Four deviations of the number of events in ten seconds.
        assert!(count.abs_diff(100_000) < 1265, "{count}");
    }

    /// What is dropped is counted, and what comes after it is kept.
    #[test]
    fn drops_are_counted() {
        let pacer = &mut pacers(1000.0, Arrivals::Constant, 1)[0];
        assert_eq!(pacer.drop_before(1000 + 10_000_000), 10);
        assert_eq!(pacer.next_ns(), 1000 + 10_000_000);
        assert_eq!((pacer.take(), pacer.due), (1000 + 10_000_000, 11));
    }
}
