//! `cargo xtask test`: runs the tests, tier by tier, and counts what ran.
//!
//! A test that lacks something appends `NAME<TAB>REASON` to the file that `WHYFAST_SKIP_LOG` names;
//! such tests, and tiers that cannot run at all, are said aloud and counted as skipped. The last
//! line is always `N passed, N failed, N skipped`.
//!
//! A test of real servers, kernels or emulated machines that fails is run a second time, by itself. One that
//! passes then is a defect to be mended and is named at the end; a few of them do not make a run red, since
//! whoever waits for it can tell nothing from them.

pub(crate) mod kernel;
mod libtest;
pub(crate) mod vm;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use recording::exit_code;

use crate::command::{self, Guarded};
use crate::packages;
use crate::tree::{self, Metadata};
use libtest::{Counts, FailedTests};

/// Runs the tests, tier by tier, and counts what ran.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// First install what tests use where it is there (with apt-get).
    #[arg(long)]
    install: bool,
    /// Tiers to run; all of them by default, `vm` with CI=true only.
    #[arg(value_enum)]
    tiers: Vec<Tier>,
}

/// Tests by what they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// Nothing: unit and documentation tests.
    Pure,
    /// Sockets and child processes: integration tests.
    Loopback,
    /// Root and a kernel with BTF: the tests that attach programs.
    Kernel,
    /// QEMU, and kernels from Debian's archive: the kernel tests that need no distribution, on each.
    Vm,
}

impl Tier {
    /// Whether a failure may be one of the machine: not where nothing but the test itself runs.
    fn may_run_again(self) -> bool {
        self != Self::Pure
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.install {
        packages::install(packages::FOR_TESTS)?;
    }
    let all: &[Tier] = Tier::value_variants();
    let by_default = default_tiers(is_ci());
    let tiers = if args.tiers.is_empty() {
        &by_default
    } else {
        &args.tiers
    };
    let root = tree::root();
    let mut tally = Tally::new()?;
    for tier in all.iter().filter(|tier| tiers.contains(tier)) {
        match tier {
            Tier::Pure => {
                tally.cargo_test(&root, *tier, &["--lib", "--bins"])?;
                tally.cargo_test(&root, *tier, &["--doc"])?;
            }
            Tier::Loopback => {
                let names = integration_tests(&tree::metadata(&root, false)?);
                let selection: Vec<&str> = names.iter().flat_map(|name| ["--test", name]).collect();
                tally.cargo_test(&root, *tier, &selection)?;
            }
            Tier::Kernel => kernel::run(&root, &mut tally)?,
            Tier::Vm => vm::run(&root, args.install, &mut tally)?,
        }
    }
    tally.finish()
}

/// Booting other kernels takes packages that few developers have, and a minute.
fn default_tiers(is_ci: bool) -> Vec<Tier> {
    let tiers = Tier::value_variants().iter();
    tiers
        .filter(|tier| is_ci || **tier != Tier::Vm)
        .copied()
        .collect()
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// What ran so far.
pub(crate) struct Tally {
    counts: Counts,
    /// What was skipped and why.
    skipped: Vec<(String, String)>,
    /// Tests that passed only when they ran again.
    unstable: Vec<String>,
    /// Whether a skipped test of the tiers `kernel` and `vm` is a failure: on CI, which is root.
    kernel_required: bool,
    /// Holds the file that tests write their skips to.
    folder: tempfile::TempDir,
    /// Where the output of the tests goes.
    out: Box<dyn Write>,
}

impl Tally {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            counts: Counts::default(),
            skipped: Vec::new(),
            unstable: Vec::new(),
            kernel_required: is_ci(),
            folder: tempfile::tempdir().context("failed to make a temporary folder")?,
            out: Box::new(io::stdout()),
        })
    }

    /// Runs `cargo test` with some selection of targets.
    fn cargo_test(&mut self, root: &Path, tier: Tier, selection: &[&str]) -> Result<()> {
        self.run_twice(tier, || {
            let mut cargo = command::cargo(root);
            cargo
                .args(["test", "--workspace", "--no-fail-fast"])
                .args(selection)
                .arg("--");
            cargo
        })
    }

    /// Runs a command, and what failed of it a second time. The command ends with arguments of the test harness.
    pub(crate) fn run_twice(&mut self, tier: Tier, command: impl Fn() -> Command) -> Result<()> {
        let failed = self.run(&mut command(), tier)?;
        if failed.is_empty() || !tier.may_run_again() {
            return Ok(());
        }
        let before = self.counts;
        let mut again = command();
        again.arg(ALONE).args(&failed);
        let failed_again = self.run(&mut again, tier)?;
        self.ran_again(before, failed, &failed_again);
        Ok(())
    }

    /// Counts tests that failed once by how they ended when they ran again, `before` which there were these
    /// counts.
    pub(crate) fn ran_again(&mut self, before: Counts, failed: Vec<String>, again: &[String]) {
        let ran = self.counts.passed + self.counts.failed - before.passed - before.failed;
        self.counts = before;
        // One that did not run proves nothing.
        if ran < failed.len() as u64 {
            return;
        }
        let passed = failed.into_iter().filter(|name| !again.contains(name));
        let passed: Vec<String> = passed.collect();
        let number = passed.len() as u64;
        self.counts.failed = self.counts.failed.saturating_sub(number);
        self.counts.passed += number;
        self.unstable.extend(passed);
    }

    /// Runs a command that prints what the test harness prints, passes it on, and counts. Returns the names of
    /// tests that failed.
    fn run(&mut self, command: &mut Command, tier: Tier) -> Result<Vec<String>> {
        let skip_log = self.folder.path().join("skipped");
        let line = command::describe(command);
        eprintln!("$ {line}");
        command
            .env("WHYFAST_SKIP_LOG", &skip_log)
            .stdout(Stdio::piped());
        let mut child = Guarded::spawn(command)?;
        let stdout = child.child.stdout.take().context("stdout is a pipe")?;
        let (counts, failed) = pass_on(BufReader::new(stdout), &mut self.out)?;
        let status = child.child.wait()?;
        self.counts.add(counts);
        if !status.success() && counts.failed == 0 {
            self.fail(&format!("{line}: {status}"))?;
        }
        self.collect_skips(&skip_log, tier)?;
        Ok(failed)
    }

    /// Takes over the skips that tests wrote down; those tests were counted as passed.
    fn collect_skips(&mut self, skip_log: &Path, tier: Tier) -> Result<()> {
        let Ok(bytes) = std::fs::read(skip_log) else {
            return Ok(());
        };
        std::fs::remove_file(skip_log).context("failed to empty the list of skipped tests")?;
        let listed = String::from_utf8_lossy(&bytes);
        let skips: BTreeMap<&str, &str> = listed
            .lines()
            .map(|line| line.split_once('\t').unwrap_or((line, "no reason given")))
            .collect();
        for (test, reason) in skips {
            self.skipped_itself(test, reason, tier)?;
        }
        Ok(())
    }

    /// Counts a test that left itself out, which the test harness counted as passed.
    pub(crate) fn skipped_itself(&mut self, test: &str, reason: &str, tier: Tier) -> Result<()> {
        self.counts.passed = self.counts.passed.saturating_sub(1);
        self.skip(test, reason, tier)
    }

    /// Passes a line on with the name of where it comes from, and counts what it says if it is one of
    /// the test harness.
    pub(crate) fn line(&mut self, origin: &str, line: &str) -> Result<()> {
        writeln!(self.out, "{origin} | {line}")?;
        self.counts
            .add(libtest::parse_result_line(line).unwrap_or_default());
        Ok(())
    }

    /// Says something that counts as nothing.
    pub(crate) fn note(&mut self, what: &str) -> Result<()> {
        writeln!(self.out, "{what}")?;
        Ok(())
    }

    /// Counts something that went wrong and that is not a test.
    pub(crate) fn fail(&mut self, what: &str) -> Result<()> {
        writeln!(self.out, "failed: {what}")?;
        self.counts.failed += 1;
        Ok(())
    }

    /// Counts a test that did not run, which is a failure where its tier has to run.
    pub(crate) fn skip(&mut self, test: &str, reason: &str, tier: Tier) -> Result<()> {
        if matches!(tier, Tier::Kernel | Tier::Vm) && self.kernel_required {
            let (test, reason) = (test.escape_debug(), reason.escape_debug());
            self.fail(&format!("{test}: {reason}, and CI=true asks for it"))?;
        } else {
            self.skipped.push((test.to_owned(), reason.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn failed(&self) -> u64 {
        self.counts.failed
    }

    /// Tests that passed.
    pub(crate) fn passed(&self) -> u64 {
        self.counts.passed
    }

    /// Why tests were skipped, each reason once.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let reasons: BTreeSet<&String> = self.skipped.iter().map(|(_, reason)| reason).collect();
        reasons.into_iter().cloned().collect()
    }

    fn finish(mut self) -> Result<ExitCode> {
        for (test, reason) in &self.skipped {
            let (test, reason) = (test.escape_debug(), reason.escape_debug());
            writeln!(self.out, "skipped: {test}: {reason}")?;
        }
        for test in &self.unstable {
            writeln!(self.out, "unstable: {test} passed only when it ran again")?;
        }
        if self.unstable.len() > MOST_UNSTABLE {
            self.fail(&format!("more than {MOST_UNSTABLE} unstable tests"))?;
        }
        let skipped = self.skipped.len() as u64 + self.counts.ignored;
        let Counts { passed, failed, .. } = self.counts;
        writeln!(
            self.out,
            "{passed} passed, {failed} failed, {skipped} skipped"
        )?;
        self.out.flush()?;
        Ok(ExitCode::from(if failed > 0 {
            exit_code::FAILED
        } else {
            exit_code::DONE
        }))
    }
}

/// Names of the test targets that need no feature.
fn integration_tests(metadata: &Metadata) -> BTreeSet<String> {
    let targets = metadata
        .packages
        .iter()
        .flat_map(|package| &package.targets);
    targets
        .filter(|target| target.kind == ["test"] && target.required_features.is_empty())
        .map(|target| target.name.clone())
        .collect()
}

/// Passes lines on, adds up the result lines among them, and names the tests that failed.
fn pass_on(mut from: impl BufRead, out: &mut impl Write) -> Result<(Counts, Vec<String>)> {
    let mut counts = Counts::default();
    let mut failed = FailedTests::default();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        let text = String::from_utf8_lossy(&line);
        failed.line(&text);
        counts.add(libtest::parse_result_line(&text).unwrap_or_default());
        line.clear();
    }
    Ok((counts, failed.names()))
}

/// Makes what follows the whole names of the only tests to run.
pub(crate) const ALONE: &str = "--exact";
/// More tests than this that pass only when they run again are a failure.
const MOST_UNSTABLE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// A tally that keeps the made-up results from whoever reads the output of this test.
    fn silent() -> Tally {
        Tally {
            out: Box::new(io::sink()),
            ..Tally::new().expect("a temporary folder")
        }
    }

    const ONE_OF_EACH: &str = "echo 'test result: FAILED. 5 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0s'";

    /// Results of several binaries add up; a test that skipped itself is not counted as passed.
    #[test]
    fn results_add_up() {
        let mut tally = silent();
        tally
            .run(&mut shell(ONE_OF_EACH), Tier::Pure)
            .expect("it runs");
        let skip = "printf 'a test\\tno strace\\na test\\tno strace\\n' >>$WHYFAST_SKIP_LOG";
        let both = format!("{skip}; {ONE_OF_EACH}; exit 101");
        tally.run(&mut shell(&both), Tier::Pure).expect("it runs");
        assert_eq!(
            tally.counts,
            Counts {
                passed: 9,
                failed: 2,
                ignored: 4
            }
        );
        assert_eq!(
            tally.skipped,
            [("a test".to_owned(), "no strace".to_owned())]
        );
    }

    /// Lines with an origin are passed on with it, and counted as if they had none.
    #[test]
    fn lines_with_an_origin() {
        let mut tally = silent();
        let result = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        for line in ["running 3 tests", result] {
            tally.line("6.1", line).expect("a sink takes everything");
        }
        tally.fail("6.1: hang").expect("a sink takes everything");
        let itself = tally.skipped_itself("6.1 a", "no strace", Tier::Loopback);
        itself.expect("a sink takes everything");
        let expected = Counts {
            passed: 2,
            failed: 1,
            ignored: 1,
        };
        assert_eq!((tally.counts, tally.skipped.len()), (expected, 1));
    }

    /// A test that fails and passes when it runs again is counted once, as passed, and named; one that fails again,
    /// or that does not run again, has failed, and so has one of the tier that needs nothing.
    #[test]
    fn failed_tests_run_again() {
        let list = |name: &str, passed: u64| {
            format!(
                "printf 'failures:\\n    {name}\\n\\ntest result: FAILED. {passed} passed; 1 failed; 0 ignored\\n'"
            )
        };
        let ok = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        for (tier, second, expected, unstable) in [
            (Tier::Loopback, ok, (6, 0), 1),
            (Tier::Loopback, &*list("a", 0), (5, 1), 0),
            (Tier::Loopback, "true", (5, 1), 0),
            (Tier::Pure, ok, (5, 1), 0),
        ] {
            let mut tally = silent();
            let script = format!("[ $# = 0 ] && {{ {}; exit 101; }}; {second}", list("a", 5));
            let command = || {
                let mut command = shell(&script);
                command.arg("sh");
                command
            };
            tally.run_twice(tier, command).expect("it runs");
            assert_eq!((tally.counts.passed, tally.counts.failed), expected);
            assert_eq!(tally.unstable.len(), unstable);
        }
    }

    /// Other kernels are booted by default on CI alone, everything else always.
    #[test]
    fn tiers_by_default() {
        assert_eq!(default_tiers(true), Tier::value_variants());
        assert_eq!(
            default_tiers(false),
            [Tier::Pure, Tier::Loopback, Tier::Kernel]
        );
    }

    /// A binary that dies before it reports is a failure.
    #[test]
    fn a_crash_is_a_failure() {
        let mut tally = silent();
        tally
            .run(&mut shell("kill -SEGV $$"), Tier::Pure)
            .expect("it runs");
        assert_eq!(tally.failed(), 1);
    }

    /// Where kernel tests have to run, skipping them fails; other tiers may be skipped.
    #[test]
    fn kernel_skips_fail_where_required() {
        for (kernel_required, tier, failed, skipped) in [
            (true, Tier::Kernel, 1, 0),
            (true, Tier::Vm, 1, 0),
            (false, Tier::Kernel, 0, 1),
            (true, Tier::Loopback, 0, 1),
        ] {
            let mut tally = Tally {
                kernel_required,
                ..silent()
            };
            let outcome = tally.skip("a", "needs root", tier);
            outcome.expect("a sink takes everything");
            assert_eq!((tally.failed(), tally.skipped.len()), (failed, skipped));
        }
    }
}
