//! What the object was made from and with: the file beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::toolchain::Versions;

/// The committed object, relative to the root.
pub(crate) const OBJECT: &str = "profiler-ebpf/dist/profiler.x86_64.bpf.o";
/// The file that describes it.
pub(crate) const MANIFEST: &str = "profiler-ebpf/dist/profiler.x86_64.toml";

/// What the object was made from and with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// SHA-256 of the object, hexadecimal.
    pub(crate) object_sha256: String,
    /// What compiled and linked it.
    pub(crate) toolchain: Versions,
    /// What it was compiled from.
    #[serde(flatten)]
    pub(crate) sources: Sources,
}

/// What an object is compiled from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sources {
    /// Versions of the crates from the registry that are part of it.
    dependencies: BTreeMap<String, String>,
    /// SHA-256 of each source file, hexadecimal.
    sources: BTreeMap<String, String>,
}

impl Sources {
    /// The sources as they are now.
    pub(crate) fn of_tree(root: &Path) -> Result<Self> {
        let mut sources = BTreeMap::new();
        for package in ["profiler-common", "profiler-ebpf"] {
            hash_file(root, &format!("{package}/Cargo.toml"), &mut sources)?;
            hash_folder(root, &format!("{package}/src"), &mut sources)?;
        }
        let lock = root.join("Cargo.lock");
        let lock = fs::read_to_string(lock).context("failed to read Cargo.lock")?;
        Ok(Self {
            dependencies: dependencies(&lock)?,
            sources,
        })
    }

    /// Names of the files and dependencies that are not the same.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut names = different_keys(&self.sources, &other.sources);
        names.extend(different_keys(&self.dependencies, &other.dependencies));
        names
    }
}

impl Manifest {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(MANIFEST))
            .with_context(|| format!("failed to read {MANIFEST}; `cargo xtask ebpf` writes it"))?;
        toml::from_str(&text).with_context(|| format!("failed to read {MANIFEST}"))
    }

    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let text = toml::to_string(self).context("a manifest is plain TOML")?;
        fs::write(root.join(MANIFEST), format!("{HEADER}\n{text}"))
            .with_context(|| format!("failed to write {MANIFEST}"))
    }
}

/// SHA-256, hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").expect("writing to memory does not fail");
    }
    text
}

fn different_keys(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<String> {
    let mut keys: Vec<String> = a
        .keys()
        .chain(b.keys())
        .filter(|key| a.get(*key) != b.get(*key))
        .cloned()
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

fn hash_file(root: &Path, file: &str, into: &mut BTreeMap<String, String>) -> Result<()> {
    let bytes = fs::read(root.join(file)).with_context(|| format!("failed to read {file}"))?;
    into.insert(file.to_owned(), sha256(&bytes));
    Ok(())
}

fn hash_folder(root: &Path, folder: &str, into: &mut BTreeMap<String, String>) -> Result<()> {
    let failed = || format!("failed to list {folder}");
    for entry in fs::read_dir(root.join(folder)).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let name = entry.file_name();
        let name = name.to_str().context("sources have plain names")?;
        let path = format!("{folder}/{name}");
        if entry.file_type().with_context(failed)?.is_dir() {
            hash_folder(root, &path, into)?;
        } else {
            hash_file(root, &path, into)?;
        }
    }
    Ok(())
}

/// Versions of the crates of aya that run in the kernel, from a lock file.
fn dependencies(lock: &str) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        name: String,
        version: String,
    }
    let lock: Lock = toml::from_str(lock).context("failed to read Cargo.lock")?;
    Ok(lock
        .package
        .into_iter()
        .filter(|package| package.name.starts_with("aya-ebpf"))
        .map(|package| (package.name, package.version))
        .collect())
}

const HEADER: &str = "\
# What profiler.x86_64.bpf.o was made from and with. Written by `cargo xtask ebpf`, and compared by
# `cargo xtask ebpf --check`.
";
