//! A control group that allows a process part of a CPU.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The group; it goes when the process in it has gone and this does.
#[derive(Debug)]
pub(super) struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// Puts a process into a group of its own that may use so much of one CPU.
    pub(super) fn impose(pid: u32, share: f64) -> Result<Self> {
        let period_us = 100_000.0;
        let quota_us = format!("{:.0}", period_us * share);
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let parent = if unified {
            Path::new("/sys/fs/cgroup")
        } else {
            Path::new("/sys/fs/cgroup/cpu")
        };
        let name = format!("whyfast-selftest-{}", std::process::id());
        let folder = parent.join(name);
        let failed = || format!("failed to make the control group {}", folder.display());
        fs::create_dir(&folder).with_context(failed)?;
        let quota = Self { folder };
        let (file, text) = if unified {
            ("cpu.max", format!("{quota_us} {period_us:.0}"))
        } else {
            ("cpu.cfs_quota_us", quota_us)
        };
        for (file, text) in [(file, text), ("cgroup.procs", pid.to_string())] {
            let path = quota.folder.join(file);
            fs::write(&path, text)
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Fails only where the process lives on, which its own guard sees to before.
        let _gone = fs::remove_dir(&self.folder);
    }
}
