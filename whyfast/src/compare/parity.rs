//! Parity: what each server answers, looked at before anything is measured.

use std::process::Stdio;

use anyhow::Context as _;
use recording::{Arm, ResponseShape, ServerFingerprint};

use crate::compare::round::Stage;
use crate::compare::server::{PreparedArm, Running};
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
    let shape = ask(stage, &server, LOOKS);
    let pids = server.pids();
    let facts = capabilities::looking(|| fingerprint::server(&arm.arm, &pids));
    let died = server.ended();
    server.stop(stage.ground.guard);
    let shape =
        shape.with_context(|| died.unwrap_or_else(|| format!("{} was asked", arm.arm.name)))?;
    Ok((shape, facts))
}

/// Asks a chain of programs once before its load: whatever is in it answers, and a cache has the response.
/// Thousands of requests at once for what it does not have yet would all go on to its origin, whose queue
/// of connections holds hundreds; the others would come after a second.
pub(crate) fn prime(stage: &Stage<'_>, arm: &Arm, server: &Running) -> anyhow::Result<()> {
    if arm.hops.is_empty() {
        return Ok(());
    }
    ask(stage, server, 1).map(drop)
}

fn ask(stage: &Stage<'_>, server: &Running, count: u32) -> anyhow::Result<ResponseShape> {
    let birth = Birth {
        identity: stage.identity.cloned(),
        cpus: Some(stage.ground.cpus.client.clone()),
        session: true,
    };
    let output = Program::own(stage.identity)?
        .command(&birth)
        .arg("probe")
        .arg(&server.url)
        .args(["--count", &count.to_string()])
        .args(wire::options(stage.plan, stage.ground.workspace))
        .stdin(Stdio::null())
        .current_dir("/")
        .output()
        .context("failed to start the parity check")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("error: ");
    anyhow::ensure!(
        output.status.success(),
        "parity check: {}{}",
        reports::clean(said),
        offered(stage, said)
    );
    serde_json::from_slice(&output.stdout).context("failed to read the parity check's answer")
}

/// What the client offers, where a handshake failed and that is not everything.
fn offered(stage: &Stage<'_>, said: &str) -> String {
    let tls = stage.plan.scenario.tls.as_ref();
    let Some(tls) = tls.filter(|_| said.contains("TLS handshake")) else {
        return String::new();
    };
    let version = tls.version.as_ref().map(|version| format!("TLS {version}"));
    let only: Vec<String> = version
        .into_iter()
        .chain(tls.ciphers.iter().cloned())
        .chain(tls.groups.iter().cloned())
        .collect();
    if only.is_empty() {
        return String::new();
    }
    format!(
        "; the scenario offers {} and nothing else, so let the server take that (nginx: `ssl_protocols \
         TLSv1.2 TLSv1.3;`), or offer more with --ciphers and --groups",
        only.join(", ")
    )
}

/// Requests of a parity check: enough to see an answer that changes.
const LOOKS: u32 = 100;
