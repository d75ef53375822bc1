//! Slices of the window: what the threads counted, put together as soon as all of them have.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use recording::{LatencyHistogram, LoadSlice, Window};

use crate::orders::SliceCounts;
use crate::tally;

/// The slices that are not complete.
#[derive(Debug)]
pub(crate) struct SliceBoard {
    start_ns: u64,
    /// `None` makes the window one slice.
    length_ns: Option<u64>,
    threads: usize,
    /// The slice from which on a thread reports nothing more, for each thread that has ended.
    ended_at: Vec<u64>,
    first: u64,
    open: VecDeque<Sum>,
}

#[derive(Debug)]
struct Sum {
    reports: usize,
    ok: u64,
    failed: u64,
    latency: Histogram<u64>,
}

impl SliceBoard {
    /// A board for a window that begins at `start_ns`.
    pub(crate) fn new(start_ns: u64, length_ns: Option<u64>, threads: u32) -> Self {
        Self {
            start_ns,
            length_ns,
            threads: threads as usize,
            ended_at: Vec::new(),
            first: 0,
            open: VecDeque::new(),
        }
    }

    /// Adds a slice of a thread.
    pub(crate) fn add(&mut self, counts: &SliceCounts) {
        let Some(place) = counts.index.checked_sub(self.first) else {
            unreachable!("a slice is complete only when every thread has reported it");
        };
        while self.open.len() as u64 <= place {
            self.open.push_back(Sum {
                reports: 0,
                ok: 0,
                failed: 0,
                latency: LatencyHistogram::recorder(),
            });
        }
        let place = usize::try_from(place).expect("slices fit in memory");
        let sum = &mut self.open[place];
        sum.reports += 1;
        sum.ok += counts.ok;
        sum.failed += counts.failed;
        tally::add(&mut sum.latency, &counts.latency);
    }

    /// Adds the last slice of a thread, which ends with its leg.
    pub(crate) fn add_last(&mut self, counts: &SliceCounts) {
        self.add(counts);
        self.ended_at.push(counts.index + 1);
    }

    /// The next slice that every thread has reported. The last one of the window is held back until
    /// the end of the window is known.
    pub(crate) fn next(&mut self) -> Option<LoadSlice> {
        let end_ns = self.start_ns + (self.first + 1) * self.length_ns?;
        let is_last = self.open.len() <= 1 && !self.ended_at.is_empty();
        if is_last || !self.front_is_complete() {
            return None;
        }
        self.pop(end_ns)
    }

    /// The next slice when every thread has ended, cut at the end of the window.
    pub(crate) fn next_at_end(&mut self, window_end_ns: u64) -> Option<LoadSlice> {
        let full_end_ns = match self.length_ns {
            Some(length_ns) if self.open.len() > 1 => self.start_ns + (self.first + 1) * length_ns,
            _ => window_end_ns,
        };
        self.pop(full_end_ns)
    }

    fn front_is_complete(&self) -> bool {
        let silent = self
            .ended_at
            .iter()
            .filter(|&&ended| ended <= self.first)
            .count();
        self.open
            .front()
            .is_some_and(|sum| sum.reports + silent == self.threads)
    }

    fn pop(&mut self, end_ns: u64) -> Option<LoadSlice> {
        let sum = self.open.pop_front()?;
        let start_ns = self.start_ns + self.first * self.length_ns.unwrap_or(0);
        self.first += 1;
        let quantile =
            |quantile| (!sum.latency.is_empty()).then(|| sum.latency.value_at_quantile(quantile));
        Some(LoadSlice {
            window: Window { start_ns, end_ns },
            ok: sum.ok,
            failed: sum.failed,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: quantile(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(index: u64, ok: u64) -> SliceCounts {
        let mut latency = LatencyHistogram::recorder();
        for value in 1..=ok {
            tally::record(&mut latency, value);
        }
        SliceCounts {
            index,
            ok,
            failed: 1,
            latency,
        }
    }

    /// A slice appears when the slowest thread has reported it, and the last one ends with the
    /// window.
    #[test]
    fn slices_wait_for_every_thread() {
        let mut board = SliceBoard::new(100, Some(10), 2);
        board.add(&counts(0, 1));
        board.add(&counts(1, 2));
        assert_eq!(board.next(), None);
        board.add(&counts(0, 3));
        let slice = board.next().unwrap();
        assert_eq!(
            (slice.window, slice.ok, slice.failed),
            (
                Window {
                    start_ns: 100,
                    end_ns: 110
                },
                4,
                2
            )
        );
        assert_eq!((slice.p50_ns, slice.max_ns), (Some(1), Some(3)));
        assert_eq!(board.next(), None);
        // The thread that ended in slice 1 does not hold up slice 2 of the other.
        board.add_last(&counts(1, 0));
        board.add_last(&counts(2, 0));
        let slice = board.next().unwrap();
        assert_eq!(
            (slice.window, slice.ok),
            (
                Window {
                    start_ns: 110,
                    end_ns: 120
                },
                2
            )
        );
        assert_eq!(board.next(), None);
        let slice = board.next_at_end(127).unwrap();
        assert_eq!(
            (slice.window, slice.p99_ns),
            (
                Window {
                    start_ns: 120,
                    end_ns: 127
                },
                None
            )
        );
        assert_eq!(board.next_at_end(127), None);
    }

    /// Without an interval the window is one slice.
    #[test]
    fn one_slice_without_interval() {
        let mut board = SliceBoard::new(100, None, 1);
        board.add_last(&counts(0, 1));
        assert_eq!(board.next(), None);
        assert_eq!(
            board.next_at_end(150).unwrap().window,
            Window {
                start_ns: 100,
                end_ns: 150
            }
        );
    }
}
