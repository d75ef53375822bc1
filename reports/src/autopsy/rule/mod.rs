//! What the figures say: one file for each kind of evidence, one function for each rule.

mod bound;
mod calls;
mod claim;
mod load;
mod parity;
mod sweep;

use recording::{ExaminedServer, Statement};

use crate::figures::{grouped, rounded};

/// Everything that any rule says, in the order of reading.
pub(super) fn all(servers: &[ExaminedServer]) -> Vec<Statement> {
    let mut found = Vec::new();
    for server in servers {
        found.extend(calls::rules(server));
    }
    for server in servers {
        found.extend(load::rules(server));
    }
    if let Some((first, others)) = servers.split_first() {
        for other in others {
            found.extend(parity::rules(first, other));
            found.extend(sweep::rules(first, other));
            found.extend(bound::rules(first, other));
        }
    }
    let claims = claim::rules(servers, &found);
    found.extend(claims);
    found
}

/// Adds what a rule says of each run or table: of the first few one by one, and how many more.
fn add_few(found: &mut Vec<Statement>, mut statements: impl Iterator<Item = Statement>) {
    found.extend(statements.by_ref().take(SHOWN));
    let more = statements.count();
    if more > 0
        && let Some(last) = found.last_mut()
    {
        last.text = format!("{} (and {more} more alike)", last.text);
    }
}

/// Calls for each response, from the first table that has any.
pub(super) fn calls_per_response(server: &ExaminedServer) -> Option<f64> {
    let shape = calls::Shape::first(server)?;
    Some(shape.all_calls() as f64 / shape.responses as f64)
}

/// A duration for people.
fn time(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 1e-3 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{:.2} µs", seconds * 1e6)
    }
}

/// A share for people.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 0.1 => format!("{percent:.2} %"),
        percent => format!("{percent:.4} %"),
    }
}

/// What is said one by one.
const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures as people write them.
    #[test]
    fn figures_for_people() {
        assert_eq!(
            [
                grouped(0),
                grouped(999),
                grouped(92_855),
                grouped(1_000_000)
            ],
            ["0", "999", "92,855", "1,000,000"]
        );
        assert_eq!(
            [time(10.23), time(0.07934), time(96.34e-6)],
            ["10.23 s", "79.34 ms", "96.34 µs"]
        );
        assert_eq!(
            [percent(0.257), percent(0.0095), percent(0.00001)],
            ["26 %", "0.95 %", "0.0010 %"]
        );
    }
}
