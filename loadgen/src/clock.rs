//! Clocks: the one that everything is stamped with, and the CPU time of the calling thread.

use recording::CpuTime;
use rustix::time::{ClockId, clock_gettime};

use crate::sys;

/// `CLOCK_MONOTONIC`, ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// CPU time of the calling thread since it began.
pub(crate) fn thread_cpu() -> CpuTime {
    // The sum is exact in this clock; getrusage only knows how it divides.
    let total_ns = thread_cpu_ns();
    let split = sys::thread_rusage();
    let known_ns = split.total_ns();
    let user_ns = match known_ns {
        0 => total_ns,
        _ => scale(total_ns, split.user_ns, known_ns),
    };
    CpuTime {
        user_ns,
        system_ns: total_ns - user_ns,
    }
}

/// CPU time of the calling thread since it began, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // The kernel never returns a negative time for these clocks.
    time.tv_sec.cast_unsigned() * NS_PER_S + time.tv_nsec.cast_unsigned()
}

/// `value * part / whole`, where `part <= whole`.
fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole);
    u64::try_from(scaled).expect("a part is not larger than the whole")
}

const NS_PER_S: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that worked has CPU time, and both clocks go forward.
    #[test]
    fn clocks_go_forward() {
        let (wall_ns, cpu) = (now_ns(), thread_cpu());
        while thread_cpu().total_ns() == cpu.total_ns() {}
        assert!(now_ns() > wall_ns);
    }
}
