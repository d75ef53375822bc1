//! `whyfast load --selftest`: the load generator against hostile servers of its own.

use std::fmt::Write as _;

use recording::exit_code;

use crate::output::Output;
use crate::verbs::load::explain;

/// Runs every case, prints a line for each, and exits with 1 when an account is wrong.
pub(super) fn run() -> anyhow::Result<u8> {
    let cases = loadgen::selftest().map_err(|error| explain(&error))?;
    let mut text = String::new();
    let mut wrong = 0;
    for case in &cases {
        let verdict = if case.problems.is_empty() {
            "equal"
        } else {
            "WRONG"
        };
        wrong += usize::from(!case.problems.is_empty());
        writeln!(text, "{verdict}  {:<44} {}", case.name, case.account)?;
        for problem in &case.problems {
            writeln!(text, "       {problem}")?;
        }
    }
    writeln!(
        text,
        "{} of {} accounts equal the count of the server",
        cases.len() - wrong,
        cases.len()
    )?;
    Output::Stdout.write(&text)?;
    Ok(if wrong == 0 {
        exit_code::DONE
    } else {
        exit_code::FAILED
    })
}
