//! What a profile says about time inside TLS libraries.

use recording::{Profile, Recording, TlsFunction, TlsPurpose, TlsTime};

use super::{Line, PerRequest, Table, name, or_absent};
use crate::clean::{clean, clean_to};
use crate::figures::{counted, grouped, micros, per_request, percent, span};
use crate::layout::Tone;
use crate::tls::{ArmTls, TlsCost};

/// What fits on labelled lines: handshakes and time, and the libraries.
pub(crate) fn lines(profile: &Profile) -> Vec<Line> {
    let Some(time) = &profile.tls_time else {
        return Vec::new();
    };
    let mut lines: Vec<Line> = summary(profile, time).into_iter().collect();
    lines.extend(by_request(profile));
    for library in &time.libraries {
        let what = format!("{} ({})", name(&library.name), name(&library.file));
        let whose = match library.pids.as_slice() {
            [pid] => format!("process {pid}"),
            pids => counted(pids.len(), "process"),
        };
        lines.push(match &library.not_probed {
            None => Line::new("tls", format!("{what} of {whose}")),
            Some(why) => Line::toned(
                "tls",
                format!("{what} of {whose} is not seen into: {}", name(why)),
                Tone::Caution,
            ),
        });
    }
    if time.lost > 0 {
        lines.push(Line::toned(
            "tls",
            format!(
                "{} whose begin or end was not seen: not counted",
                counted(usize::try_from(time.lost).unwrap_or(usize::MAX), "call")
            ),
            Tone::Caution,
        ));
    }
    lines
}

/// The functions that were called, most time first; without rows where none was.
pub(crate) fn functions(profile: &Profile) -> Table {
    let time = profile.tls_time.iter();
    let mut functions: Vec<&TlsFunction> = time
        .flat_map(|time| &time.functions)
        .filter(|function| function.count > 0)
        .collect();
    functions.sort_by_key(|function| std::cmp::Reverse(function.time.ns_total));
    let rows = functions.into_iter().map(|function| row(profile, function));
    let header = [
        "tls function",
        "for",
        "calls",
        "handshakes",
        "us/call",
        "cpu us/call",
        "in calls us/call",
        "cpu share",
        "p50 in",
        "p99 in",
        "max",
    ];
    Table {
        rows: rows.collect(),
        header: header.into_iter().map(str::to_owned).collect(),
        left: vec![1],
        optional: vec![9, 8, 6],
    }
}

/// What TLS costs each arm of a comparison; `None` where nobody asked.
pub(crate) fn by_arm(recording: &Recording) -> Option<PerRequest> {
    let arms = crate::tls::by_arm(recording);
    if arms.is_empty() {
        return None;
    }
    let mut notes: Vec<Line> = Vec::new();
    for arm in &arms {
        let not_seen = arm.not_seen.iter();
        notes.extend(not_seen.map(|why| {
            let text = format!("{}: {}", clean_to(&arm.arm, ARM), clean(why));
            Line::toned("missing", text, Tone::Caution)
        }));
    }
    notes.push(Line::new("note", NOTE));
    let header = [
        "arm",
        "tls",
        "calls/req",
        "library us/req",
        "of user code",
        "in syscalls us/req",
    ];
    Some(PerRequest {
        heading: "PER REQUEST, IN TLS LIBRARIES",
        table: Table {
            header: header.map(str::to_owned).into(),
            rows: arms.iter().flat_map(arm_rows).collect(),
            left: vec![1],
            optional: vec![2],
        },
        notes,
    })
}

fn arm_rows(arm: &ArmTls) -> Vec<Vec<String>> {
    let share = |ns: Option<f64>| {
        let user_ns = arm.user_ns.filter(|ns| *ns > 0.0);
        or_absent(ns.zip(user_ns), |(ns, user_ns)| percent(ns / user_ns))
    };
    let row = |tls: &str, calls: Option<f64>, library_ns: Option<f64>, in_calls_ns: Option<f64>| {
        vec![
            String::new(),
            tls.to_owned(),
            or_absent(calls, |calls| per_request(calls, false)),
            or_absent(library_ns, micros),
            share(library_ns),
            or_absent(in_calls_ns, micros),
        ]
    };
    let costs = arm.costs.iter();
    let mut rows: Vec<Vec<String>> = costs
        .map(|cost| {
            let what = purpose(cost.purpose);
            row(what, Some(cost.calls), cost.library_ns, cost.in_calls_ns)
        })
        .collect();
    rows.push(row("all", arm.calls(), arm.library_ns(), arm.in_calls_ns()));
    rows[0][0] = clean_to(&arm.arm, ARM);
    rows
}

/// Per request of a live server.
fn by_request(profile: &Profile) -> Option<Line> {
    let costs = crate::tls::of_profile(profile)?;
    let part = |cost: &TlsCost| {
        let ns = or_absent(cost.library_ns, micros);
        format!("{} {ns} us", purpose(cost.purpose))
    };
    let parts: Vec<String> = costs.iter().map(part).collect();
    (!parts.is_empty()).then(|| {
        let text = format!(
            "per request, CPU outside of system calls: {}",
            parts.join(", ")
        );
        Line::new("tls", text)
    })
}

fn row(profile: &Profile, function: &TlsFunction) -> Vec<String> {
    let per_call = |ns: u64| micros(ns as f64 / function.count as f64);
    let quantile = |quantile| {
        let range = function.time.histogram.quantile_range(quantile);
        or_absent(range, |(low, high)| {
            format!("{}-{}", span(low as f64), span(high as f64))
        })
    };
    vec![
        name(&function.name),
        purpose(function.purpose).to_owned(),
        grouped(function.count),
        function.handshakes.map_or_else(String::new, grouped),
        per_call(function.time.ns_total),
        or_absent(function.cpu_ns, per_call),
        or_absent(function.calls_ns, per_call),
        or_absent(share(profile, function.cpu_ns), percent),
        quantile(0.5),
        quantile(0.99),
        or_absent(function.time.ns_max, |ns| span(ns as f64)),
    ]
}

fn summary(profile: &Profile, time: &TlsTime) -> Option<Line> {
    if time.functions.iter().all(|function| function.count == 0) {
        let is_probed = time
            .libraries
            .iter()
            .any(|library| library.not_probed.is_none());
        return is_probed.then(|| Line::new("tls", "no probed function of a TLS library returned"));
    }
    let mut parts = Vec::new();
    let handshakes: u64 = time
        .functions
        .iter()
        .filter_map(|function| function.handshakes)
        .sum();
    let agreeing = of(time, TlsPurpose::Handshake);
    if handshakes > 0 {
        let each = |ns: u64| micros(ns as f64 / handshakes as f64);
        let mut part = format!("{} handshakes", grouped(handshakes));
        if let Some(cpu_ns) = agreeing.cpu_ns {
            part = format!("{part}, {} us CPU each", each(cpu_ns));
        }
        if let Some(calls_ns) = agreeing.calls_ns {
            part = format!("{part} ({} us of it in system calls)", each(calls_ns));
        }
        parts.push(part);
    }
    for (purpose, what) in [
        (TlsPurpose::Read, "reading"),
        (TlsPurpose::Write, "writing"),
    ] {
        let sum = of(time, purpose);
        if sum.count > 0 {
            let ns = sum.cpu_ns.unwrap_or(sum.ns) as f64 / sum.count as f64;
            parts.push(format!("{what} {} us a call", micros(ns)));
        }
    }
    let cpu_ns = time.functions.iter().map(|function| function.cpu_ns).sum();
    if let Some(share) = share(profile, cpu_ns) {
        parts.push(format!("{} of the target's CPU time", percent(share)));
    }
    Some(Line::new("tls", parts.join("; ")))
}

/// Sums over the functions of a purpose.
struct Sum {
    count: u64,
    ns: u64,
    cpu_ns: Option<u64>,
    calls_ns: Option<u64>,
}

fn of(time: &TlsTime, purpose: TlsPurpose) -> Sum {
    let functions: Vec<&TlsFunction> = time
        .functions
        .iter()
        .filter(|function| function.purpose == purpose)
        .collect();
    Sum {
        count: functions.iter().map(|function| function.count).sum(),
        ns: functions
            .iter()
            .map(|function| function.time.ns_total)
            .sum(),
        cpu_ns: functions.iter().map(|function| function.cpu_ns).sum(),
        calls_ns: functions.iter().map(|function| function.calls_ns).sum(),
    }
}

fn share(profile: &Profile, cpu_ns: Option<u64>) -> Option<f64> {
    let all_ns = profile.cpu_ns.filter(|&ns| ns > 0)?;
    Some(cpu_ns? as f64 / all_ns as f64)
}

fn purpose(purpose: TlsPurpose) -> &'static str {
    match purpose {
        TlsPurpose::Handshake => "handshake",
        TlsPurpose::Read => "read",
        TlsPurpose::Session => "session",
        TlsPurpose::Write => "write",
    }
}

/// Characters of the name of an arm.
const ARM: usize = 24;
const NOTE: &str = "in rounds with probes, whose own time is in it: 10 us for a call on a virtual machine. Library: CPU \
                    outside of system calls, part of user code in the attribution; in syscalls: part of its bars of \
                    calls";
