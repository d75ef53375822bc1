//! Pages of the gallery: those of real runs, without what tells one machine from another.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use recording::Recording;

use crate::command;

/// Writes the page of a scenario.
pub(super) fn write(
    whyfast: &Path,
    root: &Path,
    scenario: &str,
    recording: &Recording,
) -> Result<()> {
    let mut recording = recording.clone();
    anonymise(&mut recording);
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let stored = folder.path().join("recording.json");
    let json = recording.to_json();
    // Commands and modules may be named by where this repository is.
    let json = json.replace(&root.display().to_string(), ".");
    std::fs::write(&stored, json)
        .with_context(|| format!("failed to write {}", stored.display()))?;
    let page = root.join("docs/gallery").join(format!("{scenario}.html"));
    let mut report = Command::new(whyfast);
    report.args(["report", "--format", "html", "--output"]);
    command::run(report.arg(&page).arg(&stored))
}

/// Takes out names of the machine and of what else is on it.
fn anonymise(recording: &mut Recording) {
    let release = |release: &str| release.split('-').next().unwrap_or(release).to_owned();
    HOST.clone_into(&mut recording.host.hostname);
    recording.host.kernel = release(&recording.host.kernel);
    let Some(fingerprint) = &mut recording.fingerprint else {
        return;
    };
    let servers = fingerprint.servers.iter_mut();
    let facts = servers.flat_map(|server| &mut server.facts);
    for fact in facts.chain(&mut fingerprint.machine) {
        let Some(value) = &mut fact.value else {
            continue;
        };
        match fact.key.as_str() {
            "kernel.host_name" => HOST.clone_into(value),
            "kernel.release" => *value = release(value),
            "kernel.command_line" | "kernel.version" => "(left out)".clone_into(value),
            key if key.contains("cgroup") && value.contains('/') => "(left out)".clone_into(value),
            _ => {}
        }
    }
}

/// The name of every machine in the gallery.
const HOST: &str = "bench";

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the machine are gone, in the host and in the fingerprint; what was measured stays.
    #[test]
    fn names_of_the_machine_are_left_out() {
        let json = include_str!("../../../reports/tests/fixtures/compare-nginx-h2o.json");
        let mut recording = Recording::parse(json.as_bytes()).unwrap();
        let rounds = recording.rounds.clone();
        recording.host.hostname = "secret-name".to_owned();
        recording.host.kernel = "6.18.44-secret".to_owned();
        for fact in &mut recording.fingerprint.as_mut().unwrap().machine {
            let secret = match fact.key.as_str() {
                "kernel.host_name" => "secret-name",
                "kernel.release" => "6.18.44-secret",
                "kernel.command_line" => "root=secret",
                "kernel.version" => "#1 secret",
                _ => continue,
            };
            fact.value = Some(secret.to_owned());
        }
        anonymise(&mut recording);
        assert!(!recording.to_json().contains("secret"));
        assert_eq!(recording.rounds, rounds);
    }
}
