//! Gates on the arms: do they answer the same, over the same connections, under the same settings?
//!
//! Every arm is held against the first one, the reference.

use std::collections::BTreeSet;

use recording::{Arm, ArmKind, Gate, GateStatus, Probes, Recording, ResponseShape};

use super::Finding;
use crate::figures::{counted, percent, rate};
use crate::metrics::good_rounds;

/// G1: the same status, body, encoding and framing, and heads of about the same size.
pub(super) fn response_equality(recording: &Recording) -> Gate {
    let finding = match recording.arms.split_first() {
        Some((first, others)) if !others.is_empty() => compare_responses(first, others),
        _ => Finding::not_measured("there are no two arms", ""),
    };
    finding.gate(
        "G1",
        "response equality",
        "same statuses, body hash, encoding and framing; body length within 1%; head within 64 B",
    )
}

/// G15: every round on one kernel. Only rounds that were joined from several machines, or from before
/// and after a restart, can break it: a run of its own does not list it.
pub(super) fn one_kernel(recording: &Recording) -> Option<Gate> {
    let profiles = recording
        .rounds
        .iter()
        .filter_map(|round| round.profile.as_ref());
    let mut kernels: BTreeSet<&str> = profiles
        .filter_map(|profile| profile.kernel.as_deref())
        .collect();
    if kernels.is_empty() {
        return None;
    }
    kernels.insert(&recording.host.kernel);
    if kernels.len() == 1 {
        return None;
    }
    let kernels: Vec<&str> = kernels.into_iter().collect();
    let finding = Finding::refuse(
        kernels.join("; "),
        "measure every arm on one kernel: what system calls cost differs from one to the next"
            .to_owned(),
    );
    Some(finding.gate("G15", "one kernel", "all rounds on the same kernel release"))
}

/// G4: as many requests over one connection on every arm.
pub(super) fn keep_alive(recording: &Recording) -> Gate {
    let reuse: Vec<(&str, Reuse)> = recording
        .arms
        .iter()
        .filter_map(|arm| Some((arm.name.as_str(), Reuse::of(recording, &arm.name)?)))
        .collect();
    let finding = if reuse.len() < 2 || reuse.len() < recording.arms.len() {
        Finding::not_measured("no good round for every arm", "")
    } else {
        let value = reuse
            .iter()
            .map(|(arm, reuse)| format!("{arm}: {}", reuse.describe()))
            .collect::<Vec<_>>()
            .join("; ");
        let (_, first) = &reuse[0];
        if reuse[1..].iter().all(|(_, other)| first.agrees(other)) {
            Finding::ok(value)
        } else {
            Finding::refuse(
                value,
                "give every server the same keep-alive limit (nginx: keepalive_requests), or let \
                 the client close: --requests-per-connection N below the lowest limit"
                    .to_owned(),
            )
        }
    };
    finding.gate(
        "G4",
        "keep-alive parity",
        "requests per connection within 5%, or more than 1000 on both",
    )
}

/// G14: settings that a recipe declares, side by side. The style of built-in servers is what they
/// are compared by, so it is left out.
pub(super) fn tuning(recording: &Recording) -> Gate {
    let compared = |arm: &Arm, key: &str| arm.kind != ArmKind::Testserver || key != STYLE;
    let keys = |arm: &Arm| -> usize {
        let settings = arm.settings.iter();
        settings
            .filter(|setting| compared(arm, &setting.key))
            .count()
    };
    let declaring_style = |key: &str| {
        let declares = |arm: &Arm| arm.settings.iter().any(|setting| setting.key == key);
        recording
            .arms
            .iter()
            .any(|arm| declares(arm) && compared(arm, key))
    };
    let rows = differing_settings(&recording.arms)
        .into_iter()
        .filter(|row| declaring_style(&row.key));
    let (differing, undeclared): (Vec<_>, Vec<_>) = rows.partition(SettingRow::differs);
    let silent: Vec<&str> = recording
        .arms
        .iter()
        .filter(|arm| keys(arm) == 0)
        .map(|arm| arm.name.as_str())
        .collect();
    let finding = if !differing.is_empty() {
        let rows: Vec<String> = differing.iter().map(SettingRow::describe).collect();
        Finding::warn(
            rows.join("; "),
            "make them equal, or read the result with that in mind",
        )
    } else if !silent.is_empty() || recording.arms.is_empty() {
        let styles = |arm: &Arm| arm.kind == ArmKind::Testserver;
        if !recording.arms.is_empty() && recording.arms.iter().all(styles) {
            Finding::not_measured(
                "nothing but the style is declared, and that is compared",
                "",
            )
        } else {
            Finding::not_measured(
                &format!("no settings declared by {}", silent.join(", ")),
                BY_EYE,
            )
        }
    } else if !undeclared.is_empty() {
        let keys: Vec<&str> = undeclared.iter().map(|row| row.key.as_str()).collect();
        Finding::not_measured(
            &format!("declared on one side only: {}", keys.join(", ")),
            BY_EYE,
        )
    } else {
        let equal = recording.arms.first().map_or(0, keys);
        Finding::ok(format!("{} equal", counted(equal, "setting")))
    };
    finding.gate("G14", "tuning parity", "declared settings equal")
}

/// One setting over all arms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingRow {
    /// What is set.
    pub(crate) key: String,
    /// The value of each arm, in their order; `None` where an arm does not declare it.
    pub(crate) values: Vec<Option<String>>,
}

impl SettingRow {
    /// Whether two arms declare different values. What follows in parentheses explains a value and
    /// is no part of it.
    pub(crate) fn differs(&self) -> bool {
        let bare = |value: &String| value.split(" (").next().map(str::to_owned);
        let values: BTreeSet<_> = self.values.iter().flatten().map(bare).collect();
        values.len() > 1
    }

    fn describe(&self) -> String {
        let values: Vec<&str> = self
            .values
            .iter()
            .map(|value| value.as_deref().unwrap_or("-"))
            .collect();
        format!("{} {}", self.key, values.join("|"))
    }
}

/// The settings that are not declared equal by every arm, in the order of their first appearance.
pub(crate) fn differing_settings(arms: &[Arm]) -> Vec<SettingRow> {
    let mut rows = settings(arms);
    rows.retain(|row| row.differs() || row.values.iter().any(Option::is_none));
    rows
}

/// Every setting that some arm declares, in the order in which they do.
pub(crate) fn settings(arms: &[Arm]) -> Vec<SettingRow> {
    let mut keys: Vec<&str> = Vec::new();
    for setting in arms.iter().flat_map(|arm| &arm.settings) {
        if !keys.contains(&setting.key.as_str()) {
            keys.push(&setting.key);
        }
    }
    let value_of = |arm: &Arm, key: &str| {
        arm.settings
            .iter()
            .find(|setting| setting.key == key)
            .map(|setting| setting.value.clone())
    };
    keys.into_iter()
        .map(|key| SettingRow {
            key: key.to_owned(),
            values: arms.iter().map(|arm| value_of(arm, key)).collect(),
        })
        .collect()
}

/// How many requests one connection carried, as bounds: connections that are open at both edges of
/// a window hide how far they had come.
#[derive(Clone, Copy, Debug)]
struct Reuse {
    finished: f64,
    closed: f64,
    /// Connections that an edge may have cut, over all rounds.
    cut: f64,
}

impl Reuse {
    fn of(recording: &Recording, arm: &str) -> Option<Self> {
        let mut sum = Self {
            finished: 0.0,
            closed: 0.0,
            cut: 0.0,
        };
        let rounds = [Probes::Off, Probes::On];
        for round in rounds
            .into_iter()
            .flat_map(|probes| good_rounds(recording, arm, probes))
        {
            let Some(load) = &round.load else { continue };
            let connections = &load.connections;
            sum.finished += (load.ledger.ok + load.ledger.failed_total()) as f64;
            sum.closed += (connections.closed_by_plan
                + connections.closed_idle
                + connections.closed_by_server
                + connections.closed_by_failure) as f64;
            sum.cut += f64::from(connections.asked);
        }
        (sum.finished > 0.0).then_some(sum)
    }

    /// The least and the most requests per connection that the counts allow.
    fn bounds(&self) -> (f64, f64) {
        let high = if self.closed > self.cut {
            self.finished / (self.closed - self.cut)
        } else {
            f64::INFINITY
        };
        (self.finished / (self.closed + self.cut), high)
    }

    fn agrees(&self, other: &Self) -> bool {
        let ((low, high), (other_low, other_high)) = (self.bounds(), other.bounds());
        let many = |reuse: &Self| reuse.closed == 0.0 || reuse.finished / reuse.closed > 1000.0;
        (low <= other_high * 1.05 && other_low <= high * 1.05) || (many(self) && many(other))
    }

    fn describe(&self) -> String {
        if self.closed == 0.0 {
            format!("{} requests, no connection closed", rate(self.finished))
        } else {
            format!("{:.1} requests per connection", self.finished / self.closed)
        }
    }
}

fn compare_responses(first: &Arm, others: &[Arm]) -> Finding {
    let Some(reference) = &first.response else {
        return Finding::not_measured(&format!("no parity check of {}", first.name), "");
    };
    let mut broken = Vec::new();
    let mut notes = Vec::new();
    for arm in others {
        let Some(response) = &arm.response else {
            return Finding::not_measured(&format!("no parity check of {}", arm.name), "");
        };
        let label = format!("{}|{}", first.name, arm.name);
        broken.extend(
            response_differences(reference, response)
                .into_iter()
                .map(|difference| format!("{label}: {difference}")),
        );
        let headers = header_differences(first, arm).unwrap_or_default();
        if !headers.is_empty() {
            notes.push(format!("{label}: headers differ: {}", headers.join(", ")));
        }
    }
    let refused = !broken.is_empty();
    if !refused {
        broken.push(format!("body {} B equal", reference.body_bytes));
    }
    broken.extend(notes);
    let value = broken.join("; ");
    if refused {
        let custom = others
            .iter()
            .chain([first])
            .any(|arm| arm.kind != ArmKind::Recipe);
        let what = if custom {
            "make the servers"
        } else {
            "make the recipes' variants"
        };
        Finding::refuse(
            value,
            format!(
                "{what} answer alike (same file, compression on or off on both), or accept the \
                 difference with --allow-mismatch G1"
            ),
        )
    } else {
        Finding {
            status: GateStatus::Ok,
            value,
            fix: String::new(),
        }
    }
}

/// What gates: each difference with both values.
fn response_differences(a: &ResponseShape, b: &ResponseShape) -> Vec<String> {
    let mut differences = Vec::new();
    let statuses = |shape: &ResponseShape| {
        shape
            .statuses
            .keys()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    if !a.statuses.keys().eq(b.statuses.keys()) {
        differences.push(format!("status {}|{}", statuses(a), statuses(b)));
    }
    if a.body_sha256 != b.body_sha256 {
        let short = |hash: &str| hash.chars().take(12).collect::<String>();
        differences.push(format!(
            "body sha256 {}|{}",
            short(&a.body_sha256),
            short(&b.body_sha256)
        ));
    }
    let (long, short) = (
        a.body_bytes.max(b.body_bytes),
        a.body_bytes.min(b.body_bytes),
    );
    if (long - short) as f64 > 0.01 * long as f64 {
        let share = percent((long - short) as f64 / long as f64);
        differences.push(format!(
            "body length {}|{} B, {share}",
            a.body_bytes, b.body_bytes
        ));
    }
    let encoding = |shape: &ResponseShape| shape.content_encoding.clone().unwrap_or("none".into());
    if encoding(a) != encoding(b) {
        differences.push(format!("Content-Encoding {}|{}", encoding(a), encoding(b)));
    }
    // In HTTP/2 the stream ends the body, and a length before it only announces that.
    let by_stream = [a, b].iter().any(|shape| shape.framing == END_STREAM);
    if a.framing != b.framing && !by_stream {
        differences.push(format!("framing {}|{}", a.framing, b.framing));
    }
    if a.head_bytes.abs_diff(b.head_bytes) > 64 {
        differences.push(format!("head {}|{} B", a.head_bytes, b.head_bytes));
    }
    differences
}

/// What is only shown: header names of one side, and values that differ, with the names of the
/// arms. Date differs by nature. `None` without a parity check of both.
pub(crate) fn header_differences(a: &Arm, b: &Arm) -> Option<Vec<String>> {
    let (left, right) = (a.response.as_ref()?, b.response.as_ref()?);
    let find = |shape: &ResponseShape, name: &str| {
        let same = |(other, _): &&(String, String)| other.eq_ignore_ascii_case(name);
        shape
            .headers
            .iter()
            .find(same)
            .map(|(_, value)| value.clone())
    };
    let mut differences = Vec::new();
    for (name, value) in &left.headers {
        if name.eq_ignore_ascii_case("date") {
            continue;
        }
        match find(right, name) {
            None => differences.push(format!("{name} only from {}", a.name)),
            Some(other) if other != *value => differences.push(format!("{name} {value}|{other}")),
            Some(_) => {}
        }
    }
    for (name, _) in &right.headers {
        if find(left, name).is_none() {
            differences.push(format!("{name} only from {}", b.name));
        }
    }
    Some(differences)
}

/// The setting that names what a built-in server does.
const STYLE: &str = "style";
/// What to do where settings are not declared.
const BY_EYE: &str = "compare the configurations by eye";

/// How the body ends of a response of HTTP/2 that has no length.
const END_STREAM: &str = "end-stream";
