//! A profile from attach to detach: who is counted, and the windows that are measured.

mod attaching;
mod edges;
mod membership;
mod returns;
mod slicing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use profiler_common::TARGET;
use recording::{Abi, Calibration, Detail, Profile, ProfileSlice};
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};

use crate::below::Below;
use crate::calibration::Bare;
use crate::closed_window::{ClosedWindow, Edge, WindowStacks};
use crate::cpus;
use crate::delta::RowNames;
use crate::first_states;
use crate::in_flight::InFlight;
use crate::processes;
use crate::slices::SliceEdge;
use crate::snapshot::number_of_row;
use crate::source::{Bpf, CounterSource, Tables};
use crate::stacks::{self, Sampling, StackDelta, Symbols};
use crate::sys::process_cpu_ns;
use crate::tls::Tls;
use crate::tracked::Tracked;
use crate::{Config, ProfilerError, privileges};
use returns::Absences;

/// An attached profiler. Dropping it detaches the programs.
#[derive(Debug)]
pub struct Session {
    config: Config,
    source: Box<dyn CounterSource>,
    tracked: Tracked,
    window: Option<OpenWindow>,
    calibration: Option<Calibration>,
    attach_ns: u64,
    last_events: (u64, u64),
    below: Below,
    absences: Absences,
    /// At detail `stacks`.
    symbols: Option<Symbols>,
    tls: Tls,
}

#[derive(Debug)]
struct OpenWindow {
    /// That the target may run on.
    cpus: Vec<u32>,
    start: Edge,
    /// Where the next slice begins.
    last: SliceEdge,
    /// Whether a call of the warm-up may have been on its way at the start.
    was_quiet: bool,
    slices: Vec<ProfileSlice>,
    in_flight: InFlight,
    /// Process and name by thread, where groups need them.
    thread_names: BTreeMap<u32, (u32, String)>,
    own_cpu_ns: u64,
}

impl Session {
    /// Finds the targets, loads and attaches the programs, and begins to count.
    pub fn attach(config: Config) -> Result<Self, ProfilerError> {
        let begun = Instant::now();
        if config.targets.is_empty() {
            return Err(ProfilerError::NoTarget);
        }
        privileges::require_initial_pid_namespace()?;
        // Before anything is loaded: a mistyped port should cost nothing.
        let roots = membership::resolve(&config.targets)?;
        let plan = attaching::plan(&config)?;
        let bare = (config.detail > Detail::Floor).then(|| Bare::measure(config.detail));
        let source = Bpf::load(&plan)?;
        let mut session = Self::over(config, Box::new(source));
        session.choose_calls()?;
        first_states::start_label_clock(&session.source.tables(), clock_ns());
        session.calibration = bare.map(|bare| session.calibrate(&bare));
        session.begin(&roots)?;
        session.below = Below::attach(
            session.config.detail,
            session.config.follow,
            &session.tracked.alive(),
            &session.source.tables(),
        );
        session.symbols = (session.config.detail >= Detail::Stacks).then(Symbols::attach);
        session.meet();
        if session.config.tls {
            let pids = session.tracked.alive();
            session.tls = Tls::attach(&pids, session.source.as_mut());
        }
        session.attached(begun);
        Ok(session)
    }

    fn over(config: Config, source: Box<dyn CounterSource>) -> Self {
        Self {
            tracked: Tracked::new(&config.targets),
            absences: Absences::default(),
            config,
            source,
            window: None,
            calibration: None,
            attach_ns: 0,
            last_events: (0, 0),
            below: Below::default(),
            symbols: None,
            tls: Tls::default(),
        }
    }

    /// Gives up, for the calling thread, every privilege but those to look into processes of other
    /// users (`CAP_SYS_PTRACE`, `CAP_DAC_READ_SEARCH`) and those that the caller still needs
    /// (`also`). Call it before other threads are started: theirs are not changed.
    pub fn drop_privileges(&self, also: CapabilitySet) -> Result<(), ProfilerError> {
        privileges::drop_privileges(also)
    }

    /// Opens a window: everything from now on is part of it, and what an earlier window measured
    /// is not. With `quiet` it first waits, at most a second, until two copies of the counters a
    /// millisecond apart are equal. Returns when the copy at the start was complete, ns.
    pub fn open(&mut self, quiet: bool) -> Result<u64, ProfilerError> {
        self.tick();
        let own_cpu_ns = own_cpu_ns();
        let cpus = cpus::allowed(&self.tracked.alive());
        if self.config.detail >= Detail::Sched {
            cpus::visit(&cpus);
        }
        let pids = self.tracked.alive();
        self.below.begin_window(&pids, &self.source.tables());
        let copied = self.copy(quiet);
        self.tracked.open_window();
        self.absences.begin_window();
        let last = self.slice_edge(&copied);
        let at_ns = last.snapshot.end_ns;
        let was_quiet = copied.was_quiet;
        let start = self.edge(copied);
        let in_flight = self.in_flight();
        self.window = Some(OpenWindow {
            last,
            cpus,
            start,
            was_quiet,
            slices: Vec::new(),
            in_flight,
            thread_names: self.thread_names(&self.tracked.alive()),
            own_cpu_ns,
        });
        Ok(at_ns)
    }

    /// Takes in processes that joined or ended. Call it at least every 100 ms while a window is
    /// open: processes that join a control group or take a name are counted from then on only, and
    /// the name of one that ends unseen is not known.
    pub fn tick(&mut self) {
        self.rescan_open_ended();
        self.below.tick();
        self.take_events();
        self.note_returns();
        self.meet();
    }

    /// Looks at what new processes have mapped, which nobody can ask them once they have ended.
    fn meet(&mut self) {
        if let Some(symbols) = &mut self.symbols {
            symbols.meet(&self.tracked.alive(), clock_ns());
        }
    }

    /// Takes over what the programs saw, at the cost of two reads of memory where that is nothing.
    fn take_events(&mut self) {
        let tables = self.source.tables();
        let events = (
            tables
                .events
                .forks
                .load(std::sync::atomic::Ordering::Relaxed),
            tables
                .events
                .ends
                .load(std::sync::atomic::Ordering::Relaxed),
        );
        if events != self.last_events {
            self.last_events = events;
            self.tracked.follow(&tables);
            if self.config.endless {
                self.tracked.forget_ended(&tables, ENDED_LISTED);
            }
        }
    }

    /// Closes the window. With `quiet` it first waits as [`open`](Self::open) does.
    pub fn close(&mut self, quiet: bool) -> Result<Profile, ProfilerError> {
        if self.window.is_none() {
            return Err(ProfilerError::NotOpen);
        }
        let copied = self.copy(quiet);
        let was_quiet = copied.was_quiet;
        // Their clocks go on.
        self.tracked.look_again();
        let end = self.edge(copied);
        let own_cpu_ns = own_cpu_ns();
        let below = self.below.end_window();
        self.tick();
        let in_flight_at_end = self.in_flight();
        let alive = self.tracked.alive();
        let window = self.window.take().ok_or(ProfilerError::NotOpen)?;
        let stacks = self.stacks(&window.start, &end, &alive);
        // Those that ended meanwhile have the name that they had.
        let mut thread_names = window.thread_names;
        thread_names.extend(self.thread_names(&alive));
        let about_processes = self.about_processes(window.start.snapshot.end_ns);
        let (processes, cpu_ns) = self.tracked.close_window();
        let closed = ClosedWindow {
            detail: self.config.detail,
            follow: self.config.follow,
            group_by: self.config.group_by,
            only: self.config.only.clone(),
            thread_names,
            cpus: window.cpus,
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            missing: self.source.missing().to_vec(),
            locked_down: privileges::is_confidential(),
            calibration: self.calibration,
            was_quiet: window.was_quiet && was_quiet,
            start: window.start,
            last: window.last.snapshot,
            end,
            slices: window.slices,
            in_flight_at_start: window.in_flight,
            in_flight_at_end,
            processes,
            cpu_ns,
            reader_cpu_ns: own_cpu_ns.saturating_sub(window.own_cpu_ns),
            map_bytes: self.source.map_bytes(),
            attach_ns: self.attach_ns,
            below,
            about_processes,
            stacks,
            tls: self.config.tls.then(|| self.tls.window(&alive)),
        };
        Ok(closed.into_profile(&row_names(&self.source.tables())))
    }

    /// The processes of the target that are alive.
    pub fn pids(&self) -> BTreeSet<u32> {
        self.tracked.alive()
    }

    /// They, each with the target that it belongs to (`port 80`), several joined by a comma: a child
    /// has the target of its parent. `None` where the parent was gone before it was seen.
    pub fn targets(&self) -> BTreeMap<u32, Option<String>> {
        self.tracked.labels()
    }

    /// Process and name of every thread, where groups need them.
    fn thread_names(&self, pids: &BTreeSet<u32>) -> BTreeMap<u32, (u32, String)> {
        if self.config.group_by.is_none() {
            return BTreeMap::new();
        }
        let threads = pids
            .iter()
            .flat_map(|&pid| processes::tids(pid).into_iter().map(move |tid| (pid, tid)));
        let named = threads.filter_map(|(pid, tid)| {
            let comm = processes::thread_comm(pid, tid)?;
            Some((tid, (pid, String::from_utf8_lossy(&comm).into_owned())))
        });
        named.collect()
    }

    /// The stacks between two edges; `None` below detail `stacks`.
    fn stacks(&mut self, start: &Edge, end: &Edge, alive: &BTreeSet<u32>) -> Option<WindowStacks> {
        let clock = self.source.stack_clock()?;
        let symbols = self.symbols.as_mut()?;
        let delta = StackDelta::between(&start.stacks, &end.stacks, &self.source.tables().stacks);
        symbols.look_again(alive);
        let hz = self.config.stack_hz;
        let (stacks, warnings) = stacks::named(&delta, Sampling { clock, hz }, symbols);
        Some(WindowStacks {
            stacks,
            warnings,
            events: delta.events(),
            knows_kernel: symbols.knows_kernel(),
        })
    }

    fn in_flight(&self) -> InFlight {
        let tables = self.source.tables();
        // What a process does before the exec that it is counted from is not its own.
        let counted = |pid: &u32| tables.flags(*pid).unwrap_or(0) & TARGET != 0;
        InFlight::observe(
            &self.tracked.alive().into_iter().filter(counted).collect(),
            &tables,
            self.config.detail,
            &row_names(&tables),
            clock_ns,
        )
    }
}

/// Whether this machine can be profiled at this detail: loads, attaches and detaches again, for no
/// target.
pub fn can_measure(detail: Detail) -> Result<(), ProfilerError> {
    privileges::require_initial_pid_namespace()?;
    Bpf::load(&attaching::plan(&Config::new([], detail))?).map(drop)
}

fn row_names<'a>(tables: &Tables<'a>) -> RowNames<impl Fn(u32) -> Option<(u32, bool)> + use<'a>> {
    let tables = *tables;
    RowNames {
        native: Abi::of_machine(std::env::consts::ARCH)
            .expect("the programs are attached, so there is an object for this architecture"),
        number: move |row| number_of_row(&tables, row),
    }
}

fn own_cpu_ns() -> u64 {
    process_cpu_ns(std::process::id()).expect("our own process exists")
}

/// The clock of `bpf_ktime_get_ns`.
fn clock_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the clock counts from boot");
    let nanoseconds = u64::try_from(now.tv_nsec).expect("nanoseconds are not negative");
    seconds * 1_000_000_000 + nanoseconds
}

fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How many of the processes that ended are listed where the window may never end.
const ENDED_LISTED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::source::replay::{PID_MAX, Replay};

    /// `getppid`.
    const ROW: u32 = 110;

    /// A session over counters in memory, whose target is a child that sleeps.
    fn session() -> (Session, std::process::Child) {
        let child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let config = Config::new([Target::Pid(child.id())], Detail::Counts);
        let mut session = Session::over(config, Box::new(Replay::new(PID_MAX)));
        session
            .begin(&[(BTreeSet::from([child.id()]), TARGET)])
            .unwrap();
        (session, child)
    }

    fn end(mut child: std::process::Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A window has the process, its CPU time, and no call where none was made.
    #[test]
    fn empty_window() {
        let (mut session, child) = session();
        let at_ns = session.open(true).unwrap();
        let profile = session.close(true).unwrap();
        end(child);
        assert_eq!(profile.window.start_ns, at_ns);
        assert!(profile.window.length_ns() >= 1_000_000);
        assert_eq!(profile.processes.len(), 1);
        assert!(profile.calls.iter().all(|call| call.count == 0));
        assert!(profile.cpu_ns.is_some() && profile.slices.is_empty());
        assert_eq!(profile.cost.map_bytes, 4096);
        assert_eq!(profile.warnings, []);
    }

    /// A window must be open to be sliced or closed.
    #[test]
    fn windows_must_be_open() {
        let (mut session, child) = session();
        let slice = session.slice();
        let close = session.close(false);
        end(child);
        assert!(matches!(slice, Err(ProfilerError::NotOpen)));
        assert!(matches!(close, Err(ProfilerError::NotOpen)));
    }

    /// A process whose flag says that it ended is not alive, and its CPU time is not known.
    #[test]
    fn ended_target() {
        let (mut session, child) = session();
        session.open(false).unwrap();
        assert!(!session.target_ended());
        let tables = session.source.tables();
        tables.set_flags(child.id(), profiler_common::ENDED);
        tables
            .events
            .ends
            .store(1, std::sync::atomic::Ordering::Relaxed);
        assert!(session.target_ended());
        let profile = session.close(false).unwrap();
        end(child);
        assert!(profile.processes[0].ended);
        assert_eq!(profile.cpu_ns, None);
        assert_eq!(profile.not_measured[0].what, "CPU time");
    }

    /// What was lost during the window is told by its class, whichever it is.
    #[test]
    fn every_class_of_loss_is_told() {
        let config = Config::new([Target::Pid(1)], Detail::Times);
        let replay = Replay::new(8);
        let misses = std::sync::Arc::clone(&replay.recursion_misses);
        let mut session = Session::over(config, Box::new(replay));
        session.open(false).unwrap();
        let events = session.source.tables().events;
        for counter in [
            &events.lost_clock,
            &events.lost_ungrouped,
            &events.lost_switches,
            &*misses,
            &events.lost_untracked,
            &events.lost_untimed,
            &events.lost_unknown,
        ] {
            counter.fetch_add(3, std::sync::atomic::Ordering::Relaxed);
        }
        let lost = session.close(false).unwrap().lost;
        assert_eq!(
            lost.0,
            recording::LostClass::ALL.map(|class| (class, 3)).into()
        );
    }

    /// A target that never rests is said to be not quiet, and is measured all the same.
    #[test]
    fn never_quiet() {
        let config = Config::new([Target::Pid(1)], Detail::Counts);
        let mut session = Session::over(config, Box::new(Busy(Replay::new(8))));
        session.open(true).unwrap();
        let profile = session.close(false).unwrap();
        assert_eq!(profile.warnings[0].code, "not_quiet");
    }

    /// Makes a call whenever one looks.
    #[derive(Debug)]
    pub(super) struct Busy(pub(super) Replay);

    impl CounterSource for Busy {
        fn tables(&self) -> Tables<'_> {
            self.0.call(0, ROW, 1, 100);
            self.0.tables()
        }

        fn recursion_misses(&self) -> u64 {
            self.0.recursion_misses()
        }

        fn run_statistics(&self) -> Option<(u64, u64)> {
            self.0.run_statistics()
        }

        fn missing(&self) -> &[String] {
            self.0.missing()
        }

        fn map_bytes(&self) -> u64 {
            self.0.map_bytes()
        }

        fn stack_clock(&self) -> Option<recording::StackClock> {
            self.0.stack_clock()
        }

        fn probe_functions(
            &mut self,
            file: &std::path::Path,
            functions: &[crate::source::Probed],
        ) -> Result<(), ProfilerError> {
            self.0.probe_functions(file, functions)
        }

        fn give_states(&mut self) -> Result<(), ProfilerError> {
            self.0.give_states()
        }
    }
}
