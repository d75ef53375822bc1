//! Counters of a profile in the text format of Prometheus (version 0.0.4), for scraping and for a file that a
//! collector reads.
//!
//! All counters only grow: slices are added, so they go on where a target ends and comes back. The number of time
//! series has a limit ([`MOST_CALLS`] calls); what is beyond is counted as `other`.

mod below;
mod exposition;

use std::collections::BTreeMap;

use recording::{CallObject, Lost, Profile, ProfileSlice, SliceCall, SliceWait};

use self::below::Below;
use self::exposition::{counter, family, sample};
use crate::clean::clean;

/// What was counted since the probes were attached.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    seconds: f64,
    calls: BTreeMap<CallKey, Call>,
    waits: BTreeMap<String, Wait>,
    below: Below,
    lost: Lost,
    /// Processes of the target now; `None` where nobody looked.
    processes: Option<usize>,
}

/// Name of a call, and what it was done to.
type CallKey = (String, &'static str);

#[derive(Clone, Copy, Debug, Default)]
struct Call {
    count: u64,
    errors: u64,
    /// `None` for calls that transfer nothing.
    bytes: Option<u64>,
    /// Inside of the call; `None` where it was not timed.
    inside_ns: Option<u64>,
    /// On a CPU, asleep, and waiting for a CPU inside of it; `None` below detail `sched`.
    split_ns: Option<[u64; 3]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    wakes: u64,
    events: u64,
    timeouts: u64,
}

impl Counters {
    /// The counters of one window.
    pub fn of(profile: &Profile) -> Self {
        let calls = profile.calls.iter().map(|row| SliceCall {
            abi: row.abi,
            name: row.name.clone(),
            on: row.on,
            count: row.count,
            errors: row.error_count(),
            bytes: row.bytes,
            ns_total: row.time.as_ref().map(|time| time.ns_total),
            split: row.split,
        });
        let waits = profile.waits.iter().map(|row| SliceWait {
            abi: row.abi,
            name: row.name.clone(),
            wakes: row.wakes,
            events: row.events,
            timeouts: row.timeouts,
        });
        let mut counters = Self::default();
        counters.add(&ProfileSlice {
            window: profile.window,
            calls: calls.collect(),
            waits: waits.collect(),
            groups: Vec::new(),
            threads: profile.threads.clone().map(Box::new),
            network: profile.network.clone().map(Box::new),
            lost: profile.lost.clone(),
        });
        counters
    }

    /// So many processes of the target are there now.
    pub fn see_processes(&mut self, count: usize) {
        self.processes = Some(count);
    }

    /// Adds what was counted in a slice.
    pub fn add(&mut self, slice: &ProfileSlice) {
        self.seconds += slice.window.seconds();
        for call in &slice.calls {
            let mut key = key(call);
            if self.calls.len() >= MOST_CALLS && !self.calls.contains_key(&key) {
                key = (OTHER.to_owned(), "");
            }
            let sum = self.calls.entry(key).or_default();
            sum.count = sum.count.saturating_add(call.count);
            sum.errors = sum.errors.saturating_add(call.errors);
            sum.bytes = plus(sum.bytes, call.bytes);
            sum.inside_ns = plus(sum.inside_ns, call.ns_total);
            if let Some(split) = call.split {
                let parts = [split.on_cpu_ns, split.off_cpu_ns, split.run_queue_ns];
                let sums = sum.split_ns.get_or_insert_default();
                for (sum, part) in sums.iter_mut().zip(parts) {
                    *sum = sum.saturating_add(part);
                }
            }
        }
        for wait in &slice.waits {
            let sum = self.waits.entry(clean(&wait.name)).or_default();
            sum.wakes = sum.wakes.saturating_add(wait.wakes);
            sum.events = sum.events.saturating_add(wait.events);
            sum.timeouts = sum.timeouts.saturating_add(wait.timeouts);
        }
        self.below.add(slice);
        for (class, count) in &slice.lost.0 {
            self.lost.add(*class, *count);
        }
    }

    /// As Prometheus reads it. `version` is that of the program.
    pub fn render(&self, version: &str) -> String {
        let mut text = String::new();
        family(
            &mut text,
            "whyfast_build_info",
            "gauge",
            "The version of whyfast, always 1.",
        );
        sample(
            &mut text,
            "whyfast_build_info",
            &[("version", version)],
            1.0,
        );
        counter(
            &mut text,
            "whyfast_observed_seconds_total",
            "Time in which calls were counted.",
            self.seconds,
        );
        if let Some(processes) = self.processes {
            let name = "whyfast_target_processes";
            family(
                &mut text,
                name,
                "gauge",
                "Processes of the target that are there.",
            );
            sample(&mut text, name, &[], processes as f64);
        }
        self.of_calls(&mut text);
        self.of_waits(&mut text);
        self.below.render(&mut text);
        let name = "whyfast_lost_events_total";
        family(
            &mut text,
            name,
            "counter",
            "Events that are missing from the counts.",
        );
        for class in recording::LostClass::ALL {
            let count = self.lost.0.get(&class).copied().unwrap_or(0);
            sample(&mut text, name, &[("class", &word(&class))], count as f64);
        }
        text
    }

    fn of_calls(&self, text: &mut String) {
        for (name, help, value) in CALL_FAMILIES {
            let values: Vec<(&CallKey, f64)> = self
                .calls
                .iter()
                .filter_map(|(key, call)| Some((key, value(call)?)))
                .collect();
            if values.is_empty() {
                continue;
            }
            family(text, name, "counter", help);
            for ((call, on), value) in values {
                let group = word(&recording::family(call));
                let labels = [("syscall", call.as_str()), ("on", on), ("family", &group)];
                sample(text, name, &labels, value);
            }
        }
        let name = "whyfast_syscall_state_seconds_total";
        if self.calls.values().any(|call| call.split_ns.is_some()) {
            family(
                text,
                name,
                "counter",
                "Time of threads inside of the call, by what they did.",
            );
        }
        for ((call, on), sums) in &self.calls {
            for (state, ns) in STATES.iter().zip(sums.split_ns.into_iter().flatten()) {
                let labels = [("syscall", call.as_str()), ("on", on), ("state", state)];
                sample(text, name, &labels, ns as f64 / 1e9);
            }
        }
    }

    fn of_waits(&self, text: &mut String) {
        for (name, help, value) in WAIT_FAMILIES {
            if self.waits.is_empty() {
                continue;
            }
            family(text, name, "counter", help);
            for (call, wait) in &self.waits {
                sample(text, name, &[("syscall", call)], value(wait) as f64);
            }
        }
    }
}

fn key(call: &SliceCall) -> CallKey {
    (clean(&call.name), call.on.map_or("", CallObject::word))
}

/// The sum, where anything was measured.
fn plus(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    }
}

/// The name that a recording stores for a value of an enumeration.
fn word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or(OTHER).to_owned()
}

type Of<T, V> = (&'static str, &'static str, fn(&T) -> V);

const CALL_FAMILIES: [Of<Call, Option<f64>>; 4] = [
    (
        "whyfast_syscalls_total",
        "System calls that returned.",
        |call| Some(call.count as f64),
    ),
    (
        "whyfast_syscall_errors_total",
        "System calls that returned an error.",
        |call| Some(call.errors as f64),
    ),
    (
        "whyfast_syscall_bytes_total",
        "Bytes returned by calls that read or write.",
        |call| call.bytes.map(|bytes| bytes as f64),
    ),
    (
        "whyfast_syscall_seconds_total",
        "Wall clock time inside of calls, from entry to exit.",
        |call| call.inside_ns.map(|ns| ns as f64 / 1e9),
    ),
];
const WAIT_FAMILIES: [Of<Wait, u64>; 3] = [
    (
        "whyfast_wait_wakes_total",
        "Returns of waiting calls with at least one event.",
        |wait| wait.wakes,
    ),
    (
        "whyfast_wait_events_total",
        "Events that waiting calls returned.",
        |wait| wait.events,
    ),
    (
        "whyfast_wait_timeouts_total",
        "Returns of waiting calls without an event.",
        |wait| wait.timeouts,
    ),
];
/// In the order of [`Call::split_ns`].
const STATES: [&str; 3] = ["on_cpu", "off_cpu", "run_queue"];
/// Calls that are told apart.
const MOST_CALLS: usize = 100;
const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use recording::{Abi, LostClass, Window};

    use super::*;

    fn call(name: &str, count: u64) -> SliceCall {
        SliceCall {
            abi: Abi::X86_64,
            name: name.to_owned(),
            on: None,
            count,
            errors: count / 2,
            bytes: (name == "read").then_some(10 * count),
            ns_total: None,
            split: None,
        }
    }

    pub(super) fn slice(calls: Vec<SliceCall>) -> ProfileSlice {
        let mut lost = Lost::default();
        lost.add(LostClass::UntimedCalls, 1);
        ProfileSlice {
            window: Window {
                start_ns: 0,
                end_ns: 500_000_000,
            },
            calls,
            waits: Vec::new(),
            groups: Vec::new(),
            threads: None,
            network: None,
            lost,
        }
    }

    /// Slices add up; what was not measured has no line; classes that lost nothing are there as 0.
    #[test]
    fn slices_add_up() {
        let mut counters = Counters::default();
        counters.add(&slice(vec![call("read", 4), call("close", 1)]));
        counters.add(&slice(vec![call("read", 6)]));
        let text = counters.render("1.2.3");
        for line in [
            "whyfast_build_info{version=\"1.2.3\"} 1",
            "whyfast_observed_seconds_total 1",
            "whyfast_syscalls_total{syscall=\"read\",family=\"receive\"} 10",
            "whyfast_syscalls_total{syscall=\"close\",family=\"close\"} 1",
            "whyfast_syscall_errors_total{syscall=\"read\",family=\"receive\"} 5",
            "whyfast_syscall_bytes_total{syscall=\"read\",family=\"receive\"} 100",
            "whyfast_lost_events_total{class=\"untimed_calls\"} 2",
            "whyfast_lost_events_total{class=\"clock_backwards\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("seconds_total{syscall"), "{text}");
    }

    /// The dashboard and the alerts of the documentation ask for nothing that is not there.
    #[test]
    fn dashboard_and_alerts_know_the_names() {
        let mut everything = slice(vec![call("read", 4)]);
        everything.calls[0].ns_total = Some(1);
        everything.calls[0].split = Some(recording::CallTime::default());
        everything.waits = vec![SliceWait {
            abi: Abi::X86_64,
            name: "epoll_wait".to_owned(),
            wakes: 1,
            events: 1,
            timeouts: 0,
        }];
        everything.threads = Some(Box::default());
        let mut network = recording::Network {
            retransmits: Some(0),
            resets_sent: Some(0),
            resets_received: Some(0),
            ..recording::Network::default()
        };
        network.namespaces.push(recording::NetworkNamespace {
            namespace: None,
            listen_overflows: 0,
            listen_drops: 0,
            tcp_timeouts: 0,
        });
        everything.network = Some(Box::new(network));
        let mut counters = Counters::default();
        counters.add(&everything);
        counters.see_processes(1);
        let text = counters.render("0");
        let names: std::collections::BTreeSet<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(['{', ' ']).next())
            .collect();
        for document in [
            include_str!("../../../docs/monitoring/dashboard.json"),
            include_str!("../../../docs/monitoring/alerts.yml"),
        ] {
            let words =
                document.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let asked = words.filter(|word| word.starts_with("whyfast_"));
            let asked: Vec<&str> = asked.collect();
            assert!(asked.len() > 4, "{asked:?}");
            for name in asked {
                assert!(names.contains(name), "{name} is not in {names:?}");
            }
        }
    }

    /// Beyond so many calls, all others are one; nothing is missing from the sum.
    #[test]
    fn series_have_a_limit() {
        let mut counters = Counters::default();
        let calls = (0..1000).map(|nr| call(&format!("syscall_{nr}"), 1));
        counters.add(&slice(calls.collect()));
        let text = counters.render("0");
        let values = text
            .lines()
            .filter_map(|line| line.strip_prefix("whyfast_syscalls_total{"))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        let values: Vec<u64> = values.collect();
        assert_eq!(values.len(), MOST_CALLS + 1);
        assert_eq!(values.iter().sum::<u64>(), 1000);
    }

    proptest! {
        /// Whatever a name is made of, every line is a comment or `NAME{LABELS} VALUE`, with all quotes inside of values
        /// escaped.
        #[test]
        fn lines_are_well_formed(name in ".{0,40}") {
            let mut counters = Counters::default();
            counters.add(&slice(vec![call(&name, 1)]));
            let text = counters.render(&name);
            for line in text.lines().filter(|line| !line.starts_with("# ")) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                prop_assert!(value.parse::<f64>().is_ok(), "{line}");
                let Some((_, labels)) = series.split_once('{') else { continue };
                let labels = labels.strip_suffix('}').unwrap();
                let bare = labels.replace("\\\\", "").replace("\\\"", "");
                prop_assert!(bare.matches('"').count().is_multiple_of(2), "{line}");
                prop_assert!(!bare.contains('\\'), "{line}");
            }
        }
    }
}
