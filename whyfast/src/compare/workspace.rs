//! The private folder of a comparison: what is served, with which certificate, and a folder for each
//! server.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::compare::certificate::Certificate;
use crate::compare::page::page;
use crate::compare::plan::Plan;
use crate::compare::scenario::BodyKind;
use crate::guard::Guard;
use crate::identity::Identity;

/// Where servers live: a private folder with what they serve and a folder for each round.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
    pub(crate) identity: Option<Identity>,
    /// What servers prove who they are with, where connections are encrypted.
    pub(crate) certificate: Option<Certificate>,
    rounds: u32,
}

impl Workspace {
    /// Makes the folder, what is served, and the certificate, all owned by who will use them.
    pub(crate) fn create(
        guard: &mut Guard,
        identity: Option<&Identity>,
        plan: &Plan,
    ) -> anyhow::Result<Self> {
        // Resolved, since the guard compares it with what the kernel says of processes.
        let folder = std::env::temp_dir()
            .canonicalize()
            .and_then(|parent| {
                tempfile::Builder::new()
                    .prefix("whyfast-")
                    .tempdir_in(parent)
            })
            .context("failed to make a temporary folder; set TMPDIR to one that can be written")?;
        guard
            .add_folder(folder.path())
            .context("the guard process is gone")?;
        let mut workspace = Self {
            folder,
            identity: identity.cloned(),
            certificate: None,
            rounds: 0,
        };
        workspace.give_away(workspace.folder.path())?;
        let bytes = plan.scenario.body_bytes.unwrap_or(0);
        workspace.write_body(&plan.scenario.path, bytes, plan.body)?;
        if let Some(key) = plan.key {
            let folder = workspace.folder.path().join("tls");
            fs::create_dir(&folder)?;
            workspace.give_away(&folder)?;
            let certificate = Certificate::create(key, &folder)?;
            for file in certificate.files() {
                workspace.give_away(file)?;
            }
            workspace.certificate = Some(certificate);
        }
        Ok(workspace)
    }

    /// Writes what is served at a path.
    fn write_body(&self, path: &str, bytes: u64, kind: BodyKind) -> anyhow::Result<()> {
        let length = usize::try_from(bytes).context("the body does not fit memory")?;
        let body = match kind {
            BodyKind::Fill => vec![b'x'; length],
            BodyKind::Page => page(length),
        };
        let mut place = self.root();
        for name in path.trim_start_matches('/').split('/') {
            fs::create_dir(&place).or_else(|error| match error.kind() {
                ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })?;
            self.give_away(&place)?;
            place.push(name);
        }
        fs::write(&place, body)
            .with_context(|| format!("failed to write {bytes} bytes to serve"))?;
        self.give_away(&place)
    }

    /// The folder that is served.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// A new folder for one server.
    pub(crate) fn round_folder(&mut self) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(format!("server-{}", self.rounds));
        self.rounds += 1;
        fs::create_dir(&path)?;
        self.give_away(&path)?;
        Ok(path)
    }

    fn give_away(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(Identity { uid, gid, name, .. }) = &self.identity {
            std::os::unix::fs::chown(path, Some(*uid), Some(*gid))
                .with_context(|| format!("failed to give {} to {name}", path.display()))?;
        }
        Ok(())
    }
}
