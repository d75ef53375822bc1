//! The tier of other kernels: each is booted in a virtual machine that runs the kernel tests, as
//! static programs that find there what they use and nothing else.

mod guest;
mod initramfs;
mod kernels;
mod machine;
mod verdict;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::libtest::FailedTests;
use super::{ALONE, Tally, Tier};
use crate::{command, packages};
use guest::{Guest, TOOLS};
use kernels::Kernel;
use machine::{End, Machine, QEMU};
use verdict::Verdict;

/// Boots each kernel of [`BOOTS`] and counts what its tests reported. With `install` the list of
/// packages is fetched where a kernel cannot be had without.
pub(crate) fn run(root: &Path, install: bool, tally: &mut Tally) -> Result<()> {
    let folder = root.join("target/vm");
    if let Some(reason) = missing() {
        for boot in BOOTS {
            tally.skip(&boot.name(boot.series), &reason, Tier::Vm)?;
        }
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let mut bootable = Vec::new();
    for boot in BOOTS {
        match kernel(boot.series, &folder, install) {
            Ok(kernel) => bootable.push((boot, kernel)),
            Err(error) => tally.skip(&boot.name(boot.series), &format!("{error:#}"), Tier::Vm)?,
        }
    }
    if bootable.is_empty() {
        return Ok(());
    }
    let guest = Guest::build(root)?;
    for (boot, kernel) in bootable {
        boot.run(&kernel, &guest, &folder, tally)?;
    }
    for test in left_out(&guest)? {
        tally.note(&format!("not run on other kernels: {test}: {LEFT_OUT}"))?;
    }
    Ok(())
}

fn kernel(series: &str, folder: &Path, install: bool) -> Result<Kernel> {
    kernels::newest(series, folder).or_else(|error| {
        if !install {
            return Err(
                error.context("`cargo xtask test --install vm` fetches the list of packages")
            );
        }
        packages::update()?;
        kernels::newest(series, folder)
    })
}

/// The tests that no boot runs.
fn left_out(guest: &Guest) -> Result<BTreeSet<String>> {
    let mut tests = guest.tests("")?;
    for boot in BOOTS {
        let chosen = guest.tests(boot.selection)?;
        tests.retain(|test| !chosen.contains(test));
    }
    Ok(tests)
}

/// One start of one kernel.
struct Boot {
    /// The newest kernel that begins with this is booted.
    series: &'static str,
    /// Words for the kernel's command line.
    parameters: &'static str,
    /// Arguments of each test program, which choose among its tests.
    selection: &'static str,
}

impl Boot {
    /// What stands before each line of it.
    fn name(&self, release: &str) -> String {
        match self.parameters {
            "" => release.to_owned(),
            parameters => format!("{release} {parameters}"),
        }
    }

    fn run(&self, kernel: &Kernel, guest: &Guest, folder: &Path, tally: &mut Tally) -> Result<()> {
        let failed = self.run_tests(self.selection, kernel, guest, folder, tally)?;
        if failed.is_empty() {
            return Ok(());
        }
        let before = tally.counts();
        let selection = format!("{ALONE} {}", failed.join(" "));
        let again = self.run_tests(&selection, kernel, guest, folder, tally)?;
        tally.ran_again(before, failed, &again);
        Ok(())
    }

    /// The names of the tests that failed, of those that the arguments of the test harness choose.
    fn run_tests(
        &self,
        selection: &str,
        kernel: &Kernel,
        guest: &Guest,
        folder: &Path,
        tally: &mut Tally,
    ) -> Result<Vec<String>> {
        let name = self.name(&kernel.release);
        let initramfs = folder.join("initramfs");
        fs::write(&initramfs, guest.initramfs(selection)?)
            .with_context(|| format!("failed to write {}", initramfs.display()))?;
        let console = folder.join("console");
        // Of an earlier machine, which may have ended before it wrote any.
        fs::write(&console, "")
            .with_context(|| format!("failed to write {}", console.display()))?;
        eprintln!("booting {name}");
        let machine = Machine {
            kernel: &kernel.image,
            initramfs: &initramfs,
            parameters: self.parameters,
            console: &console,
        };
        let mut verdict = Verdict::default();
        let mut failed = FailedTests::default();
        let end = machine.run(TIME_LIMIT, |line| {
            verdict.line(line);
            failed.line(line);
            tally.line(&name, line)
        })?;
        for (test, reason) in verdict.skipped() {
            tally.skipped_itself(&format!("{name} {test}"), reason, Tier::Vm)?;
        }
        let said = fs::read(&console).context("failed to read the kernel's messages")?;
        let how = match end {
            End::Exit(status) => format!("QEMU ended with {status}"),
            End::TimeLimit => format!("ended after {} s", TIME_LIMIT.as_secs()),
        };
        for failure in verdict.failures(&String::from_utf8_lossy(&said), &how) {
            tally.fail(&format!("{name}: {failure}"))?;
        }
        Ok(failed.names())
    }
}

/// Why the tier cannot run on this machine.
fn missing() -> Option<String> {
    if std::env::consts::ARCH != "x86_64" {
        return Some("the kernels that it boots are for x86-64".to_owned());
    }
    let on_path = [QEMU, "apt-get", "dpkg-deb", "setpriv"];
    let lacks = |program: &&str| command::find(program, &[]).is_none();
    let mut missing: Vec<&str> = on_path.into_iter().filter(lacks).collect();
    missing.extend(TOOLS.iter().filter(|tool| !Path::new(tool).exists()));
    (!missing.is_empty()).then(|| {
        let (missing, install) = (missing.join(", "), packages::install_line(packages::FOR_VM));
        format!("needs {missing} ({install}, on Debian)")
    })
}

const BOOTS: &[Boot] = &[
    Boot {
        series: "6.1",
        parameters: "",
        selection: ORDINARY,
    },
    Boot {
        series: "6.12",
        parameters: "",
        selection: ORDINARY,
    },
    Boot {
        series: "6.12",
        parameters: "lockdown=confidentiality",
        selection: "locked_down::",
    },
];
/// Without the tests that have a boot of their own, those that start programs of a distribution, those
/// that compare clocks, which an emulated processor does not keep in step, and the one that needs ten
/// thousand threads.
const ORDINARY: &str = "--skip locked_down:: --skip distribution:: \
                        --skip short_sleeps_are_charged --skip time_is_what_the_program_says \
                        --skip waiting_for_a_cpu --skip hot_functions \
                        --skip on_and_off_the_cpu --skip terms_add_up \
                        --skip threads_before_and_after";
const LEFT_OUT: &str =
    "it starts programs that the machine does not have, or needs more than an emulated processor";
/// A hang and not a slow machine: five times what a boot with all its tests takes beside other work.
const TIME_LIMIT: Duration = Duration::from_mins(30);
