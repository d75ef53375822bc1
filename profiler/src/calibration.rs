//! What the programs cost on this machine, measured at start on threads of our own: the same loop
//! before they are attached and as their target.

use std::io::{Read as _, Write as _};
use std::time::Instant;

use recording::{Calibration, Detail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::processes;
use crate::sys::touch_fresh_pages;

/// Times without probes, ns.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "the unit ends each name, as everywhere"
)]
pub(crate) struct Bare {
    call_ns: f64,
    fault_ns: Option<f64>,
    /// A message to another thread on the same CPU and back; `None` where that is not needed, or did
    /// not work.
    round_trip_ns: Option<f64>,
}

impl Bare {
    /// Measures before anything is attached. Takes some milliseconds.
    pub(crate) fn measure(detail: Detail) -> Self {
        Self {
            call_ns: call_ns(),
            fault_ns: fault_ns(),
            round_trip_ns: (detail >= Detail::Sched)
                .then(round_trip)
                .flatten()
                .map(|(ns, _)| ns),
        }
    }

    /// Measures again as a target of the programs; with the threads that did.
    pub(crate) fn compare(&self) -> (Calibration, Vec<u32>) {
        let added = |with: f64, without: f64| (with - without).max(0.0);
        let probe_ns_per_call = added(call_ns(), self.call_ns);
        let mut tids = processes::tids(std::process::id());
        let again = self.round_trip_ns.and_then(|_| round_trip());
        tids.extend(again.iter().map(|&(_, tid)| tid));
        let round_trips = self.round_trip_ns.zip(again.map(|(ns, _)| ns));
        let calibration = Calibration {
            probe_ns_per_call,
            // Four calls, and each of the two threads leaves the CPU once and comes back.
            probe_ns_per_switch: round_trips
                .map(|(without, with)| added(with - without, 4.0 * probe_ns_per_call) / 2.0),
            // Not that of a number without a call, which the kernel turns away sooner: 66 ns where
            // `getuid` takes 83 and `getppid` 110.
            entry_exit_ns: self.call_ns,
            page_fault_ns: self.fault_ns,
            null_call_inside_ns: None,
        };
        (calibration, tids)
    }
}

fn call_ns() -> f64 {
    least(|| {
        per_unit(CALLS, || {
            let _parent = rustix::process::getppid();
        })
    })
}

/// The least of some repetitions: what disturbs only adds.
fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..REPETITIONS)
        .map(|_| measure())
        .fold(f64::INFINITY, f64::min)
}

fn per_unit(units: u32, mut unit: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _unit in 0..units {
        unit();
    }
    begun.elapsed().as_nanos() as f64 / f64::from(units)
}

/// First touch of a fresh page.
fn fault_ns() -> Option<f64> {
    let ns = (0..REPETITIONS)
        .filter_map(|_| touch_fresh_pages(PAGES).ok())
        .min()?;
    Some(ns as f64 / PAGES as f64)
}

/// Two threads on one CPU that wake each other through pipes; with the id of the second.
fn round_trip() -> Option<(f64, u32)> {
    let (mut here, mut there_out) = std::io::pipe().ok()?;
    let (mut there, mut here_out) = std::io::pipe().ok()?;
    let ours = sched_getaffinity(None).ok()?;
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one).ok()?;
    // A thread inherits the CPUs of the one that starts it.
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there_out.write_all(&byte).is_ok() {}
        rustix::thread::gettid()
    });
    let mut worked = true;
    let ns = least(|| {
        let mut byte = [0];
        per_unit(ROUND_TRIPS, || {
            worked &= here_out.write_all(&byte).is_ok() && here.read_exact(&mut byte).is_ok();
        })
    });
    drop(here_out);
    let _back = sched_setaffinity(None, &ours);
    let tid = echo.join().ok()?.as_raw_nonzero().get().cast_unsigned();
    worked.then_some((ns, tid))
}

const REPETITIONS: u32 = 5;
const CALLS: u32 = 2_000;
const PAGES: usize = 256;
const ROUND_TRIPS: u32 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every unit takes some time, and a comparison with itself finds no huge cost.
    #[test]
    fn measures_without_probes() {
        let bare = Bare::measure(Detail::Sched);
        assert!(bare.call_ns > 0.0 && bare.fault_ns > Some(0.0));
        assert!(bare.round_trip_ns.is_some_and(|ns| ns > bare.call_ns));
        let (calibration, tids) = bare.compare();
        assert!(tids.len() >= 2);
        assert!(calibration.probe_ns_per_call >= 0.0);
        assert!(calibration.probe_ns_per_switch.is_some_and(|ns| ns >= 0.0));
    }
}
