//! What a comparison says: environment, verdict, gates, the headline table, and the loose ends.

use std::fmt::Write as _;

use recording::{
    Comparison, Gate, GateStatus, NotMeasured, Probes, Protocol, Recording, VerdictWord,
};

use super::{ABSENT, Line, Table, name, or_absent, sentence};
use crate::clean::{clean, clean_to};
use crate::figures::{counted, interval, micros, per_request, percent, rate, ratio, span};
use crate::gates::{client_busy, cpu_count, differing_settings, header_differences, server_busy};
use crate::join::ArmFigures;
use crate::layout::{Tone, WRITES};
use crate::metrics::{Metric, PROBES_THROUGHPUT, quantile_support};
use crate::verdict::pair_verdicts;

/// `nginx vs h2o`.
pub(crate) fn title(recording: &Recording) -> String {
    let arms: Vec<String> = recording.arms.iter().map(|arm| name(&arm.name)).collect();
    sentence(&arms.join(" vs "))
}

/// What was run, and where.
pub(crate) fn environment(recording: &Recording) -> String {
    let mut parts = Vec::new();
    if let Some(scenario) = &recording.scenario {
        parts.push(name(&scenario.name));
        parts.push(
            match scenario.protocol {
                Protocol::Http1 => "HTTP/1.1",
            }
            .to_owned(),
        );
        parts.push(match scenario.requests_per_connection {
            Some(requests) => format!("{requests} requests per connection"),
            None => "keep-alive".to_owned(),
        });
        parts.push(match scenario.lock_step_requests {
            Some(requests) => format!("{requests} requests one at a time"),
            None => counted(scenario.connections as usize, "connection"),
        });
        let cpus = |cpus: &Option<String>| cpus.as_ref().map_or("any".into(), |c| name(c));
        parts.push(format!(
            "CPUs server {} client {}",
            cpus(&scenario.server_cpus),
            cpus(&scenario.client_cpus)
        ));
    }
    parts.push(format!("kernel {}", name(&recording.host.kernel)));
    parts.join("  ")
}

/// The verdict, one line for each arm against the reference.
pub(crate) fn verdict(recording: &Recording) -> Vec<Line> {
    let Some(verdict) = &recording.verdict else {
        return vec![Line::new(
            "VERDICT",
            "none: rounds by count give exact counts per request, not a speed",
        )];
    };
    let tone = match verdict.word {
        VerdictWord::Equivalent | VerdictWord::Faster | VerdictWord::Immaterial => Tone::Good,
        VerdictWord::Inconclusive => Tone::Caution,
        VerdictWord::NotComparable => Tone::Bad,
    };
    let mut texts = if verdict.word == VerdictWord::NotComparable {
        vec![sentence(&verdict.text)]
    } else {
        pair_verdicts(recording)
            .into_iter()
            .map(|pair| sentence(&pair.text))
            .collect()
    };
    if let Some(last) = texts
        .last_mut()
        .filter(|_| verdict.word != VerdictWord::NotComparable)
    {
        let margin = recording
            .scenario
            .as_ref()
            .map_or(0.0, |scenario| scenario.margin);
        write!(last, "  margin {}", percent(margin)).expect(WRITES);
        if verdict.indicative {
            last.push_str("  indicative: no A/A control or fewer than 8 pairs");
        }
    }
    texts
        .into_iter()
        .map(|text| Line::toned("VERDICT", text, tone))
        .collect()
}

/// How busy both sides were; `None` where neither is known.
pub(crate) fn busy(recording: &Recording) -> Option<Line> {
    let cpus = recording
        .scenario
        .as_ref()?
        .server_cpus
        .as_deref()
        .and_then(cpu_count);
    let parts: Vec<String> = recording
        .arms
        .iter()
        .filter_map(|arm| {
            let client = client_busy(recording, &arm.name)?;
            let server = match (server_busy(recording, &arm.name), cpus) {
                (Some(share), Some(cpus)) => {
                    format!(
                        "{} of {} busy",
                        percent(share),
                        counted(cpus as usize, "CPU")
                    )
                }
                _ => "CPU share not known".to_owned(),
            };
            Some(format!(
                "{} {server}, client {}",
                name(&arm.name),
                percent(client)
            ))
        })
        .collect();
    (!parts.is_empty()).then(|| Line::new("cpu", parts.join("; ")))
}

/// The gates: how many are ok, then each one that is not, with what to change.
pub(crate) fn gates(recording: &Recording) -> Vec<Line> {
    if recording.gates.is_empty() {
        return Vec::new();
    }
    let ok = recording
        .gates
        .iter()
        .filter(|gate| gate.status == GateStatus::Ok)
        .count();
    let unmeasured: Vec<String> = recording
        .gates
        .iter()
        .filter(|gate| gate.status == GateStatus::NotMeasured)
        .map(|gate| format!("{} {}", name(&gate.id), name(&gate.title)))
        .collect();
    let mut summary = format!("ok {ok}/{}", recording.gates.len());
    if !unmeasured.is_empty() {
        write!(summary, "  not measured: {}", unmeasured.join(", ")).expect(WRITES);
    }
    let mut lines = vec![Line::new("gates", summary)];
    lines.extend(recording.gates.iter().filter_map(|gate| {
        let tone = match gate.status {
            GateStatus::Ok | GateStatus::NotMeasured => return None,
            GateStatus::Warn | GateStatus::Allowed => Tone::Caution,
            GateStatus::Refuse => Tone::Bad,
        };
        Some(Line::toned("", gate_text(gate), tone))
    }));
    lines
}

/// The word of a gate's status.
pub(crate) fn status_word(status: GateStatus) -> &'static str {
    match status {
        GateStatus::Ok => "ok",
        GateStatus::Warn => "WARN",
        GateStatus::Refuse => "REFUSED",
        GateStatus::Allowed => "ALLOWED",
        GateStatus::NotMeasured => "not measured",
    }
}

fn gate_text(gate: &Gate) -> String {
    let mut text = format!(
        "{} {} {}: {}",
        status_word(gate.status),
        name(&gate.id),
        name(&gate.title),
        sentence(&gate.value)
    );
    if gate.status == GateStatus::Refuse {
        write!(text, "; limit: {}", sentence(&gate.limit)).expect(WRITES);
    }
    if !gate.fix.is_empty() {
        write!(text, "; {}", sentence(&gate.fix)).expect(WRITES);
    }
    text
}

/// Throughput, CPU, latency and calls: metrics as rows for two arms, arms as rows for more.
pub(crate) fn headline(recording: &Recording, figures: &[ArmFigures]) -> Table {
    if recording.arms.len() == 2 {
        metrics_as_rows(recording, figures)
    } else {
        arms_as_rows(recording, figures)
    }
}

fn metrics_as_rows(recording: &Recording, figures: &[ArmFigures]) -> Table {
    let arm = |index: usize| clean_to(&recording.arms[index].name, 20);
    let mut table = Table {
        header: vec![
            String::new(),
            arm(0),
            arm(1),
            "ratio".into(),
            "99% CI".into(),
        ],
        ..Table::default()
    };
    let (a, b) = (&recording.arms[0].name, &recording.arms[1].name);
    for metric in Metric::ALL {
        let Some(row) = find(recording, metric, a, b) else {
            continue;
        };
        table.rows.push(vec![
            metric_title(metric).to_owned(),
            metric_value(metric, row.a_value),
            metric_value(metric, row.b_value),
            ratio(row.ratio),
            interval(row.interval),
        ]);
    }
    let [first, second] = figures else {
        return table;
    };
    let calls = [first.syscalls_per_request, second.syscalls_per_request];
    if calls.iter().any(Option::is_some) && !hidden_by_loss(recording) {
        let exact = first.exact && second.exact;
        let quotient = calls[0]
            .zip(calls[1])
            .filter(|(_, b)| *b > 0.0)
            .map(|(a, b)| a / b);
        table.rows.push(vec![
            "syscalls/req".to_owned(),
            or_absent(calls[0], |value| per_request(value, first.exact)),
            or_absent(calls[1], |value| per_request(value, second.exact)),
            or_absent(quotient, ratio),
            if exact { "exact" } else { "counted" }.to_owned(),
        ]);
    }
    table
}

fn arms_as_rows(recording: &Recording, figures: &[ArmFigures]) -> Table {
    let header = [
        "arm",
        "req/s",
        "first/this",
        "99% CI",
        "CPU us/req",
        "p50",
        "p99",
        "syscalls/req",
    ];
    let mut table = Table {
        header: header.map(str::to_owned).to_vec(),
        ..Table::default()
    };
    let Some((first, _)) = recording.arms.split_first() else {
        return table;
    };
    for (arm, figures) in recording.arms.iter().zip(figures) {
        let value = |metric: Metric| {
            let of = |row: &&Comparison| row.metric == metric.name();
            if arm.name == first.name {
                recording.comparisons.iter().find(of).map(|row| row.a_value)
            } else {
                find(recording, metric, &first.name, &arm.name).map(|row| row.b_value)
            }
        };
        let cell = |metric: Metric| or_absent(value(metric), |value| metric_value(metric, value));
        let against = find(recording, Metric::Throughput, &first.name, &arm.name);
        let calls = figures
            .syscalls_per_request
            .filter(|_| !hidden_by_loss(recording));
        table.rows.push(vec![
            clean_to(&arm.name, 24),
            cell(Metric::Throughput),
            or_absent(against, |row| ratio(row.ratio)),
            or_absent(against, |row| interval(row.interval)),
            cell(Metric::ServerCpu),
            cell(Metric::LatencyP50),
            cell(Metric::LatencyP99),
            or_absent(calls, |value| per_request(value, figures.exact)),
        ]);
    }
    table
}

/// The comparison of a metric between two arms.
fn find<'a>(recording: &'a Recording, metric: Metric, a: &str, b: &str) -> Option<&'a Comparison> {
    recording
        .comparisons
        .iter()
        .find(|row| row.metric == metric.name() && row.a == a && row.b == b)
}

fn metric_title(metric: Metric) -> &'static str {
    match metric {
        Metric::LatencyP50 => "p50 latency",
        Metric::LatencyP99 => "p99 latency",
        Metric::ServerCpu => "server CPU us/req",
        Metric::Throughput => "req/s",
    }
}

fn metric_value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::LatencyP50 | Metric::LatencyP99 => span(value),
        Metric::ServerCpu => micros(value),
        Metric::Throughput => rate(value),
    }
}

/// Whether so many events were lost that counts per request must not be shown.
pub(crate) fn hidden_by_loss(recording: &Recording) -> bool {
    recording
        .gates
        .iter()
        .any(|gate| gate.id == "G12" && gate.status == GateStatus::Warn)
}

/// What each event loop did, arm by arm.
pub(crate) fn waits(figures: &[ArmFigures]) -> Vec<Line> {
    figures
        .iter()
        .filter(|arm| arm.requests.is_some())
        .flat_map(|arm| {
            arm.waits
                .iter()
                .filter(|wait| wait.wakes + wait.timeouts > 0)
                .map(|wait| {
                    let mut text = format!(
                        "{} {} {} wakes/req",
                        name(&arm.arm),
                        name(&wait.name),
                        per_request(wait.wakes_per_request, arm.exact)
                    );
                    if let Some(events) = wait.events_per_wake {
                        write!(text, ", {} events per wake", rate(events)).expect(WRITES);
                    }
                    if let Some((low, high)) = wait.histogram.quantile_range(0.5) {
                        write!(text, " (median {})", range(low, high)).expect(WRITES);
                    }
                    write!(text, ", {} without an event", wait.timeouts).expect(WRITES);
                    if let Some(ns) = wait.ns_per_request {
                        write!(text, ", {} us inside per request", micros(ns)).expect(WRITES);
                    }
                    Line::new("waits", text)
                })
        })
        .collect()
}

/// The whole numbers of a half-open range.
pub(crate) fn range(low: u64, high: u64) -> String {
    let last = high.saturating_sub(1);
    if last <= low {
        low.to_string()
    } else {
        format!("{low} to {last}")
    }
}

/// What the probes cost each arm, as throughput and as CPU time.
pub(crate) fn probes(recording: &Recording, figures: &[ArmFigures]) -> Option<Line> {
    let parts: Vec<String> = recording
        .comparisons
        .iter()
        .filter(|row| row.metric == PROBES_THROUGHPUT)
        .map(|row| {
            let mut text = format!("{} {}", name(&row.a), ratio(row.ratio));
            if row.interval.is_some() {
                write!(text, " {}", interval(row.interval)).expect(WRITES);
            }
            let cpu = figures.iter().find(|arm| arm.arm == row.a).and_then(|arm| {
                arm.server_cpu_ns_per_request
                    .zip(arm.server_cpu_ns_per_request_probed)
            });
            if let Some((off, on)) = cpu {
                write!(text, ", CPU {} -> {} us/req", micros(off), micros(on)).expect(WRITES);
            }
            text
        })
        .collect();
    (!parts.is_empty()).then(|| {
        Line::new(
            "probes",
            format!("throughput with/without: {}", parts.join("; ")),
        )
    })
}

/// Rounds that failed, each with the reason: they are kept, and their pair is not used.
pub(crate) fn failed_rounds(recording: &Recording) -> Vec<Line> {
    recording
        .rounds
        .iter()
        .filter_map(|round| {
            let why = round.failed.as_ref()?;
            let probes = match round.probes {
                Probes::On => "on",
                Probes::Off => "off",
            };
            let text = format!(
                "round {} of {} (pair {}, probes {probes}): {}; its pair is not used",
                round.order,
                name(&round.arm),
                round.pair,
                sentence(why)
            );
            Some(Line::toned("failed", text, Tone::Bad))
        })
        .collect()
}

/// Settings that are not equal on all arms; the header row has the arms.
pub(crate) fn settings(recording: &Recording) -> Option<Table> {
    let rows = differing_settings(&recording.arms);
    if rows.is_empty() {
        return None;
    }
    let mut header = vec!["setting".to_owned()];
    header.extend(recording.arms.iter().map(|arm| clean_to(&arm.name, 24)));
    let left = (1..header.len()).collect();
    let rows = rows
        .into_iter()
        .map(|row| {
            let mut cells = vec![name(&row.key)];
            cells.extend(
                row.values
                    .iter()
                    .map(|value| or_absent(value.as_ref(), |v| clean_to(v, 30))),
            );
            cells
        })
        .collect();
    Some(Table { header, rows, left })
}

/// Response headers that differ: shown, never judged.
pub(crate) fn headers(recording: &Recording) -> Vec<Line> {
    let Some((first, others)) = recording.arms.split_first() else {
        return Vec::new();
    };
    others
        .iter()
        .filter_map(|other| {
            let differences = header_differences(first, other)?;
            if differences.is_empty() {
                return None;
            }
            let text = differences
                .iter()
                .map(|text| clean(text))
                .collect::<Vec<_>>()
                .join(", ");
            Some(Line::new("headers", clean_to(&text, 300)))
        })
        .collect()
}

/// What follows from the rounds about figures that are absent.
pub(crate) fn derived_not_measured(
    recording: &Recording,
    figures: &[ArmFigures],
) -> Vec<NotMeasured> {
    let mut missing = Vec::new();
    if figures.iter().all(|arm| arm.requests.is_none()) {
        missing.push(NotMeasured {
            what: "syscalls per request".to_owned(),
            why: "no good round with probes".to_owned(),
            remedy: None,
        });
    }
    let has = |metric: Metric| {
        recording
            .comparisons
            .iter()
            .any(|row| row.metric == metric.name())
    };
    if has(Metric::Throughput) {
        for (metric, quantile) in [(Metric::LatencyP50, 0.5), (Metric::LatencyP99, 0.99)] {
            if !has(metric) {
                let needed = quantile_support(quantile);
                missing.push(NotMeasured {
                    what: metric_title(metric).to_owned(),
                    why: format!("fewer than {needed:.0} ok requests in a round"),
                    remedy: Some("measure longer: --duration".to_owned()),
                });
            }
        }
    }
    missing
}

/// The table of all gates.
pub(crate) fn gate_table(recording: &Recording) -> Table {
    let header = ["gate", "status", "measured", "limit", "what to change"];
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: recording
            .gates
            .iter()
            .map(|gate| {
                vec![
                    format!("{} {}", name(&gate.id), name(&gate.title)),
                    status_word(gate.status).to_owned(),
                    sentence(&gate.value),
                    sentence(&gate.limit),
                    if gate.fix.is_empty() {
                        ABSENT.to_owned()
                    } else {
                        sentence(&gate.fix)
                    },
                ]
            })
            .collect(),
        left: vec![1, 2, 3, 4],
    }
}
