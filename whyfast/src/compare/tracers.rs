//! Asks a child with the profiler's privileges who else traces the servers or the machine.

use std::process::Stdio;

use anyhow::Context as _;
use recording::{Fact, FactWeight, NotMeasured, Recording, TracerLook};

use crate::compare::access::Access;
use crate::machine::CpuList;
use crate::spawn::{Birth, Program};

/// Looks once; that it cannot be done is part of the answer. `pids` are the processes of the server.
pub(crate) fn look(access: &Access, cpus: &CpuList, pids: &[i32]) -> TracerLook {
    ask(access, cpus, pids).unwrap_or_else(|error| TracerLook {
        unseen: Some(NotMeasured {
            what: "other tracers".into(),
            why: format!("{error:#}"),
            remedy: Some("`whyfast doctor` says what is missing".into()),
        }),
        ..TracerLook::default()
    })
}

/// Keeps what all looks saw. Where something could not be looked at, "none" is not known.
pub(crate) fn store(look: TracerLook, recording: &mut Recording) {
    if look.unseen.is_none() || !look.tracers.is_empty() {
        recording.tracers = Some(look.tracers);
    }
    if let (Some(others), Some(fingerprint)) = (&look.other_programs, &mut recording.fingerprint) {
        let counts: Vec<String> = others
            .iter()
            .map(|(kind, n)| format!("{kind} {n}"))
            .collect();
        let value = if counts.is_empty() {
            "none".to_owned()
        } else {
            counts.join(", ")
        };
        let fact = Fact::known("condition.other_bpf_programs", FactWeight::Soft, value);
        fingerprint.machine.push(fact);
    }
    recording.not_measured.extend(look.unseen);
}

fn ask(access: &Access, cpus: &CpuList, pids: &[i32]) -> anyhow::Result<TracerLook> {
    let mut command = match access.profiler(cpus)? {
        Some(command) => command,
        None => Program::own(None)?.command(&Birth {
            cpus: Some(cpus.clone()),
            ..Birth::default()
        }),
    };
    let output = command
        .arg("tracers")
        .args(pids.iter().map(ToString::to_string))
        .stdin(Stdio::null())
        .output()
        .context("failed to look for other tracers")?;
    anyhow::ensure!(
        output.status.success(),
        "failed to look for other tracers: {}",
        reports::clean(String::from_utf8_lossy(&output.stderr).trim())
    );
    serde_json::from_slice(&output.stdout).context("failed to read who traces")
}
