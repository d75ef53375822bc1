//! What the runs of a case amount to, as the tables that the README shows.

use std::collections::BTreeMap;
use std::fmt;

use super::judge::Outcome;
use super::prediction::{self, Removal};

/// The runs of one case.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    name: String,
    planned: u32,
    accepted_from: u32,
    outcomes: Vec<Outcome>,
    /// Whether bars are judged, so that they have to add up and must not leak.
    attributed: bool,
    /// Whether a prediction is judged, which has a table of its own.
    pub(super) predicts: bool,
}

impl Row {
    pub(super) fn new(name: &str, planned: u32, accepted_from: u32) -> Self {
        Self {
            name: name.to_owned(),
            planned,
            accepted_from,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, outcome: Outcome, attributed: bool) {
        self.outcomes.push(outcome);
        self.attributed |= attributed;
    }

    fn accepted(&self) -> usize {
        self.outcomes
            .iter()
            .filter(|outcome| outcome.accepted)
            .count()
    }

    /// Median of a figure over the runs, us.
    fn median_us(&self, figure: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.outcomes.iter().filter_map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).map(|ns| ns / 1e3)
    }

    /// The bar with the largest mean leak over the runs; as a mean, because in a single run noise
    /// would hide it.
    fn largest_leak(&self) -> Option<(String, Leak)> {
        let mut by_bar: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for outcome in &self.outcomes {
            for (bar, share) in &outcome.leaks {
                by_bar.entry(bar).or_default().push(*share);
            }
        }
        by_bar
            .into_iter()
            .map(|(bar, shares)| (bar.to_owned(), Leak::of(&shares, self.outcomes.len())))
            .max_by(|(_, x), (_, y)| x.mean.abs().total_cmp(&y.mean.abs()))
    }

    fn removals(&self) -> Vec<Removal> {
        let outcomes = self.outcomes.iter();
        outcomes.filter_map(|outcome| outcome.removal).collect()
    }

    /// `pass`, or what is wrong.
    fn word(&self) -> String {
        let faults = self.faults();
        if faults.is_empty() {
            "pass".to_owned()
        } else {
            format!("FAIL: {}", faults.join(", "))
        }
    }

    fn worst_sum_error(&self) -> f64 {
        let errors = self.outcomes.iter().map(|outcome| outcome.sum_error);
        errors.fold(0.0, f64::max)
    }

    pub(super) fn passes(&self) -> bool {
        self.faults().is_empty()
    }

    /// What is wrong with it; nothing where it passes.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.accepted() < self.accepted_from as usize {
            faults.push(format!("fewer than {}", self.accepted_from));
        }
        if self.attributed && self.worst_sum_error() >= MAX_SUM_ERROR {
            faults.push(format!(
                "bars miss their sum by {:.1e}",
                self.worst_sum_error()
            ));
        }
        if let Some((bar, leak)) = self.largest_leak()
            && leak.is_established()
        {
            faults.push(format!("leaks into {bar}"));
        }
        faults.extend(prediction::fault(&self.removals()));
        faults
    }
}

/// The mean share of what was injected that one wrong bar has.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leak {
    mean: f64,
    /// Two standard errors of the mean; infinite for a single run, which does not tell noise from a
    /// leak.
    spread: f64,
}

impl Leak {
    /// Of the runs in which the bar has a share; in the others it is none.
    fn of(shares: &[f64], runs: usize) -> Self {
        let count = runs.max(1) as f64;
        let mean = shares.iter().sum::<f64>() / count;
        let absent = runs.saturating_sub(shares.len()) as f64;
        let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
        let variance = (squares + absent * mean * mean) / (count - 1.0).max(1.0);
        let spread = if runs > 1 {
            2.0 * (variance / count).sqrt()
        } else {
            f64::INFINITY
        };
        Self { mean, spread }
    }

    /// More than allowed, beyond what noise explains.
    fn is_established(self) -> bool {
        self.mean.abs() - self.spread > MAX_LEAK
    }
}

/// All cases.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Row>);

impl Table {
    pub(super) fn add(&mut self, row: Row) {
        self.0.push(row);
    }

    /// Of a case that ran again its last row counts.
    pub(super) fn passed(&self) -> bool {
        let rows: BTreeMap<&str, &Row> =
            self.0.iter().map(|row| (row.name.as_str(), row)).collect();
        rows.values().all(|row| row.passes())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (predicted, injected): (Vec<&Row>, Vec<&Row>) =
            self.0.iter().partition(|row| row.predicts);
        if !injected.is_empty() {
            writeln!(
                formatter,
                "| injected | us per request | found, us | runs accepted | from | largest leak | |"
            )?;
            writeln!(formatter, "|---|---:|---:|---:|---:|---|---|")?;
        }
        for row in injected {
            let us = |figure: Option<f64>| figure.map_or("-".to_owned(), |us| format!("{us:.2}"));
            let leak = row.largest_leak().map_or("-".to_owned(), |(bar, leak)| {
                let (mean, spread) = (leak.mean * 100.0, leak.spread * 100.0);
                format!("{mean:.1} ± {spread:.1} % {bar}")
            });
            writeln!(
                formatter,
                "| {} | {} | {} | {} of {} | {} | {leak} | {} |",
                row.name,
                us(row.median_us(|outcome| outcome.injected_ns)),
                us(row.median_us(|outcome| outcome.found_ns)),
                row.accepted(),
                row.planned,
                row.accepted_from,
                row.word(),
            )?;
        }
        if !predicted.is_empty() {
            writeln!(formatter, "\n{}", prediction::HEAD)?;
        }
        for row in predicted {
            writeln!(
                formatter,
                "| {} | {} | {} of {} | {} | {} |",
                row.name,
                prediction::cells(&row.removals()),
                row.accepted(),
                row.planned,
                row.accepted_from,
                row.word(),
            )?;
        }
        Ok(())
    }
}

/// Bars have to add up to what they explain, but for rounding.
const MAX_SUM_ERROR: f64 = 1e-9;
/// Share of what was injected that a wrong bar may have.
const MAX_LEAK: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(accepted: bool, leak: f64) -> Outcome {
        Outcome {
            accepted,
            injected_ns: Some(5000.0),
            found_ns: Some(5100.0),
            sum_error: 1e-15,
            leaks: BTreeMap::from([("send".to_owned(), leak)]),
            ..Outcome::default()
        }
    }

    fn row(runs: &[Outcome]) -> Row {
        let mut row = Row::new("spin-us=10", 4, 3);
        for outcome in runs {
            row.push(outcome.clone(), true);
        }
        row
    }

    /// A case passes with enough accepted runs, without a leak that is beyond noise.
    #[test]
    fn cases_pass_or_say_why_not() {
        let noisy = [0.3, -0.2, 0.25, -0.3].map(|leak| run(true, leak));
        assert!(row(&noisy).faults().is_empty());
        let once = [run(true, 0.3), run(true, 0.3), run(true, 0.3)];
        assert!(Leak::of(&[0.3], 1).spread.is_infinite() && !row(&once).faults().is_empty());
        let leaking = [0.10, 0.11, 0.09, 0.10].map(|leak| run(true, leak));
        assert_eq!(row(&leaking).faults(), ["leaks into send"]);
        let missed = [true, true, false, false].map(|accepted| run(accepted, 0.0));
        assert_eq!(row(&missed).faults(), ["fewer than 3"]);
        let mut wrong = run(true, 0.0);
        wrong.sum_error = 1e-3;
        assert_eq!(
            row(&[wrong.clone(), wrong.clone(), wrong]).faults(),
            ["bars miss their sum by 1.0e-3"]
        );
    }

    /// Where a case ran again, the first try is shown, and the second one decides.
    #[test]
    fn the_last_try_counts() {
        let tries = [true, false].map(|accepted| row(&vec![run(accepted, 0.0); 4]));
        let passed = |tries: &[&Row]| Table(tries.iter().copied().cloned().collect()).passed();
        let [good, bad] = &tries;
        assert!(passed(&[bad, good]) && passed(&[good]));
        assert!(!passed(&[good, bad]) && !passed(&[bad]));
        let mut other = good.clone();
        other.name = "getppid=10".to_owned();
        assert!(!passed(&[bad, &other]));
    }

    /// The table as it is printed.
    #[test]
    fn the_table_has_a_row_per_case() {
        let mut table = Table::default();
        table.add(row(
            &[true, true, true, false].map(|accepted| run(accepted, 0.02))
        ));
        let text = table.to_string();
        let last = text.lines().last().expect("a row");
        assert_eq!(
            last,
            "| spin-us=10 | 5.00 | 5.10 | 3 of 4 | 3 | 2.0 ± 0.0 % send | pass |"
        );
        assert!(table.passed());
    }

    /// Predictions have a table of their own below the other one.
    #[test]
    fn predictions_have_their_own_table() {
        let mut predicting = Row::new("memory without it", 1, 1);
        predicting.predicts = true;
        let removal = Removal {
            with_ns: 11_000.0,
            measured: (0.095_310_179_8, 0.08, 0.11),
            predicted: 0.104_360_015_3,
        };
        let outcome = Outcome {
            accepted: true,
            removal: Some(removal),
            ..Outcome::default()
        };
        predicting.push(outcome, false);
        let table = Table(vec![predicting, row(&vec![run(true, 0.02); 4])]);
        let text = table.to_string();
        let (injected, predicted) = text.split_once("\n\n").expect("two tables");
        assert_eq!(injected.lines().count(), 3);
        assert_eq!(
            predicted.lines().last(),
            Some(
                "| memory without it | 11.00 | × 1.100 | 1.083 to 1.116 | × 1.110 | -0.9 % | 1 of 1 | 1 | pass |"
            )
        );
        assert!(table.passed());
    }
}
