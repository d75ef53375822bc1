//! What is below the calls: time of threads, switches and faults, and the network at the target's ports.

use recording::{Log2Histogram, Network, ProfileSlice, ThreadTime};

use super::exposition::{counter, family, histogram, sample};
use super::plus;

/// Sums since the probes were attached; what was not measured has no series.
#[derive(Clone, Debug, Default)]
pub(super) struct Below {
    /// At detail `sched`.
    threads: Option<Threads>,
    network: Option<Sockets>,
}

#[derive(Clone, Debug, Default)]
struct Threads {
    /// In the order of [`STATES`].
    state_ns: [u64; STATES.len()],
    waits: Log2Histogram,
    /// In the order of [`EVENTS`].
    events: [u64; EVENTS.len()],
    /// Voluntary, and not.
    switches: [u64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sockets {
    /// In the order of [`SEGMENTS`]; `None` where the kernel has no such tracepoint.
    segments: [Option<u64>; SEGMENTS.len()],
    /// In the order of [`QUEUES`]; `None` where the namespace could not be read.
    queues: Option<[u64; QUEUES.len()]>,
}

impl Below {
    /// Adds what happened in a slice.
    pub(super) fn add(&mut self, slice: &ProfileSlice) {
        if let Some(threads) = &slice.threads {
            self.threads.get_or_insert_default().add(threads);
        }
        if let Some(network) = &slice.network {
            self.network.get_or_insert_default().add(network);
        }
    }

    pub(super) fn render(&self, text: &mut String) {
        if let Some(threads) = &self.threads {
            threads.render(text);
        }
        if let Some(network) = &self.network {
            network.render(text);
        }
    }
}

impl Threads {
    fn add(&mut self, threads: &ThreadTime) {
        let ns = [
            threads.user_ns,
            threads.kernel_ns,
            threads.irq_ns,
            threads.softirq_ns,
            threads.run_queue_ns,
            threads
                .off_cpu_in_calls_ns
                .saturating_add(threads.off_cpu_outside_ns),
        ];
        let events = [
            threads.threads_began,
            threads.threads_ended,
            threads.migrations,
            threads.page_faults,
        ];
        add_each(&mut self.state_ns, ns);
        add_each(&mut self.events, events);
        let switches = [threads.voluntary_switches, threads.involuntary_switches];
        add_each(&mut self.switches, switches);
        self.waits.merge(&threads.run_queue_waits);
    }

    fn render(&self, text: &mut String) {
        let name = "whyfast_thread_seconds_total";
        family(
            text,
            name,
            "counter",
            "Time of the target's threads, by what they did.",
        );
        for (state, ns) in STATES.iter().zip(self.state_ns) {
            sample(text, name, &[("state", state)], ns as f64 / 1e9);
        }
        let name = "whyfast_context_switches_total";
        family(
            text,
            name,
            "counter",
            "Times that a thread of the target left its CPU.",
        );
        for (kind, count) in ["voluntary", "involuntary"].iter().zip(self.switches) {
            sample(text, name, &[("kind", kind)], count as f64);
        }
        for ((name, help), count) in EVENTS.iter().zip(self.events) {
            counter(text, name, help, count as f64);
        }
        histogram(
            text,
            "whyfast_run_queue_wait_seconds",
            "Waits of threads that could run for a CPU.",
            &self.waits,
            self.state_ns[RUN_QUEUE],
        );
    }
}

impl Sockets {
    fn add(&mut self, network: &Network) {
        let segments = [
            network.retransmits,
            network.resets_sent,
            network.resets_received,
        ];
        for (sum, count) in self.segments.iter_mut().zip(segments) {
            *sum = plus(*sum, count);
        }
        for namespace in &network.namespaces {
            let counts = [
                namespace.listen_overflows,
                namespace.listen_drops,
                namespace.tcp_timeouts,
            ];
            add_each(self.queues.get_or_insert_default(), counts);
        }
    }

    fn render(&self, text: &mut String) {
        for ((name, help), count) in SEGMENTS.iter().zip(self.segments) {
            if let Some(count) = count {
                counter(text, name, help, count as f64);
            }
        }
        for ((name, help), count) in QUEUES.iter().zip(self.queues.into_iter().flatten()) {
            counter(text, name, help, count as f64);
        }
    }
}

fn add_each<const N: usize>(sums: &mut [u64; N], more: [u64; N]) {
    for (sum, count) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(count);
    }
}

const STATES: [&str; 6] = ["user", "kernel", "irq", "softirq", "run_queue", "off_cpu"];
/// Where it is in [`STATES`].
const RUN_QUEUE: usize = 4;

const EVENTS: [(&str, &str); 4] = [
    (
        "whyfast_threads_started_total",
        "Threads of the target that began.",
    ),
    (
        "whyfast_threads_ended_total",
        "Threads of the target that ended.",
    ),
    (
        "whyfast_thread_migrations_total",
        "Times that a thread of the target was moved to another CPU.",
    ),
    (
        "whyfast_page_faults_total",
        "Page faults of the target in user mode.",
    ),
];
const SEGMENTS: [(&str, &str); 3] = [
    (
        "whyfast_tcp_retransmits_total",
        "Segments that were sent again at ports that the target listens on.",
    ),
    (
        "whyfast_tcp_resets_sent_total",
        "Resets that were sent at ports that the target listens on.",
    ),
    (
        "whyfast_tcp_resets_received_total",
        "Resets that were received at ports that the target listens on.",
    ),
];
const QUEUES: [(&str, &str); 3] = [
    (
        "whyfast_listen_overflows_total",
        "Connections that found the queue of a listener full, in the target's network namespace.",
    ),
    (
        "whyfast_listen_drops_total",
        "Connection requests that were dropped at a listener, overflows included, in the target's network namespace.",
    ),
    (
        "whyfast_tcp_timeouts_total",
        "Retransmission timers that expired, in the target's network namespace.",
    ),
];

#[cfg(test)]
mod tests {
    use recording::NetworkNamespace;

    use super::super::Counters;
    use super::super::tests::slice;
    use super::*;

    /// Slices add up; what no slice measured is absent, never 0.
    #[test]
    fn what_is_below_adds_up() {
        let mut counters = Counters::default();
        let mut both = slice(Vec::new());
        let bare = counters.render("0");
        for family in [
            "whyfast_thread",
            "whyfast_tcp",
            "whyfast_listen",
            "whyfast_run",
            "whyfast_target",
        ] {
            assert!(!bare.contains(family), "{bare}");
        }
        both.threads = Some(Box::new(ThreadTime {
            user_ns: 1_500_000_000,
            run_queue_ns: 1_000_000_000,
            off_cpu_in_calls_ns: 2_000_000_000,
            off_cpu_outside_ns: 500_000_000,
            involuntary_switches: 3,
            page_faults: 4,
            ..ThreadTime::default()
        }));
        both.network = Some(Box::new(Network {
            retransmits: Some(2),
            namespaces: vec![NetworkNamespace {
                namespace: None,
                listen_overflows: 5,
                listen_drops: 6,
                tcp_timeouts: 0,
            }],
            ..Network::default()
        }));
        counters.add(&both);
        counters.add(&both);
        counters.see_processes(2);
        let text = counters.render("0");
        for line in [
            "whyfast_target_processes 2",
            "whyfast_thread_seconds_total{state=\"user\"} 3",
            "whyfast_thread_seconds_total{state=\"run_queue\"} 2",
            "whyfast_thread_seconds_total{state=\"off_cpu\"} 5",
            "whyfast_context_switches_total{kind=\"involuntary\"} 6",
            "whyfast_page_faults_total 8",
            "whyfast_run_queue_wait_seconds_sum 2",
            "whyfast_tcp_retransmits_total 4",
            "whyfast_listen_overflows_total 10",
            "whyfast_listen_drops_total 12",
            "whyfast_tcp_timeouts_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("resets"), "{text}");
    }
}
