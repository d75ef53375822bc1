//! Where the repository is, which files belong to it, and its packages.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::command;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    // As cargo says it when it runs this program: the tree may have been moved since it was built.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .expect("xtask is a folder of the workspace")
        .to_owned()
}

/// The files of the repository, relative to its root: tracked ones and new ones that are not
/// ignored.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = command::output(&mut git)?;
    let mut files: Vec<PathBuf> = listed
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(OsStr::from_bytes(name)))
        // A file that was deleted but not yet committed is still listed.
        .filter(|name| root.join(name).is_file())
        .collect();
    files.sort();
    files.dedup();
    ensure!(
        !files.is_empty(),
        "git lists no files in {}",
        root.display()
    );
    Ok(files)
}

/// What `cargo metadata` says, as far as it is used here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) license_file: Option<String>,
    pub(crate) targets: Vec<Target>,
}

/// One target of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

/// The packages of the workspace, and with `dependencies` all that they use.
pub(crate) fn metadata(root: &Path, dependencies: bool) -> Result<Metadata> {
    let mut cargo = command::cargo(root);
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    if !dependencies {
        cargo.arg("--no-deps");
    }
    let json = command::output(&mut cargo)?;
    serde_json::from_slice(&json).context("failed to read what cargo metadata printed")
}

/// A program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The folder of its package.
    pub(crate) package: PathBuf,
}

/// The programs of one kind (`bin`, `test`) among the messages that cargo prints with
/// `--message-format=json`.
pub(crate) fn executables(messages: &str, kind: &str) -> Result<Vec<Executable>> {
    #[derive(Deserialize)]
    struct Message {
        manifest_path: Option<PathBuf>,
        target: Option<Target>,
        executable: Option<PathBuf>,
    }
    let mut executables = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line)
            .with_context(|| format!("failed to read a message of cargo: {line:?}"))?;
        let (Some(target), Some(path), Some(manifest)) =
            (message.target, message.executable, message.manifest_path)
        else {
            continue;
        };
        if target.kind == [kind] {
            let package = manifest.parent().context("a manifest is in a folder")?;
            executables.push(Executable {
                name: target.name,
                path,
                package: package.to_owned(),
            });
        }
    }
    Ok(executables)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of cargo's messages, programs of the asked kind are taken and others are not.
    #[test]
    fn finds_executables() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/r/p/Cargo.toml","target":{"kind":["bin"],"name":"p"},"executable":"/t/p"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/r/p/Cargo.toml","target":{"kind":["test"],"name":"kernel"},"executable":"/t/kernel-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/r/q/Cargo.toml","target":{"kind":["lib"],"name":"q"},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let tests = executables(messages, "test").expect("well-formed messages");
        assert_eq!(
            tests,
            [Executable {
                name: "kernel".to_owned(),
                path: "/t/kernel-1".into(),
                package: "/r/p".into()
            }]
        );
        assert!(executables("not JSON", "bin").is_err());
    }
}
