//! Reads the output of Rust's test harness. Pure.

/// What test binaries reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Marked as ignored in the source.
    pub(crate) ignored: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// The counts of a line that sums up one test binary; `None` for any other line.
pub(crate) fn parse_result_line(line: &str) -> Option<Counts> {
    let rest = line.trim_end().strip_prefix("test result: ")?;
    let (_verdict, figures) = rest.split_once(". ")?;
    let mut counts = Counts::default();
    for figure in figures.split("; ") {
        let Some((number, what)) = figure.split_once(' ') else {
            continue;
        };
        match what {
            "passed" => counts.passed = number.parse().ok()?,
            "failed" => counts.failed = number.parse().ok()?,
            "ignored" => counts.ignored = number.parse().ok()?,
            _ => {}
        }
    }
    Some(counts)
}

/// The names of failed tests, from the lists that test binaries end with: their lines `test NAME ...` may
/// be broken by what tests print.
#[derive(Debug, Default)]
pub(crate) struct FailedTests {
    /// Of the list that is being read; `None` outside of one.
    list: Option<Vec<String>>,
    names: Vec<String>,
}

impl FailedTests {
    /// Takes the next line.
    pub(crate) fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if line == "failures:" {
            // The first of two has what the tests printed, the second one the names.
            self.list = Some(Vec::new());
        } else if parse_result_line(line).is_some() {
            self.names.extend(self.list.take().unwrap_or_default());
        } else if let (Some(list), Some(name)) = (&mut self.list, line.strip_prefix("    "))
            && !name.is_empty()
            && !name.contains(' ')
        {
            list.push(name.to_owned());
        }
    }

    pub(crate) fn names(self) -> Vec<String> {
        self.names
    }
}

/// Names of the tests that a binary lists with `--list --format terse`.
pub(crate) fn parse_list(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(ToOwned::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as printed by libtest, of success and failure.
    #[test]
    fn reads_result_lines() {
        let ok = "test result: ok. 19 passed; 0 failed; 2 ignored; 0 measured; 5 filtered out; finished in 0.11s\n";
        assert_eq!(
            parse_result_line(ok),
            Some(Counts {
                passed: 19,
                failed: 0,
                ignored: 2
            })
        );
        let failed = "test result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.41s";
        assert_eq!(
            parse_result_line(failed),
            Some(Counts {
                passed: 1,
                failed: 3,
                ignored: 0
            })
        );
    }

    /// Other lines are not counted, broken ones neither.
    #[test]
    fn passes_over_other_lines() {
        for line in [
            "",
            "running 19 tests",
            "test a ... ok",
            "test result: ok",
            "test result: ok. x passed; 0 failed",
        ] {
            assert_eq!(parse_result_line(line), None, "{line:?}");
        }
    }

    /// The names of failed tests are those of the second list, also of several binaries, and not what a test
    /// printed that looks like one.
    #[test]
    fn reads_failed_tests() {
        let printed = "test kinds::accepts ...\nthread 'main' panicked\nFAILED\n\nfailures:\n\n\
                       ---- kinds::accepts stdout ----\n    not_a_name\n\n\nfailures:\n    kinds::accepts\n    \
                       kinds::waits\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 \
                       filtered out\ntest result: ok. 1 passed; 0 failed; 0 ignored\nfailures:\n    other\n\n\
                       test result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        let mut failed = FailedTests::default();
        printed.lines().for_each(|line| failed.line(line));
        assert_eq!(failed.names(), ["kinds::accepts", "kinds::waits", "other"]);
    }

    /// The terse list names tests, and nothing else is taken for one.
    #[test]
    fn reads_lists() {
        let text = "attach::counts: test\nbench_x: benchmark\n\n1 test, 1 benchmark\n";
        assert_eq!(parse_list(text), ["attach::counts"]);
    }
}
