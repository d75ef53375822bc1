//! Slices of a profile as rows for people who watch: per second, and per call.
//!
//! It owns which figures of a slice are shown and how. It does not know of screens.

use std::cmp::Ordering;

use recording::{Abi, CallObject, CallTime, Group, ProfileSlice, SliceCall, SliceWait};

use crate::clean::clean;
use crate::figures::{rate, span};

/// One call, or one process, thread or name of a thread. `None` is what was not measured, or what does
/// not exist for it.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceRow {
    /// What it is, cleaned.
    pub name: String,
    /// Returned calls per second.
    pub calls_per_s: f64,
    /// Of them, with an error.
    pub errors_per_s: f64,
    /// Time inside of a call, on average, ns.
    pub inside_ns: Option<f64>,
    /// Time on a CPU per call, on average, ns. For a group it includes the time between its calls.
    pub on_cpu_ns: Option<f64>,
    /// Time asleep per call, on average, ns; for a group likewise.
    pub off_cpu_ns: Option<f64>,
    /// Events per return with an event, of waiting calls.
    pub events_per_wake: Option<f64>,
    /// Time inside of calls per second, ns.
    pub inside_ns_per_s: Option<f64>,
    /// Time on a CPU per second, ns.
    pub on_cpu_ns_per_s: Option<f64>,
}

/// What rows are sorted by, each the largest first but for the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SliceOrder {
    /// Time on a CPU, or calls where that was not measured.
    #[default]
    Busiest,
    /// Calls per second.
    Calls,
    /// Errors per second.
    Errors,
    /// Time inside of calls, all together.
    Inside,
    /// Events per wake.
    Events,
    /// Name.
    Name,
}

impl SliceOrder {
    /// Every order, as one goes through them.
    pub const ALL: [Self; 6] = [
        Self::Busiest,
        Self::Calls,
        Self::Errors,
        Self::Inside,
        Self::Events,
        Self::Name,
    ];

    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Busiest => "busiest",
            Self::Calls => "calls/s",
            Self::Errors => "errors/s",
            Self::Inside => "time inside",
            Self::Events => "events/wake",
            Self::Name => "name",
        }
    }

    /// Sorts rows.
    pub fn sort(self, rows: &mut [SliceRow]) {
        rows.sort_by(|a, b| {
            let order = match self {
                Self::Busiest => down(a.on_cpu_ns_per_s, b.on_cpu_ns_per_s),
                Self::Calls => Ordering::Equal,
                Self::Errors => down(Some(a.errors_per_s), Some(b.errors_per_s)),
                Self::Inside => down(a.inside_ns_per_s, b.inside_ns_per_s),
                Self::Events => down(a.events_per_wake, b.events_per_wake),
                Self::Name => a.name.cmp(&b.name),
            };
            let calls = || down(Some(a.calls_per_s), Some(b.calls_per_s));
            order.then_with(calls).then_with(|| a.name.cmp(&b.name))
        });
    }
}

/// The calls of a slice.
pub fn calls(slice: &ProfileSlice) -> Vec<SliceRow> {
    let seconds = slice.window.seconds();
    let calls = slice.calls.iter().map(|call| {
        let is_of_call = |wait: &&SliceWait| (wait.abi, &wait.name) == (call.abi, &call.name);
        let wait = slice.waits.iter().find(is_of_call);
        Figures::of_call(call).row(
            label(call.abi, &call.name, call.on),
            wait.filter(|wait| wait.wakes > 0)
                .map(|wait| wait.events as f64 / wait.wakes as f64),
            seconds,
        )
    });
    calls.collect()
}

/// The groups of a slice, with all of their calls together.
pub fn groups(slice: &ProfileSlice) -> Vec<SliceRow> {
    let seconds = slice.window.seconds();
    let groups = slice.groups.iter();
    groups
        .map(|group| Figures::of_group(group).row(group_name(group), None, seconds))
        .collect()
}

/// The calls of one group, by the name that it has as a row.
pub fn calls_of_group(slice: &ProfileSlice, name: &str) -> Vec<SliceRow> {
    let seconds = slice.window.seconds();
    let group = slice.groups.iter().find(|group| group_name(group) == name);
    let calls = group.into_iter().flat_map(|group| &group.calls);
    let rows = calls.map(|call| {
        let figures = Figures {
            count: call.count,
            errors: call.errors,
            inside_ns: call.ns_total,
            split: call.split,
        };
        figures.row(label(call.abi, &call.name, call.on), None, seconds)
    });
    rows.collect()
}

/// The whole slice as one row.
pub fn sum(slice: &ProfileSlice) -> SliceRow {
    let mut sum = Figures::default();
    for call in &slice.calls {
        sum.add(&Figures::of_call(call));
    }
    let wakes: u64 = slice.waits.iter().map(|wait| wait.wakes).sum();
    let events: u64 = slice.waits.iter().map(|wait| wait.events).sum();
    let events_per_wake = (wakes > 0).then(|| events as f64 / wakes as f64);
    sum.row("all calls".into(), events_per_wake, slice.window.seconds())
}

impl SliceRow {
    /// The figures as text, in the order of [`SLICE_COLUMNS`]; `-` for what was not measured.
    pub fn cells(&self) -> [String; 6] {
        let or_zero = |value: f64| {
            if value == 0.0 {
                "0".into()
            } else {
                rate(value)
            }
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        [
            or_zero(self.calls_per_s),
            or_zero(self.errors_per_s),
            or_dash(self.inside_ns.map(span)),
            or_dash(self.on_cpu_ns.map(span)),
            or_dash(self.off_cpu_ns.map(span)),
            or_dash(self.events_per_wake.map(|events| format!("{events:.2}"))),
        ]
    }
}

/// Headings of the figures of a row.
pub const SLICE_COLUMNS: [&str; 6] = [
    "calls/s", "errors/s", "inside", "on CPU", "off CPU", "ev/wake",
];

/// What rows are made from.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    count: u64,
    errors: u64,
    inside_ns: Option<u64>,
    split: Option<CallTime>,
}

impl Figures {
    fn of_call(call: &SliceCall) -> Self {
        Self {
            count: call.count,
            errors: call.errors,
            inside_ns: call.ns_total,
            split: call.split,
        }
    }

    fn of_group(group: &Group) -> Self {
        let mut sum = Self {
            split: group.outside,
            ..Self::default()
        };
        for call in &group.calls {
            sum.add(&Self {
                count: call.count,
                errors: call.errors,
                inside_ns: call.ns_total,
                split: call.split,
            });
        }
        sum
    }

    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.errors = self.errors.saturating_add(other.errors);
        let inside_ns = [self.inside_ns, other.inside_ns].into_iter().flatten();
        self.inside_ns = inside_ns.reduce(u64::saturating_add);
        let splits = [self.split, other.split].into_iter().flatten();
        self.split = splits.reduce(|a, b| CallTime {
            on_cpu_ns: a.on_cpu_ns.saturating_add(b.on_cpu_ns),
            off_cpu_ns: a.off_cpu_ns.saturating_add(b.off_cpu_ns),
            run_queue_ns: a.run_queue_ns.saturating_add(b.run_queue_ns),
            sleeps: None,
        });
    }

    fn row(self, name: String, events_per_wake: Option<f64>, seconds: f64) -> SliceRow {
        let per_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
        let per_call = |ns: u64| (self.count > 0).then(|| ns as f64 / self.count as f64);
        SliceRow {
            name,
            calls_per_s: per_second(self.count as f64),
            errors_per_s: per_second(self.errors as f64),
            inside_ns: self.inside_ns.and_then(per_call),
            on_cpu_ns: self.split.and_then(|split| per_call(split.on_cpu_ns)),
            off_cpu_ns: self.split.and_then(|split| per_call(split.off_cpu_ns)),
            events_per_wake,
            inside_ns_per_s: self.inside_ns.map(|ns| per_second(ns as f64)),
            on_cpu_ns_per_s: self.split.map(|split| per_second(split.on_cpu_ns as f64)),
        }
    }
}

/// The larger first, what was not measured last.
fn down(a: Option<f64>, b: Option<f64>) -> Ordering {
    let value = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
    value(b).total_cmp(&value(a))
}

fn label(abi: Abi, name: &str, on: Option<CallObject>) -> String {
    let mut label = clean(name);
    if let Some(on) = on {
        label = format!("{label}({})", on.word());
    }
    if abi.compat().is_none() {
        label.push_str(" 32-bit");
    }
    label
}

/// A number first, which tells those of one name apart.
fn group_name(group: &Group) -> String {
    let comm = group.comm.as_deref().map_or_else(|| "?".into(), clean);
    match group.id {
        Some(id) => format!("{id} {comm}"),
        None => comm,
    }
}

#[cfg(test)]
mod tests {
    use recording::{GroupCall, Lost, Window};

    use super::*;

    fn split(on_cpu_ns: u64, off_cpu_ns: u64) -> CallTime {
        CallTime {
            on_cpu_ns,
            off_cpu_ns,
            run_queue_ns: 0,
            sleeps: None,
        }
    }

    /// Half a second in which a thread read 10 times and waited 5 times.
    fn slice() -> ProfileSlice {
        let call = |name: &str, count, on_cpu_ns, off_cpu_ns| SliceCall {
            abi: Abi::X86_64,
            name: name.into(),
            on: None,
            count,
            errors: count / 10,
            bytes: None,
            ns_total: Some(on_cpu_ns + off_cpu_ns),
            split: Some(split(on_cpu_ns, off_cpu_ns)),
        };
        let of_group = |name: &str, count| GroupCall {
            abi: Abi::I386,
            name: name.into(),
            on: None,
            count,
            errors: 0,
            bytes: None,
            ns_total: None,
            split: None,
        };
        ProfileSlice {
            window: Window {
                start_ns: 1_000_000_000,
                end_ns: 1_500_000_000,
            },
            calls: vec![
                call("read", 10, 10_000, 0),
                call("epoll_wait", 5, 5_000, 400_000_000),
            ],
            waits: vec![SliceWait {
                abi: Abi::X86_64,
                name: "epoll_wait".into(),
                wakes: 4,
                events: 10,
                timeouts: 1,
            }],
            groups: vec![Group {
                id: Some(7),
                pid: Some(7),
                comm: Some("a\u{1b}[2Jb".into()),
                calls: vec![of_group("read", 6), of_group("write", 4)],
                outside: None,
            }],
            threads: None,
            network: None,
            lost: Lost::default(),
        }
    }

    /// Figures are per second of the slice and per call; what has no value is a dash.
    #[test]
    fn figures_of_calls() {
        let rows = calls(&slice());
        assert_eq!(
            rows[0].cells(),
            ["20.00", "2.000", "1.00us", "1.00us", "0ns", "-"]
        );
        assert_eq!(
            rows[1].cells(),
            ["10.00", "0", "80.0ms", "1.00us", "80.0ms", "2.50"]
        );
        assert_eq!(sum(&slice()).cells()[0], "30.00");
        assert_eq!(sum(&slice()).events_per_wake, Some(2.5));
    }

    /// A group has the sum of its calls, under a name that cannot steer a terminal; its calls are found by it.
    #[test]
    fn figures_of_groups() {
        let rows = groups(&slice());
        assert_eq!(rows[0].name, "7 a\\x1b[2Jb");
        assert_eq!(rows[0].cells(), ["20.00", "0", "-", "-", "-", "-"]);
        let inside = calls_of_group(&slice(), &rows[0].name);
        assert_eq!(inside[0].name, "read 32-bit");
        assert_eq!(inside[0].cells()[0], "12.00");
        assert!(calls_of_group(&slice(), "8 other").is_empty());
    }

    /// Each order has its own first row; what was not measured is last, and ties go by calls and name.
    #[test]
    fn orders() {
        let first = |order: SliceOrder| {
            let mut rows = calls(&slice());
            order.sort(&mut rows);
            rows[0].name.clone()
        };
        let firsts = SliceOrder::ALL.map(first);
        assert_eq!(
            firsts,
            [
                "read",
                "read",
                "read",
                "epoll_wait",
                "epoll_wait",
                "epoll_wait"
            ]
        );
        let mut rows = groups(&slice());
        rows.push(SliceRow {
            on_cpu_ns_per_s: Some(0.0),
            ..rows[0].clone()
        });
        SliceOrder::Busiest.sort(&mut rows);
        assert_eq!(rows[0].on_cpu_ns_per_s, Some(0.0));
    }

    /// A slice without length has no rates, and none that is no number.
    #[test]
    fn no_length() {
        let mut slice = slice();
        slice.window.end_ns = slice.window.start_ns;
        assert!(calls(&slice).iter().all(|row| row.cells()[0] == "0"));
    }
}
