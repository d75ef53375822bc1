//! Why: the bars of an attribution as a table, the receipt under it, and the findings.

use recording::{Attribution, Bar, BarKind, Confidence, Finding, Prediction, Recording};

use super::judgement::hidden_by_loss;
use super::{ABSENT, Line, Table, name, or_absent, sentence};
use crate::clean::{clean, clean_to};
use crate::figures::{counted, date, micros, per_request, percent, rate};
use crate::layout::Tone;
use crate::metrics::Metric;

/// The waterfall from one arm's time per request to another's.
pub(crate) struct Waterfall {
    pub(crate) heading: String,
    pub(crate) table: Table,
    pub(crate) notes: Vec<Line>,
}

/// How much of an attribution is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Causes with a row of their own.
    pub(crate) rows: usize,
    /// Characters of a line.
    pub(crate) width: usize,
}

/// The waterfall of every arm against the reference; nothing where so many events were lost that
/// no count can be believed.
pub(crate) fn waterfalls(recording: &Recording, extent: Extent) -> Vec<Waterfall> {
    if hidden_by_loss(recording) {
        return Vec::new();
    }
    let attributions = recording.attributions.iter();
    attributions
        .map(|attribution| waterfall(attribution, extent))
        .collect()
}

/// Whether bars say what CPU time outside of calls was spent on.
pub(crate) fn tells_user_code(recording: &Recording) -> bool {
    let mut bars = recording.attributions.iter().flat_map(|why| &why.bars);
    bars.any(|bar| bar.kind == BarKind::User)
}

fn waterfall(attribution: &Attribution, extent: Extent) -> Waterfall {
    let rows = rows(attribution, extent.rows);
    let longest = rows.iter().map(|row| row.delta_ns.abs());
    let longest = longest.fold(0.0, f64::max);
    let mut header = vec!["cause".to_owned(), String::new(), "us/req".to_owned()];
    header.push(format!("{} CI", percent(attribution.level)));
    header.extend(["share".to_owned(), "figures".to_owned()]);
    let mut table = Table {
        header,
        rows: rows
            .into_iter()
            .map(|row| {
                vec![
                    row.title,
                    drawn(row.delta_ns, longest),
                    signed(row.delta_ns),
                    or_absent(row.interval_ns, |(low, high)| {
                        format!("[{}, {}]", signed(low), signed(high))
                    }),
                    or_absent(row.share, points),
                    row.figures,
                ]
            })
            .collect(),
        left: vec![1, 5],
        optional: vec![5, 1, 4],
    };
    cut_figures(&mut table, extent.width);
    Waterfall {
        heading: heading(attribution),
        table,
        notes: notes(attribution),
    }
}

/// Shortens the last column so that lines keep the width.
fn cut_figures(table: &mut Table, width: usize) {
    let last = table.header.len() - 1;
    let column = |index: usize| {
        let rows = table.rows.iter().chain([&table.header]);
        rows.map(|row| row[index].chars().count()).max()
    };
    // A blank on either side of each column.
    let others: usize = (0..last).filter_map(column).map(|cells| cells + 2).sum();
    let room = width.saturating_sub(others + 2).max(FIGURE_COLUMNS);
    for row in &mut table.rows {
        row[last] = clean_to(&row[last], room);
    }
}

/// `WHY  +4.93 us per request from nginx (7.19) to h2o (12.1)`.
pub(crate) fn heading(attribution: &Attribution) -> String {
    let past = attribution
        .baseline_unix_ns
        .map_or(String::new(), |created| format!(" of {}", date(created)));
    let mut text = format!(
        "WHY  {} us per request from {}{past} ({}) to {} ({})",
        signed(attribution.delta_ns),
        name(&attribution.a),
        micros(attribution.a_ns),
        name(&attribution.b),
        micros(attribution.b_ns)
    );
    if !attribution.established {
        text.push_str("; not established, so no shares");
    }
    text
}

/// A row of the waterfall.
struct Row {
    title: String,
    delta_ns: f64,
    interval_ns: Option<(f64, f64)>,
    share: Option<f64>,
    figures: String,
}

/// Bars with a row of their own, then the sum of the others, of those that cannot be told from
/// nothing, and what is unexplained: together all of the difference.
fn rows(attribution: &Attribution, limit: usize) -> Vec<Row> {
    let lengths = attribution.bars.iter().filter_map(|bar| bar.delta_ns);
    let small = SMALL * lengths.map(f64::abs).sum::<f64>();
    let large = |bar: &Bar| bar.delta_ns.is_some_and(|ns| ns.abs() >= small);
    let mut own = Vec::new();
    let mut faint: Vec<&Bar> = Vec::new();
    let mut others: Vec<&Bar> = Vec::new();
    let mut last = Vec::new();
    for bar in attribution.bars.iter().filter(|bar| bar.delta_ns.is_some()) {
        if bar.kind == BarKind::Unexplained {
            last.push(row(bar));
        } else if bar.distinguishable == Some(false) {
            faint.push(bar);
        } else if own.len() < limit && large(bar) {
            own.push(row(bar));
        } else {
            others.push(bar);
        }
    }
    own.extend(sum("others", &others));
    own.extend(sum("not distinguishable", &faint));
    own.extend(last);
    own
}

fn row(bar: &Bar) -> Row {
    Row {
        title: sentence(&bar.title),
        delta_ns: bar.delta_ns.unwrap_or(0.0),
        interval_ns: bar.interval_ns,
        share: bar.log_share,
        figures: figures(bar),
    }
}

fn sum(title: &str, bars: &[&Bar]) -> Option<Row> {
    let titles: Vec<&str> = bars.iter().map(|bar| bar.title.as_str()).collect();
    (!bars.is_empty()).then(|| Row {
        title: format!("{title} ({})", bars.len()),
        delta_ns: bars.iter().filter_map(|bar| bar.delta_ns).sum(),
        interval_ns: None,
        share: bars.iter().map(|bar| bar.log_share).sum(),
        figures: clean(&titles.join(", ")),
    })
}

/// What a bar was made of, first arm to second.
fn figures(bar: &Bar) -> String {
    let evidence = &bar.evidence;
    let both = |a: Option<f64>, b: Option<f64>, print: fn(f64) -> String| {
        let (a, b) = (a?, b?);
        Some(format!("{} -> {}", print(a), print(b)))
    };
    let counts = |value: f64| per_request(value, false);
    let calls = || clean(&evidence.calls.join(", "));
    let text = match bar.kind {
        BarKind::SyscallCount => both(evidence.n_a, evidence.n_b, counts)
            .map(|text| format!("{text} per request, {}", calls())),
        BarKind::SyscallUnit => {
            let unit = |value: Option<f64>| or_absent(value, micros);
            let (a, b) = (unit(evidence.t_a_ns), unit(evidence.t_b_ns));
            Some(format!("{a} -> {b} us each, {}", calls()))
        }
        BarKind::Idle => both(evidence.idle_a, evidence.idle_b, share).map(|text| {
            if evidence.calls.is_empty() {
                format!("{text} of the CPUs")
            } else {
                format!("{text} of the CPUs, {}", calls())
            }
        }),
        BarKind::Cpus => both(evidence.n_a, evidence.n_b, rate).map(|text| format!("{text} CPUs")),
        _ => both(evidence.demand_a_ns, evidence.demand_b_ns, micros)
            .map(|text| format!("{text} us of CPU")),
    };
    text.unwrap_or_default()
}

/// A share of the CPUs: a tenth of a percent is as much as idle time is known to.
pub(crate) fn share(value: f64) -> String {
    format!("{:.1}%", value * 100.0)
}

/// A share of the difference, with its sign.
pub(crate) fn points(value: f64) -> String {
    let text = format!("{:.1}%", value * 100.0);
    if text == "-0.0%" {
        "0.0%".to_owned()
    } else {
        text
    }
}

/// Microseconds with their sign.
pub(crate) fn signed(ns: f64) -> String {
    // What rounds to nothing has no sign.
    if ns.abs() < 0.5 {
        return "0.000".to_owned();
    }
    let sign = if ns > 0.0 { "+" } else { "" };
    format!("{sign}{}", micros(ns))
}

/// The bar itself: to be understood without colour and in any font.
fn drawn(ns: f64, longest_ns: f64) -> String {
    if longest_ns <= 0.0 {
        return String::new();
    }
    let marks = (ns.abs() / longest_ns * BAR_COLUMNS).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the width of a bar"
    )]
    let marks = "=".repeat(marks as usize);
    match (marks.is_empty(), ns < 0.0) {
        (true, _) => String::new(),
        (false, true) => format!("-{marks}"),
        (false, false) => format!("+{marks}"),
    }
}

/// How far the bars can be believed, and what has none.
pub(crate) fn notes(attribution: &Attribution) -> Vec<Line> {
    let receipt = &attribution.receipt;
    let rounds = if attribution.paired {
        counted(attribution.pairs as usize, "pair")
    } else {
        let rounds = counted(attribution.pairs as usize, "round");
        format!("at least {rounds} each, without partners")
    };
    let error = receipt.sum_error.abs().max(f64::EPSILON);
    let mut parts = vec![format!("{rounds}, bars add up within {error:.0e}")];
    if let Some(disagreement) = receipt.cpu_disagreement {
        parts.push(format!(
            "probes saw {} of the kernel's CPU time",
            share(1.0 + disagreement)
        ));
    }
    if let Some(unexplained) = receipt.unexplained_share {
        parts.push(format!("unexplained {} of CPU time", share(unexplained)));
    }
    if let (Some(a), Some(b)) = (receipt.probes_a_ns, receipt.probes_b_ns) {
        parts.push(format!(
            "probes cost {}|{} us/req, taken out",
            micros(a),
            micros(b)
        ));
    }
    parts.push(format!("lost {}", receipt.lost));
    let mut lines = vec![Line::new("receipt", parts.join("; "))];
    let unseen = receipt.unexplained_share.unwrap_or(0.0);
    if unseen.abs() > UNEXPLAINED {
        let text = "the probes and the kernel's clock disagree: other work on the machine, a hypervisor \
                    that takes CPUs away; read the bars with that in mind";
        lines.push(Line::toned("", text, Tone::Caution));
    }
    lines.extend(missing(attribution));
    lines
}

/// Terms without a bar on one line, with what would measure them; their reasons are in the recording.
fn missing(attribution: &Attribution) -> Option<Line> {
    let terms: Vec<String> = attribution
        .not_measured
        .iter()
        .map(|item| clean(&item.what))
        .collect();
    let mut remedies = attribution
        .not_measured
        .iter()
        .filter_map(|item| item.remedy.as_deref());
    let remedy = remedies
        .next()
        .map_or(String::new(), |remedy| format!(" ({})", clean(remedy)));
    let text = format!("not measured: {}{remedy}", terms.join("; "));
    (!terms.is_empty()).then(|| Line::toned("", text, Tone::Caution))
}

/// The findings, each on a line with what to change.
pub(crate) fn findings(recording: &Recording, limit: usize) -> Vec<Line> {
    if hidden_by_loss(recording) {
        return Vec::new();
    }
    let mut lines: Vec<Line> = recording
        .findings
        .iter()
        .take(limit)
        .map(|finding| Line::new("finding", finding_text(recording, finding)))
        .collect();
    let more = recording.findings.len().saturating_sub(limit);
    if more > 0 {
        let noun = if more == 1 { "finding" } else { "findings" };
        let text = format!("{more} more {noun}: --format markdown");
        lines.push(Line::new("", text));
    }
    lines
}

fn finding_text(recording: &Recording, finding: &Finding) -> String {
    let cpu_ns = cpu_per_request(recording, &finding.arm);
    let share = finding.cost_ns_per_request.zip(cpu_ns);
    let share = share.map_or(String::new(), |(cost_ns, cpu_ns)| {
        format!(" ({} of its CPU time)", percent(cost_ns / cpu_ns))
    });
    format!(
        "{}: {}  {}{share}, {}: {}",
        name(&finding.arm),
        sentence(&finding.title),
        cost(finding),
        confidence(finding.confidence),
        sentence(&finding.change)
    )
}

/// CPU time of an arm per request, ns, as the headline has it.
fn cpu_per_request(recording: &Recording, arm: &str) -> Option<f64> {
    let rows = recording.comparisons.iter();
    let mut rows = rows.filter(|row| row.metric == Metric::ServerCpu.name());
    rows.find_map(|row| match arm {
        arm if arm == row.a => Some(row.a_value),
        arm if arm == row.b => Some(row.b_value),
        _ => None,
    })
}

/// The table of all findings.
pub(crate) fn finding_table(recording: &Recording) -> Table {
    let header = [
        "arm",
        "finding",
        "cost",
        "how sure",
        "likely cause",
        "what to change",
        "but",
    ];
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: recording
            .findings
            .iter()
            .map(|finding| {
                vec![
                    name(&finding.arm),
                    format!("{} ({})", sentence(&finding.title), name(&finding.id)),
                    cost(finding),
                    confidence(finding.confidence).to_owned(),
                    sentence(&finding.cause),
                    sentence(&finding.change),
                    if finding.caveat.is_empty() {
                        ABSENT.to_owned()
                    } else {
                        sentence(&finding.caveat)
                    },
                ]
            })
            .collect(),
        left: vec![1, 2, 3, 4, 5, 6],
        ..Table::default()
    }
}

fn cost(finding: &Finding) -> String {
    finding
        .cost_ns_per_request
        .map_or("cost not measured".to_owned(), |ns| {
            format!("{} us/req", micros(ns))
        })
}

fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Possible => "possible",
        Confidence::Likely => "likely",
        Confidence::Measured => "sure",
    }
}

/// What removing causes would give by the identity.
pub(crate) fn predictions(recording: &Recording) -> Vec<Line> {
    recording
        .predictions
        .iter()
        .map(|prediction| Line::new("without", prediction_text(prediction)))
        .collect()
}

fn prediction_text(prediction: &Prediction) -> String {
    let removed = match (prediction.removed_ns, prediction.removed_idle) {
        (Some(ns), _) => format!("{} us/req of CPU", micros(ns)),
        (None, Some(idle)) => format!("{} of the CPUs idle", share(idle)),
        (None, None) => "nothing".to_owned(),
    };
    format!(
        "{} without {} ({removed}): {} -> {} req/s ({:.3} times), if all else stays",
        name(&prediction.arm),
        name(&prediction.without),
        rate(prediction.throughput_rps),
        rate(prediction.predicted_rps),
        prediction.predicted_rps / prediction.throughput_rps
    )
}

/// Columns of the longest bar.
const BAR_COLUMNS: f64 = 14.0;
/// Share of the CPU time that may be unexplained without a word.
const UNEXPLAINED: f64 = 0.1;
/// Columns that the figures behind a cause have at least.
const FIGURE_COLUMNS: usize = 12;
/// Share of the sum of all bars below which one has no row of its own.
const SMALL: f64 = 0.01;
