//! The table at the end of a suite, and its exit code.

use std::fmt;
use std::time::Duration;

use recording::{Gate, GateStatus, Recording, VerdictWord, exit_code};

use super::needs::Lack;
use super::refusal;
use super::strace::Agreement;

/// What is said of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    scenario: String,
    arms: Vec<String>,
    verdict: Option<&'static str>,
    /// First arm over each other one: throughput.
    ratios: Vec<f64>,
    /// Gates that refused or were allowed, with the reason.
    gates: Vec<String>,
    /// The largest unexplained share of CPU time per request.
    unexplained: Option<f64>,
    /// What strace said of each arm.
    counts: Vec<String>,
    /// What makes the suite fail.
    faults: Vec<String>,
    /// Why it could not be run.
    lacks: Vec<String>,
    took: Duration,
}

impl Row {
    pub(super) fn new(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            ..Self::default()
        }
    }

    /// A scenario that could not be run.
    pub(super) fn lacking(scenario: &str, lacks: &[Lack]) -> Self {
        Self {
            lacks: lacks.iter().map(Lack::describe).collect(),
            ..Self::new(scenario)
        }
    }

    /// A scenario that ended in an error.
    pub(super) fn broken(scenario: &str, error: &anyhow::Error) -> Self {
        Self {
            faults: vec![format!("{error:#}")],
            ..Self::new(scenario)
        }
    }

    pub(super) fn took(self, took: Duration) -> Self {
        Self { took, ..self }
    }

    /// Takes in what a comparison found, and with which exit code it ended.
    pub(super) fn compared(&mut self, recording: &Recording, code: u8, check: bool) {
        self.arms = recording.arms.iter().map(|arm| arm.name.clone()).collect();
        self.verdict = recording.verdict.as_ref().map(|verdict| word(verdict.word));
        let first = self.arms.first();
        self.ratios = recording
            .comparisons
            .iter()
            .filter(|row| row.metric == "throughput_rps" && Some(&row.a) == first)
            .map(|row| row.ratio)
            .collect();
        let shares = recording.attributions.iter();
        let shares = shares.filter_map(|why| why.receipt.unexplained_share);
        self.unexplained = shares.max_by(|a, b| a.abs().total_cmp(&b.abs()));
        for gate in &recording.gates {
            self.judged(gate, check);
        }
        for round in &recording.rounds {
            if let Some(why) = &round.failed {
                self.faults
                    .push(format!("a round of {} failed: {why}", round.arm));
            }
        }
        let told = [
            exit_code::DONE,
            exit_code::INCONCLUSIVE,
            exit_code::NOT_COMPARABLE,
        ];
        if !told.contains(&code) {
            self.faults
                .push(format!("whyfast compare exited with {code}"));
        }
    }

    fn judged(&mut self, gate: &Gate, check: bool) {
        let word = match gate.status {
            GateStatus::Allowed => "allowed",
            GateStatus::Refuse => "refuses",
            GateStatus::NotMeasured | GateStatus::Ok | GateStatus::Warn => return,
        };
        let known = refusal::why(&self.scenario, gate, check);
        let why = known.as_deref().unwrap_or(&gate.value);
        self.gates.push(format!("{} {word}: {why}", gate.id));
        if known.is_none() {
            let Gate {
                id, title, value, ..
            } = gate;
            self.faults.push(format!(
                "{id} {title} refuses, and nobody knows why: {value}"
            ));
        }
    }

    /// Takes in what strace said.
    pub(super) fn counted(&mut self, agreements: Vec<Agreement>) {
        for agreement in agreements {
            self.faults.extend(agreement.fault());
            self.counts.push(agreement.to_string());
        }
    }
}

/// All rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Broken where something is wrong; cannot measure where all that is wrong is what is missing.
    pub(super) fn exit_code(&self) -> u8 {
        if self.rows.iter().any(|row| !row.faults.is_empty()) {
            exit_code::LIMIT_BROKEN
        } else if self.rows.iter().any(|row| !row.lacks.is_empty()) {
            exit_code::CANNOT_MEASURE
        } else {
            exit_code::DONE
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<26} {:<15} {:>20} {:>12} {:>7}",
            "scenario", "verdict", "first/other", "unexplained", "took"
        )?;
        for row in &self.rows {
            let ratios: Vec<String> = row
                .ratios
                .iter()
                .map(|ratio| format!("{ratio:.3}"))
                .collect();
            let unexplained = row
                .unexplained
                .map_or("-".to_owned(), |s| format!("{:.1}%", s * 100.0));
            let verdict = if row.lacks.is_empty() {
                row.verdict.unwrap_or("-")
            } else {
                "not run"
            };
            writeln!(
                f,
                "{:<26} {verdict:<15} {:>20} {unexplained:>12} {:>5.0} s",
                row.scenario,
                ratios.join(" "),
                row.took.as_secs_f64()
            )?;
            if !row.arms.is_empty() {
                writeln!(f, "    arms: {}", row.arms.join(", "))?;
            }
            let lines = [
                ("lacks", &row.lacks),
                ("gate", &row.gates),
                ("strace", &row.counts),
                ("FAULT", &row.faults),
            ];
            for (label, lines) in lines {
                for line in lines {
                    // Words of servers may be in it.
                    writeln!(f, "    {label}: {}", line.escape_debug())?;
                }
            }
        }
        Ok(())
    }
}

fn word(word: VerdictWord) -> &'static str {
    match word {
        VerdictWord::Equivalent => "equivalent",
        VerdictWord::Faster => "faster",
        VerdictWord::Immaterial => "immaterial",
        VerdictWord::Inconclusive => "inconclusive",
        VerdictWord::Mixed => "mixed",
        VerdictWord::NotComparable => "not comparable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Recording {
        let json = include_str!("../../../reports/tests/fixtures/compare-nginx-h2o.json");
        Recording::parse(json.as_bytes()).unwrap()
    }

    fn row(recording: &Recording, code: u8) -> Row {
        let mut row = Row::new("h2-tls13-page");
        row.compared(recording, code, false);
        row
    }

    /// A row has what the recording says; an exit code that is no outcome of a comparison, a round that
    /// failed and a gate that refuses for no known reason are faults.
    #[test]
    fn rows_follow_from_recordings() {
        let mut recording = stored();
        recording.gates.retain(|gate| gate.status == GateStatus::Ok);
        let good = row(&recording, exit_code::DONE);
        assert_eq!(good.arms, ["nginx", "h2o"]);
        assert_eq!(good.ratios, [recording.comparisons[0].ratio]);
        assert_eq!((good.verdict, good.faults.len()), (Some("faster"), 0));
        assert_eq!(row(&recording, exit_code::FAILED).faults.len(), 1);
        recording.gates[0].status = GateStatus::Refuse;
        let refused = row(&recording, exit_code::NOT_COMPARABLE);
        assert_eq!((refused.faults.len(), refused.gates.len()), (1, 1));
        recording.rounds[0].failed = Some("it died".to_owned());
        assert_eq!(row(&recording, exit_code::DONE).faults.len(), 2);
    }

    /// Faults come before what is missing, and that before success; words of servers cannot control a
    /// terminal.
    #[test]
    fn the_exit_code_is_the_worst() {
        let mut table = Table::default();
        table.push(row(&stored(), exit_code::DONE));
        table.rows[0].faults.clear();
        assert_eq!(table.exit_code(), exit_code::DONE);
        table.push(Row::lacking(
            "cache-hello",
            &[Lack::Module("express".to_owned())],
        ));
        assert_eq!(table.exit_code(), exit_code::CANNOT_MEASURE);
        table.rows[0].faults.push("\u{1b}[31m".to_owned());
        assert_eq!(table.exit_code(), exit_code::LIMIT_BROKEN);
        let text = table.to_string();
        assert!(
            text.contains("not run") && text.contains("npm install"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
    }
}
