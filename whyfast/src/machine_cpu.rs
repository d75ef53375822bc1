//! Time of some CPUs by `/proc/stat`, whoever used it.

use recording::{MachineCpu, Window};

use crate::machine::{CpuList, now_ns};

/// What `/proc/stat` said of some CPUs at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpusReading {
    at_ns: u64,
    cpus: u32,
    ticks: Ticks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    tasks: u64,
    interrupts: u64,
    steal: u64,
}

impl CpusReading {
    /// Reads them; `None` where the kernel does not tell of each of these CPUs.
    pub(crate) fn take(cpus: &CpuList) -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        Some(Self {
            at_ns: now_ns(),
            cpus: u32::try_from(cpus.len()).ok()?,
            ticks: ticks_of(&text, cpus.as_slice())?,
        })
    }

    /// What was used since an earlier reading.
    pub(crate) fn since(self, start: &Self) -> Option<MachineCpu> {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let between = |end: u64, start: u64| Some(end.checked_sub(start)? * tick_ns);
        Some(MachineCpu {
            window: Window {
                start_ns: start.at_ns,
                end_ns: self.at_ns,
            },
            cpus: self.cpus,
            tasks_ns: between(self.ticks.tasks, start.ticks.tasks)?,
            interrupts_ns: between(self.ticks.interrupts, start.ticks.interrupts)?,
            steal_ns: between(self.ticks.steal, start.ticks.steal)?,
        })
    }
}

/// Sums the lines of these CPUs: user, nice and system; irq and softirq; steal (`proc_stat(5)`).
/// Time of guests is part of user time already.
fn ticks_of(text: &str, cpus: &[usize]) -> Option<Ticks> {
    let mut sum = Ticks::default();
    for cpu in cpus {
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
        let fields: Option<Vec<u64>> = line
            .split_ascii_whitespace()
            .map(|field| field.parse().ok())
            .collect();
        let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields?.as_slice()
        else {
            return None;
        };
        sum.tasks += user + nice + system;
        sum.interrupts += irq + softirq;
        sum.steal += steal;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 3 30 300 3 30 60 9 0 0\n\
                        cpu0 10 1 10 100 1 10 20 3 5 0\n\
                        cpu1 20 2 20 200 2 20 40 6 0 0\n\
                        cpu10 7 7 7 7 7 7 7 7 0 0\n\
                        intr 1 2 3\n";

    /// The fields of the CPUs that are asked for are added up, and of no other.
    #[test]
    fn adds_up_the_cpus_that_are_asked_for() {
        let ticks = |tasks, interrupts, steal| Ticks {
            tasks,
            interrupts,
            steal,
        };
        assert_eq!(ticks_of(STAT, &[0]), Some(ticks(21, 30, 3)));
        assert_eq!(ticks_of(STAT, &[1]), Some(ticks(42, 60, 6)));
        assert_eq!(ticks_of(STAT, &[0, 10]), Some(ticks(42, 44, 10)));
        assert_eq!(ticks_of(STAT, &[2]), None);
        assert_eq!(ticks_of("cpu0 1 2 3\n", &[0]), None);
    }

    /// The difference of two readings is in ns, and a clock that ran backwards is no reading.
    #[test]
    fn differences_are_in_ns() {
        let reading = |at_ns, tasks| CpusReading {
            at_ns,
            cpus: 2,
            ticks: Ticks {
                tasks,
                ..Ticks::default()
            },
        };
        let used = reading(20, 150)
            .since(&reading(10, 50))
            .expect("it went on");
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        assert_eq!(used.tasks_ns, 100 * 1_000_000_000 / ticks_per_second);
        assert_eq!((used.window.start_ns, used.window.end_ns), (10, 20));
        assert_eq!(reading(20, 50).since(&reading(10, 150)), None);
    }
}
