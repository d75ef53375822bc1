//! Units of systemd: their control groups, wherever in the tree they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::processes::printable;
use crate::{ProfilerError, cgroup};

/// The folders of a unit, one per hierarchy that systemd keeps. `name` may leave `.service` out, and
/// a template (`worker@.service`) stands for all of its instances.
pub(crate) fn folders(name: &str) -> Result<Vec<PathBuf>, ProfilerError> {
    folders_under(name, &cgroup::systemd_mounts(), || {
        Path::new(SYSTEMD_RUNS).is_dir()
    })
}

fn folders_under(
    name: &str,
    mounts: &[PathBuf],
    systemd_runs: impl FnOnce() -> bool,
) -> Result<Vec<PathBuf>, ProfilerError> {
    let wanted = Wanted::new(name);
    let mut found: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    let mut similar = BTreeSet::new();
    for mount in mounts {
        for folder in search(mount, &wanted, &mut similar) {
            let relative = folder.strip_prefix(mount).unwrap_or(&folder).to_owned();
            found.entry(relative).or_default().push(folder);
        }
    }
    if found.keys().any(|path| !is_of_a_user(path)) {
        // What systemctl without --user means.
        found.retain(|path, _| !is_of_a_user(path));
    }
    if found.is_empty() {
        return Err(ProfilerError::NoSuchUnit {
            unit: wanted.name,
            looked_in: mounts.to_vec(),
            similar: similar.into_iter().collect(),
            systemd_runs: systemd_runs(),
        });
    }
    if found.len() > 1 && !wanted.is_template() {
        return Err(ProfilerError::AmbiguousUnit {
            unit: wanted.name,
            groups: found.into_keys().collect(),
        });
    }
    Ok(found.into_values().flatten().collect())
}

/// Searches a hierarchy for the groups of a unit; names that only resemble it go into `similar`.
fn search(mount: &Path, wanted: &Wanted, similar: &mut BTreeSet<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![mount.to_owned()];
    while let Some(folder) = open.pop() {
        // Groups come and go while one looks.
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if wanted.matches(&name) {
                found.push(entry.path());
                continue;
            }
            if wanted.resembles(&name) {
                similar.insert(printable(unescape(&name)));
            }
            open.push(entry.path());
        }
    }
    found.sort();
    found
}

/// The unit that is looked for.
#[derive(Debug)]
struct Wanted {
    /// With its suffix.
    name: String,
    /// Where the suffix begins.
    stem: usize,
}

impl Wanted {
    fn new(name: &str) -> Self {
        let has_suffix = SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        let name = if has_suffix {
            name.to_owned()
        } else {
            format!("{name}{}", SUFFIXES[0])
        };
        let stem = name.rfind('.').unwrap_or(name.len());
        Self { name, stem }
    }

    fn is_template(&self) -> bool {
        self.name[..self.stem].ends_with('@')
    }

    fn matches(&self, folder: &str) -> bool {
        let folder = unescape(folder);
        let (stem, suffix) = self.name.split_at(self.stem);
        folder == self.name
            || (self.is_template() && folder.starts_with(stem) && folder.ends_with(suffix))
    }

    fn resembles(&self, folder: &str) -> bool {
        let stem = self.name[..self.stem].trim_end_matches('@');
        let folder = unescape(folder);
        let is_unit = SUFFIXES.iter().any(|suffix| folder.ends_with(suffix));
        is_unit && !stem.is_empty() && folder.contains(stem)
    }
}

/// systemd puts `_` before names that a file of the kernel could have (`cg_escape` of
/// src/basic/cgroup-util.c).
fn unescape(folder: &str) -> &str {
    folder.strip_prefix('_').unwrap_or(folder)
}

/// Whether the group belongs to the systemd of a user, below `user@UID.service`.
fn is_of_a_user(path: &Path) -> bool {
    path.parent().is_some_and(|above| {
        above.iter().any(|part| {
            let part = part.to_string_lossy();
            part.starts_with("user@") && part.ends_with(SUFFIXES[0])
        })
    })
}

/// Kinds of units that have control groups; the first one is meant where none is named.
const SUFFIXES: [&str; 6] = [".service", ".mount", ".scope", ".slice", ".socket", ".swap"];
/// How `sd_booted(3)` knows.
const SYSTEMD_RUNS: &str = "/run/systemd/system";

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of a system with two users, below two hierarchies.
    struct Tree {
        _root: tempfile::TempDir,
        mounts: Vec<PathBuf>,
    }

    impl Tree {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let mounts: Vec<PathBuf> = ["unified", "systemd"]
                .map(|name| root.path().join(name))
                .to_vec();
            let groups = [
                "system.slice/nginx.service/worker",
                "system.slice/_cgroup.service",
                "system.slice/system-getty.slice/getty@tty1.service",
                "system.slice/system-getty.slice/getty@tty2.service",
                "user.slice/user-7.slice/user@7.service/app.slice/nginx.service",
                "user.slice/user-7.slice/user@7.service/app.slice/sync.service",
                "user.slice/user-8.slice/user@8.service/app.slice/sync.service",
            ];
            for mount in &mounts {
                for group in groups {
                    std::fs::create_dir_all(mount.join(group)).unwrap();
                }
            }
            Self {
                _root: root,
                mounts,
            }
        }

        fn folders(&self, name: &str) -> Result<Vec<PathBuf>, ProfilerError> {
            folders_under(name, &self.mounts, || true)
        }

        fn relative(&self, name: &str) -> Vec<String> {
            let folders = self.folders(name).unwrap();
            let below = |folder: &PathBuf| {
                let relative = self.mounts.iter().find_map(|m| folder.strip_prefix(m).ok());
                relative.unwrap().display().to_string()
            };
            folders.iter().map(below).collect()
        }
    }

    /// A unit is found in each hierarchy, with and without its suffix, escaped or deep in slices.
    #[test]
    fn finds_units() {
        let tree = Tree::new();
        let nginx = ["system.slice/nginx.service"; 2];
        assert_eq!(tree.relative("nginx"), nginx);
        assert_eq!(tree.relative("nginx.service"), nginx);
        assert_eq!(tree.relative("cgroup"), ["system.slice/_cgroup.service"; 2]);
        let tty2 = "system.slice/system-getty.slice/getty@tty2.service";
        assert_eq!(tree.relative("getty@tty2"), [tty2; 2]);
        let slice = "system.slice/system-getty.slice";
        assert_eq!(tree.relative("system-getty.slice"), [slice; 2]);
    }

    /// A template stands for its instances, and only for those.
    #[test]
    fn templates_are_their_instances() {
        let tree = Tree::new();
        let found = tree.relative("getty@");
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|path| path.contains("getty@tty")));
        assert_eq!(tree.relative("getty@.service"), found);
    }

    /// The unit of the system comes before those of users; of several users' one has to be chosen.
    #[test]
    fn units_of_users() {
        let error = Tree::new().folders("sync").unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, ProfilerError::AmbiguousUnit { .. }),
            "{text}"
        );
        let option = "--cgroup user.slice/user-7.slice/user@7.service/app.slice/sync.service";
        assert!(text.contains(option), "{text}");
    }

    /// A unit that does not run is told apart from a system without systemd, with what resembles it.
    #[test]
    fn absent_units() {
        let tree = Tree::new();
        let text = tree.folders("ngin").unwrap_err().to_string();
        assert!(text.contains("systemctl status ngin.service"), "{text}");
        assert!(text.contains("nginx.service"), "{text}");
        let error = folders_under("httpd", &tree.mounts, || false).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("not booted with systemd"), "{text}");
        assert!(text.contains("--comm"), "{text}");
    }
}
