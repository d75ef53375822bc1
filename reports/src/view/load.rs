//! What a load says: the account of every request, rates, latency, connections and our own cost.

use std::fmt::Write as _;

use recording::{Failure, FailureClass, LatencyHistogram, Load, Recording, Violation};

use super::{Line, Table, measures, name, or_absent, sentence, transport};
use crate::figures::{bytes, counted, grouped, micros, percent, rate, rounded, span};
use crate::layout::{Tone, WRITES};
use crate::metrics::{quantile_support, supported_quantile};

/// The load of a recording: the first round that has one.
pub(crate) fn load(recording: &Recording) -> Option<&Load> {
    recording
        .rounds
        .iter()
        .find_map(|round| round.load.as_ref())
}

/// What was asked for.
pub(crate) fn title(load: &Load) -> String {
    let plan = &load.plan;
    let length = match (plan.requests, plan.duration_ns) {
        (Some(requests), _) => format!("{} requests", grouped(requests)),
        (None, Some(ns)) => span(ns as f64),
        (None, None) => "until stopped".to_owned(),
    };
    format!(
        "{} {}  {}{}, {}, {length}",
        name(&plan.method),
        sentence(&load.url),
        counted(plan.connections as usize, "connection"),
        transport::depth(plan),
        counted(plan.threads as usize, "thread")
    )
}

/// Everything that fits on labelled lines.
pub(crate) fn lines(load: &Load) -> Vec<Line> {
    let mut lines = vec![requests(load), ledger(load)];
    lines.extend(failures(load));
    lines.extend(load.violations.iter().map(violation));
    lines.extend(latency(
        "latency",
        load.latency.as_ref(),
        measures::latency_begins(load),
    ));
    lines.extend(latency(
        "connect",
        load.connect_time.as_ref(),
        "per connection",
    ));
    lines.extend(transport::lines(load));
    lines.push(statuses(load));
    lines.push(connections(load));
    lines.push(traffic(load));
    lines.push(client(load));
    lines.extend(measures::lines(load));
    lines.extend(slices(load));
    if let Some(why) = &load.ended_early {
        lines.push(Line::toned(
            "ended",
            format!("early: {}", sentence(why)),
            Tone::Caution,
        ));
    }
    lines
}

/// Latency quantiles as a table, those that enough requests support.
pub(crate) fn quantile_table(load: &Load) -> Table {
    let rows = load.latency.iter().flat_map(|latency| {
        QUANTILES.iter().filter_map(|(title, quantile)| {
            let ns = supported_quantile(latency, *quantile)?;
            Some(vec![(*title).to_owned(), span(ns)])
        })
    });
    Table {
        header: vec!["latency".to_owned(), "value".to_owned()],
        rows: rows.collect(),
        ..Table::default()
    }
}

/// Every sub-window.
pub(crate) fn slice_table(load: &Load) -> Table {
    let start_ns = load.window.start_ns;
    let rows = load.slices.iter().map(|slice| {
        let at = slice.window.start_ns.saturating_sub(start_ns);
        let seconds = slice.window.seconds();
        let quantile = |ns: Option<u64>| or_absent(ns, |ns| span(ns as f64));
        vec![
            format!("{:.3} s", at as f64 / 1e9),
            or_absent((seconds > 0.0).then(|| slice.ok as f64 / seconds), rate),
            grouped(slice.failed),
            quantile(slice.p50_ns),
            quantile(slice.p99_ns),
            quantile(slice.max_ns),
        ]
    });
    let header = ["from", "req/s", "failed", "p50", "p99", "max"];
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        ..Table::default()
    }
}

/// What went wrong, in words.
fn failure_text(failure: &Failure) -> String {
    let what = match failure.class {
        FailureClass::AddressUnavailable => "no free local address",
        FailureClass::Closed => "connection closed too early",
        FailureClass::Content => "unexpected body",
        FailureClass::Protocol => "protocol broken",
        FailureClass::Refused => "connection refused",
        FailureClass::Reset => "connection reset",
        FailureClass::ShortBody => "body too short",
        FailureClass::Status => "unexpected status",
        FailureClass::StreamReset => "stream reset by the server",
        FailureClass::Timeout => "timeout",
        FailureClass::Tls => "TLS failed",
        FailureClass::Unresolved => "name not resolved",
        FailureClass::Os => "system error",
    };
    format!(
        "{what} in {} {}",
        name(&failure.phase),
        grouped(failure.count)
    )
}

fn requests(load: &Load) -> Line {
    let seconds = load.window.seconds();
    let (ok, failed) = (load.ledger.ok, load.ledger.failed_total());
    let mut text = format!("{} ok", grouped(ok));
    if seconds > 0.0 {
        write!(text, ", {} req/s", rate(ok as f64 / seconds)).expect(WRITES);
    }
    let share = if ok + failed > 0 {
        failed as f64 / (ok + failed) as f64
    } else {
        0.0
    };
    write!(
        text,
        " over {seconds:.3} s; {} failed ({})",
        grouped(failed),
        percent(share)
    )
    .expect(WRITES);
    let tone = if failed > 0 { Some(Tone::Bad) } else { None };
    Line {
        label: "requests",
        text,
        tone,
    }
}

fn ledger(load: &Load) -> Line {
    let ledger = &load.ledger;
    let mut text = format!(
        "{} sent + {} carried in = {} ok + {} failed + {} unfinished",
        grouped(ledger.sent),
        grouped(ledger.carried_in),
        grouped(ledger.ok),
        grouped(ledger.failed_total()),
        grouped(ledger.unfinished)
    );
    if ledger.replayed > 0 {
        write!(
            text,
            "; {} sent again, unanswered before",
            grouped(ledger.replayed)
        )
        .expect(WRITES);
    }
    if ledger.balances() {
        Line::new("ledger", text)
    } else {
        Line::toned(
            "LEDGER",
            format!("{text}: DOES NOT BALANCE, do not use"),
            Tone::Bad,
        )
    }
}

fn failures(load: &Load) -> Option<Line> {
    let mut failures: Vec<&Failure> = load.ledger.failed.iter().filter(|f| f.count > 0).collect();
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    let parts: Vec<String> = failures.into_iter().map(failure_text).collect();
    (!parts.is_empty()).then(|| Line::toned("failed", parts.join("; "), Tone::Bad))
}

/// A way in which the server broke the protocol, with what was found.
fn violation(violation: &Violation) -> Line {
    let mut text = format!("{} {}", sentence(&violation.what), grouped(violation.count));
    if !violation.found.is_empty() {
        write!(text, "; found first: {}", sentence(&violation.found)).expect(WRITES);
    }
    Line::toned("protocol", text, Tone::Bad)
}

pub(super) fn latency(
    label: &'static str,
    latency: Option<&LatencyHistogram>,
    from: &str,
) -> Option<Line> {
    let latency = latency?;
    let mut parts = Vec::new();
    let mut missing = None;
    for (title, quantile) in QUANTILES {
        match supported_quantile(latency, quantile) {
            Some(ns) => parts.push(format!("{title} {}", span(ns))),
            None => missing = missing.or(Some((title, quantile_support(quantile)))),
        }
    }
    parts.push(format!("max {}", span(latency.max_ns as f64)));
    if let Ok(histogram) = latency.to_hdr() {
        parts.push(format!("mean {}", span(histogram.mean())));
    }
    let mut text = format!("{}  ({from})", parts.join("  "));
    if let Some((title, needed)) = missing {
        write!(
            text,
            "; {title} needs {} values, has {}",
            rounded(needed),
            grouped(latency.count)
        )
        .expect(WRITES);
    }
    Some(Line::new(label, text))
}

fn statuses(load: &Load) -> Line {
    let mut parts: Vec<String> = load
        .statuses
        .iter()
        .map(|(status, count)| format!("{status} {}", grouped(*count)))
        .collect();
    if load.interim_responses > 0 {
        parts.push(format!("interim {}", grouped(load.interim_responses)));
    }
    if parts.is_empty() {
        parts.push("none".to_owned());
    }
    Line::new("statuses", parts.join(", "))
}

fn connections(load: &Load) -> Line {
    let counts = &load.connections;
    let closed: Vec<String> = [
        (counts.closed_by_plan, "by us as planned"),
        (counts.closed_idle, "by the server when idle"),
        (counts.closed_by_server, "by the server as announced"),
        (counts.closed_by_failure, "by a failure"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, cause)| format!("{} {cause}", grouped(count)))
    .collect();
    let closed = if closed.is_empty() {
        "none".to_owned()
    } else {
        closed.join(", ")
    };
    Line::new(
        "conns",
        format!(
            "{} asked, {} open at start, {} established; closed: {closed}",
            counts.asked,
            grouped(counts.open_at_start),
            grouped(counts.established)
        ),
    )
}

fn traffic(load: &Load) -> Line {
    let traffic = &load.traffic;
    let mut text = format!(
        "{} sent, {} received ({} heads, {} bodies)",
        bytes(traffic.sent_bytes as f64),
        bytes(traffic.received_bytes as f64),
        bytes(traffic.head_bytes as f64),
        bytes(traffic.body_bytes as f64)
    );
    let seconds = load.window.seconds();
    if seconds > 0.0 {
        write!(
            text,
            ", {}/s",
            bytes(traffic.received_bytes as f64 / seconds)
        )
        .expect(WRITES);
    }
    Line::new("traffic", text)
}

fn client(load: &Load) -> Line {
    let cpu = &load.client_cpu;
    let mut text = format!("busiest thread {} busy", percent(load.busiest_thread_share));
    let finished = load.ledger.ok + load.ledger.failed_total();
    if finished > 0 {
        let each = |ns: u64| micros(ns as f64 / finished as f64);
        write!(
            text,
            ", {} us CPU per request ({} user, {} kernel)",
            each(cpu.total_ns()),
            each(cpu.user_ns),
            each(cpu.system_ns)
        )
        .expect(WRITES);
    }
    if load.busiest_thread_share >= 0.9 {
        text.push_str("; the client may be the limiter: give it more threads");
        return Line::toned("client", text, Tone::Caution);
    }
    Line::new("client", text)
}

/// The spread of the sub-windows.
fn slices(load: &Load) -> Option<Line> {
    let rates: Vec<f64> = load
        .slices
        .iter()
        .filter(|slice| slice.window.length_ns() > 0)
        .map(|slice| slice.ok as f64 / slice.window.seconds())
        .collect();
    if rates.len() < 2 {
        return None;
    }
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let mut text = format!(
        "{}: {} to {} req/s",
        rates.len(),
        rate(lowest),
        rate(highest)
    );
    let p99 = || load.slices.iter().filter_map(|slice| slice.p99_ns);
    if let Some((low, high)) = p99().min().zip(p99().max()) {
        write!(text, ", p99 {} to {}", span(low as f64), span(high as f64)).expect(WRITES);
    }
    let failing = load.slices.iter().filter(|slice| slice.failed > 0).count();
    if failing > 0 {
        write!(text, ", failures in {failing}").expect(WRITES);
    }
    Some(Line::new("slices", text))
}

/// The quantiles of the reports; each is printed only where enough values support it.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
];
