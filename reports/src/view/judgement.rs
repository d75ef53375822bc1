//! What a comparison concludes and how far it may be believed: the verdict, the limiter, the gates.

use std::fmt::Write as _;

use recording::{ArmKind, ArmLimit, Gate, GateStatus, Recording, Scenario, VerdictWord};

use super::{ABSENT, Line, Table, name, or_absent, sentence};
use crate::figures::{counted, interval, percent, ratio};
use crate::gates::{
    CLIENT_SATURATED, NEITHER_BUSY, SERVER_SATURATED, ceiling_share, client_busy, cpu_count,
    server_busy,
};
use crate::layout::{Tone, WRITES};
use crate::metrics::Metric;
use crate::verdict::{
    PAIRS_FOR_A_CLAIM, PAIRS_FOR_AN_INTERVAL, inverted, margin, pair_verdicts, word,
};

/// The verdict, one line for each arm against the reference.
pub(crate) fn verdict(recording: &Recording) -> Vec<Line> {
    let Some(verdict) = &recording.verdict else {
        let lock_step = |scenario: &Scenario| scenario.lock_step_requests.is_some();
        let text = if recording.scenario.as_ref().is_some_and(lock_step) {
            "none: rounds by count give exact counts per request, not a speed"
        } else {
            "none: there is nothing to compare"
        };
        return vec![Line::new("VERDICT", text)];
    };
    let tone = match verdict.word {
        VerdictWord::Equivalent | VerdictWord::Faster | VerdictWord::Immaterial => Tone::Good,
        VerdictWord::Inconclusive | VerdictWord::Mixed => Tone::Caution,
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
        write!(last, "  margin {}", percent(margin(recording))).expect(WRITES);
        if let Some(control) = super::control::a_a(recording) {
            write!(last, "  {control}").expect(WRITES);
        }
        if verdict.indicative {
            write!(last, "  indicative: {}", missing_for_a_claim(recording)).expect(WRITES);
        }
    }
    let mut lines: Vec<Line> = texts
        .into_iter()
        .map(|text| Line::toned("VERDICT", text, tone))
        .collect();
    lines.extend(cpu_where_speed_is_not_known(recording));
    lines
}

/// CPU time per request, where it differs by more than the margin and the throughput does not tell.
fn cpu_where_speed_is_not_known(recording: &Recording) -> Vec<Line> {
    let margin = margin(recording);
    let unknown = pair_verdicts(recording)
        .into_iter()
        .filter(|pair| pair.word == VerdictWord::Inconclusive);
    unknown
        .filter_map(|pair| {
            let row = recording.comparisons.iter().find(|row| {
                row.metric == Metric::ServerCpu.name() && row.a == pair.a && row.b == pair.b
            })?;
            let established = row.pairs >= PAIRS_FOR_AN_INTERVAL
                && word(row.interval, margin) == VerdictWord::Faster;
            if !established {
                return None;
            }
            let (more, less, (factor, bounds)) = if row.ratio >= 1.0 {
                (&row.a, &row.b, (row.ratio, row.interval))
            } else {
                (&row.b, &row.a, inverted(row))
            };
            let text = format!(
                "CPU per request: {} needs {} times as much as {}  {} {} CI",
                name(more),
                ratio(factor),
                name(less),
                interval(bounds),
                percent(row.level)
            );
            Some(Line::new("", text))
        })
        .collect()
}

/// What a published claim needs beyond this run.
fn missing_for_a_claim(recording: &Recording) -> String {
    let mut missing = Vec::new();
    if pair_verdicts(recording)
        .iter()
        .any(|pair| pair.pairs < PAIRS_FOR_A_CLAIM)
    {
        missing.push(format!("fewer than {PAIRS_FOR_A_CLAIM} pairs"));
    }
    let control = recording.gates.iter().find(|gate| gate.id == "G10");
    match control.map(|gate| gate.status) {
        Some(GateStatus::Ok) => {}
        None | Some(GateStatus::NotMeasured) => missing.push("no A/A control".to_owned()),
        Some(_) => missing.push("the A/A control does not hold".to_owned()),
    }
    missing.join(", ")
}

/// Arms that could not be restarted, so that their rounds are windows of one start.
pub(crate) fn live_arms(recording: &Recording) -> Option<Line> {
    let live: Vec<String> = recording
        .arms
        .iter()
        .filter(|arm| arm.kind == ArmKind::Live)
        .map(|arm| name(&arm.name))
        .collect();
    let text = format!(
        "{} not restarted between rounds: the interval covers windows, not server starts",
        live.join(", ")
    );
    (!live.is_empty()).then(|| Line::toned("live", text, Tone::Caution))
}

/// How busy both sides were, and what that says about the limiter; `None` where neither is known.
pub(crate) fn busy(recording: &Recording) -> Option<Line> {
    let cpus = cpu_count(recording.scenario.as_ref()?.server_cpus.as_deref()?)?;
    let cpus = counted(cpus as usize, "CPU");
    let arms: Vec<Busy> = recording
        .arms
        .iter()
        .filter_map(|arm| Busy::of(recording, &arm.name))
        .collect();
    let (first, others) = arms.split_first()?;
    let text = if !others.is_empty() && others.iter().all(|other| other.limiter == first.limiter) {
        let shares = |share: fn(&Busy) -> Option<f64>| {
            let shares = arms.iter().map(|arm| or_absent(share(arm), percent));
            shares.collect::<Vec<_>>().join("|")
        };
        let mut text = format!(
            "{}: server {} of {cpus}, client {}",
            first.limiter,
            shares(|arm| arm.server),
            shares(|arm| Some(arm.client))
        );
        if arms.iter().any(|arm| arm.ceiling.is_some()) {
            write!(text, ", {} of its ceiling", shares(|arm| arm.ceiling)).expect(WRITES);
        }
        text
    } else {
        let parts: Vec<String> = arms.iter().map(|arm| arm.describe(&cpus)).collect();
        parts.join("; ")
    };
    Some(Line::new("busy", text))
}

/// How busy both sides were in the rounds of one arm, as shares of what they could be.
struct Busy {
    arm: String,
    server: Option<f64>,
    client: f64,
    /// Throughput as a share of what the client reaches against a server that does nothing.
    ceiling: Option<f64>,
    limiter: String,
}

impl Busy {
    fn of(recording: &Recording, arm: &str) -> Option<Self> {
        let client = client_busy(recording, arm)?;
        let server = server_busy(recording, arm);
        let known = recording.limiters.iter().find(|known| known.arm == arm);
        let limiter = match (known, server) {
            (_, None) => "CPU time of the server not known",
            (Some(known), _) if names_a_wait(known.limit) => &known.why,
            (_, Some(share)) if share >= SERVER_SATURATED => "limited by the server's CPU",
            _ if client >= CLIENT_SATURATED => "the client may be the limiter",
            // The next request goes out as soon as an answer is in, so somebody had to be busy.
            (_, Some(share)) if share < NEITHER_BUSY && client < NEITHER_BUSY => {
                "neither side busy: other work on the machine, or waits"
            }
            _ => "limiter not known",
        };
        Some(Self {
            arm: name(arm),
            server,
            client,
            ceiling: ceiling_share(recording, arm),
            limiter: limiter.to_owned(),
        })
    }

    fn describe(&self, cpus: &str) -> String {
        let server = or_absent(self.server, |share| format!("{} of {cpus}", percent(share)));
        let ceiling = self.ceiling.map_or(String::new(), |share| {
            format!(", {} of its ceiling", percent(share))
        });
        format!(
            "{}: server {server}, client {}{ceiling}, {}",
            self.arm,
            percent(self.client),
            self.limiter
        )
    }
}

/// Limits that neither CPU share tells.
fn names_a_wait(limit: ArmLimit) -> bool {
    matches!(
        limit,
        ArmLimit::Blocked | ArmLimit::Lock | ArmLimit::Placement | ArmLimit::Throttled
    )
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
    // The verdict has the figures of gates that refuse.
    let refused = recording
        .verdict
        .as_ref()
        .is_some_and(|verdict| verdict.word == VerdictWord::NotComparable);
    let mut lines = vec![Line::new("gates", summary)];
    lines.extend(recording.gates.iter().filter_map(|gate| {
        let tone = match gate.status {
            GateStatus::Ok | GateStatus::NotMeasured => return None,
            GateStatus::Warn | GateStatus::Allowed => Tone::Caution,
            GateStatus::Refuse => Tone::Bad,
        };
        Some(Line::toned("", gate_text(gate, refused), tone))
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

fn gate_text(gate: &Gate, figures_known: bool) -> String {
    let refuses = gate.status == GateStatus::Refuse;
    let mut text = format!(
        "{} {} {}: ",
        status_word(gate.status),
        name(&gate.id),
        name(&gate.title)
    );
    match (refuses, figures_known) {
        (true, true) => write!(text, "limit: {}", sentence(&gate.limit)),
        (true, false) => write!(
            text,
            "{}; limit: {}",
            sentence(&gate.value),
            sentence(&gate.limit)
        ),
        (false, _) => write!(text, "{}", sentence(&gate.value)),
    }
    .expect(WRITES);
    if !gate.fix.is_empty() {
        write!(text, "; {}", sentence(&gate.fix)).expect(WRITES);
    }
    text
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
        ..Table::default()
    }
}

/// Whether so many events were lost that counts per request must not be shown.
pub(crate) fn hidden_by_loss(recording: &Recording) -> bool {
    recording
        .gates
        .iter()
        .any(|gate| gate.id == "G12" && gate.status == GateStatus::Warn)
}
