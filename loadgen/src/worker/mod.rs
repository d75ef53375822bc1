//! A client thread: one epoll loop over its share of the connections.
//!
//! Per request it makes one `send` and one `recv`, and an `epoll_pwait` for as many connections as
//! are ready: readiness is edge-triggered and registered once per connection, a read that does not
//! fill the buffer has drained the socket, and writability is only waited for when a write blocks.
//! Nothing is allocated per request and nothing is shared with other threads.
//!
//! This file owns the loop, phases and time; `connecting` owns the life of connections, `resolving` and
//! `securing` what comes before and after a socket is connected, `exchange` requests and responses.

mod connecting;
mod counting;
mod exchange;
mod legs;
mod pacing;
mod pauses;
mod resolving;
mod securing;
mod slot;
mod socket;
mod transport;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use recording::FailureClass;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};

use crate::clock;
use crate::error::{HandshakeError, LoadError, OpenFailure};
use crate::http1::HeadCache;
use crate::observed::Observer;
use crate::orders::{Drained, Leg, Mailbox, Notice, Order};
use crate::plan::Plan;
use crate::protocol::{Close, Ended, Fate};
use crate::resolver::Resolver;
use crate::tally::{FailurePhase, Tally};
use crate::target::Address;
use crate::timeline::Bins;
use crate::tls::{Connector, TlsTally};
use legs::RunningLeg;
use pacing::Pacing;
use pauses::Pauses;
use slot::{Slot, Stage};

/// A client thread.
pub(crate) struct Worker {
    plan: Arc<Plan>,
    /// Its number among the threads of the run.
    thread: u32,
    mailbox: Arc<Mailbox>,
    notices: Sender<Notice>,
    epoll: OwnedFd,
    timer: OwnedFd,
    slots: Vec<Slot>,
    buffer: Box<[u8]>,
    cache: HeadCache,
    /// What has ended in the present read, not counted yet.
    ended: Vec<Ended>,
    tally: Tally,
    /// Begins sessions; none in clear.
    connector: Option<Connector>,
    tls: TlsTally,
    leg: Option<RunningLeg>,
    next_legs: VecDeque<Leg>,
    bins: Option<Bins>,
    /// Bytes in clear that came before the first leg.
    opening_received_bytes: u64,
    in_flight: u32,
    /// The last reading of the clock.
    now_ns: u64,
    /// End of the slice or of the leg.
    next_boundary_ns: u64,
    /// No timeout and no retry is due before it.
    next_timer_ns: u64,
    /// What the timer is set to.
    armed_ns: u64,
    /// Connections that had more to read than one turn gives them, and whether they have ended.
    unread: VecDeque<(usize, bool)>,
    /// Connections that have something to write when all were read.
    gathered: Vec<usize>,
    /// Connections of the start whose first attempt is not over.
    opening: usize,
    open_failure: Option<OpenFailure>,
    /// Where connections go, as far as is known now.
    addresses: Arc<[Address]>,
    /// Index of the address that answered last.
    address: usize,
    /// Resolves the name for every connection; none where that was done once.
    resolver: Option<Resolver>,
    outage: connecting::Outage,
    /// Whether slots without a request should look for one.
    pump: bool,
    leaving: bool,
    /// What decides when requests are sent, apart from responses.
    pacing: Option<Pacing>,
    pauses: Pauses,
    observer: Observer,
    /// What the window left behind and is waited for.
    drain: Option<Drained>,
    /// Time between two connections, where they are opened at a rate.
    connect_interval_ns: Option<u64>,
    next_connect_ns: u64,
}

/// What a thread knows of its whole run.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) bins: Option<Bins>,
    /// Bytes in clear that came before the first leg.
    pub(crate) opening_received_bytes: u64,
    pub(crate) tls: TlsTally,
}

impl Worker {
    /// Prepares the loop; nothing is connected yet.
    pub(crate) fn new(
        plan: Arc<Plan>,
        mailbox: Arc<Mailbox>,
        notices: Sender<Notice>,
        connections: u32,
        thread: u32,
    ) -> Result<Self, LoadError> {
        let os = |call| move |errno| LoadError::Os { call, errno };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os("epoll_create1"))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, flags).map_err(os("timerfd_create"))?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        for (descriptor, token) in [(mailbox.wake(), WAKE_TOKEN), (&timer, TIMER_TOKEN)] {
            epoll::add(&epoll, descriptor, epoll::EventData::new_u64(token), edge)
                .map_err(os("epoll_ctl"))?;
        }
        let tally = Tally::for_plan(&plan);
        let pauses = Pauses::new(plan.shape.pausing);
        let pacing = Pacing::new(&plan, thread, connections as usize);
        let connector = plan
            .tls
            .as_ref()
            .map(|settings| Connector::new(settings, connections as usize));
        let resolver = plan
            .name
            .clone()
            .map(|name| Resolver::start(name, Arc::clone(&mailbox)))
            .transpose()?;
        Ok(Self {
            connect_interval_ns: plan.connect_interval_ns(),
            slots: (0..connections).map(|_| Slot::new(&plan)).collect(),
            tls: TlsTally::new(plan.timeout_ns, plan.early_data),
            connector,
            addresses: Arc::clone(&plan.addresses),
            resolver,
            plan,
            thread,
            mailbox,
            notices,
            epoll,
            timer,
            buffer: vec![0; BUFFER_BYTES].into(),
            cache: HeadCache::default(),
            ended: Vec::new(),
            tally,
            leg: None,
            next_legs: VecDeque::new(),
            bins: None,
            opening_received_bytes: 0,
            in_flight: 0,
            now_ns: clock::now_ns(),
            next_boundary_ns: u64::MAX,
            next_timer_ns: u64::MAX,
            armed_ns: u64::MAX,
            unread: VecDeque::new(),
            gathered: Vec::new(),
            opening: 0,
            open_failure: None,
            address: 0,
            outage: connecting::Outage::default(),
            pump: false,
            leaving: false,
            pacing,
            pauses,
            observer: Observer::new(),
            drain: None,
            next_connect_ns: 0,
        })
    }

    /// Opens the connections and obeys orders until told to leave.
    pub(crate) fn run(mut self) -> Result<Left, LoadError> {
        pauses::end_in_time();
        self.open_all();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.leaving {
            self.wait(&mut events)?;
            let woken_ns = self.observer.samples_turn().then(clock::now_ns);
            let stamped_ns = self.now_ns;
            let mut ordered = false;
            for event in events.drain(..) {
                match event.data.u64() {
                    WAKE_TOKEN => ordered = true,
                    TIMER_TOKEN => {}
                    token => self.on_event(token, event.flags),
                }
            }
            self.read_on();
            if self.now_ns == stamped_ns {
                self.now_ns = clock::now_ns();
            }
            self.keep_time();
            if ordered {
                self.obey();
            }
            while self.pump {
                self.pump_all();
            }
            if self.pacing.is_some() {
                self.dispatch();
            }
            self.flush_gathered();
            self.end_leg_when_drained();
            if let Some(woken_ns) = woken_ns {
                self.observer.turned(clock::now_ns() - woken_ns);
            }
            self.arm_timer()?;
            self.pause();
        }
        self.take_leave_of_all();
        Ok(Left {
            bins: self.bins,
            opening_received_bytes: self.opening_received_bytes,
            tls: self.tls,
        })
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), LoadError> {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let timeout = (!self.unread.is_empty()).then_some(&at_once);
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(LoadError::Os {
                call: "epoll_pwait",
                errno,
            }),
        }
    }

    /// Lets responses come together, where that helps; not where requests are due at instants of their
    /// own.
    #[inline]
    fn pause(&mut self) {
        if self.pacing.is_none()
            && self.unread.is_empty()
            && let Some(pause_ns) =
                self.pauses
                    .after_turn(self.in_flight, self.now_ns, clock::thread_cpu_ns)
            && self.now_ns + pause_ns < self.armed_ns
        {
            pauses::pause(pause_ns);
        }
    }

    /// Ends slices and legs, and what has taken too long.
    fn keep_time(&mut self) {
        if self.now_ns >= self.next_boundary_ns {
            self.cross_boundaries();
        }
        if self.leg.is_none() && self.in_flight > 0 && self.drain.is_none() {
            self.abort();
        }
        if self.now_ns >= self.next_timer_ns {
            self.expire();
        }
    }

    fn obey(&mut self) {
        while let Some(order) = self.mailbox.take() {
            match order {
                Order::Run(leg) if self.leg.is_none() => self.begin_leg(leg),
                Order::Run(leg) => self.next_legs.push_back(leg),
                Order::Connect(answer) => self.resolved(answer),
                Order::Halt => {
                    self.next_legs.clear();
                    self.end_leg(self.now_ns);
                    self.abort();
                    self.end_drain();
                    self.report(Notice::Halted);
                }
                Order::Leave => self.leaving = true,
            }
        }
    }

    /// Looks for connections and requests that have taken too long, and for connections that may be
    /// tried again. All timeouts are equally long, so nothing that begins later is due before what
    /// this finds as the next one: it need not look at every request.
    fn expire(&mut self) {
        let timeout_ns = self.plan.timeout_ns;
        self.next_timer_ns = self.now_ns + timeout_ns;
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            match slot.stage {
                Stage::Waiting { retry_ns } if retry_ns > self.now_ns => self.set_timer(retry_ns),
                Stage::Waiting { .. } if slot.has_permit => self.connect(index),
                Stage::Waiting { .. } => self.refill(index),
                Stage::Connecting | Stage::Resolving
                    if slot.since_ns + timeout_ns > self.now_ns =>
                {
                    self.set_timer(slot.since_ns + timeout_ns);
                }
                Stage::Resolving => self.resolve_timed_out(index),
                Stage::Securing | Stage::Greeting
                    if slot.connected_ns + timeout_ns > self.now_ns =>
                {
                    self.set_timer(slot.connected_ns + timeout_ns);
                }
                Stage::Connecting => self.connect_failed(index, Errno::TIMEDOUT),
                Stage::Securing | Stage::Greeting => {
                    self.handshake_failed(index, HandshakeError::Os(Errno::TIMEDOUT));
                }
                Stage::Open => self.expire_open(index),
                Stage::Closed => {}
            }
        }
        self.next_timer_ns = self.next_timer_ns.max(self.now_ns + TIMER_STEP_NS);
    }

    /// Ends a connection that has lived as long as it may, or what has taken too long on it.
    fn expire_open(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let ends_ns = slot
            .opened_ns
            .saturating_add(self.plan.connection_lifetime_ns);
        if ends_ns > self.now_ns {
            self.next_timer_ns = self.next_timer_ns.min(ends_ns);
        } else {
            slot.protocol.retire();
            if slot.protocol.oldest_ns().is_none() {
                return self.close(index, Close::Plan);
            }
        }
        self.expire_exchanges(index);
    }

    /// Ends the exchanges of a connection that have taken too long.
    fn expire_exchanges(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(oldest_ns) = slot.protocol.oldest_ns() else {
            return self.expire_barred(index);
        };
        let due_ns = oldest_ns + self.plan.timeout_ns;
        if due_ns > self.now_ns {
            self.set_timer(due_ns);
            return;
        }
        let late_ns = self.now_ns - self.plan.timeout_ns;
        match slot.protocol.expire(&self.plan, late_ns, &mut self.ended) {
            Some(close) => self.close(index, close),
            None => self.settle(index),
        }
    }

    /// A server that allows no request at all fails one in every timeout, so that the run goes on.
    fn expire_barred(&mut self, index: usize) {
        let slot = &self.slots[index];
        if !slot.protocol.is_barred() {
            return;
        }
        let due_ns = slot.connected_ns + self.plan.timeout_ns;
        if due_ns > self.now_ns {
            return self.set_timer(due_ns);
        }
        let waiting = self.slots[index].queue.pop_front();
        if let Some(exchange) = waiting.or_else(|| self.claim()) {
            let class = FailureClass::Timeout;
            let phase = FailurePhase::Write;
            self.give_up(exchange, Fate::Failed { class, phase });
            self.close(index, Close::Failure);
        }
    }

    /// Something is due at `at_ns`.
    fn set_timer(&mut self, at_ns: u64) {
        self.next_timer_ns = self.next_timer_ns.min(at_ns);
    }

    /// Sets the kernel's timer if what is due next has changed. A timeout of `epoll_pwait` would be
    /// set and cancelled at every wait.
    fn arm_timer(&mut self) -> Result<(), LoadError> {
        let due_ns = self
            .next_timer_ns
            .min(self.next_boundary_ns)
            .min(self.next_pacing_ns());
        if due_ns == self.armed_ns {
            return Ok(());
        }
        self.armed_ns = due_ns;
        let value = match due_ns {
            u64::MAX => Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            _ => timespec(due_ns),
        };
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
            .map(drop)
            .map_err(|errno| LoadError::Os {
                call: "timerfd_settime",
                errno,
            })
    }

    fn report(&self, notice: Notice) {
        // Without a receiver the run is over, and an order to leave is on its way.
        let _gone = self.notices.send(notice);
    }
}

fn timespec(at_ns: u64) -> Timespec {
    Timespec {
        tv_sec: (at_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
    }
}

/// As large as a socket's default receive window, and small enough to stay in the second-level
/// cache.
const BUFFER_BYTES: usize = 64 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 512;
/// Reads of one connection before others get their turn.
const READS_MAX: usize = 16;
/// Timeouts are looked for at most once in a millisecond.
const TIMER_STEP_NS: u64 = 1_000_000;
const WAKE_TOKEN: u64 = u64::MAX;
const TIMER_TOKEN: u64 = u64::MAX - 1;
