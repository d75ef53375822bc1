//! Completions per millisecond over a whole run, in bounded memory.

/// Counts of one thread. When the run outgrows the bins, neighbours are added together and a bin
/// becomes twice as wide.
#[derive(Clone, Debug)]
pub(crate) struct Bins {
    start_ns: u64,
    width_ns: u64,
    counts: Vec<u32>,
    /// The bin that was counted in last, and where it ends.
    current: usize,
    current_end_ns: u64,
}

impl Bins {
    /// Bins from `start_ns` on.
    pub(crate) fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            width_ns: BIN_NS,
            counts: vec![0; BINS_MAX],
            current: 0,
            current_end_ns: start_ns + BIN_NS,
        }
    }

    /// Counts a completion; times never go back.
    #[inline]
    pub(crate) fn add(&mut self, at_ns: u64) {
        if at_ns >= self.current_end_ns {
            self.advance(at_ns);
        }
        self.counts[self.current] = self.counts[self.current].saturating_add(1);
    }

    #[cold]
    fn advance(&mut self, at_ns: u64) {
        let since_start = at_ns.saturating_sub(self.start_ns);
        while since_start / self.width_ns >= BINS_MAX as u64 {
            self.fold();
        }
        let bin = since_start / self.width_ns;
        self.current = usize::try_from(bin).expect("bins fit in memory");
        self.current_end_ns = self.start_ns + (bin + 1) * self.width_ns;
    }

    /// Makes bins twice as wide.
    fn fold(&mut self) {
        for bin in 0..BINS_MAX / 2 {
            self.counts[bin] = self.counts[2 * bin].saturating_add(self.counts[2 * bin + 1]);
        }
        self.counts[BINS_MAX / 2..].fill(0);
        self.width_ns *= 2;
        self.current /= 2;
    }

    /// Adds the bins of threads that began at the same instant; `None` when there are none.
    pub(crate) fn merge(threads: Vec<Self>) -> Option<recording::Timeline> {
        let width_ns = threads.iter().map(|bins| bins.width_ns).max()?;
        let mut completed = vec![0_u32; BINS_MAX];
        let mut start_ns = u64::MAX;
        for mut bins in threads {
            while bins.width_ns < width_ns {
                bins.fold();
            }
            start_ns = start_ns.min(bins.start_ns);
            for (sum, count) in completed.iter_mut().zip(&bins.counts) {
                *sum = sum.saturating_add(*count);
            }
        }
        let used = completed
            .iter()
            .rposition(|&count| count > 0)
            .map_or(0, |last| last + 1);
        completed.truncate(used);
        Some(recording::Timeline {
            start_ns,
            bin_ns: width_ns,
            completed,
        })
    }
}

/// Width of a bin until a run outgrows [`BINS_MAX`]: finer than any slice of a profile.
const BIN_NS: u64 = 1_000_000;
/// 65 seconds at first, 256 KiB per thread for ever.
const BINS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Each case touches all bins of three timelines.
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// No completion is lost or moved out of its bin, however long the run and whoever saw it.
        #[test]
        fn counts_survive_folding(mut at_ms in prop::collection::vec(0_u64..400_000, 1..200)) {
            at_ms.sort_unstable();
            let (mut a, mut b) = (Bins::new(5), Bins::new(5));
            for (index, &at) in at_ms.iter().enumerate() {
                let bins = if index % 3 == 0 { &mut a } else { &mut b };
                bins.add(5 + at * 1_000_000);
            }
            let timeline = Bins::merge(vec![a, b]).unwrap();
            prop_assert!(timeline.completed.len() <= BINS_MAX);
            for (bin, &count) in timeline.completed.iter().enumerate() {
                let wanted = at_ms.iter().filter(|&&at| {
                    at * 1_000_000 / timeline.bin_ns == bin as u64
                });
                prop_assert_eq!(u64::from(count), wanted.count() as u64);
            }
            prop_assert_eq!(timeline.completed.iter().sum::<u32>() as usize, at_ms.len());
        }
    }
}
