//! What an examination of other tools' output says.

use recording::{Autopsy, ExaminedServer, ForeignLoad, Statement, StatementKind};

use super::{Line, Table, name, or_absent, sentence};
use crate::layout::Tone;

/// The title.
pub(crate) fn title(autopsy: &Autopsy) -> String {
    let loads: usize = autopsy
        .servers
        .iter()
        .map(|server| server.loads.len())
        .sum();
    let tables: usize = autopsy
        .servers
        .iter()
        .map(|server| server.calls.len())
        .sum();
    format!(
        "{} servers, {loads} runs, {tables} tables of calls",
        autopsy.servers.len()
    )
}

/// The verdict.
pub(crate) fn verdict(autopsy: &Autopsy) -> Line {
    let refused = autopsy
        .statements
        .iter()
        .any(|statement| statement.refuses.is_some());
    let tone = if refused { Tone::Bad } else { Tone::Caution };
    Line::toned("VERDICT", crate::clean(&autopsy.verdict), tone)
}

/// The servers side by side: means over their runs, for each load apart.
pub(crate) fn servers(autopsy: &Autopsy) -> Table {
    let header = [
        "server",
        "tool",
        "runs",
        "resp/s",
        "latency",
        "connect",
        "head B",
        "body B",
        "failed",
        "calls/resp",
    ];
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: autopsy.servers.iter().flat_map(rows).collect(),
        left: vec![1],
        ..Table::default()
    }
}

/// Throughput against the first server.
pub(crate) fn ratios(autopsy: &Autopsy) -> Vec<Line> {
    let ratios = autopsy.ratios.iter().map(|ratio| {
        let interval = match ratio.interval {
            Some((low, high)) => format!(
                "[{low:.3}, {high:.3}] {:.0}% of {} runs each",
                ratio.level * 100.0,
                ratio.runs
            ),
            None => "no interval: a single run".to_owned(),
        };
        let load = if ratio.load.is_empty() {
            String::new()
        } else {
            format!("  with {}", ratio.load)
        };
        Line::new(
            "ratio",
            format!(
                "{} / {} = {:.3}  {interval}{load}",
                name(&ratio.a),
                name(&ratio.b),
                ratio.ratio
            ),
        )
    });
    ratios.collect()
}

/// The statements of one kind, under its heading.
pub(crate) fn statements(autopsy: &Autopsy) -> Vec<(&'static str, Vec<Line>)> {
    HEADINGS
        .into_iter()
        .map(|(kind, heading)| {
            let chosen = autopsy
                .statements
                .iter()
                .filter(|statement| statement.kind == kind);
            (heading, chosen.map(line).collect::<Vec<_>>())
        })
        .filter(|(_, lines)| !lines.is_empty())
        .collect()
}

/// What could not be read.
pub(crate) fn unread(autopsy: &Autopsy) -> Vec<Line> {
    let unread = autopsy.unread.iter().map(|unread| {
        let text = format!(
            "line {}: {}: {}",
            unread.line,
            unread.tool,
            sentence(&unread.why)
        );
        Line::toned("unread", text, Tone::Caution)
    });
    unread.collect()
}

/// The command that would settle it.
pub(crate) fn next(autopsy: &Autopsy) -> Option<Line> {
    let command = autopsy.command.as_ref()?;
    Some(Line::new("NEXT", crate::clean(command)))
}

fn line(statement: &Statement) -> Line {
    let about: Vec<String> = statement
        .servers
        .iter()
        .map(|server| name(server))
        .collect();
    // Of a claim about all nobody has to be named, and what names the servers itself repeats nothing.
    let is_named = about
        .iter()
        .any(|server| statement.text.contains(server.as_str()));
    let text = crate::clean(&statement.text);
    let text = if statement.kind == StatementKind::DoesNotFollow || is_named {
        text
    } else {
        format!("{}: {text}", about.join(", "))
    };
    let tone = statement.refuses.is_some().then_some(Tone::Bad);
    Line {
        label: "",
        text,
        tone,
    }
}

fn rows(server: &ExaminedServer) -> Vec<Vec<String>> {
    let conditions = crate::autopsy::conditions(server);
    if conditions.is_empty() {
        return vec![row(server, "", &[])];
    }
    let one = conditions.len() == 1;
    conditions
        .iter()
        .map(|(condition, loads)| row(server, if one { "" } else { condition }, loads))
        .collect()
}

fn row(server: &ExaminedServer, condition: &str, loads: &[&ForeignLoad]) -> Vec<String> {
    let mean = |value: &dyn Fn(&ForeignLoad) -> Option<f64>| {
        let values: Vec<f64> = loads.iter().filter_map(|load| value(load)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let each = |load: &ForeignLoad, bytes: Option<u64>| {
        let responses = load.responses.filter(|responses| *responses > 0)?;
        Some(bytes? as f64 / responses as f64)
    };
    let mut tools: Vec<&str> = loads.iter().map(|load| load.tool.as_str()).collect();
    tools.extend(server.calls.iter().map(|table| table.tool.as_str()));
    tools.dedup();
    let ms = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    let decimal = |bytes: f64| format!("{bytes:.1}");
    let failed: u64 = loads.iter().flat_map(|load| load.failures.values()).sum();
    let title = if condition.is_empty() {
        name(&server.name)
    } else {
        format!("{}, {condition}", name(&server.name))
    };
    vec![
        title,
        tools.join(", "),
        loads.len().to_string(),
        or_absent(mean(&|load| Some(load.rate_rps)), decimal),
        or_absent(mean(&|load| load.latency_mean_s), ms),
        or_absent(mean(&|load| load.connect_mean_s), ms),
        or_absent(mean(&|load| each(load, load.head_bytes)), decimal),
        or_absent(mean(&|load| each(load, load.body_bytes)), decimal),
        or_absent((!loads.is_empty()).then_some(failed), |failed| {
            failed.to_string()
        }),
        or_absent(crate::autopsy::calls_per_response(server), |calls| {
            format!("{calls:.3}")
        }),
    ]
}

const HEADINGS: [(StatementKind, &str); 4] = [
    (StatementKind::Follows, "FOLLOWS"),
    (StatementKind::Bound, "AT MOST"),
    (StatementKind::Suspicion, "SUSPICIOUS"),
    (StatementKind::DoesNotFollow, "DOES NOT FOLLOW"),
];
