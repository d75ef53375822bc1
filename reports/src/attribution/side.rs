//! One arm in one pair of rounds: where its CPU time per request and its idle time went.
//!
//! The round without probes gives throughput and CPU time per request, the round with probes says
//! what it was spent on. The calibrated cost of the probes is taken out of the terms; what then
//! still differs between both rounds is a term of its own, so that the terms add up to the CPU time
//! without probes.

use std::collections::BTreeMap;

use recording::{
    Calibration, CallRow, CpuView, Detail, IdleCause, IdleLabel, Profile, Round, ThreadTime,
};

use super::groups::CallGroup;
use crate::metrics::{Metric, requests_under_cpu};
use crate::statistics::bootstrap::median;

/// A term of the CPU time per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Term {
    Calls(CallGroup),
    Demand,
    EntryExit,
    Faults,
    Irq,
    OutsideCalls,
    Probes,
    Softirq,
    Switches,
    Unexplained,
    User,
}

/// How far CPU time can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Depth {
    /// Not at all.
    Whole,
    /// Time inside calls and outside.
    Times,
    /// Every state of every thread.
    Sched,
}

/// The calls of one group, per request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Calls {
    pub(super) count: f64,
    /// By label, most time or most calls first decides the order of a report.
    pub(super) labels: BTreeMap<String, f64>,
}

/// One arm in one pair of rounds.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// CPUs that the server may use.
    pub(super) cpus: f64,
    /// `1/X`, ns.
    pub(super) request_ns: f64,
    /// CPU time per request without probes, ns: the sum of `terms`.
    pub(super) demand_ns: f64,
    pub(super) terms: BTreeMap<Term, f64>,
    /// Shares of the time of the CPUs: with the utilisation they add up to 1.
    pub(super) idle: BTreeMap<IdleCause, f64>,
    pub(super) groups: BTreeMap<CallGroup, Calls>,
    /// Page faults per request.
    pub(super) faults: Option<f64>,
    /// Calls in which threads slept, with their share of such sleep.
    pub(super) slept_in: BTreeMap<String, f64>,
    pub(super) receipt: SideReceipt,
}

/// What tells how far a side can be believed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideReceipt {
    pub(super) cpu_disagreement: Option<f64>,
    pub(super) unexplained_share: Option<f64>,
    pub(super) probes_ns: Option<f64>,
    pub(super) probed_demand: Option<f64>,
    pub(super) lost: u64,
}

impl Side {
    /// Utilisation of the CPUs without probes.
    pub(super) fn utilisation(&self) -> f64 {
        self.demand_ns / (self.cpus * self.request_ns)
    }

    /// The side of two rounds of one arm; `None` where throughput or CPU time is not known.
    pub(super) fn of(
        off: &Round,
        on: Option<&Round>,
        depth: Depth,
        cpus: f64,
        cost: &Cost,
    ) -> Option<Self> {
        let request_ns = 1e9 / Metric::Throughput.of(off).filter(|rps| *rps > 0.0)?;
        let demand_ns = off.server_cpu.as_ref()?.total_ns as f64 / requests_under_cpu(off)?;
        if demand_ns <= 0.0 {
            return None;
        }
        let mut side = Self {
            cpus,
            request_ns,
            demand_ns,
            terms: BTreeMap::new(),
            idle: BTreeMap::new(),
            groups: BTreeMap::new(),
            faults: None,
            slept_in: BTreeMap::new(),
            receipt: SideReceipt::default(),
        };
        let probed = on.and_then(Probed::of);
        if let Some(probed) = &probed {
            side.count(probed);
        }
        match (probed, depth) {
            (Some(probed), Depth::Sched) => side.split_all(&probed, cost)?,
            (Some(probed), Depth::Times) => side.split_calls(&probed, cost),
            _ => {
                side.terms.insert(Term::Demand, demand_ns);
                side.idle
                    .insert(IdleCause::Unlabelled, 1.0 - side.utilisation());
            }
        }
        Some(side)
    }

    fn count(&mut self, probed: &Probed<'_>) {
        for row in probed.rows() {
            let calls = self.groups.entry(group(row)).or_default();
            let count = row.count as f64 / probed.requests;
            calls.count += count;
            *calls.labels.entry(row.label()).or_default() += count;
        }
        self.receipt.lost = probed.profile.lost.total();
        self.receipt.probed_demand = Some(probed.demand_ns / self.demand_ns - 1.0);
    }

    /// Detail `times`: wall time inside calls that do not sleep, and the rest.
    fn split_calls(&mut self, probed: &Probed<'_>, cost: &Cost) {
        let mut inside = 0.0;
        for row in probed.rows().filter(|row| !group(row).may_sleep()) {
            let time = row.time.as_ref().map_or(0, |time| time.ns_total) as f64;
            let ns = (time - row.count as f64 * cost.inside_ns) / probed.requests;
            *self.terms.entry(Term::Calls(group(row))).or_default() += ns;
            inside += ns;
        }
        let calls = probed.calls();
        let entry = calls * cost.entry_exit_ns;
        let own_ns = calls * cost.probe_ns;
        if cost.calibrated {
            self.terms.insert(Term::EntryExit, entry);
            self.receipt.probes_ns = Some(own_ns);
        }
        self.terms.insert(
            Term::OutsideCalls,
            probed.demand_ns - inside - entry - own_ns,
        );
        self.close(probed, own_ns);
        self.idle
            .insert(IdleCause::Unlabelled, 1.0 - self.utilisation());
    }

    /// Detail `sched`: every state.
    fn split_all(&mut self, probed: &Probed<'_>, cost: &Cost) -> Option<()> {
        let threads = probed.profile.threads.as_ref()?;
        let per = |ns: u64| ns as f64 / probed.requests;
        let mut switches = 0.0;
        for row in probed.rows() {
            let Some(split) = &row.split else { continue };
            let ns = per(split.on_cpu_ns) - row.count as f64 / probed.requests * cost.inside_ns;
            // The programs run on a switch while the thread is still in the call that it sleeps in.
            let switching = per(split.sleeps.unwrap_or(0)) * cost.switch_ns;
            let switching = switching.min(ns.max(0.0));
            switches += switching;
            *self.terms.entry(Term::Calls(group(row))).or_default() += ns - switching;
            if !waits_for_events(group(row)) && split.off_cpu_ns > 0 {
                *self.slept_in.entry(row.label()).or_default() += split.off_cpu_ns as f64;
            }
        }
        let calls = probed.calls();
        let own_ns = calls * cost.probe_ns + switches;
        let faults = threads.page_fault_ns_estimate.map(per);
        let overhead = calls * (cost.entry_exit_ns + cost.probe_ns - cost.inside_ns);
        let user = per(threads.user_ns) - faults.unwrap_or(0.0) - overhead;
        let unexplained = probed.demand_ns - per(threads.cpu_clock_ns());
        self.terms.insert(Term::User, user);
        self.terms
            .extend(faults.map(|faults| (Term::Faults, faults)));
        if cost.calibrated {
            self.terms
                .insert(Term::EntryExit, calls * cost.entry_exit_ns);
            self.receipt.probes_ns = Some(own_ns);
        }
        self.terms.insert(Term::Irq, per(threads.irq_ns));
        self.terms.insert(Term::Softirq, per(threads.softirq_ns));
        if let Some(ns) = threads.charged_at_switches_ns {
            let at_switches = ns as f64 / probed.requests;
            self.terms.insert(Term::Switches, at_switches);
        }
        self.faults = Some(per(threads.page_faults));
        // Calls hold what the table of calls has; what threads did beyond it is not explained.
        let in_rows: f64 = probed
            .rows()
            .filter_map(|row| Some(per(row.split.as_ref()?.on_cpu_ns)))
            .sum();
        let unexplained = unexplained + per(threads.kernel_ns) - in_rows;
        self.terms.insert(Term::Unexplained, unexplained);
        self.receipt.cpu_disagreement = Some(per(threads.cpu_clock_ns()) / probed.demand_ns - 1.0);
        self.receipt.unexplained_share = Some(unexplained / probed.demand_ns);
        self.close(probed, own_ns);
        self.label_idle(probed, threads);
        Some(())
    }

    /// The term that makes the terms add up to the CPU time without probes.
    fn close(&mut self, probed: &Probed<'_>, probes_ns: f64) {
        self.terms.insert(
            Term::Probes,
            self.demand_ns - (probed.demand_ns - probes_ns),
        );
    }

    /// What the CPUs did while they did not work for the server. The labels come from the round with
    /// probes, their sum from the round without: they are scaled to it where both are of the same
    /// size, and what is left is unlabelled.
    fn label_idle(&mut self, probed: &Probed<'_>, threads: &ThreadTime) {
        let unused = 1.0 - self.utilisation();
        let mut labels = probed
            .profile
            .cpus
            .as_ref()
            .filter(|cpus| cpus.capacity_ns > 0)
            .map(|cpus| idle_shares(cpus, threads))
            .unwrap_or_default();
        let window_ns = probed.profile.window.length_ns() as f64;
        let used = probed.demand_ns * probed.requests / (self.cpus * window_ns);
        let missing = 1.0 - used - labels.values().sum::<f64>();
        labels.insert(IdleCause::Unlabelled, missing);
        let factor = unused / (1.0 - used);
        if (0.5..=2.0).contains(&factor) {
            for share in labels.values_mut() {
                *share *= factor;
            }
        }
        labels.remove(&IdleCause::Unlabelled);
        let labelled: f64 = labels.values().sum();
        labels.insert(IdleCause::Unlabelled, unused - labelled);
        self.idle = labels;
    }
}

/// Whether sleeping in these calls is waiting for something to do.
fn waits_for_events(group: CallGroup) -> bool {
    matches!(
        group,
        CallGroup::Accept | CallGroup::Poll | CallGroup::Process | CallGroup::Signal
    )
}

fn group(row: &CallRow) -> CallGroup {
    CallGroup::of(&row.name, row.family, row.on)
}

fn idle_shares(cpus: &CpuView, threads: &ThreadTime) -> BTreeMap<IdleCause, f64> {
    let share = |ns: u64| ns as f64 / cpus.capacity_ns as f64;
    let mut shares: BTreeMap<IdleCause, f64> = cpus
        .idle
        .iter()
        .map(|(label, ns)| (IdleCause::from(*label), share(*ns)))
        .collect();
    // The kernel counts how long a group was held back per CPU; its threads are ready meanwhile.
    let ready = cpus
        .idle
        .get(&IdleLabel::RunnableElsewhere)
        .copied()
        .unwrap_or(0);
    let throttled = cpus.throttled_ns.unwrap_or(0).min(ready);
    if throttled > 0 {
        shares.insert(IdleCause::Throttled, share(throttled));
        shares.insert(IdleCause::RunnableElsewhere, share(ready - throttled));
    }
    let interrupts =
        (cpus.irq_ns + cpus.softirq_ns).saturating_sub(threads.irq_ns + threads.softirq_ns);
    shares.insert(IdleCause::Interrupts, share(interrupts));
    shares.insert(IdleCause::OtherTasks, share(cpus.other_ns));
    shares
}

/// A round with probes.
struct Probed<'a> {
    profile: &'a Profile,
    requests: f64,
    /// CPU time per request with probes by the kernel's clock, ns.
    demand_ns: f64,
}

impl<'a> Probed<'a> {
    fn of(round: &'a Round) -> Option<Self> {
        let profile = round.profile.as_ref()?;
        let requests = round.profile_requests.filter(|requests| *requests > 0.0)?;
        let demand_ns = match profile.cpu_ns {
            Some(ns) => ns as f64 / requests,
            None => round.server_cpu.as_ref()?.total_ns as f64 / requests_under_cpu(round)?,
        };
        (demand_ns > 0.0).then_some(Self {
            profile,
            requests,
            demand_ns,
        })
    }

    fn rows(&self) -> impl Iterator<Item = &'a CallRow> + use<'a> {
        self.profile.calls.iter()
    }

    /// Calls per request, all groups.
    fn calls(&self) -> f64 {
        self.rows().map(|row| row.count as f64).sum::<f64>() / self.requests
    }
}

/// What one call and one switch cost beyond the work of the call, ns.
#[derive(Default)]
pub(super) struct Cost {
    calibrated: bool,
    entry_exit_ns: f64,
    probe_ns: f64,
    switch_ns: f64,
    /// The part of both that lies inside the points where a call is timed.
    inside_ns: f64,
}

impl Cost {
    /// The medians over the calibrations of rounds on one machine: a single one may have been
    /// disturbed, and its error would be in every call of its round. Not calibrated unless all are.
    pub(super) fn of(profiles: &[&Profile]) -> Self {
        let all: Option<Vec<&Calibration>> = profiles
            .iter()
            .map(|profile| profile.cost.calibration.as_ref())
            .collect();
        let all = all.unwrap_or_default();
        let middle = |figure: fn(&Calibration) -> f64| {
            median(&mut all.iter().map(|one| figure(one)).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        Self {
            calibrated: !all.is_empty(),
            entry_exit_ns: middle(|one| one.entry_exit_ns),
            probe_ns: middle(|one| one.probe_ns_per_call),
            switch_ns: middle(|one| one.probe_ns_per_switch.unwrap_or(0.0)),
            inside_ns: middle(|one| one.null_call_inside_ns.unwrap_or(0.0)),
        }
    }
}

/// How far the CPU time of a round can be split.
pub(super) fn depth(round: Option<&Round>) -> Depth {
    let profile = round
        .filter(|round| Probed::of(round).is_some())
        .and_then(|round| round.profile.as_ref());
    match profile {
        Some(profile) if profile.detail >= Detail::Sched && profile.threads.is_some() => {
            Depth::Sched
        }
        Some(profile) if profile.detail >= Detail::Times => Depth::Times,
        _ => Depth::Whole,
    }
}
