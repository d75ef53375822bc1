//! The table of calls per request, arm beside arm.
//!
//! It owns the order (what differs most in cost comes first) and what is folded into one row. Time
//! inside a waiting call is sleep and no cost: such a call is ranked by its count only.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use recording::{Abi, Family};

use super::{ABSENT, Table, name, or_absent};
use crate::figures::{bytes, counted, micros, per_request};
use crate::join::{ArmFigures, CallFigures};

/// The calls of all arms.
#[derive(Debug)]
pub(crate) struct CallTable {
    /// What the columns are, in words.
    pub(crate) heading: String,
    pub(crate) table: Table,
    /// What has to be known to read it.
    pub(crate) notes: Vec<String>,
}

/// How much of the table is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Calls that get a row of their own; the rest is one row.
    pub(crate) rows: usize,
    /// Columns of text that it may fill.
    pub(crate) width: usize,
    /// Whether what is left of the CPU time has rows: not needed where bars say what it is.
    pub(crate) rest: bool,
}

/// The table; `None` where no arm was profiled.
pub(crate) fn call_table(figures: &[ArmFigures], extent: Extent) -> Option<CallTable> {
    if figures.iter().all(|arm| arm.requests.is_none()) {
        return None;
    }
    let layout = Layout::of(figures, extent.width);
    let (mut rows, tiny) = ranked(figures, layout.timed);
    let folded = if rows.len() > extent.rows {
        rows.split_off(extent.rows)
    } else {
        Vec::new()
    };

    let all = || rows.iter().chain(&folded).chain(&tiny);
    let several_abis = all().any(|row| row.abi != rows[0].abi);
    let mut table = Table {
        header: layout.header(figures),
        ..Table::default()
    };
    table.rows.extend(rows.iter().map(|row| {
        layout.cells(
            row.label(several_abis),
            &row.calls.iter().map(|c| Cell::of(*c)).collect::<Vec<_>>(),
            row.waits(),
        )
    }));
    if !folded.is_empty() {
        let label = format!("({} more)", folded.len());
        let cells = (0..figures.len()).map(|arm| Cell::sum(folded.iter().map(|r| r.calls[arm])));
        table
            .rows
            .push(layout.cells(label, &cells.collect::<Vec<_>>(), false));
    }
    let total: Vec<Cell> = (0..figures.len())
        .map(|arm| Cell::sum(all().map(|r| r.calls[arm])))
        .collect();
    table
        .rows
        .push(layout.cells("all".to_owned(), &total, false));
    let outside = if extent.rest {
        layout.outside(figures, &total)
    } else {
        Vec::new()
    };

    let mut notes = notes(figures, &layout, all().any(Row::waits));
    if !outside.is_empty() {
        notes.push(OUTSIDE.to_owned());
    }
    if layout.timed && sending_dominates(figures) {
        notes.push(SENDING.to_owned());
    }
    if !tiny.is_empty() {
        let noun = if tiny.len() == 1 { "call" } else { "calls" };
        notes.push(format!(
            "{} more {noun} below 0.001 per request",
            tiny.len()
        ));
    }
    table.rows.extend(outside);
    Some(CallTable {
        heading: heading(figures, layout.timed),
        notes,
        table,
    })
}

/// The calls of all arms, those that differ most in cost first, and those that hardly occur.
pub(crate) fn ranked(figures: &[ArmFigures], timed: bool) -> (Vec<Row<'_>>, Vec<Row<'_>>) {
    let (mut rows, mut tiny): (Vec<Row<'_>>, Vec<Row<'_>>) = rows(figures, timed)
        .into_iter()
        .partition(|row| !row.is_tiny());
    if rows.is_empty() {
        std::mem::swap(&mut rows, &mut tiny);
    }
    rows.sort_by(Row::by_cost);
    (rows, tiny)
}

/// Whether every arm that was profiled has times.
pub(crate) fn timed(figures: &[ArmFigures]) -> bool {
    figures.iter().all(|arm| {
        arm.requests.is_none() || arm.calls.iter().all(|call| call.ns_per_request.is_some())
    })
}

/// Whether the call that an arm spends most time in is one that sends, or lets the kernel send.
fn sending_dominates(figures: &[ArmFigures]) -> bool {
    figures.iter().any(|arm| {
        let time = |call: &&CallFigures| call.ns_per_request.unwrap_or(0.0);
        let costs = arm.calls.iter().filter(|call| !call.waits);
        let most = costs.max_by(|a, b| time(a).total_cmp(&time(b)));
        most.is_some_and(|call| call.family == Family::Send || call.name == "setsockopt")
    })
}

/// One call of all arms.
pub(crate) struct Row<'a> {
    abi: Abi,
    pub(crate) name: &'a str,
    /// By arm; `None` where it does not make the call.
    pub(crate) calls: Vec<Option<&'a CallFigures>>,
    cost: f64,
    count: f64,
}

impl Row<'_> {
    fn label(&self, with_abi: bool) -> String {
        if with_abi {
            format!("{} ({:?})", name(self.name), self.abi).to_lowercase()
        } else {
            name(self.name)
        }
    }

    fn waits(&self) -> bool {
        self.calls.iter().flatten().any(|call| call.waits)
    }

    /// Whether neither its number nor its time shows with three decimals on any arm.
    fn is_tiny(&self) -> bool {
        self.calls.iter().flatten().all(|call| {
            let time = call.ns_per_request.filter(|_| !call.waits);
            call.per_request < 0.0005 && time.is_none_or(|ns| ns < 1.0)
        })
    }

    fn by_cost(&self, other: &Self) -> Ordering {
        other
            .cost
            .total_cmp(&self.cost)
            .then(other.count.total_cmp(&self.count))
            .then_with(|| self.name.cmp(other.name))
    }
}

fn rows(figures: &[ArmFigures], timed: bool) -> Vec<Row<'_>> {
    let keys: BTreeSet<(Abi, &str)> = figures
        .iter()
        .flat_map(|arm| &arm.calls)
        .filter(|call| call.count > 0)
        .map(|call| (call.abi, call.name.as_str()))
        .collect();
    keys.into_iter()
        .map(|(abi, name)| {
            let calls: Vec<_> = figures.iter().map(|arm| arm.call(abi, name)).collect();
            let count = calls.iter().flatten().map(|call| call.per_request).sum();
            let mut row = Row {
                abi,
                name,
                calls,
                cost: 0.0,
                count,
            };
            let costs = row.calls.iter().map(|call| match (call, timed) {
                (Some(call), true) if !row.waits() => call.ns_per_request.unwrap_or(0.0),
                (Some(_), true) | (None, _) => 0.0,
                (Some(call), false) => call.per_request,
            });
            let (low, high) = costs.fold((f64::INFINITY, 0.0_f64), |(low, high), cost| {
                (low.min(cost), high.max(cost))
            });
            // With one arm there is no difference: the cost itself orders the rows.
            row.cost = if row.calls.len() > 1 {
                high - low
            } else {
                high
            };
            row
        })
        .collect()
}

/// The figures of one arm in one row.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    per_request: f64,
    ns_per_request: Option<f64>,
    errors_per_request: f64,
    bytes_per_call: Option<f64>,
    whole: bool,
}

impl Cell {
    fn of(call: Option<&CallFigures>) -> Self {
        let Some(call) = call else {
            return Self {
                whole: true,
                ..Self::default()
            };
        };
        Self {
            per_request: call.per_request,
            ns_per_request: call.ns_per_request,
            errors_per_request: call.errors_per_request.values().sum(),
            bytes_per_call: call.bytes_per_call,
            whole: call.integer == Some(true),
        }
    }

    #[expect(
        single_use_lifetimes,
        reason = "an anonymous lifetime in impl Trait is unstable"
    )]
    fn sum<'a>(calls: impl Iterator<Item = Option<&'a CallFigures>>) -> Self {
        let start = Self {
            whole: true,
            ..Self::default()
        };
        calls.flatten().fold(start, |sum, call| {
            let cell = Self::of(Some(call));
            let ns = cell.ns_per_request.filter(|_| !call.waits);
            Self {
                per_request: sum.per_request + cell.per_request,
                ns_per_request: match (sum.ns_per_request, ns) {
                    (None, None) => None,
                    (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
                },
                errors_per_request: sum.errors_per_request + cell.errors_per_request,
                bytes_per_call: None,
                whole: sum.whole && cell.whole,
            }
        })
    }
}

/// Which columns there are.
struct Layout {
    timed: bool,
    exact: bool,
    /// Errors and bytes per call, where there is room.
    wide: bool,
    /// Arms that fit; the rest is named in a note.
    arms: usize,
}

impl Layout {
    fn of(figures: &[ArmFigures], width: usize) -> Self {
        let timed = timed(figures);
        let exact = figures.iter().all(|arm| arm.exact);
        let (call, figure) = (22, 9);
        let fixed = call + if figures.len() == 2 { 12 } else { 0 } + if exact { 8 } else { 0 };
        let narrow = if timed { 2 } else { 1 };
        let wide_needs = fixed + figures.len() * (narrow + 2) * figure + 2;
        let room = width.saturating_sub(fixed) / (narrow * figure + 2);
        Self {
            timed,
            exact,
            wide: wide_needs <= width,
            arms: figures.len().min(room.max(1)),
        }
    }

    fn header(&self, figures: &[ArmFigures]) -> Vec<String> {
        let mut header = vec!["call".to_owned()];
        for arm in &figures[..self.arms] {
            header.push(format!("{} n", crate::clean::clean_to(&arm.arm, 14)));
            header.extend(self.timed.then(|| "us".to_owned()));
            if self.wide {
                header.extend(["err".to_owned(), "B/call".to_owned()]);
            }
        }
        if figures.len() == 2 {
            header.push(if self.timed { "diff us" } else { "diff n" }.to_owned());
        }
        header.extend(self.exact.then(|| "whole".to_owned()));
        header
    }

    fn cells(&self, label: String, cells: &[Cell], waits: bool) -> Vec<String> {
        let mut row = vec![label];
        for cell in &cells[..self.arms] {
            row.push(if cell.per_request == 0.0 {
                ABSENT.to_owned()
            } else {
                per_request(cell.per_request, self.exact)
            });
            if self.timed {
                row.push(match cell.ns_per_request {
                    _ if cell.per_request == 0.0 => ABSENT.to_owned(),
                    Some(_) if waits => "wait".to_owned(),
                    time => or_absent(time, micros),
                });
            }
            if self.wide {
                row.push(if cell.errors_per_request == 0.0 {
                    String::new()
                } else {
                    per_request(cell.errors_per_request, self.exact)
                });
                row.push(cell.bytes_per_call.map_or(String::new(), bytes));
            }
        }
        if cells.len() == 2 {
            row.push(self.signed_difference(cells, waits));
        }
        if self.exact {
            row.push(
                if cells.iter().all(|cell| cell.whole) {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
            );
        }
        row
    }

    /// What the calls leave of the server's CPU time, and that CPU time, so that the column adds up;
    /// no rows where no arm has both.
    fn outside(&self, figures: &[ArmFigures], inside: &[Cell]) -> Vec<Vec<String>> {
        if !self.timed {
            return Vec::new();
        }
        let cpu: Vec<Option<f64>> = figures
            .iter()
            .map(|arm| arm.requests.and(arm.server_cpu_ns_per_request_probed))
            .collect();
        if cpu.iter().all(Option::is_none) {
            return Vec::new();
        }
        let outside: Vec<Option<f64>> = cpu
            .iter()
            .zip(inside)
            .map(|(cpu, inside)| cpu.map(|cpu| cpu - inside.ns_per_request.unwrap_or(0.0)))
            .collect();
        vec![
            self.time_row("outside calls", &outside),
            self.time_row("server CPU", &cpu),
        ]
    }

    /// A row with nothing but times in ns.
    fn time_row(&self, label: &str, times: &[Option<f64>]) -> Vec<String> {
        let mut row = vec![label.to_owned()];
        for time in &times[..self.arms] {
            row.push(String::new());
            row.push(or_absent(*time, micros));
            if self.wide {
                row.extend([String::new(), String::new()]);
            }
        }
        if let [first, second] = times {
            let difference = first.zip(*second).map(|(a, b)| a - b);
            row.push(or_absent(difference, |ns| signed(ns, &micros(ns.abs()))));
        }
        row.extend(self.exact.then(String::new));
        row
    }

    /// First arm minus second: positive where the first arm does more.
    fn signed_difference(&self, cells: &[Cell], waits: bool) -> String {
        if self.timed && waits {
            return ABSENT.to_owned();
        }
        let difference = if self.timed {
            let ns = |cell: &Cell| cell.ns_per_request.unwrap_or(0.0);
            ns(&cells[0]) - ns(&cells[1])
        } else {
            cells[0].per_request - cells[1].per_request
        };
        let size = difference.abs();
        let text = if self.timed {
            micros(size)
        } else {
            per_request(size, self.exact)
        };
        signed(difference, &text)
    }
}

/// The text of a size with the sign of its value; what rounds to nothing has no sign.
fn signed(value: f64, text: &str) -> String {
    let sign = match text.contains(|digit| matches!(digit, '1'..='9')) {
        false => "",
        true if value > 0.0 => "+",
        true => "-",
    };
    format!("{sign}{text}")
}

fn heading(figures: &[ArmFigures], timed: bool) -> String {
    let rounds: u32 = figures.iter().map(|arm| arm.rounds).sum();
    let what = if timed {
        "n and us per request, ours included, by difference in time"
    } else {
        "n per request, by difference in number"
    };
    let exact = if figures.iter().all(|arm| arm.exact) {
        ", exact"
    } else {
        ""
    };
    format!(
        "SYSCALLS PER REQUEST  {what}{exact}; {}",
        counted(rounds as usize, "probed round")
    )
}

fn notes(figures: &[ArmFigures], layout: &Layout, any_waits: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if layout.timed && any_waits {
        notes.push("wait: time inside is sleep, in no sum and no difference; see waits".to_owned());
    }
    if layout.exact {
        notes.push("whole: the count is an integer per request on every arm".to_owned());
    }
    if layout.arms < figures.len() {
        let hidden: Vec<String> = figures[layout.arms..]
            .iter()
            .map(|a| name(&a.arm))
            .collect();
        notes.push(format!(
            "no room for {}; --format markdown has all",
            hidden.join(", ")
        ));
    }
    for arm in figures.iter().filter(|arm| arm.requests.is_none()) {
        notes.push(format!("{}: no good round with probes", name(&arm.arm)));
    }
    let odd = figures
        .iter()
        .flat_map(|arm| arm.calls.iter().map(move |call| (arm, call)));
    for (arm, call) in odd.filter(|(_, call)| call.died_in_call > 0) {
        notes.push(format!(
            "{}: {} ended in flight inside {}",
            name(&arm.arm),
            counted(
                usize::try_from(call.died_in_call).unwrap_or(usize::MAX),
                "thread"
            ),
            name(&call.name)
        ));
    }
    notes
}

/// What the row below the sum of the calls is.
const OUTSIDE: &str = "outside calls: user code, interrupts, unseen; inside is wall time: preempted calls count whole";
/// Why the call that sends is dear.
const SENDING: &str =
    "the call that sends includes the client's share of loopback delivery (docs/method.md)";
