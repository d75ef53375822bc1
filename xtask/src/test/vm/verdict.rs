//! What a virtual machine said: whether its tests ended, and what its kernel complained of. Pure.

/// Reads the lines of the first program, `vm-init`, among those of the tests.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The commands that ended otherwise than with 0 or a failed test, and what else went wrong.
    failures: Vec<String>,
    skipped: Vec<(String, String)>,
    /// Tests that failed, which are counted by themselves.
    failed_tests: bool,
    done: bool,
}

impl Verdict {
    pub(crate) fn line(&mut self, line: &str) {
        self.failed_tests |= line.starts_with("test result: FAILED");
        let Some(said) = line.strip_prefix(MARK) else {
            return;
        };
        if let Some(ended) = said.strip_prefix("ended: ") {
            let (command, how) = ended.rsplit_once(": ").unwrap_or((ended, "unknown"));
            let explained = self.failed_tests && how == TESTS_FAILED;
            if how != "exit status 0" && !explained {
                self.failures.push(format!("{command}: {how}"));
            }
        } else if let Some(skipped) = said.strip_prefix("skipped: ") {
            // A tab, which is a control character, stood between them.
            let (test, reason) = skipped
                .split_once('\u{fffd}')
                .unwrap_or((skipped, "no reason given"));
            self.skipped.push((test.to_owned(), reason.to_owned()));
        } else if let Some(failed) = said.strip_prefix("failed: ") {
            self.failures.push(failed.to_owned());
        } else {
            self.done |= said == "done";
        }
    }

    /// Tests that said that they cannot run there, and why.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        let skipped = self.skipped.iter();
        skipped.map(|(test, reason)| (test.as_str(), reason.as_str()))
    }

    /// What went wrong besides tests that failed, given the messages of the kernel and how the
    /// machine ended.
    pub(crate) fn failures(&self, console: &str, how: &str) -> Vec<String> {
        let mut failures = self.failures.clone();
        let complaints = console
            .lines()
            .filter(|line| COMPLAINTS.iter().any(|sign| line.contains(sign)));
        failures.extend(complaints.map(|line| format!("the kernel said: {}", clean(line))));
        if !self.done {
            let lines: Vec<String> = console.lines().map(clean).collect();
            let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
            failures.push(format!(
                "its tests did not come to their end ({how}); the last messages of the kernel:\n  {last}"
            ));
        }
        failures
    }
}

fn clean(line: &str) -> String {
    line.trim_end().replace(char::is_control, "\u{fffd}")
}

/// What `vm-init` begins its own lines with.
const MARK: &str = "vm-init: ";
/// How Rust's test harness ends when a test failed.
const TESTS_FAILED: &str = "exit status 101";
/// What a kernel writes when something in it went wrong.
const COMPLAINTS: [&str; 4] = [" Kernel panic", " BUG: ", " Oops: ", " WARNING: "];
/// Enough for a trace of calls.
const LAST_LINES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[&str]) -> Verdict {
        let mut verdict = Verdict::default();
        for line in lines {
            verdict.line(line);
        }
        verdict
    }

    /// A machine whose commands ended well and that said so has nothing to complain of.
    #[test]
    fn success() {
        let verdict = verdict(&[
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
            "vm-init: ended: /tests/kernel --skip a: exit status 0",
            "vm-init: done",
        ]);
        assert!(verdict.failures("Linux version 6.1\n", "").is_empty());
        assert_eq!(verdict.skipped().count(), 0);
    }

    /// The status that failed tests explain is not a failure more; a crash is, and failed tests of
    /// an earlier command do not hide it.
    #[test]
    fn commands_that_failed() {
        let lines = [
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
            "vm-init: ended: /tests/kernel: exit status 101",
            "vm-init: ended: /tests/other: signal 11",
            "vm-init: done",
        ];
        let failures = verdict(&lines).failures("", "");
        assert_eq!(failures, ["/tests/other: signal 11"]);
        let failures = verdict(&lines[1..]).failures("", "");
        assert_eq!(failures.len(), 2, "{failures:?}");
    }

    /// A machine that never said that it was done has failed, with what its kernel said last.
    #[test]
    fn unfinished() {
        let console = format!("{}last\u{1b}[31m\r\n", "early\n".repeat(100));
        let failures = verdict(&["test counts::known_calls ... ok"]).failures(&console, "hang");
        assert_eq!(failures.len(), 1);
        assert!(failures[0].contains("(hang)"), "{failures:?}");
        assert!(failures[0].ends_with("last\u{fffd}[31m"), "{failures:?}");
        assert!(failures[0].lines().count() < 50, "{failures:?}");
    }

    /// A complaint of the kernel is a failure, also where all tests passed.
    #[test]
    fn complaints_of_the_kernel() {
        let console = "[1.0] fine\n[2.0] BUG: kernel NULL pointer dereference\n[3.0] Kernel panic - not syncing\n";
        let failures = verdict(&["vm-init: done"]).failures(console, "");
        assert_eq!(failures.len(), 2);
        assert!(failures[0].contains("NULL pointer"), "{failures:?}");
    }

    /// Tests that left themselves out are told with their reasons, as is a first program that failed.
    #[test]
    fn skips_and_its_own_failure() {
        let verdict = verdict(&[
            "vm-init: skipped: a::b\u{fffd}no strace",
            "vm-init: failed: failed to mount \"bpf\"",
        ]);
        assert_eq!(
            verdict.skipped().collect::<Vec<_>>(),
            [("a::b", "no strace")]
        );
        assert_eq!(verdict.failures("", "")[0], "failed to mount \"bpf\"");
    }
}
