//! The publication that a comparison repeats: its figures beside ours, what has changed since, which
//! gates it breaks, and why the difference is what it is now.

use recording::{
    Arm, BarKind, GateStatus, LatencyHistogram, Probes, Published, PublishedFigure, Recording,
    Round, Scenario,
};

use super::judgement::hidden_by_loss;
use super::why::signed;
use super::{ABSENT, Line, Table, name, or_absent, sentence};
use crate::clean::clean_to;
use crate::figures::{counted, per_request, percent, rate, ratio, span};
use crate::join::ArmFigures;
use crate::layout::Tone;
use crate::metrics::{Metric, good_rounds};

/// Everything that is said of a publication.
pub(crate) struct AsPublished {
    pub(crate) heading: String,
    /// Where, when and on what it was measured.
    pub(crate) origin: Vec<Line>,
    /// Every figure then and now.
    pub(crate) figures: Table,
    /// What has changed since.
    pub(crate) changes: Table,
    /// The ratios then and now, the gates, and why.
    pub(crate) notes: Vec<Line>,
}

/// The whole section; `None` where the scenario repeats no publication.
pub(crate) fn as_published(recording: &Recording, figures: &[ArmFigures]) -> Option<AsPublished> {
    let scenario = recording.scenario.as_ref()?;
    let published = scenario.published.as_ref()?;
    let mut notes = ratios(recording, figures, published);
    notes.extend(gates(recording, scenario));
    notes.extend(why_now(recording));
    Some(AsPublished {
        heading: heading(published),
        origin: vec![
            Line::new("source", sentence(&published.source)),
            Line::new("machine", sentence(&published.machine)),
        ],
        figures: figure_table(recording, figures, published),
        changes: change_table(published),
        notes,
    })
}

/// What fits on a screen: at most one line each for the ratio of throughputs, what changed, and the gates.
pub(crate) fn summary(recording: &Recording, figures: &[ArmFigures], width: usize) -> Vec<Line> {
    let Some(scenario) = &recording.scenario else {
        return Vec::new();
    };
    let Some(published) = &scenario.published else {
        return Vec::new();
    };
    let mut lines = vec![Line::new(
        "then",
        format!("{} ({})", name(&published.title), name(&published.date)),
    )];
    lines.extend(ratios(recording, figures, published).into_iter().take(2));
    let changed: Vec<&str> = published.changes.iter().map(|c| c.what.as_str()).collect();
    if !changed.is_empty() {
        lines.push(Line::new(
            "since",
            format!("changed: {}", sentence(&changed.join(", "))),
        ));
    }
    lines.extend(gates(recording, scenario).into_iter().take(1));
    // One line of the screen each: a label takes nine columns.
    let room = width.saturating_sub(9).max(20);
    for line in &mut lines {
        line.text = clean_to(&line.text, room);
    }
    lines
}

/// `AS PUBLISHED  Nginx vs h2o (http/1.1), 2014-11-12`.
fn heading(published: &Published) -> String {
    format!(
        "AS PUBLISHED  {} ({})",
        sentence(&published.title),
        sentence(&published.date)
    )
}

/// What a published figure measures.
struct Quantity {
    /// The name in the data.
    metric: &'static str,
    /// For people.
    title: &'static str,
    print: fn(f64) -> String,
    /// Ours, of an arm; `None` where it was not measured.
    ours: fn(&Recording, &ArmFigures) -> Option<f64>,
}

/// Whether a metric of published figures can be shown.
pub fn is_published_metric(metric: &str) -> bool {
    quantity(metric).is_some()
}

fn quantity(metric: &str) -> Option<&'static Quantity> {
    QUANTITIES.iter().find(|known| known.metric == metric)
}

fn figure_table(recording: &Recording, figures: &[ArmFigures], published: &Published) -> Table {
    let header = [
        "measured",
        "server then",
        "then",
        "printed",
        "arm now",
        "now",
    ];
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: published
            .figures
            .iter()
            .map(|figure| {
                let quantity = quantity(&figure.metric);
                let title = quantity.map_or_else(|| name(&figure.metric), |q| q.title.to_owned());
                let setting = figure.variant.as_ref();
                let arm = repeated_by(recording, figure);
                let now = arm.and_then(|arm| ours(recording, figures, figure, arm));
                vec![
                    setting.map_or(title.clone(), |setting| {
                        format!("{title}, {}", name(setting))
                    }),
                    name(&figure.server),
                    then(figure),
                    sentence(&figure.printed),
                    or_absent(arm, |arm| name(&arm.name)),
                    or_absent(now.zip(quantity), |(value, quantity)| {
                        (quantity.print)(value)
                    }),
                ]
            })
            .collect(),
        left: vec![1, 3, 4],
        optional: Vec::new(),
    }
}

fn change_table(published: &Published) -> Table {
    Table {
        header: ["changed since", "then", "now"].map(str::to_owned).to_vec(),
        rows: published
            .changes
            .iter()
            .map(|change| {
                vec![
                    name(&change.what),
                    sentence(&change.then),
                    change.now.as_ref().map_or_else(
                        || "see versions and settings of this run".to_owned(),
                        |now| sentence(now),
                    ),
                ]
            })
            .collect(),
        left: vec![1, 2],
        optional: Vec::new(),
    }
}

/// The mean of the runs, with how many there were.
fn then(figure: &PublishedFigure) -> String {
    let Some(mean) = mean(&figure.values) else {
        return ABSENT.to_owned();
    };
    let text = match quantity(&figure.metric) {
        Some(quantity) => (quantity.print)(mean),
        None => rate(mean),
    };
    match figure.values.len() {
        1 => text,
        runs => format!("{text} (mean of {})", counted(runs, "run")),
    }
}

/// First arm over each other one, of the throughput, then and now; first what this run repeats.
fn ratios(recording: &Recording, figures: &[ArmFigures], published: &Published) -> Vec<Line> {
    let throughput = |figure: &&PublishedFigure| figure.metric == Metric::Throughput.name();
    let all: Vec<&PublishedFigure> = published.figures.iter().filter(throughput).collect();
    let Some((first, _)) = all.split_first() else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let bases: Vec<&&PublishedFigure> = all.iter().filter(|f| f.server == first.server).collect();
    for base in bases {
        let others = all
            .iter()
            .filter(|figure| figure.variant == base.variant && figure.server != base.server);
        for other in others {
            lines.extend(ratio_line(recording, figures, base, other));
        }
    }
    let repeated = |line: &(bool, Line)| !line.0;
    lines.sort_by_key(repeated);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The ratio of two published figures beside ours, and whether there is ours.
fn ratio_line(
    recording: &Recording,
    figures: &[ArmFigures],
    a: &PublishedFigure,
    b: &PublishedFigure,
) -> Option<(bool, Line)> {
    let (then_a, then_b) = (mean(&a.values)?, mean(&b.values)?);
    let now = |figure| {
        let arm = repeated_by(recording, figure)?;
        let value = ours(recording, figures, figure, arm)?;
        Some((name(&arm.name), value))
    };
    let setting = a
        .variant
        .as_ref()
        .map_or(String::new(), |setting| format!(" at {}", name(setting)));
    let then = format!(
        "{} then{setting} ({} {} / {} {} req/s)",
        ratio(then_a / then_b),
        name(&a.server),
        rate(then_a),
        name(&b.server),
        rate(then_b)
    );
    // Ours first: where a line is cut, it is to be there.
    Some(match now(a).zip(now(b)) {
        Some(((arm_a, a), (arm_b, b))) if b > 0.0 => {
            let now = format!(
                "{} now ({arm_a} {} / {arm_b} {} req/s)",
                ratio(a / b),
                rate(a),
                rate(b)
            );
            (true, Line::new("ratio", format!("{now}, {then}")))
        }
        _ => (
            false,
            Line::new("ratio", format!("{then}, not repeated in this run")),
        ),
    })
}

/// The arm that repeats a figure: the one that it names, else one of the same recipe.
fn repeated_by<'a>(recording: &'a Recording, figure: &PublishedFigure) -> Option<&'a Arm> {
    let wanted = figure.arm.as_deref()?;
    let arms = &recording.arms;
    let exact = arms
        .iter()
        .find(|arm| arm.name == wanted || arm.spec == wanted);
    exact.or_else(|| arms.iter().find(|arm| recipe(&arm.spec) == recipe(wanted)))
}

/// The recipe of an arm as typed: without name, variant and program.
fn recipe(spec: &str) -> &str {
    let spec = spec.split_once('=').map_or(spec, |(_, spec)| spec);
    spec.split([':', '@']).next().unwrap_or(spec)
}

/// Our figure beside a published one; `None` where this run has another setting, or none was measured.
fn ours(
    recording: &Recording,
    figures: &[ArmFigures],
    figure: &PublishedFigure,
    arm: &Arm,
) -> Option<f64> {
    if let Some(setting) = &figure.variant {
        let requests = recording.scenario.as_ref()?.requests_per_connection?;
        if *setting != format!("K={requests}") {
            return None;
        }
    }
    let arm = figures.iter().find(|figures| figures.arm == arm.name)?;
    (quantity(&figure.metric)?.ours)(recording, arm)
}

fn throughput(recording: &Recording, arm: &ArmFigures) -> Option<f64> {
    let rounds = good_rounds(recording, &arm.arm, Probes::Off);
    let values: Vec<f64> = rounds
        .filter_map(|round| Metric::Throughput.of(round))
        .collect();
    mean(&values)
}

fn latency(recording: &Recording, arm: &ArmFigures) -> Option<f64> {
    mean_time(recording, arm, |round| {
        round.load.as_ref()?.latency.as_ref()
    })
}

/// Until a connection can be used: with the handshake where there is one.
fn connect(recording: &Recording, arm: &ArmFigures) -> Option<f64> {
    mean_time(recording, arm, |round| {
        let phases = &round.load.as_ref()?.measures.as_ref()?.phases;
        phases.open.as_ref().or(phases.connect.as_ref())
    })
}

/// Mean over all rounds without probes, ns.
fn mean_time(
    recording: &Recording,
    arm: &ArmFigures,
    of: fn(&Round) -> Option<&LatencyHistogram>,
) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for round in good_rounds(recording, &arm.arm, Probes::Off) {
        let times = of(round)?.to_hdr().ok()?;
        let values = times.len() as f64;
        sum += times.mean() * values;
        count += values;
    }
    (count > 0.0).then(|| sum / count)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// What of the publication is no fair comparison, with the gate that says so, and whether this run breaks
/// it as well; then what else this run breaks.
fn gates(recording: &Recording, scenario: &Scenario) -> Vec<Line> {
    let mut lines: Vec<Line> = scenario
        .unfair
        .iter()
        .map(|unfair| {
            let what = sentence(&unfair.what);
            let here = unfair.gate.as_ref().map(|id| gate_here(recording, id));
            let here = here.map_or(String::new(), |here| format!("{here}: "));
            Line::toned("unfair", format!("{here}{what}"), Tone::Caution)
        })
        .collect();
    let is_named = |id: &str| {
        let mut unfair = scenario.unfair.iter();
        unfair.any(|unfair| unfair.gate.as_deref() == Some(id))
    };
    let broken = recording.gates.iter().filter(|gate| {
        matches!(gate.status, GateStatus::Allowed | GateStatus::Refuse) && !is_named(&gate.id)
    });
    lines.extend(broken.map(|gate| {
        let text = format!(
            "{}: {}",
            gate_here(recording, &gate.id),
            sentence(&gate.value)
        );
        Line::toned("unfair", text, Tone::Bad)
    }));
    if !scenario.as_published && lines.is_empty() {
        let fair = "no gate is broken as it was run here; --as-published repeats what was unfair";
        lines.push(Line::new("fair", fair));
    }
    lines
}

/// `breaks G2 TLS parity`, and what the gate found in this run.
fn gate_here(recording: &Recording, id: &str) -> String {
    let Some(gate) = recording.gates.iter().find(|gate| gate.id == id) else {
        return format!("breaks {}, which was not judged here", name(id));
    };
    let found = match gate.status {
        GateStatus::Allowed => "allowed",
        GateStatus::NotMeasured => "not measured here",
        GateStatus::Ok | GateStatus::Warn => "which holds here",
        GateStatus::Refuse => "refused",
    };
    format!("breaks {} {} ({found})", name(id), name(&gate.title))
}

/// The largest bars of each attribution: why the ratio is what it is now.
fn why_now(recording: &Recording) -> Vec<Line> {
    if hidden_by_loss(recording) {
        return Vec::new();
    }
    recording
        .attributions
        .iter()
        .filter(|attribution| attribution.baseline_unix_ns.is_none())
        .filter_map(|attribution| {
            let told = attribution.bars.iter().filter(|bar| {
                bar.kind != BarKind::Unexplained && bar.distinguishable != Some(false)
            });
            let mut bars: Vec<(&str, f64, Option<f64>)> = told
                .filter_map(|bar| Some((bar.title.as_str(), bar.delta_ns?, bar.log_share)))
                .collect();
            bars.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
            let parts: Vec<String> = bars
                .iter()
                .take(WHY_BARS)
                .map(|(title, ns, share)| {
                    let share = share.map_or(String::new(), |s| format!(" ({})", percent(s)));
                    format!("{} {} us{share}", name(title), signed(*ns))
                })
                .collect();
            let text = format!(
                "now, from {} to {}: {} us per request, most of it {}",
                name(&attribution.a),
                name(&attribution.b),
                signed(attribution.delta_ns),
                parts.join(", ")
            );
            (!parts.is_empty()).then(|| Line::new("why", text))
        })
        .collect()
}

/// Bars that are named.
const WHY_BARS: usize = 3;

/// What publications measured: what we measure too, then what is theirs alone.
const QUANTITIES: &[Quantity] = &[
    Quantity {
        metric: "throughput_rps",
        title: "req/s",
        print: rate,
        ours: throughput,
    },
    Quantity {
        metric: "latency_mean_ns",
        title: "mean latency",
        print: span,
        ours: latency,
    },
    Quantity {
        metric: "connect_mean_ns",
        title: "mean time to connect",
        print: span,
        ours: connect,
    },
    Quantity {
        metric: "syscalls_per_request",
        title: "syscalls/req",
        print: |value| per_request(value, false),
        ours: |_, arm| arm.syscalls_per_request,
    },
    Quantity {
        metric: "client_cpu_share",
        title: "CPU of the client",
        print: percent,
        ours: |_, _| None,
    },
    Quantity {
        metric: "connection_rate_stddev_rps",
        title: "sd of req/s between connections",
        print: rate,
        ours: |_, _| None,
    },
    Quantity {
        metric: "header_bytes",
        title: "bytes of header",
        print: rate,
        ours: |_, _| None,
    },
    Quantity {
        metric: "syscalls",
        title: "syscalls while traced",
        print: rate,
        ours: |_, _| None,
    },
    Quantity {
        metric: "syscalls_writev",
        title: "writev while traced",
        print: rate,
        ours: |_, _| None,
    },
    Quantity {
        metric: "timeouts",
        title: "timeouts",
        print: rate,
        ours: |_, _| None,
    },
];
