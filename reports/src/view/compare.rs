//! What a comparison shows: the headline table, waits, probes, and the loose ends.

use std::fmt::Write as _;

use recording::{Arm, Comparison, ConfigFile, NotMeasured, Probes, Recording};

use super::judgement::hidden_by_loss;
use super::{ABSENT, Line, Table, control, name, or_absent, sentence};
use crate::clean::{clean, clean_to};
use crate::figures::{counted, interval, micros, per_request, rate, ratio, span};
use crate::gates::{cpu_count, differing_settings, header_differences};
use crate::join::ArmFigures;
use crate::layout::{Tone, WRITES};
use crate::metrics::{Metric, PROBES_THROUGHPUT, equal_rates, quantile_support};
use crate::verdict::{PAIRS_FOR_AN_INTERVAL, TOO_FEW_PAIRS};

/// `nginx vs h2o`.
pub(crate) fn title(recording: &Recording) -> String {
    let arms: Vec<String> = recording.arms.iter().map(|arm| name(&arm.name)).collect();
    sentence(&arms.join(" vs "))
}

/// What a configuration file is called above its text: a template, with what whyfast fills in.
pub(crate) fn config_title(
    recording: &Recording,
    arm: &Arm,
    file_name: &str,
    file: &ConfigFile,
) -> String {
    let mut title = format!("{} of {}", name(file_name), name(&arm.name));
    if PLACEHOLDERS.iter().any(|key| file.text.contains(key)) {
        title.push_str(", template");
    }
    let cpus = recording
        .scenario
        .as_ref()
        .and_then(|scenario| cpu_count(scenario.server_cpus.as_deref()?));
    if let Some(cpus) = cpus.filter(|_| file.text.contains("{workers}")) {
        write!(title, ", {}", counted(cpus as usize, "worker")).expect(WRITES);
    }
    title
}

/// The interval of a comparison, where it rests on enough pairs to be of use.
pub(crate) fn bounds(row: &Comparison) -> String {
    if row.pairs < PAIRS_FOR_AN_INTERVAL {
        TOO_FEW_PAIRS.to_owned()
    } else {
        interval(row.interval)
    }
}

/// What is divided by what; in words where the names are long.
fn quotient_title(recording: &Recording) -> String {
    let names: Vec<String> = recording.arms.iter().map(|arm| name(&arm.name)).collect();
    if names
        .iter()
        .any(|name| name.chars().count() > QUOTIENT_NAME)
    {
        "first/second".to_owned()
    } else {
        names.join("/")
    }
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
            quotient_title(recording),
            "99% CI".into(),
        ],
        // The verdict has the interval of the first row.
        optional: vec![4],
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
            bounds(row),
        ]);
    }
    table.rows.extend(control::p99_rows(recording));
    let [first, second] = figures else {
        return table;
    };
    let calls = [first.syscalls_per_request, second.syscalls_per_request];
    if calls.iter().all(Option::is_none) || hidden_by_loss(recording) {
        let why = if calls.iter().all(Option::is_none) {
            "not measured"
        } else {
            "hidden, G12"
        };
        let absent = || ABSENT.to_owned();
        table.rows.push(vec![
            SYSCALLS.to_owned(),
            absent(),
            absent(),
            absent(),
            why.to_owned(),
        ]);
    } else {
        let exact = first.exact && second.exact;
        let quotient = calls[0]
            .zip(calls[1])
            .filter(|(_, b)| *b > 0.0)
            .map(|(a, b)| a / b);
        table.rows.push(vec![
            SYSCALLS.to_owned(),
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
        optional: vec![5, 7, 3],
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
            or_absent(against, bounds),
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

pub(super) fn metric_title(metric: Metric) -> &'static str {
    match metric {
        Metric::LatencyP50 => "p50 latency",
        Metric::LatencyP99 => "p99 latency",
        Metric::ServerCpu => "server CPU us/req",
        Metric::Throughput => "req/s",
    }
}

pub(super) fn metric_value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::LatencyP50 | Metric::LatencyP99 => span(value),
        Metric::ServerCpu => micros(value),
        Metric::Throughput => rate(value),
    }
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
                        write!(text, ", {} events/wake", rate(events)).expect(WRITES);
                    }
                    if let Some((low, high)) = wait.histogram.quantile_range(0.5) {
                        write!(text, " (median {})", range(low, high)).expect(WRITES);
                    }
                    write!(text, ", {} empty", wait.timeouts).expect(WRITES);
                    if let Some(ns) = wait.ns_per_request {
                        write!(text, ", {} us/req inside", micros(ns)).expect(WRITES);
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

/// Rounds that failed or were left out by a rule, each with the reason: they are kept, and their pair is
/// not used.
pub(crate) fn unused_rounds(recording: &Recording) -> Vec<Line> {
    recording
        .rounds
        .iter()
        .filter_map(|round| {
            let (label, why, tone) = match (&round.failed, &round.excluded) {
                (Some(why), _) => ("failed", why, Tone::Bad),
                (None, Some(why)) => ("left out", why, Tone::Caution),
                (None, None) => return None,
            };
            let probes = match round.probes {
                Probes::On => "on",
                Probes::Off => "off",
            };
            let text = format!(
                "round {} of {} (pair {}, probes {probes}): {}; its pair is not used",
                round.order + 1,
                name(&round.arm),
                round.pair + 1,
                sentence(why)
            );
            Some(Line::toned(label, text, tone))
        })
        .collect()
}

/// Settings that are not equal on all arms; the header row has the arms.
pub(crate) fn settings(recording: &Recording) -> Option<Table> {
    let rows = differing_settings(&recording.arms);
    let limit = SETTING_COLUMNS / recording.arms.len().max(1);
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
                    .map(|value| or_absent(value.as_ref(), |v| clean_to(v, limit))),
            );
            cells
        })
        .collect();
    Some(Table {
        header,
        rows,
        left,
        ..Table::default()
    })
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
            let pair = format!("{}|{}", name(&first.name), name(&other.name));
            Some(Line::new(
                "headers",
                format!("{pair}: {}", clean_to(&text, 300)),
            ))
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
    let asked = equal_rates(recording);
    let kept = |rate: &f64| {
        recording
            .comparisons
            .iter()
            .any(|row| row.rate_rps == Some(*rate))
    };
    if asked.iter().any(|rate| !kept(rate)) {
        missing.push(NotMeasured {
            what: "latency at some of the equal rates".to_owned(),
            why: "in no pair did both arms' rounds send 99% of what the rate asked for".to_owned(),
            remedy: Some("quiet the machine, or ask for more connections: -c".to_owned()),
        });
    }
    missing
}

/// What whyfast fills in when it starts a server.
const PLACEHOLDERS: [&str; 6] = ["{cpus}", "{dir}", "{file}", "{port}", "{root}", "{workers}"];
/// The row of calls per request.
const SYSCALLS: &str = "syscalls/req";
/// Characters of a name that fits into the title of a quotient.
const QUOTIENT_NAME: usize = 14;
/// Columns that the values of a setting share.
const SETTING_COLUMNS: usize = 84;
