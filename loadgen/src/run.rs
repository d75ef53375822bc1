//! A run from its first connection to its result: the coordinating thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use recording::{Load, LoadPhase, LoadSlice, Window};

use crate::clock;
use crate::config::{Config, ConfigError, Stop, Warmup};
use crate::control::{Control, StopHandle};
use crate::crew::Crew;
use crate::error::{LoadError, OpenFailure};
use crate::limits;
use crate::mix::Mix;
use crate::orders::{Drained, Leg, LegCounts, Notice, Order};
use crate::outcome::{self, Outcome};
use crate::plan::{Plan, alpn};
use crate::resolver::Name;
use crate::schedule::Budget;
use crate::slices::SliceBoard;
use crate::target::{Address, Target};
use crate::tls::Settings;

/// Runs a load. Failures of requests are part of the result; an error means that there is none.
pub fn run(config: &Config, control: &mut dyn Control) -> Result<Load, LoadError> {
    let (plan, is_tls) = plan(config)?;
    let raised = limits::ensure_descriptors(config.connections, config.threads)?;
    let plan = Arc::new(plan);
    let (sender, notices) = channel();
    control.started(StopHandle::new(sender.clone()));
    let crew = Crew::start(
        &plan,
        config.connections,
        config.threads,
        &config.cpus,
        &sender,
    )?;
    let mut conductor = Conductor {
        config,
        plan: &plan,
        control,
        notices,
        crew: &crew,
        board: SliceBoard::new(0, None, config.threads),
        slices: Vec::new(),
        warmed: 0,
        legs: Vec::new(),
        halted: 0,
        opened: 0,
        open: 0,
        open_failure: None,
        ended_early: None,
        drained: Drained::default(),
        drained_threads: 0,
    };
    let window = conductor.conduct()?;
    let Conductor {
        slices,
        legs,
        ended_early,
        open,
        open_failure,
        drained,
        ..
    } = conductor;
    let left = crew.leave();
    let outcome = Outcome {
        is_tls,
        resolve_ns: plan.resolve_ns,
        window,
        legs,
        slices,
        left,
        ended_early,
        open,
        open_failure,
        drained,
        raised,
    };
    Ok(outcome::load(config, outcome))
}

/// What the threads do, and whether over TLS.
pub(crate) fn plan(config: &Config) -> Result<(Plan, bool), LoadError> {
    let (target, request) = config.checked()?;
    let route = route(config, &target)?;
    let plan = Plan {
        request,
        mix: Mix::build(config, &target)?,
        tls: tls(config, &target)?,
        http: config.http,
        http2: config.http2,
        depth: config.depth,
        addresses: route.addresses.into(),
        resolve_ns: route.resolve_ns,
        name: route.name,
        sources: config.source_addresses.clone(),
        timeout_ns: nanoseconds(config.timeout),
        requests_per_connection: config.requests_per_connection.unwrap_or(u64::MAX),
        requests_jitter: config.requests_jitter,
        connection_lifetime_ns: config.connection_lifetime.map_or(u64::MAX, nanoseconds),
        early_data: config.tls.early_data,
        expected: config.expected_table(),
        hash_every: config.hash_every,
        proxy: config
            .proxy_protocol
            .map(|version| (version, config.proxy_source)),
        threads: config.threads,
        shape: config.shape.clone(),
    };
    Ok((plan, target.is_tls))
}

/// What the coordinating thread knows.
struct Conductor<'a> {
    config: &'a Config,
    plan: &'a Plan,
    control: &'a mut dyn Control,
    notices: Receiver<Notice>,
    crew: &'a Crew,
    board: SliceBoard,
    slices: Vec<LoadSlice>,
    /// Threads that have ended their warm-up.
    warmed: u32,
    /// The measured legs that have ended.
    legs: Vec<LegCounts>,
    halted: u32,
    opened: u32,
    /// Connections that were open at the start.
    open: u32,
    open_failure: Option<OpenFailure>,
    ended_early: Option<String>,
    drained: Drained,
    /// Threads that have nothing in flight any more.
    drained_threads: u32,
}

impl Conductor<'_> {
    /// Leads through the phases and returns the measured window.
    fn conduct(&mut self) -> Result<Window, LoadError> {
        let ControlFlow::Continue(start_ns) = self.open_and_warm_up()? else {
            self.wait_for(|conductor| conductor.halted == conductor.config.threads)?;
            let now_ns = clock::now_ns();
            return Ok(Window {
                start_ns: now_ns,
                end_ns: now_ns,
            });
        };
        let threads = self.config.threads;
        self.wait_for(|conductor| {
            conductor.legs.len() == threads as usize || conductor.halted == threads
        })?;
        let by_time = self
            .measure_leg(start_ns)
            .ends_ns
            .filter(|_| self.ended_early.is_none());
        let last_ns = self
            .legs
            .iter()
            .map(|leg| leg.ended_ns)
            .max()
            .unwrap_or(start_ns);
        let end_ns = by_time.unwrap_or(last_ns).max(start_ns);
        while let Some(slice) = self.board.next_at_end(end_ns) {
            self.emit(slice);
        }
        self.control
            .phase(LoadPhase::Drain, end_ns, self.config.barriers);
        if self.config.shape.drain {
            self.wait_for(|conductor| conductor.drained_threads == threads)?;
        }
        Ok(Window { start_ns, end_ns })
    }

    /// Up to the first instant of the window; breaks when the run was ended before that.
    fn open_and_warm_up(&mut self) -> Result<ControlFlow<(), u64>, LoadError> {
        let threads = self.config.threads;
        self.wait_for(|conductor| conductor.opened == threads)?;
        if self.is_stopped()? {
            return Ok(ControlFlow::Break(()));
        }
        if self.open == 0
            && let Some(failure) = self.open_failure.take()
        {
            let addresses = self.plan.addresses.to_vec();
            return Err(failure.into_error(addresses));
        }
        self.control.ready(clock::now_ns());
        if self.is_stopped()? {
            return Ok(ControlFlow::Break(()));
        }
        match self.config.warmup {
            Warmup::Time(warmup) if !warmup.is_zero() => self.warm_up_by_time(nanoseconds(warmup)),
            Warmup::Requests(requests) if requests > 0 => self.warm_up_by_count(requests),
            Warmup::None | Warmup::Time(_) | Warmup::Requests(_) => self.begin_window(),
        }
    }

    /// The window follows the warm-up without a gap: every thread knows in advance when.
    fn warm_up_by_time(&mut self, warmup_ns: u64) -> Result<ControlFlow<(), u64>, LoadError> {
        let now_ns = clock::now_ns();
        let start_ns = now_ns + warmup_ns;
        self.control.phase(LoadPhase::Warmup, now_ns, false);
        let warmup = Leg {
            measured: false,
            budget: Arc::new(Budget::unlimited()),
            starts_ns: now_ns,
            ends_ns: Some(start_ns),
            slice_ns: None,
        };
        self.send_leg(&warmup);
        self.send_leg(&self.measure_leg(start_ns));
        self.board = self.new_board(start_ns);
        self.wait_until(start_ns)?;
        if self.is_stopped()? {
            return Ok(ControlFlow::Break(()));
        }
        self.control.phase(LoadPhase::Measure, start_ns, false);
        Ok(ControlFlow::Continue(start_ns))
    }

    /// Nothing is in flight between warm-up and window.
    fn warm_up_by_count(&mut self, requests: u64) -> Result<ControlFlow<(), u64>, LoadError> {
        let now_ns = clock::now_ns();
        self.control.phase(LoadPhase::Warmup, now_ns, false);
        if self.is_stopped()? {
            return Ok(ControlFlow::Break(()));
        }
        self.send_leg(&Leg {
            measured: false,
            budget: Arc::new(Budget::exactly(requests, self.config.threads)),
            starts_ns: now_ns,
            ends_ns: None,
            slice_ns: None,
        });
        let threads = self.config.threads;
        self.wait_for(|conductor| conductor.warmed == threads)?;
        if self.is_stopped()? {
            return Ok(ControlFlow::Break(()));
        }
        self.begin_window()
    }

    /// Begins the window, with permission where it is asked for.
    fn begin_window(&mut self) -> Result<ControlFlow<(), u64>, LoadError> {
        let at_ns = clock::now_ns();
        self.control
            .phase(LoadPhase::Measure, at_ns, self.config.barriers);
        if self.is_stopped()? {
            return Ok(ControlFlow::Break(()));
        }
        let start_ns = if self.config.barriers {
            clock::now_ns()
        } else {
            at_ns
        };
        self.board = self.new_board(start_ns);
        self.send_leg(&self.measure_leg(start_ns));
        Ok(ControlFlow::Continue(start_ns))
    }

    fn measure_leg(&self, starts_ns: u64) -> Leg {
        let (budget, ends_ns) = match self.config.stop {
            Stop::Requests(requests) => (Budget::exactly(requests, self.config.threads), None),
            Stop::Duration(duration) => {
                (Budget::unlimited(), Some(starts_ns + nanoseconds(duration)))
            }
        };
        Leg {
            measured: true,
            budget: Arc::new(budget),
            starts_ns,
            ends_ns,
            slice_ns: self.config.slice_interval.map(nanoseconds),
        }
    }

    fn send_leg(&self, leg: &Leg) {
        self.crew.order(|| Order::Run(leg.clone()));
    }

    fn new_board(&self, start_ns: u64) -> SliceBoard {
        let length_ns = self.config.slice_interval.map(nanoseconds);
        SliceBoard::new(start_ns, length_ns, self.config.threads)
    }

    /// Handles notices until `done`; a run that is ended early is done when all threads obeyed.
    fn wait_for(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), LoadError> {
        while !done(self) && !self.is_halted() {
            let notice = self
                .notices
                .recv()
                .expect("this function's caller holds a sender");
            self.handle(notice)?;
        }
        Ok(())
    }

    /// Handles notices until an instant.
    fn wait_until(&mut self, until_ns: u64) -> Result<(), LoadError> {
        while !self.is_halted() {
            let left_ns = until_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                return Ok(());
            }
            match self.notices.recv_timeout(Duration::from_nanos(left_ns)) {
                Ok(notice) => self.handle(notice)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        Ok(())
    }

    fn is_halted(&self) -> bool {
        self.ended_early.is_some() && self.halted == self.config.threads
    }

    /// Whether the run was ended, by what has been said until now.
    fn is_stopped(&mut self) -> Result<bool, LoadError> {
        while let Ok(notice) = self.notices.try_recv() {
            self.handle(notice)?;
        }
        Ok(self.ended_early.is_some())
    }

    fn handle(&mut self, notice: Notice) -> Result<(), LoadError> {
        match notice {
            Notice::Opened { open, failed } => {
                self.opened += 1;
                self.open += open;
                if self.open_failure.is_none() {
                    self.open_failure = failed;
                }
            }
            Notice::Slice(counts) => {
                self.board.add(&counts);
                self.emit_complete();
            }
            Notice::LegDone(leg) if leg.measured => {
                self.board.add_last(&leg.last_slice);
                self.emit_complete();
                self.legs.push(*leg);
            }
            Notice::LegDone(_) => self.warmed += 1,
            Notice::Drained(drained) => {
                self.drained.ok += drained.ok;
                self.drained.failed += drained.failed;
                self.drained_threads += 1;
            }
            Notice::Halted => self.halted += 1,
            Notice::GaveUp { why } | Notice::Stop { why } => {
                if self.ended_early.is_none() {
                    self.ended_early = Some(why);
                    self.crew.order(|| Order::Halt);
                }
            }
            Notice::Failed(error) => return Err(error),
            Notice::Panicked => panic!("a client thread panicked; its message is above"),
        }
        Ok(())
    }

    fn emit_complete(&mut self) {
        while let Some(slice) = self.board.next() {
            self.emit(slice);
        }
    }

    fn emit(&mut self, slice: LoadSlice) {
        self.control.slice(&slice);
        self.slices.push(slice);
    }
}

/// Where connections go.
struct Route {
    addresses: Vec<Address>,
    /// How long it took to resolve the name, where there is one.
    resolve_ns: Option<u64>,
    /// The name, where it is resolved for every connection.
    name: Option<Name>,
}

fn route(config: &Config, target: &Target) -> Result<Route, LoadError> {
    if let Some(path) = &config.unix_socket {
        return Ok(Route {
            addresses: vec![Address::Unix(path.clone())],
            resolve_ns: None,
            name: None,
        });
    }
    let elsewhere = config
        .connect_to
        .as_ref()
        .map(|to| target.elsewhere(to).map_err(ConfigError::from))
        .transpose()?;
    for &source in &config.source_addresses {
        limits::check_source(source)?;
    }
    let name = Name {
        target: elsewhere.unwrap_or_else(|| target.clone()),
        sources: config.source_addresses.clone(),
    };
    let begun_ns = clock::now_ns();
    let addresses = name.resolve()?;
    Ok(Route {
        addresses,
        resolve_ns: name.is_name().then(|| clock::now_ns() - begun_ns),
        name: Some(name).filter(|name| config.resolve_each && name.is_name()),
    })
}

/// The settings of TLS for an `https` URL.
fn tls(config: &Config, target: &Target) -> Result<Option<Settings>, LoadError> {
    if !target.is_tls {
        return Ok(None);
    }
    let settings = Settings::new(&config.tls, &target.host, alpn(config.http))?;
    Ok(Some(settings))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("durations were checked to be at most 30 days")
}
