//! The table of `strace -c`, to the byte: columns, widths, rounding and order.
//!
//! The layout is that of strace 5.6 to 6.x. `seconds` is the wall clock inside the calls (what
//! `strace -c -w` shows). Below detail `times` the three time columns hold `-`.

use std::collections::BTreeMap;

use recording::{Abi, CallRow, Detail, Profile};

use crate::clean::clean;

/// One table per ABI, the native one first and without a heading, as strace prints them. Empty
/// when no call returned.
pub(super) fn tables(profile: &Profile, machine: &str) -> String {
    let timed = profile.detail >= Detail::Times;
    let mut abis: Vec<Abi> = profile.calls.iter().map(|row| row.abi).collect();
    let native = Abi::of_machine(machine);
    abis.sort_by_key(|abi| (Some(*abi) != native, *abi));
    abis.dedup();
    let mut text = String::new();
    for abi in abis {
        // strace does not tell descriptors apart.
        let mut by_number: BTreeMap<u32, Row> = BTreeMap::new();
        for row in profile
            .calls
            .iter()
            .filter(|row| row.abi == abi && row.count > 0)
        {
            by_number
                .entry(row.nr)
                .or_insert_with(|| Row::new(row))
                .add(row, timed);
        }
        let rows: Vec<Row> = by_number.into_values().collect();
        if rows.is_empty() {
            continue;
        }
        if native.is_some_and(|native| native != abi) {
            text.push_str(heading(abi));
        }
        text.push_str(&table(rows, timed));
    }
    text
}

/// A row before it is laid out.
struct Row {
    nr: u32,
    name: String,
    count: u64,
    errors: u64,
    ns_total: u64,
    /// Calls with a time.
    timed: u64,
}

impl Row {
    fn new(row: &CallRow) -> Self {
        Self {
            nr: row.nr,
            name: clean(&row.name),
            count: 0,
            errors: 0,
            ns_total: 0,
            timed: 0,
        }
    }

    fn add(&mut self, row: &CallRow, timed: bool) {
        self.count += row.count;
        self.errors += row.error_count();
        if let Some(time) = row.time.as_ref().filter(|_| timed) {
            self.ns_total += time.ns_total;
            self.timed += time.timed;
        }
    }

    /// Mean of the timed calls in microseconds: rounded to nanoseconds, then cut.
    fn micros_per_call(&self) -> u64 {
        let mean_ns = (self.ns_total + self.timed / 2).checked_div(self.timed);
        micros(seconds(mean_ns.unwrap_or(0)))
    }
}

fn table(mut rows: Vec<Row>, timed: bool) -> String {
    // strace sorts by time with ties in the order of the numbers; without times, calls lead.
    if timed {
        rows.sort_by(|a, b| b.ns_total.cmp(&a.ns_total).then(a.nr.cmp(&b.nr)));
    } else {
        rows.sort_by(|a, b| b.count.cmp(&a.count).then(a.nr.cmp(&b.nr)));
    }
    let total = seconds(rows.iter().map(|row| row.ns_total).sum());
    let calls: u64 = rows.iter().map(|row| row.count).sum();
    let errors: u64 = rows.iter().map(|row| row.errors).sum();
    let mean = micros(total / calls as f64);
    let widths = Widths::of(&rows, total, calls, errors);

    let mut lines = vec![widths.header(), widths.rule()];
    for row in &rows {
        let spent = seconds(row.ns_total);
        let share = if row.ns_total == 0 {
            0.0
        } else {
            100.0 * spent / total
        };
        let figures = timed.then_some((share, spent, row.micros_per_call()));
        lines.push(widths.line(figures, row.count, row.errors, &row.name));
    }
    lines.push(widths.rule());
    lines.push(widths.line(
        timed.then_some((100.0, total, mean)),
        calls,
        errors,
        "total",
    ));
    lines.push(String::new());
    lines.join("\n")
}

/// Width of each column: the least of strace, or what the figures need.
struct Widths {
    seconds: usize,
    per_call: usize,
    calls: usize,
    errors: usize,
    name: usize,
}

impl Widths {
    fn of(rows: &[Row], total: f64, calls: u64, errors: u64) -> Self {
        let longest_mean = rows
            .iter()
            .map(|row| row.micros_per_call())
            .max()
            .unwrap_or(0);
        let longest_name = rows
            .iter()
            .map(|row| row.name.chars().count())
            .max()
            .unwrap_or(0);
        let digits = |value: u64| value.to_string().len();
        Self {
            seconds: format!("{total:.6}").len().max(11),
            per_call: digits(longest_mean).max(11),
            calls: digits(calls).max(9),
            errors: digits(errors).max(9),
            name: (longest_name + 1).max(16),
        }
    }

    fn header(&self) -> String {
        let Self {
            seconds,
            per_call,
            calls,
            errors,
            ..
        } = self;
        format!(
            "% time {:>seconds$} {:>per_call$} {:>calls$} {:>errors$} syscall",
            "seconds", "usecs/call", "calls", "errors"
        )
    }

    fn rule(&self) -> String {
        [
            6,
            self.seconds,
            self.per_call,
            self.calls,
            self.errors,
            self.name,
        ]
        .map(|width| "-".repeat(width))
        .join(" ")
    }

    fn line(&self, times: Option<(f64, f64, u64)>, count: u64, errors: u64, name: &str) -> String {
        let Self {
            seconds,
            per_call,
            calls,
            errors: error_width,
            ..
        } = self;
        let times = match times {
            Some((share, total, mean)) => {
                format!("{share:6.2} {total:seconds$.6} {mean:>per_call$}")
            }
            None => format!("{:>6} {:>seconds$} {:>per_call$}", "-", "-", "-"),
        };
        let errors = if errors == 0 {
            String::new()
        } else {
            errors.to_string()
        };
        format!("{times} {count:>calls$} {errors:>error_width$} {name}")
    }
}

/// What strace prints before the table of a foreign ABI.
fn heading(abi: Abi) -> &'static str {
    match abi {
        Abi::Aarch64 | Abi::X86_64 => "System call usage summary for 64 bit mode:\n",
        Abi::Arm | Abi::I386 => "System call usage summary for 32 bit mode:\n",
    }
}

/// Nanoseconds as seconds, whole ones apart so that no digit is lost.
fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000_000) as f64 + (ns % 1_000_000_000) as f64 / 1e9
}

/// Seconds as whole microseconds, cut and not rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "cutting is what strace does, and times are not negative"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}
