//! The TLS libraries of processes: files that they have mapped, and what is linked into the program
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use procfs::process::{MMPermissions, MMapPath, Process};
use rustix::fs::{major, minor};

use super::binary;
use crate::processes::printable;
use crate::source::Probed;

/// A file, whatever its name is: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    device: (i32, i32),
    inode: u64,
}

/// A TLS library.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: FileId,
    pub(super) name: String,
    /// Its name without its folder.
    pub(super) file: String,
    pub(super) pids: BTreeSet<u32>,
    /// Under which it can be opened from here.
    pub(super) path: PathBuf,
    /// What can be probed.
    pub(super) functions: Vec<Probed>,
    /// Why nothing can be.
    pub(super) not_probed: Option<String>,
}

/// A file that a process has mapped to run code from.
#[derive(Clone, Debug)]
struct Mapped {
    id: FileId,
    /// As the process sees it.
    path: PathBuf,
    address: (u64, u64),
}

/// The TLS libraries of these processes. Of those that are `known`, only the processes are looked up.
pub(super) fn find(pids: &BTreeSet<u32>, known: &BTreeSet<FileId>) -> Vec<Found> {
    let mut found: BTreeMap<FileId, Found> = BTreeMap::new();
    let mut without: BTreeSet<FileId> = BTreeSet::new();
    for &pid in pids {
        // One that has just ended has none.
        let mapped = mapped(pid).unwrap_or_default();
        let program = program(pid, &mapped);
        for file in &mapped {
            let kind = Kind::of(&file.path, program == Some(file.id));
            let Some(kind) = kind.filter(|_| !without.contains(&file.id)) else {
                continue;
            };
            if let Some(library) = found.get_mut(&file.id) {
                library.pids.insert(pid);
                continue;
            }
            let looked_at = if known.contains(&file.id) {
                Some(seen_before(file))
            } else {
                look(pid, file, kind, &mapped)
            };
            match looked_at {
                Some(mut library) => {
                    library.pids.insert(pid);
                    found.insert(file.id, library);
                }
                None => {
                    without.insert(file.id);
                }
            }
        }
    }
    found.into_values().collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gnutls,
    Openssl,
    /// Any library may be linked into it.
    Program,
}

impl Kind {
    fn of(path: &Path, is_program: bool) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if name.starts_with("libssl.so") || name.starts_with("libssl-") {
            Some(Self::Openssl)
        } else if name.starts_with("libgnutls.so") {
            Some(Self::Gnutls)
        } else {
            is_program.then_some(Self::Program)
        }
    }
}

fn seen_before(file: &Mapped) -> Found {
    Found {
        id: file.id,
        name: String::new(),
        file: String::new(),
        pids: BTreeSet::new(),
        path: PathBuf::new(),
        functions: Vec::new(),
        not_probed: None,
    }
}

/// The library in a file; `None` for a program that has none in itself.
fn look(pid: u32, file: &Mapped, kind: Kind, all: &[Mapped]) -> Option<Found> {
    let path = reachable(pid, file);
    let functions = binary::functions(&path);
    let mut found = Found {
        functions: Vec::new(),
        not_probed: None,
        path: path.clone(),
        file: file_name(&file.path),
        ..seen_before(file)
    };
    match functions {
        Err(error) if kind == Kind::Program && error.kind() != std::io::ErrorKind::NotFound => {
            "unknown".clone_into(&mut found.name);
            found.not_probed = Some(format!("the program could not be read: {error}"));
            return Some(found);
        }
        Err(error) => {
            found.not_probed = Some(format!(
                "its file could not be read: {error}; run as root (a file that was replaced takes \
                 CAP_CHECKPOINT_RESTORE)"
            ));
        }
        Ok(functions) => found.functions = functions,
    }
    found.name = match kind {
        Kind::Gnutls => "GnuTLS".to_owned(),
        Kind::Openssl => openssl_name(pid, &path, all),
        Kind::Program if found.functions.is_empty() => {
            let (name, why) = linked_in(&path, all)?;
            found.not_probed = Some(why);
            name
        }
        Kind::Program => name_of(&path).unwrap_or_else(|| "OpenSSL".to_owned()),
    };
    if found.functions.is_empty() && found.not_probed.is_none() {
        found.not_probed = Some("it has none of the functions that are probed".to_owned());
    }
    Some(found)
}

/// A library that is part of the program, without functions that have names, and what follows.
fn linked_in(path: &Path, all: &[Mapped]) -> Option<(String, String)> {
    if binary::is_go(path) {
        let why = "Go's own TLS has no functions with the C calling convention, and a return probe would \
                   break Go's growing stacks";
        return Some(("Go crypto/tls".to_owned(), why.to_owned()));
    }
    let name = name_of(path)?;
    // Programs that use a shared library carry the version that they were built with.
    let is_shared = all
        .iter()
        .any(|file| Kind::of(&file.path, false) == Some(Kind::Openssl));
    if is_shared && (name.starts_with("OpenSSL") || name.starts_with("LibreSSL")) {
        return None;
    }
    let why = if name.starts_with("rustls") {
        "it is linked into the program, and its functions have no stable names"
    } else {
        "it is linked into the program, which does not name its functions (it was stripped)"
    };
    Some((name, why.to_owned()))
}

/// `libssl` does not say its version, `libcrypto` beside it does.
fn openssl_name(pid: u32, path: &Path, all: &[Mapped]) -> String {
    let crypto = all.iter().find(|file| {
        let name = file.path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libcrypto"))
    });
    name_of(path)
        .or_else(|| name_of(&reachable(pid, crypto?)))
        .unwrap_or_else(|| "OpenSSL".to_owned())
}

fn name_of(path: &Path) -> Option<String> {
    binary::named_library(path)
        .ok()?
        .map(|name| printable(&name))
}

fn mapped(pid: u32) -> Option<Vec<Mapped>> {
    let maps = Process::new(pid.cast_signed()).ok()?.maps().ok()?;
    let mut mapped: Vec<Mapped> = Vec::new();
    for map in maps {
        let MMapPath::Path(path) = map.pathname else {
            continue;
        };
        let id = FileId {
            device: map.dev,
            inode: map.inode,
        };
        let runs = map.perms.contains(MMPermissions::EXECUTE);
        if runs && map.inode != 0 && mapped.iter().all(|known| known.id != id) {
            mapped.push(Mapped {
                id,
                path,
                address: map.address,
            });
        }
    }
    Some(mapped)
}

/// The file of the program among those that are mapped.
fn program(pid: u32, mapped: &[Mapped]) -> Option<FileId> {
    let link = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    mapped
        .iter()
        .find(|file| file.path == link)
        .map(|file| file.id)
}

/// Where a file of a process can be opened from here: by its name below the root of the process, or,
/// where another file has that name by now, by what is mapped.
fn reachable(pid: u32, file: &Mapped) -> PathBuf {
    let inside = file.path.strip_prefix("/").unwrap_or(&file.path);
    let named = Path::new("/proc")
        .join(pid.to_string())
        .join("root")
        .join(inside);
    let is_same = std::fs::metadata(&named).is_ok_and(|metadata| {
        let device = (major(metadata.dev()), minor(metadata.dev()));
        metadata.ino() == file.id.inode
            && device
                == (
                    file.id.device.0.cast_unsigned(),
                    file.id.device.1.cast_unsigned(),
                )
    });
    if is_same {
        return named;
    }
    let (start, end) = file.address;
    PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"))
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    printable(name.strip_suffix(DELETED).unwrap_or(&name))
}

/// What the kernel adds to the name of a file that is gone.
const DELETED: &str = " (deleted)";

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of libraries as distributions install them, with and without a version.
    #[test]
    fn recognises_names() {
        let kind = |name: &str| Kind::of(Path::new(name), false);
        assert_eq!(
            kind("/usr/lib/x86_64-linux-gnu/libssl.so.3"),
            Some(Kind::Openssl)
        );
        assert_eq!(kind("/opt/libssl.so.1.1 (deleted)"), Some(Kind::Openssl));
        assert_eq!(kind("/usr/lib/libgnutls.so.30.34.3"), Some(Kind::Gnutls));
        // That of Mozilla's NSS.
        assert_eq!(kind("/usr/lib/libssl3.so"), None);
        assert_eq!(kind("/usr/lib/libcrypto.so.3"), None);
        assert_eq!(
            Kind::of(Path::new("/usr/bin/node"), true),
            Some(Kind::Program)
        );
        assert_eq!(
            file_name(Path::new("/opt/libssl.so.1.1 (deleted)")),
            "libssl.so.1.1"
        );
    }

    /// This test has a TLS library neither in itself nor mapped, and is found by its own maps.
    #[test]
    fn looks_into_itself() {
        let own = std::process::id();
        let mapped = mapped(own).unwrap();
        let program = program(own, &mapped).unwrap();
        let file = mapped.iter().find(|file| file.id == program).unwrap();
        assert!(reachable(own, file).starts_with(format!("/proc/{own}/root")));
    }
}
