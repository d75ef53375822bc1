//! When the next request may be sent: a closed loop, limited by a count or by time.
//!
//! Apart from connections and protocols: a schedule only says "one more" or "no more".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of one phase, shared by all threads.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Requests that no thread has claimed; unlimited phases never look at it.
    left: AtomicU64,
    limited: bool,
    threads: u64,
}

impl Budget {
    /// Exactly `requests`, spread over `threads` as they ask.
    pub(crate) fn exactly(requests: u64, threads: u32) -> Self {
        Self {
            left: AtomicU64::new(requests),
            limited: true,
            threads: u64::from(threads.max(1)),
        }
    }

    /// As many as fit into the time.
    pub(crate) fn unlimited() -> Self {
        Self {
            left: AtomicU64::new(0),
            limited: false,
            threads: 1,
        }
    }

    /// Moves some requests to one thread: large shares while there are many, so that the counter
    /// is not fought over, single ones at the end, so that no thread sits on what another could
    /// send.
    fn claim(&self) -> u64 {
        let share = |left: u64| (left / (4 * self.threads)).clamp(1, SHARE_MAX).min(left);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left - share(left))
            })
            .map_or(0, share)
    }
}

/// One thread's hold on a [`Budget`].
#[derive(Debug)]
pub(crate) struct Claims {
    budget: Arc<Budget>,
    held: u64,
}

impl Claims {
    /// Holds nothing yet.
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, held: 0 }
    }

    /// Whether one more request may be sent; if so, it is taken.
    #[inline]
    pub(crate) fn take(&mut self) -> bool {
        if !self.budget.limited {
            return true;
        }
        if self.held == 0 {
            self.held = self.budget.claim();
        }
        if self.held == 0 {
            return false;
        }
        self.held -= 1;
        true
    }

    /// Whether [`Self::take`] would say no, now and for ever.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.budget.limited && self.held == 0 && self.budget.left.load(Ordering::Relaxed) == 0
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
        /// Whatever the order in which threads ask, exactly the asked number is sent.
        #[test]
        fn claims_add_up(requests in 0_u64..5000, order in prop::collection::vec(0_usize..4, 1..40)) {
            let budget = Arc::new(Budget::exactly(requests, 4));
            let mut claims: Vec<_> = (0..4).map(|_| Claims::new(Arc::clone(&budget))).collect();
            let mut taken = 0;
            for thread in order {
                taken += u64::from(claims[thread].take());
            }
            for claim in &mut claims {
                while claim.take() {
                    taken += 1;
                }
                prop_assert!(claim.is_exhausted());
            }
            prop_assert_eq!(taken, requests);
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
        assert!((0..1000).all(|_| claims.take()));
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
                    while claims.take() {
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
