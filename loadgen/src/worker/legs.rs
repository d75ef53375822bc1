//! Legs: the phases of a run as one thread carries them out, and their slices.

use std::sync::Arc;

use recording::CpuTime;

use crate::clock;
use crate::observed::Observed;
use crate::orders::{Drained, Leg, LegCounts, Notice, SliceCounts};
use crate::schedule::Claims;
use crate::tally::{self, Tally};
use crate::timeline::Bins;

use super::{Slot, Worker};

/// The current leg.
#[derive(Debug)]
pub(super) struct RunningLeg {
    pub(super) leg: Leg,
    pub(super) claims: Claims,
    pub(super) cpu_at_start: CpuTime,
    pub(super) slice: SliceCounts,
    pub(super) slice_ends_ns: u64,
    /// When the last request ended.
    pub(super) last_ns: u64,
}

impl Worker {
    /// Begins a leg; what is in flight is carried into it.
    pub(super) fn begin_leg(&mut self, leg: Leg) {
        let before = std::mem::replace(&mut self.tally, Tally::for_plan(&self.plan));
        self.tally.carry_in(&before, self.in_flight);
        self.observer.begin_leg(leg.starts_ns);
        for slot in &mut self.slots {
            slot.responses = 0;
        }
        if let Some(pacing) = &mut self.pacing {
            pacing.begin_leg(&self.plan, leg.starts_ns, leg.measured);
        }
        let open = self.slots.iter().filter(|slot| slot.is_open()).count();
        self.tally.connections.asked = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.tally.connections.open_at_start = open as u64;
        if self.bins.is_none() {
            self.opening_received_bytes = before.clear.received_bytes;
            self.bins = Some(Bins::new(leg.starts_ns));
        }
        self.leg = Some(RunningLeg {
            claims: Claims::new(Arc::clone(&leg.budget)),
            cpu_at_start: clock::thread_cpu(),
            slice: self.new_slice(0),
            slice_ends_ns: leg
                .slice_ns
                .map_or(u64::MAX, |slice_ns| leg.starts_ns + slice_ns),
            last_ns: leg.starts_ns,
            leg,
        });
        self.update_boundary();
        self.pump = true;
    }

    /// Ends the current leg, if there is one; what is in flight counts as unfinished.
    pub(super) fn end_leg(&mut self, at_ns: u64) {
        let Some(running) = self.leg.take() else {
            return;
        };
        let observed = self.observed(at_ns, running.claims.is_exhausted());
        self.tally.leave_unfinished(self.in_flight);
        let fresh = Tally::for_plan(&self.plan);
        let mut counts = LegCounts {
            measured: running.leg.measured,
            tally: std::mem::replace(&mut self.tally, fresh),
            last_slice: running.slice,
            cpu: since(running.cpu_at_start, clock::thread_cpu()),
            ended_ns: at_ns,
            observed,
        };
        if counts.measured && self.plan.shape.drain {
            self.drain = Some(Drained::default());
        } else {
            self.tally.carry_in(&counts.tally, self.in_flight);
        }
        tally::add(&mut counts.tally.latency, &counts.last_slice.latency);
        self.report(Notice::LegDone(Box::new(counts)));
        self.update_boundary();
    }

    /// What was seen in a leg that ends.
    fn observed(&mut self, at_ns: u64, is_exhausted: bool) -> Observed {
        let mut observed = self.observer.end_leg(at_ns);
        let started = |slot: &Slot| slot.is_open() && slot.protocol.served() > 0;
        for slot in self.slots.iter().filter(|slot| started(slot)) {
            tally::record(&mut observed.life, at_ns.saturating_sub(slot.since_ns));
        }
        let responses = self.slots.iter().map(|slot| slot.responses as f64);
        observed.responses = responses.collect();
        for slot in &self.slots {
            slot.each_started_ns(&mut |started_ns| {
                tally::record(&mut observed.ages, at_ns.saturating_sub(started_ns));
            });
        }
        if let Some(pacing) = &mut self.pacing {
            observed.due = pacing.end_leg(at_ns, is_exhausted);
            observed.dropped = pacing.dropped;
        }
        observed
    }

    /// Crosses every boundary up to now, in order, so that what happens next is counted where it
    /// belongs.
    #[cold]
    pub(super) fn cross_boundaries(&mut self) {
        while let Some(running) = &mut self.leg {
            let leg_ends_ns = running.leg.ends_ns.unwrap_or(u64::MAX);
            if running.slice_ends_ns <= self.now_ns && running.slice_ends_ns < leg_ends_ns {
                self.end_slice();
            } else if leg_ends_ns <= self.now_ns {
                self.end_leg(leg_ends_ns);
                if let Some(next) = self.next_legs.pop_front() {
                    self.begin_leg(next);
                }
            } else {
                break;
            }
        }
        self.update_boundary();
    }

    fn end_slice(&mut self) {
        let Some(index) = self.leg.as_ref().map(|running| running.slice.index) else {
            return;
        };
        let fresh = self.new_slice(index + 1);
        let Some(running) = &mut self.leg else {
            return;
        };
        running.slice_ends_ns += running.leg.slice_ns.unwrap_or(u64::MAX);
        let ended = std::mem::replace(&mut running.slice, fresh);
        let measured = running.leg.measured;
        tally::add(&mut self.tally.latency, &ended.latency);
        if measured {
            self.report(Notice::Slice(Box::new(ended)));
        }
    }

    /// Ends a leg by count whose requests have all ended.
    pub(super) fn end_leg_when_drained(&mut self) {
        let Some(running) = &self.leg else {
            self.end_drain();
            return;
        };
        if self.in_flight == 0 && running.claims.is_exhausted() {
            self.end_leg(running.last_ns);
        }
    }

    /// Reports what became of what the window left behind, once nothing of it is in flight.
    pub(super) fn end_drain(&mut self) {
        if self.in_flight == 0
            && let Some(drained) = self.drain.take()
        {
            self.report(Notice::Drained(drained));
        }
    }

    /// Takes back what is in flight after the last leg.
    pub(super) fn abort(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].oldest_ns().is_some() {
                self.slots[index].queue.clear();
                self.shut(index);
            }
        }
        self.in_flight = 0;
    }

    fn new_slice(&self, index: u64) -> SliceCounts {
        SliceCounts {
            index,
            ok: 0,
            failed: 0,
            latency: tally::histogram(self.plan.timeout_ns),
        }
    }

    fn update_boundary(&mut self) {
        self.next_boundary_ns = self.leg.as_ref().map_or(u64::MAX, |running| {
            running
                .slice_ends_ns
                .min(running.leg.ends_ns.unwrap_or(u64::MAX))
        });
    }
}

fn since(start: CpuTime, end: CpuTime) -> CpuTime {
    CpuTime {
        // How the total divides is an estimate of the kernel's, which may take some back.
        user_ns: end.user_ns.saturating_sub(start.user_ns),
        system_ns: end.system_ns.saturating_sub(start.system_ns),
    }
}
