//! Control groups: where a group is mounted, in either version, and who is in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};

use crate::ProfilerError;

/// The folders of a group: `path` may be absolute (`/sys/fs/cgroup/system.slice/nginx.service`) or
/// relative to any hierarchy, as `/proc/PID/cgroup` prints it (`/system.slice/nginx.service`).
pub(crate) fn folders(path: &Path) -> Result<Vec<PathBuf>, ProfilerError> {
    folders_under(path, &mounts())
}

/// The processes of a group and of all groups inside it.
pub(crate) fn members(folder: &Path) -> BTreeSet<u32> {
    let mut members = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        // A group that is removed meanwhile, or that holds threads only, has no list.
        if let Ok(list) = std::fs::read_to_string(folder.join(MEMBERS)) {
            members.extend(list.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(folders.map(|entry| entry.path()));
    }
    // Processes of other PID namespaces are listed as 0.
    members.remove(&0);
    members
}

/// Mount points of the hierarchies in which systemd puts each unit into a group: version 2, and its
/// own of version 1, both where they are mounted side by side.
pub(crate) fn systemd_mounts() -> Vec<PathBuf> {
    let is_named = |info: &MountInfo| {
        let name = info.super_options.get("name");
        name.is_some_and(|name| name.as_deref() == Some("systemd"))
    };
    mounts_where(|info| info.fs_type == "cgroup2" || (info.fs_type == "cgroup" && is_named(info)))
}

fn folders_under(path: &Path, mounts: &[PathBuf]) -> Result<Vec<PathBuf>, ProfilerError> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let mut tried: Vec<PathBuf> = Vec::new();
    if mounts.iter().any(|mount| path.starts_with(mount)) {
        tried.push(path.to_owned());
    } else {
        tried.extend(mounts.iter().map(|mount| mount.join(relative)));
    }
    let is_group = |folder: &&PathBuf| folder.join(MEMBERS).is_file();
    let found: Vec<PathBuf> = tried.iter().filter(is_group).cloned().collect();
    if found.is_empty() {
        return Err(ProfilerError::NoSuchCgroup {
            path: path.to_owned(),
            tried,
        });
    }
    Ok(found)
}

/// Mount points of all hierarchies, version 2 first.
fn mounts() -> Vec<PathBuf> {
    let mut mounts = mounts_where(|info| info.fs_type == "cgroup2");
    mounts.extend(mounts_where(|info| info.fs_type == "cgroup"));
    mounts
}

fn mounts_where(wanted: impl Fn(&MountInfo) -> bool) -> Vec<PathBuf> {
    let infos = Process::myself().and_then(|process| process.mountinfo());
    let infos = infos.map(|infos| infos.0).unwrap_or_default();
    let matching = infos.into_iter().filter(wanted);
    matching.map(|info| info.mount_point).collect()
}

const MEMBERS: &str = "cgroup.procs";

#[cfg(test)]
mod tests {
    use super::*;

    /// A group is found in the hierarchies that have it, by its path with and without a slash and
    /// by its absolute path.
    #[test]
    fn finds_groups() {
        let root = tempfile::tempdir().unwrap();
        let mounts = ["unified", "cpu"].map(|name| root.path().join(name));
        let group = mounts[1].join("web/nginx");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::create_dir_all(&mounts[0]).unwrap();
        std::fs::write(group.join(MEMBERS), "12\n7\n").unwrap();
        for path in [Path::new("web/nginx"), Path::new("/web/nginx"), &group] {
            assert_eq!(
                folders_under(path, &mounts).unwrap(),
                std::slice::from_ref(&group)
            );
        }
        let error = folders_under(Path::new("/web/h2o"), &mounts).unwrap_err();
        let ProfilerError::NoSuchCgroup { tried, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(tried.len(), 2);
    }

    /// Members of inner groups count, damaged lines and foreign processes do not.
    #[test]
    fn reads_the_subtree() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(root.path().join(MEMBERS), "12\nx\n\n0\n").unwrap();
        std::fs::write(inner.join(MEMBERS), "13\n").unwrap();
        assert_eq!(members(root.path()), BTreeSet::from([12, 13]));
    }
}
