//! The result of a benchmark: figures, limits, what was not measured; and how it is shown.

use std::fmt;

use recording::{NotMeasured, exit_code};
use serde::Serialize;

use super::origin::Origin;

/// The result of a benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    benchmark: String,
    repetitions: u32,
    origin: Origin,
    figures: Vec<Figure>,
    limits: Vec<Limit>,
    not_measured: Vec<NotMeasured>,
    warnings: Vec<String>,
}

/// One measured quantity.
#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    unit: &'static str,
    /// `null` where it was not measured.
    median: Option<f64>,
    /// In the order of the repetitions.
    values: Vec<f64>,
}

/// A ratio that has to stay on one side of a value.
#[derive(Debug, Serialize)]
struct Limit {
    name: String,
    median: f64,
    bound: Bound,
    bound_value: f64,
    holds: bool,
    /// The ratio within each repetition.
    values: Vec<f64>,
}

/// On which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast,
    AtMost,
}

impl Report {
    pub(crate) fn new(benchmark: &str, repetitions: u32, origin: Origin) -> Self {
        Self {
            benchmark: benchmark.to_owned(),
            repetitions,
            origin,
            figures: Vec::new(),
            limits: Vec::new(),
            not_measured: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Another program took part.
    pub(crate) fn took_part(&mut self, program: &str) {
        self.origin.programs.push(program.to_owned());
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    pub(crate) fn not_measured(&mut self, what: &str, why: impl Into<String>, remedy: &str) {
        self.not_measured.push(NotMeasured {
            what: what.to_owned(),
            why: why.into(),
            remedy: Some(remedy.to_owned()),
        });
    }

    /// Adds the values of one arm.
    pub(crate) fn figure(&mut self, name: String, unit: &'static str, values: Vec<f64>) {
        let median = median(&values);
        if median.is_some() {
            self.figures.push(Figure {
                name,
                unit,
                median,
                values,
            });
        }
    }

    /// Adds a row without a value, and why there is none.
    pub(crate) fn no_figure(&mut self, name: &str, unit: &'static str, why: &str, remedy: &str) {
        self.figures.push(Figure {
            name: name.to_owned(),
            unit,
            median: None,
            values: Vec::new(),
        });
        self.not_measured(name, why, remedy);
    }

    /// Holds the ratio of two arms, taken within each repetition, against a limit.
    pub(crate) fn limit(
        &mut self,
        name: &str,
        (numerators, denominators): (&[f64], &[f64]),
        bound: Bound,
        limit: f64,
    ) {
        let values: Vec<f64> = numerators
            .iter()
            .zip(denominators)
            .map(|(numerator, denominator)| numerator / denominator)
            .collect();
        let Some(median) = median(&values) else {
            return self.not_measured(name, "no repetition was measured", "see above");
        };
        let holds = match bound {
            Bound::AtLeast => median >= limit,
            Bound::AtMost => median <= limit,
        };
        self.limits.push(Limit {
            name: name.to_owned(),
            median,
            bound,
            bound_value: limit,
            holds,
            values,
        });
    }

    /// 3 when a limit does not hold, 6 when none could be measured.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.limits.iter().any(|limit| !limit.holds) {
            exit_code::LIMIT_BROKEN
        } else if self.limits.is_empty() {
            exit_code::CANNOT_MEASURE
        } else {
            exit_code::DONE
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            benchmark,
            repetitions,
            origin,
            ..
        } = self;
        writeln!(
            formatter,
            "{benchmark}: medians of {repetitions} interleaved repetitions\n{origin}\n"
        )?;
        let rule = format!("{:-<56} {:->12} {:->12} {:->12}", "", "", "", "");
        writeln!(
            formatter,
            "{:<56} {:>12} {:>12} {:>12}",
            "", "median", "lowest", "highest"
        )?;
        writeln!(formatter, "{rule}")?;
        for figure in &self.figures {
            let name = match figure.unit {
                "" => figure.name.clone(),
                unit => format!("{}, {unit}", figure.name),
            };
            match figure.median {
                Some(median) => write_row(formatter, &name, median, &figure.values)?,
                None => write!(formatter, "{name:<56} {:>12} {:>12} {:>12}", "-", "-", "-")?,
            }
            writeln!(formatter)?;
        }
        writeln!(formatter, "{rule}")?;
        for limit in &self.limits {
            write_row(formatter, &limit.name, limit.median, &limit.values)?;
            let bound = match limit.bound {
                Bound::AtLeast => "at least",
                Bound::AtMost => "at most",
            };
            let holds = if limit.holds { "holds" } else { "BROKEN" };
            writeln!(formatter, "  {bound} {:.2}: {holds}", limit.bound_value)?;
        }
        for missing in &self.not_measured {
            let NotMeasured { what, why, remedy } = missing;
            let remedy = remedy.as_deref().unwrap_or("nothing helps");
            writeln!(formatter, "{what}: not measured: {why} ({remedy})")?;
        }
        for warning in &self.warnings {
            writeln!(formatter, "warning: {warning}")?;
        }
        Ok(())
    }
}

fn write_row(
    formatter: &mut fmt::Formatter<'_>,
    name: &str,
    median: f64,
    values: &[f64],
) -> fmt::Result {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [median, lowest, highest] = [median, lowest, highest].map(significant);
    write!(
        formatter,
        "{name:<56} {median:>12} {lowest:>12} {highest:>12}"
    )
}

/// A number with as many decimals as say something.
fn significant(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// The middle value, or the mean of the two in the middle; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::new("x", 2, Origin::new(None, &[]))
    }

    /// What was not measured has a row with no value in the table and in JSON, and a reason; what is
    /// not known of the origin is said.
    #[test]
    fn rows_without_a_value() {
        let mut report = report();
        report.no_figure("hook", "ns/call", "no machine allows it", "another kernel");
        let table = report.to_string();
        assert!(table.contains("commit unknown, "), "{table}");
        let row = table.lines().find(|line| line.starts_with("hook, ns/call"));
        assert_eq!(row.unwrap().split_whitespace().last(), Some("-"), "{table}");
        assert!(
            table.contains("hook: not measured: no machine allows it"),
            "{table}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert!(json["figures"][0]["median"].is_null());
        assert!(json["origin"]["commit"].is_null());
    }

    /// Medians of odd, even and no numbers of values.
    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    /// A broken limit shows in the table and in the exit code; ratios are within repetitions.
    #[test]
    fn limits_decide_the_exit_code() {
        let mut report = report();
        assert_eq!(report.exit_code(), exit_code::CANNOT_MEASURE);
        report.limit("a/b", (&[1.0, 2.0], &[2.0, 4.0]), Bound::AtMost, 0.5);
        assert_eq!(report.exit_code(), exit_code::DONE);
        report.limit("c/d", (&[1.0, 2.0], &[2.0, 4.0]), Bound::AtLeast, 0.6);
        assert_eq!(report.exit_code(), exit_code::LIMIT_BROKEN);
        let table = report.to_string();
        assert!(table.contains("at most 0.50: holds"), "{table}");
        assert!(table.contains("at least 0.60: BROKEN"), "{table}");
    }

    /// A limit without values is said to be not measured, and does not hold by accident.
    #[test]
    fn limits_without_values_are_not_measured() {
        let mut report = report();
        report.limit("a/b", (&[], &[1.0]), Bound::AtMost, 0.5);
        assert_eq!(report.exit_code(), exit_code::CANNOT_MEASURE);
        assert!(report.to_string().contains("a/b: not measured"));
    }
}
