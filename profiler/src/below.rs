//! What is measured below the calls besides what the programs in the kernel count: listening
//! sockets and counters of the hardware. And what of all that a kernel cannot give.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use recording::{Detail, Hardware, IoUring, Network, NotMeasured};

use crate::hardware::HardwareCounters;
use crate::network::Listeners;
use crate::privileges;
use crate::snapshot::Snapshot;
use crate::source::{
    TCP_RESET_RECEIVED, TCP_RESET_SENT, TCP_RETRANSMIT, Tables, URING_TRACEPOINTS,
};

/// What is watched from attach to detach.
#[derive(Debug, Default)]
pub(crate) struct Below {
    /// When the listening sockets are looked at again.
    rests_until: Option<Instant>,
    detail: Option<Detail>,
    listeners: Listeners,
    hardware: HardwareCounters,
}

/// What was seen during a window.
#[derive(Debug, Default)]
pub(crate) struct BelowWindow {
    pub(crate) hardware: Option<Hardware>,
    network: Option<Network>,
    not_measured: Vec<NotMeasured>,
}

impl Below {
    /// Begins to watch these processes. What takes privileges happens here.
    pub(crate) fn attach(
        detail: Detail,
        follow: bool,
        pids: &BTreeSet<u32>,
        tables: &Tables<'_>,
    ) -> Self {
        let mut below = Self {
            detail: Some(detail),
            ..Self::default()
        };
        if below.is_on() {
            below.listeners = Listeners::find(pids);
            below.listeners.mark_ports(tables.ports);
        }
        if detail >= Detail::Times {
            below.hardware = HardwareCounters::open(pids, follow);
        }
        below
    }

    /// A window begins: looks who listens by now.
    pub(crate) fn begin_window(&mut self, pids: &BTreeSet<u32>, tables: &Tables<'_>) {
        if self.is_on() {
            self.listeners = Listeners::find(pids);
            self.listeners.mark_ports(tables.ports);
            self.listeners.begin_window();
        }
        self.hardware.begin_window();
    }

    /// Looks at the listening sockets, unless it did a moment ago: with thousands of connections a look
    /// takes milliseconds, and this may share a CPU with the load.
    pub(crate) fn tick(&mut self) {
        let begun = Instant::now();
        if self.rests_until.is_some_and(|until| begun < until) {
            return;
        }
        self.listeners.look();
        let rest = (begun.elapsed() * RESTS_TIMES_AS_LONG).max(LOOKS_EVERY);
        self.rests_until = Some(begun + rest);
    }

    /// The network between two copies, the first of which was made at the last time. Where those who listened
    /// are gone, it begins anew with those who do by now.
    pub(crate) fn slice(
        &mut self,
        pids: &BTreeSet<u32>,
        tables: &Tables<'_>,
        (from, to): (&Snapshot, &Snapshot),
        missing: &[String],
    ) -> Option<Network> {
        if !self.is_on() {
            return None;
        }
        let mut network = Network::default();
        if let Some(namespaces) = self.listeners.since_last() {
            network.namespaces = namespaces;
        } else {
            self.listeners = Listeners::find(pids);
            self.listeners.mark_ports(tables.ports);
            self.listeners.begin_slices();
        }
        to.tcp.fill(&mut network, &from.tcp, missing);
        Some(network)
    }

    /// The window ends.
    pub(crate) fn end_window(&mut self) -> BelowWindow {
        let mut window = BelowWindow {
            hardware: self.hardware.end_window(),
            network: None,
            not_measured: self.hardware.not_measured().to_vec(),
        };
        if self.is_on() {
            let (network, not_measured) = self.listeners.end_window();
            window.network = Some(network);
            window.not_measured.extend(not_measured);
        }
        window
    }

    fn is_on(&self) -> bool {
        self.detail.is_some_and(|detail| detail > Detail::Floor)
    }
}

impl BelowWindow {
    /// The network, with what the programs counted between the edges.
    pub(crate) fn network(
        &self,
        from: &Snapshot,
        to: &Snapshot,
        missing: &[String],
    ) -> Option<Network> {
        let mut network = self.network.clone()?;
        to.tcp.fill(&mut network, &from.tcp, missing);
        Some(network)
    }

    /// What was not measured: for what this window shows, and for the tracepoints that the kernel
    /// lacks.
    pub(crate) fn not_measured(&self, missing: &[String]) -> Vec<NotMeasured> {
        let mut not_measured = self.not_measured.clone();
        for (what, is_about) in [
            ("io_uring operations", is_uring as fn(&str) -> bool),
            ("TCP retransmits and resets", is_tcp),
        ] {
            let lacking: Vec<&str> = missing
                .iter()
                .map(String::as_str)
                .filter(|tracepoint| is_about(tracepoint))
                .collect();
            if !lacking.is_empty() {
                not_measured.push(NotMeasured {
                    what: what.into(),
                    why: if is_uring(lacking[0]) && privileges::is_confidential() {
                        "the kernel is locked down for confidentiality, and following a request takes \
                         reading its memory"
                            .into()
                    } else {
                        format!("this kernel has no tracepoint {}", lacking.join(", "))
                    },
                    remedy: None,
                });
            }
        }
        not_measured
    }
}

/// The operations of `io_uring` between two copies; `None` where they are not counted.
pub(crate) fn io_uring(
    detail: Detail,
    from: &Snapshot,
    to: &Snapshot,
    missing: &[String],
) -> Option<IoUring> {
    let is_counted =
        detail > Detail::Floor && !missing.iter().any(|tracepoint| is_uring(tracepoint));
    is_counted.then(|| to.uring.since(&from.uring, detail))
}

/// Runs of our programs for these operations.
pub(crate) fn uring_events(uring: &IoUring) -> u64 {
    let operations = uring.operations.iter();
    let runs =
        operations.map(|operation| operation.submitted + operation.completed + operation.repeated);
    runs.sum::<u64>() + uring.overflows
}

/// Whether a tracepoint is one of those below the calls.
pub(crate) fn is_below(tracepoint: &str) -> bool {
    is_uring(tracepoint) || is_tcp(tracepoint)
}

fn is_uring(tracepoint: &str) -> bool {
    tracepoint.starts_with(URING_TRACEPOINTS)
}

fn is_tcp(tracepoint: &str) -> bool {
    [TCP_RETRANSMIT, TCP_RESET_SENT, TCP_RESET_RECEIVED].contains(&tracepoint)
}
/// Half a percent of one CPU at most.
const RESTS_TIMES_AS_LONG: u32 = 200;
const LOOKS_EVERY: Duration = Duration::from_millis(100);
