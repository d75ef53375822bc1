//! How many requests may be sent, by a count or by time, and the number of each.
//!
//! Apart from connections and protocols: a schedule only says "one more" or "no more". When one is
//! due is the business of a `pacer`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of one phase, shared by all threads.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Requests that a thread has claimed.
    claimed: AtomicU64,
    /// Requests that may be claimed; `None` for as many as fit into the time.
    limit: Option<u64>,
    threads: u64,
}

impl Budget {
    /// Exactly `requests`, spread over `threads` as they ask.
    pub(crate) fn exactly(requests: u64, threads: u32) -> Self {
        Self {
            claimed: AtomicU64::new(0),
            limit: Some(requests),
            threads: u64::from(threads.max(1)),
        }
    }

    /// As many as fit into the time.
    pub(crate) fn unlimited() -> Self {
        Self {
            claimed: AtomicU64::new(0),
            limit: None,
            threads: 1,
        }
    }

    /// Moves some requests to one thread and returns their numbers: large shares while there are
    /// many, so that the counter is not fought over, single ones at the end, so that no thread sits
    /// on what another could send.
    fn claim(&self) -> Range<u64> {
        let Some(limit) = self.limit else {
            let first = self.claimed.fetch_add(SHARE_MAX, Ordering::Relaxed);
            return first..first + SHARE_MAX;
        };
        let share = |claimed: u64| {
            let left = limit - claimed;
            (left / (4 * self.threads)).clamp(1, SHARE_MAX).min(left)
        };
        self.claimed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |claimed| {
                Some(claimed + share(claimed))
            })
            .map_or(0..0, |first| first..first + share(first))
    }
}

/// One thread's hold on a [`Budget`].
#[derive(Debug)]
pub(crate) struct Claims {
    budget: Arc<Budget>,
    held: Range<u64>,
}

impl Claims {
    /// Holds nothing yet.
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, held: 0..0 }
    }

    /// The number of one more request that may be sent, from 0 in its phase; no other has it.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u64> {
        if self.held.is_empty() {
            self.held = self.budget.claim();
        }
        self.held.next()
    }

    /// Whether [`Self::take`] would say no, now and for ever.
    pub(crate) fn is_exhausted(&self) -> bool {
        let claimed = || self.budget.claimed.load(Ordering::Relaxed);
        self.held.is_empty() && self.budget.limit.is_some_and(|limit| claimed() == limit)
    }
}

/// Spreads `connections` over `threads`: exact, and none differs from another by more than one.
pub(crate) fn connections_of_thread(connections: u32, threads: u32, thread: u32) -> u32 {
    connections / threads + u32::from(thread < connections % threads)
}

/// Largest share claimed at once: a thread needs milliseconds for it, and the counter is touched
/// once in so many requests.
const SHARE_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the order in which threads ask, each number is given out exactly once.
        #[test]
        fn claims_add_up(requests in 0_u64..5000, order in prop::collection::vec(0_usize..4, 1..40)) {
            let budget = Arc::new(Budget::exactly(requests, 4));
            let mut claims: Vec<_> = (0..4).map(|_| Claims::new(Arc::clone(&budget))).collect();
            let mut taken = Vec::new();
            for thread in order {
                taken.extend(claims[thread].take());
            }
            for claim in &mut claims {
                taken.extend(std::iter::from_fn(|| claim.take()));
                prop_assert!(claim.is_exhausted());
            }
            taken.sort_unstable();
            prop_assert!(taken.into_iter().eq(0..requests));
        }

        /// Connections add up and differ by at most one between threads.
        #[test]
        fn connections_are_spread_exactly(connections in 1_u32..10_000, threads in 1_u32..64) {
            let shares: Vec<u32> =
                (0..threads).map(|thread| connections_of_thread(connections, threads, thread)).collect();
            prop_assert_eq!(shares.iter().sum::<u32>(), connections);
            let (low, high) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(high - low <= 1);
        }
    }

    /// A schedule by time never says no.
    #[test]
    fn unlimited_never_ends() {
        let mut claims = Claims::new(Arc::new(Budget::unlimited()));
        assert!((0..1000).all(|_| claims.take().is_some()));
        assert!(!claims.is_exhausted());
    }

    /// Threads that race still send exactly the asked number.
    #[test]
    fn racing_threads_add_up() {
        let budget = Arc::new(Budget::exactly(100_003, 4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let mut claims = Claims::new(Arc::clone(&budget));
                std::thread::spawn(move || {
                    let mut taken = 0_u64;
                    while claims.take().is_some() {
                        taken += 1;
                    }
                    taken
                })
            })
            .collect();
        let taken: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!(taken, 100_003);
    }
}
