//! The private folder of a comparison: what is served, and a folder for each server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::compare::plan::body_name;
use crate::guard::Guard;
use crate::identity::Identity;

/// Where servers live: a private folder with what they serve and a folder for each round.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
    pub(crate) identity: Option<Identity>,
    rounds: u32,
}

impl Workspace {
    /// Makes the folder and the file of so many bytes, owned by who will use them.
    pub(crate) fn create(
        guard: &mut Guard,
        identity: Option<&Identity>,
        body_bytes: u64,
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
        let workspace = Self {
            folder,
            identity: identity.cloned(),
            rounds: 0,
        };
        let root = workspace.root();
        fs::create_dir(&root)?;
        let body = root.join(body_name(body_bytes));
        let length = usize::try_from(body_bytes).context("the body does not fit memory")?;
        fs::write(&body, vec![b'x'; length])
            .with_context(|| format!("failed to write {body_bytes} bytes to serve"))?;
        for path in [workspace.folder.path(), &root, &body] {
            workspace.give_away(path)?;
        }
        Ok(workspace)
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
