//! What tests make in the kernel, and what profilers leave there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workload_process::await_until;

/// A control group that is removed when the test ends.
pub(crate) struct ControlGroup {
    path: PathBuf,
    pub(crate) relative: String,
}

impl ControlGroup {
    /// `None` where nothing is mounted, or groups cannot be made.
    pub(crate) fn create(mount: &str, relative: &str) -> Option<Self> {
        let path = Path::new(mount).join(relative);
        std::fs::create_dir(&path).ok()?;
        let group = Self {
            path,
            relative: relative.to_owned(),
        };
        group.path.join("cgroup.procs").is_file().then_some(group)
    }

    pub(crate) fn inner(&self, name: &str) -> Self {
        let path = self.path.join(name);
        std::fs::create_dir(&path).unwrap();
        Self {
            path,
            relative: format!("{}/{name}", self.relative),
        }
    }

    pub(crate) fn take(&self, pid: u32) {
        std::fs::write(self.path.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The kernel takes a moment to let go of the last process.
        let begun = std::time::Instant::now();
        while std::fs::remove_dir(&self.path).is_err() && begun.elapsed().as_secs() < 5 {
            std::thread::yield_now();
        }
    }
}

/// Ids of the programs that a process holds.
pub(crate) fn programs_of(pid: u32) -> Vec<u32> {
    let infos = program_infos(pid).into_iter();
    let mut ids: Vec<u32> = infos.map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// How often the kernel skipped each of the programs that a process holds, to keep it from running inside
/// itself, by its id; `None` where the kernel does not count that.
pub(crate) fn skipped_runs_of(pid: u32) -> BTreeMap<u32, Option<u64>> {
    let infos = program_infos(pid).into_iter();
    let skipped = infos.filter_map(|(id, text)| {
        // A link has the id of its program too.
        field::<u32>(&text, "prog_type:")?;
        Some((id, field(&text, "recursion_misses:")))
    });
    skipped.collect()
}

/// What the kernel says about the descriptors of a process that are programs or lead to one, by the id of
/// the program.
fn program_infos(pid: u32) -> Vec<(u32, String)> {
    let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let infos = infos.flatten().filter_map(|info| {
        let text = std::fs::read_to_string(info.path()).ok()?;
        Some((field(&text, "prog_id:")?, text))
    });
    infos.collect()
}

fn field<T: std::str::FromStr>(text: &str, key: &str) -> Option<T> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.trim().parse().ok()
}

pub(crate) fn await_gone(programs: &[u32]) {
    await_until("the programs to be gone", || {
        programs.iter().all(|id| {
            let show = Command::new("bpftool")
                .args(["prog", "show", "id", &id.to_string()])
                .output()
                .expect("bpftool (Debian: package bpftool)");
            !show.status.success()
        })
    });
}
