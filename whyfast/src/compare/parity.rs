//! Parity: what each server answers, looked at before anything is measured.

use std::process::Stdio;

use anyhow::Context as _;
use recording::{ResponseShape, ServerFingerprint};

use crate::compare::prepare::PreparedArm;
use crate::compare::round::Stage;
use crate::compare::server::Running;
use crate::compare::wire;
use crate::spawn::{Birth, Program};
use crate::{capabilities, fingerprint};

/// Starts the server of an arm once and looks at its answers and at its processes. The looking is
/// done by an unprivileged child: what servers answer is hostile until proven otherwise.
pub(crate) fn look(
    stage: &mut Stage<'_>,
    arm: &PreparedArm,
) -> anyhow::Result<(ResponseShape, ServerFingerprint)> {
    let mut server = Running::start(arm, &mut stage.ground)?;
    let shape = ask(stage, &server);
    let pids = server.pids();
    let facts = capabilities::looking(|| fingerprint::server(&arm.arm, &pids));
    let died = server.ended();
    server.stop(stage.ground.guard);
    let shape =
        shape.with_context(|| died.unwrap_or_else(|| format!("{} was asked", arm.arm.name)))?;
    Ok((shape, facts))
}

fn ask(stage: &Stage<'_>, server: &Running) -> anyhow::Result<ResponseShape> {
    let birth = Birth {
        identity: stage.identity.cloned(),
        cpus: Some(stage.ground.cpus.client.clone()),
        session: true,
    };
    let output = Program::own(stage.identity)?
        .command(&birth)
        .arg("probe")
        .arg(&server.url)
        .args(wire::options(stage.plan, stage.ground.workspace))
        .stdin(Stdio::null())
        .current_dir("/")
        .output()
        .context("failed to start the parity check")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("error: ");
    anyhow::ensure!(
        output.status.success(),
        "parity check: {}",
        reports::clean(said)
    );
    serde_json::from_slice(&output.stdout).context("failed to read the parity check's answer")
}
