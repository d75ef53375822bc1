//! Recordings of servers whose costs are known exactly, at detail `sched`: what attribution and
//! findings have to get back.

use std::collections::BTreeMap;

use recording::{
    Abi, Calibration, CallObject, CallRow, CallTime, CpuView, Detail, Family, IdleLabel, OwnCost,
    Probes, Profile, Recording, ServerCpu, ThreadTime, TimeStats, WaitRow, family, number,
};

use crate::fixture::{Server, comparison, nginx, whole};

/// What one request costs a server, and why its CPUs are idle.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    pub(crate) name: &'static str,
    /// User code, ns.
    pub(crate) user_ns: f64,
    pub(crate) calls: Vec<TrueCall>,
    pub(crate) faults: f64,
    pub(crate) softirq_ns: f64,
    /// What the kernel's clock counts at switches, ns.
    pub(crate) at_switches_ns: f64,
    /// CPU time that no probe sees, ns.
    pub(crate) unseen_ns: f64,
    /// Share of the CPUs' time that is idle, by label.
    pub(crate) idle: Vec<(IdleLabel, f64)>,
    /// Of the idle time, held back by a quota.
    pub(crate) throttled: f64,
}

/// One call of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrueCall {
    pub(crate) name: &'static str,
    pub(crate) on: Option<CallObject>,
    pub(crate) count: f64,
    /// Work of one call between the points where calls are timed, ns.
    pub(crate) ns: f64,
    /// Of the calls, those that fail, and how.
    pub(crate) failed: Option<(&'static str, f64)>,
    pub(crate) bytes: Option<f64>,
    /// Sleep in one call, ns.
    pub(crate) sleep_ns: f64,
}

pub(crate) fn true_call(
    name: &'static str,
    on: Option<CallObject>,
    count: f64,
    ns: f64,
) -> TrueCall {
    TrueCall {
        name,
        on,
        count,
        ns,
        failed: None,
        bytes: None,
        sleep_ns: 0.0,
    }
}

/// A server with the usual calls of a small static file.
pub(crate) fn plain(name: &'static str) -> Truth {
    let socket = Some(CallObject::Socket);
    let receive = TrueCall {
        failed: None,
        bytes: Some(94.0),
        ..true_call("recvfrom", socket, 1.0, 500.0)
    };
    let send = TrueCall {
        bytes: Some(238.0),
        ..true_call("writev", socket, 1.0, 2_000.0)
    };
    Truth {
        name,
        user_ns: 5_000.0,
        calls: vec![true_call("epoll_wait", None, 0.1, 800.0), receive, send],
        faults: 0.02,
        softirq_ns: 1_500.0,
        at_switches_ns: 0.0,
        unseen_ns: 120.0,
        idle: vec![(IdleLabel::Waiting, 0.015)],
        throttled: 0.0,
    }
}

impl Truth {
    pub(crate) fn calls_per_request(&self) -> f64 {
        self.calls.iter().map(|call| call.count).sum()
    }

    /// CPU time of a request without probes, ns.
    pub(crate) fn demand_ns(&self) -> f64 {
        let calls: f64 = self.calls.iter().map(|call| call.count * call.ns).sum();
        let entry = self.calls_per_request() * COST.entry_exit_ns;
        let faults = self.faults * FAULT_NS;
        let seen = self.user_ns + calls + entry + faults + self.softirq_ns;
        seen + self.at_switches_ns + self.unseen_ns
    }

    /// Bytes of a response: what calls send on sockets.
    fn sent_bytes(&self) -> f64 {
        let sends = self.calls.iter().filter(|call| {
            call.on == Some(CallObject::Socket) && family(call.name) == Family::Send
        });
        sends
            .map(|call| call.bytes.unwrap_or(0.0) * call.count)
            .sum()
    }

    fn used(&self) -> f64 {
        1.0 - self.idle.iter().map(|(_, share)| share).sum::<f64>()
    }

    /// Requests per second on one CPU.
    pub(crate) fn rps(&self, probes: Probes) -> f64 {
        self.used() * 1e9 / (self.demand_ns() + self.probes_ns(probes))
    }

    fn probes_ns(&self, probes: Probes) -> f64 {
        match probes {
            Probes::On => self.calls_per_request() * COST.probe_ns_per_call,
            Probes::Off => 0.0,
        }
    }
}

/// A comparison of such servers on one CPU each; all rounds of an arm are alike but for a factor on
/// the speed of the machine that both arms of a pair share.
pub(crate) fn known(truths: &[Truth], pairs: u32) -> Recording {
    let servers: Vec<Server> = truths
        .iter()
        .map(|truth| Server {
            name: truth.name,
            rps: truth.rps(Probes::Off),
            // Less than Little's law allows 64 connections.
            p50_ns: whole(0.8 * 64e9 / truth.rps(Probes::Off)),
            ..nginx()
        })
        .collect();
    let mut recording = comparison(&servers, pairs);
    let names: Vec<&str> = truths.iter().map(|truth| truth.name).collect();
    for round in &mut recording.rounds {
        let truth = &truths[names.iter().position(|name| *name == round.arm).unwrap()];
        // Some pairs see a machine that is a little slower.
        let slower = 1.0 + 0.002 * f64::from(round.pair % 4);
        let load = round.load.as_mut().unwrap();
        let seconds = load.window.seconds();
        let ok = whole(truth.rps(round.probes) / slower * seconds);
        (load.ledger.ok, load.ledger.sent) = (ok, ok);
        let requests = ok as f64;
        if truth.sent_bytes() > 0.0 {
            load.traffic.received_bytes = whole(truth.sent_bytes() * requests);
        }
        let demand = (truth.demand_ns() + truth.probes_ns(round.probes)) * slower;
        let total_ns = whole(demand * requests);
        round.server_cpu = Some(ServerCpu {
            total_ns,
            ..round.server_cpu.take().unwrap()
        });
        if round.probes == Probes::On {
            let window = load.window;
            round.profile = Some(Profile {
                cpu_ns: Some(total_ns),
                ..profile(
                    truth,
                    requests,
                    slower,
                    Profile::empty(Detail::Sched, window),
                )
            });
            round.profile_requests = Some(requests);
        }
    }
    recording
}

fn profile(truth: &Truth, requests: f64, slower: f64, blank: Profile) -> Profile {
    let ns = |per_request: f64| whole(per_request * requests * slower);
    let calls = truth.calls_per_request();
    let outside = COST.entry_exit_ns + COST.probe_ns_per_call - INSIDE_NS;
    let in_calls = |ns: fn(&TrueCall) -> f64| -> f64 {
        truth.calls.iter().map(|call| call.count * ns(call)).sum()
    };
    let window_ns = blank.window.length_ns() as f64;
    let idle = |share: f64| whole(share * window_ns);
    let user_ns = truth.user_ns + truth.faults * FAULT_NS + calls * outside;
    Profile {
        calls: truth
            .calls
            .iter()
            .map(|call| row(call, requests, &ns))
            .collect(),
        waits: vec![WaitRow {
            abi: Abi::X86_64,
            name: "epoll_wait".to_owned(),
            wakes: ns(0.1 / slower),
            events: ns(1.0 / slower),
            events_per_wake: recording::Log2Histogram::default(),
            timeouts: 0,
            polls: None,
            truncated: None,
            interrupted: 0,
            ns_total: None,
        }],
        threads: Some(ThreadTime {
            user_ns: ns(user_ns),
            kernel_ns: ns(in_calls(|call| call.ns + INSIDE_NS)),
            off_cpu_in_calls_ns: ns(in_calls(|call| call.sleep_ns)),
            softirq_ns: ns(truth.softirq_ns),
            charged_at_switches_ns: Some(ns(truth.at_switches_ns).cast_signed()),
            page_faults: ns(truth.faults / slower),
            page_fault_ns_estimate: Some(ns(truth.faults * FAULT_NS)),
            ..ThreadTime::default()
        }),
        cpus: Some(CpuView {
            cpus: vec![0],
            capacity_ns: blank.window.length_ns(),
            target_ns: idle(truth.used()),
            idle: truth
                .idle
                .iter()
                .map(|(label, share)| (*label, idle(*share)))
                .collect(),
            throttled_ns: Some(idle(truth.throttled)),
            ..CpuView::default()
        }),
        cost: OwnCost {
            calibration: Some(Calibration {
                null_call_inside_ns: Some(INSIDE_NS),
                page_fault_ns: Some(FAULT_NS),
                ..COST
            }),
            ..OwnCost::default()
        },
        ..blank
    }
}

fn row(call: &TrueCall, requests: f64, ns: &dyn Fn(f64) -> u64) -> CallRow {
    let count = whole(call.count * requests);
    let errors = call.failed.iter().map(|(errno, share)| {
        let failed = whole(call.count * share * requests);
        ((*errno).to_owned(), failed)
    });
    let errors: BTreeMap<String, u64> = errors.collect();
    let moved = count - errors.values().sum::<u64>();
    CallRow {
        abi: Abi::X86_64,
        nr: number(Abi::X86_64, call.name).unwrap(),
        name: call.name.to_owned(),
        on: call.on,
        family: family(call.name),
        count,
        errors,
        bytes: call.bytes.map(|bytes| whole(bytes * moved as f64)),
        died_in_call: 0,
        no_return: 0,
        time: Some(TimeStats {
            timed: count,
            ns_total: ns(call.count * (call.ns + INSIDE_NS + call.sleep_ns)),
            ns_min: Some(whole(call.ns + INSIDE_NS)),
            ns_max: Some(whole(call.ns + INSIDE_NS)),
            histogram: recording::Log2Histogram::default(),
        }),
        split: Some(CallTime {
            on_cpu_ns: ns(call.count * (call.ns + INSIDE_NS)),
            off_cpu_ns: ns(call.count * call.sleep_ns),
            run_queue_ns: 0,
            sleeps: Some(0),
        }),
    }
}

/// What a call and a probe cost on the machine of these tests, ns.
pub(crate) const COST: Calibration = Calibration {
    probe_ns_per_call: 300.0,
    probe_ns_per_switch: None,
    entry_exit_ns: 120.0,
    page_fault_ns: None,
    null_call_inside_ns: None,
};
/// A page fault, ns.
const FAULT_NS: f64 = 500.0;
/// What the probes see of a call that does nothing, ns.
const INSIDE_NS: f64 = 70.0;
