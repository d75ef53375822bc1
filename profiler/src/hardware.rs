//! Counters of the hardware, for each thread of the target: opened at attach, while the privileges
//! are there, and read at the edges of a window.
//!
//! Counting is per thread, not per CPU: what other programs do on the same CPU is not in it. A
//! thread that a counted one starts is counted with it, by the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use perf_event::events::{Event, Hardware as Counted};
use perf_event::{Builder, Counter};
use recording::{Hardware, HardwareCount, HardwareThread, NotMeasured};

use crate::processes::{self, ProcessInfo};

/// The counters of all threads; none where the machine has none.
#[derive(Debug, Default)]
pub(crate) struct HardwareCounters {
    threads: Vec<ThreadCounters>,
    /// What they showed when the window was opened.
    start: Vec<Reading>,
    not_measured: Vec<NotMeasured>,
}

/// One thread, with a counter per event where the machine has it.
#[derive(Debug)]
struct ThreadCounters {
    tid: u32,
    counters: Vec<Option<Counter>>,
}

/// What the counters of one thread showed, by event.
type Reading = Vec<Option<HardwareCount>>;

impl HardwareCounters {
    /// Begins to count for the threads of these processes. With `follow` the processes that they fork are counted
    /// with them.
    pub(crate) fn open(pids: &BTreeSet<u32>, follow: bool) -> Self {
        // Where there are thousands, to list them takes as long as to attach the programs.
        let infos = pids.iter().filter_map(|&pid| ProcessInfo::of(pid));
        let threads = infos.map(|info| info.threads as usize).sum();
        if threads > MOST_THREADS {
            return Self::too_many(threads);
        }
        let tids: Vec<u32> = pids.iter().flat_map(|&pid| processes::tids(pid)).collect();
        Self::open_events(&tids, follow, &EVENTS)
    }

    /// The window begins.
    pub(crate) fn begin_window(&mut self) {
        self.start = self.read();
    }

    /// The window ends: what was counted in it.
    pub(crate) fn end_window(&mut self) -> Option<Hardware> {
        let end = self.read();
        let deltas: Vec<(u32, Reading)> = self
            .threads
            .iter()
            .zip(self.start.iter().zip(&end))
            .map(|(thread, (from, to))| (thread.tid, between(from, to)))
            .collect();
        (!deltas.is_empty()).then(|| hardware(&deltas))
    }

    /// What is not counted, and why.
    pub(crate) fn not_measured(&self) -> &[NotMeasured] {
        &self.not_measured
    }

    fn open_events<E: Event + Copy>(tids: &[u32], follow: bool, events: &[E]) -> Self {
        if tids.len() > MOST_THREADS {
            return Self::too_many(tids.len());
        }
        let mut threads = Vec::new();
        let mut refused = BTreeMap::new();
        for &tid in tids {
            let mut counters = Vec::new();
            for (index, &event) in events.iter().enumerate() {
                if refused.contains_key(&index) {
                    counters.push(None);
                    continue;
                }
                match open(tid, event, follow) {
                    Ok(counter) => counters.push(Some(counter)),
                    // It has just ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                    Err(error) => {
                        refused.insert(index, error);
                        counters.push(None);
                    }
                }
            }
            if counters.len() == events.len() {
                threads.push(ThreadCounters { tid, counters });
            }
        }
        // An event that one thread cannot have is in no sum.
        if let Some(error) = refused.values().next()
            && refused.len() == events.len()
        {
            return Self::without(&why(error));
        }
        if threads.is_empty() {
            return Self::without(NOBODY);
        }
        for thread in &mut threads {
            for &index in refused.keys() {
                thread.counters[index] = None;
            }
        }
        Self {
            threads,
            start: Vec::new(),
            not_measured: refused
                .iter()
                .map(|(&index, error)| not_measured(WORDS.get(index).copied(), &why(error)))
                .collect(),
        }
    }

    fn too_many(threads: usize) -> Self {
        Self::without(&format!(
            "the target has {threads} threads, more than the {MOST_THREADS} that are counted one by one"
        ))
    }

    fn without(why: &str) -> Self {
        Self {
            not_measured: vec![not_measured(None, why)],
            ..Self::default()
        }
    }

    fn read(&mut self) -> Vec<Reading> {
        let threads = self.threads.iter_mut();
        threads.map(ThreadCounters::read).collect()
    }
}

impl ThreadCounters {
    fn read(&mut self) -> Reading {
        let counters = self.counters.iter_mut();
        let readings = counters.map(|counter| {
            let read = counter.as_mut()?.read_count_and_time().ok()?;
            Some(HardwareCount {
                counted: read.count,
                enabled_ns: read.time_enabled,
                running_ns: read.time_running,
            })
        });
        readings.collect()
    }
}

/// A counter that runs from now on, with the threads that `tid` starts.
fn open(tid: u32, event: impl Event, follow: bool) -> io::Result<Counter> {
    let tid = libc::pid_t::try_from(tid).map_err(|_beyond| io::ErrorKind::InvalidInput)?;
    let mut builder = Builder::new(event);
    builder.observe_pid(tid).enabled(true).inherit(true);
    builder.include_kernel();
    if !follow {
        builder.inherit_thread(true);
    }
    builder.build()
}

fn between(from: &Reading, to: &Reading) -> Reading {
    let pairs = from.iter().zip(to);
    let deltas = pairs.map(|(from, to)| {
        let (from, to) = (from.as_ref()?, to.as_ref()?);
        Some(HardwareCount {
            counted: to.counted.saturating_sub(from.counted),
            enabled_ns: to.enabled_ns.saturating_sub(from.enabled_ns),
            running_ns: to.running_ns.saturating_sub(from.running_ns),
        })
    });
    deltas.collect()
}

fn hardware(threads: &[(u32, Reading)]) -> Hardware {
    let sum = |index: usize| {
        let counts = threads.iter().map(|(_, counts)| *counts.get(index)?);
        counts.reduce(|sum, count| {
            let (sum, count) = (sum?, count?);
            Some(HardwareCount {
                counted: sum.counted + count.counted,
                enabled_ns: sum.enabled_ns + count.enabled_ns,
                running_ns: sum.running_ns + count.running_ns,
            })
        })?
    };
    let of = |counts: &Reading, index: usize| *counts.get(index)?;
    Hardware {
        cycles: sum(CYCLES),
        instructions: sum(INSTRUCTIONS),
        cache_misses: sum(CACHE_MISSES),
        branch_misses: sum(BRANCH_MISSES),
        threads: threads
            .iter()
            .map(|(tid, counts)| HardwareThread {
                tid: *tid,
                cycles: of(counts, CYCLES),
                instructions: of(counts, INSTRUCTIONS),
                cache_misses: of(counts, CACHE_MISSES),
                branch_misses: of(counts, BRANCH_MISSES),
            })
            .collect(),
    }
}

fn not_measured(event: Option<&str>, why: &str) -> NotMeasured {
    NotMeasured {
        what: event.map_or_else(
            || "hardware counters".into(),
            |event| format!("hardware counter of {event}"),
        ),
        why: why.into(),
        remedy: None,
    }
}

fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => {
            "this machine has none; virtual machines seldom do".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not permit it ({error}): it takes CAP_PERFMON, and no security module that \
             forbids perf_event_open"
        ),
        Some(libc::EMFILE) => {
            "a descriptor per thread and event is more than may be open; raise it with: ulimit -n"
                .into()
        }
        _ => format!("perf_event_open failed: {error}"),
    }
}

const EVENTS: [Counted; 4] = [
    Counted::CPU_CYCLES,
    Counted::INSTRUCTIONS,
    Counted::CACHE_MISSES,
    Counted::BRANCH_MISSES,
];
const WORDS: [&str; 4] = ["cycles", "instructions", "cache misses", "branch misses"];
const CYCLES: usize = 0;
const INSTRUCTIONS: usize = 1;
const CACHE_MISSES: usize = 2;
const BRANCH_MISSES: usize = 3;
const NOBODY: &str = "no thread of the target was there when the probes were attached";
/// Threads that are counted: four descriptors each.
const MOST_THREADS: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;

    use perf_event::events::Software;
    use rustix::thread::gettid;
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// A thread of this process that works when it is told to, and says when it has.
    struct Worker {
        tid: u32,
        work: Option<Sender<fn()>>,
        done: Receiver<()>,
        thread: Option<JoinHandle<()>>,
    }

    impl Worker {
        fn start() -> Self {
            let (tell_tid, tid) = channel();
            let (work, to_do) = channel::<fn()>();
            let (tell_done, done) = channel();
            let thread = std::thread::spawn(move || {
                tell_tid.send(gettid()).unwrap();
                for work in to_do {
                    work();
                    tell_done.send(()).unwrap();
                }
            });
            let tid = tid.recv().unwrap().as_raw_nonzero().get().unsigned_abs();
            Self {
                tid,
                work: Some(work),
                done,
                thread: Some(thread),
            }
        }

        fn run(&self, work: fn()) {
            self.work.as_ref().unwrap().send(work).unwrap();
            self.done.recv().unwrap();
        }
    }

    impl Drop for Worker {
        fn drop(&mut self) {
            drop(self.work.take());
            self.thread.take().unwrap().join().unwrap();
        }
    }

    /// Burns [`BURNT_NS`] of the CPU time of the calling thread.
    fn burn() {
        let now_ns = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            now.tv_sec * 1_000_000_000 + now.tv_nsec
        };
        let begun = now_ns();
        while now_ns() - begun < BURNT_NS {
            std::hint::spin_loop();
        }
    }

    fn burn_in_a_new_thread() {
        std::thread::spawn(burn).join().unwrap();
    }

    /// Software events stand in for those that a machine may lack. `None` where the kernel does not
    /// let us count at all, which then has to be the reason that is given.
    fn counters(tids: &[u32], events: &[Software]) -> Option<HardwareCounters> {
        let counters = HardwareCounters::open_events(tids, true, events);
        let Some(reason) = counters.not_measured().first() else {
            return Some(counters);
        };
        assert!(reason.why.contains("does not permit"), "{reason:?}");
        None
    }

    /// Each thread has its own events, and the sum those of both: what another thread does
    /// meanwhile, on whichever CPU, is in neither.
    #[test]
    fn threads_are_told_apart() {
        let [busy, idle, other] = [(); 3].map(|()| Worker::start());
        let events = [Software::TASK_CLOCK, Software::CPU_MIGRATIONS];
        let Some(mut counters) = counters(&[busy.tid, idle.tid], &events) else {
            return;
        };
        busy.run(burn);
        counters.begin_window();
        busy.run(burn);
        other.run(burn);
        let hardware = counters.end_window().unwrap();
        let [of_busy, of_idle] = &hardware.threads[..] else {
            panic!("{:?}", hardware.threads);
        };
        assert_eq!((of_busy.tid, of_idle.tid), (busy.tid, idle.tid));
        let [of_busy, of_idle] = [of_busy, of_idle].map(|thread| thread.cycles.unwrap());
        assert!(of_busy.counted >= ENOUGH_NS, "{of_busy:?}");
        assert!(of_idle.counted < ENOUGH_NS, "{of_idle:?}");
        let sum = hardware.cycles.unwrap();
        assert_eq!(sum.counted, of_busy.counted + of_idle.counted);
        assert_eq!(sum.running_ns, sum.enabled_ns);
        assert_eq!(
            (hardware.cache_misses, hardware.branch_misses),
            (None, None)
        );
    }

    /// What a thread starts is counted with it, also after it has ended.
    #[test]
    fn new_threads_are_counted() {
        let worker = Worker::start();
        let events = [Software::TASK_CLOCK];
        let Some(mut counters) = counters(&[worker.tid], &events) else {
            return;
        };
        counters.begin_window();
        worker.run(burn_in_a_new_thread);
        let hardware = counters.end_window().unwrap();
        assert!(hardware.cycles.unwrap().counted >= ENOUGH_NS);
    }

    /// A thread that has ended is left out; no thread and too many threads are a reason.
    #[test]
    fn threads_that_cannot_be_counted() {
        let events = [Software::TASK_CLOCK];
        let tids: Vec<u32> = (1..=1025).collect();
        for (tids, reason) in [(&[][..], "was there"), (&tids, "1025 threads")] {
            let mut counters = HardwareCounters::open_events(tids, true, &events);
            assert!(counters.not_measured()[0].why.contains(reason));
            counters.begin_window();
            assert_eq!(counters.end_window(), None);
        }
        let worker = Worker::start();
        let Some(mut counters) = counters(&[0x7fff_fff0, worker.tid], &events) else {
            return;
        };
        counters.begin_window();
        assert_eq!(counters.end_window().unwrap().threads.len(), 1);
    }

    /// The reasons that a user can do something about say so.
    #[test]
    fn reasons_are_told() {
        let told = |errno| why(&io::Error::from_raw_os_error(errno));
        assert!(told(libc::ENOENT).contains("virtual machines"));
        assert!(told(libc::EACCES).contains("CAP_PERFMON"));
        assert!(told(libc::EMFILE).contains("ulimit -n"));
        assert!(told(libc::EIO).contains("perf_event_open"));
    }

    const BURNT_NS: i64 = 20_000_000;
    /// The two clocks are not read at the same moment.
    const ENOUGH_NS: u64 = 18_000_000;
}
