//! The kernel tier: test targets that need the feature `kernel-tests`, built as the user and run as
//! root, one test at a time.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{Tally, Tier, libtest};
use crate::tree::{Executable, Metadata};
use crate::{command, packages, tree};

/// Runs every target of the tier in a copy of the repository.
pub(crate) fn run(root: &Path, tally: &mut Tally) -> Result<()> {
    let metadata = tree::metadata(root, false)?;
    let targets = targets(&metadata);
    ensure!(!targets.is_empty(), "no test target asks for {FEATURE}");
    let missing = missing();
    for binary in build(root, &targets)? {
        let tests = list(&binary)?;
        ensure!(!tests.is_empty(), "{} has no tests", binary.name);
        let Some(reason) = &missing else {
            tally.run_twice(Tier::Kernel, || as_root(&binary))?;
            continue;
        };
        for test in &tests {
            tally.skip(test, reason, Tier::Kernel)?;
        }
    }
    Ok(())
}

/// Package and name of each target of the tier.
fn targets(metadata: &Metadata) -> Vec<(String, String)> {
    let mut targets = Vec::new();
    for package in &metadata.packages {
        for target in &package.targets {
            let is_test = target.kind.iter().any(|kind| kind == "test");
            let asks = target.required_features.iter().any(|name| name == FEATURE);
            if is_test && asks {
                targets.push((package.name.clone(), target.name.clone()));
            }
        }
    }
    targets
}

/// The tests of a binary as root, in the folder and with the variable that cargo would give.
fn as_root(binary: &Executable) -> Command {
    let mut command = if command::is_root() {
        Command::new(&binary.path)
    } else {
        let mut sudo = Command::new("sudo");
        // -E keeps the variables of the test, WHYFAST_SKIP_LOG and CARGO_MANIFEST_DIR.
        sudo.args(["-n", "-E", "--"]).arg(&binary.path);
        sudo
    };
    command
        .arg("--test-threads=1")
        .env("CARGO_MANIFEST_DIR", &binary.package)
        .current_dir(&binary.package);
    command
}

fn build(root: &Path, targets: &[(String, String)]) -> Result<Vec<Executable>> {
    let mut cargo = command::cargo(root);
    cargo.args([
        "test",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    for (package, target) in targets {
        cargo.args(["--package", package, "--test", target]);
        cargo.args(["--features", &format!("{package}/{FEATURE}")]);
    }
    eprintln!("$ {}", command::describe(&cargo));
    let output = cargo
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run cargo")?;
    ensure!(output.status.success(), "the kernel tests do not build");
    tree::executables(&String::from_utf8_lossy(&output.stdout), "test")
}

/// The names of its tests, which can be asked for without privileges.
fn list(binary: &Executable) -> Result<Vec<String>> {
    let mut command = Command::new(&binary.path);
    command
        .args(["--list", "--format", "terse"])
        .current_dir(&binary.package);
    let text = command::output(&mut command)?;
    let names = libtest::parse_list(&String::from_utf8_lossy(&text));
    Ok(names
        .into_iter()
        .map(|name| format!("{} {name}", binary.name))
        .collect())
}

/// Why the tier cannot run on this machine.
fn missing() -> Option<String> {
    if !Path::new(BTF).exists() {
        return Some(format!(
            "this kernel has no {BTF} (it is built without CONFIG_DEBUG_INFO_BTF)"
        ));
    }
    if command::is_root() || command::output(&mut packages::as_root("true")).is_ok() {
        return None;
    }
    Some("needs root (run as root, or where `sudo -n` may run anything)".to_owned())
}

const FEATURE: &str = "kernel-tests";
const BTF: &str = "/sys/kernel/btf/vmlinux";

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets are found by the feature that they ask for.
    #[test]
    fn finds_targets_by_feature() {
        let json = r#"{"packages":[{"id":"a","name":"a","version":"1","license":null,"license_file":null,
            "targets":[
            {"name":"it","kind":["test"]},
            {"name":"kernel","kind":["test"],"required-features":["kernel-tests"]}]}],
            "workspace_members":[]}"#;
        let metadata = serde_json::from_str(json).expect("well-formed");
        assert_eq!(targets(&metadata), [("a".to_owned(), "kernel".to_owned())]);
    }
}
