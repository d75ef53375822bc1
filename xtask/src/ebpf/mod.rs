//! `cargo xtask ebpf`: builds the object of the kernel programs, or checks the committed one.
//!
//! The object is committed, so that whyfast builds with stable Rust alone. A manifest beside it
//! says what it was made from and with; `--check` compares both, and builds it again.

mod build;
mod manifest;
mod toolchain;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use recording::exit_code;

use crate::test::{Tally, kernel};
use crate::tree;
use manifest::{MANIFEST, Manifest, OBJECT, Sources, sha256};
use toolchain::Toolchain;

/// Builds the object of the kernel programs, or checks that the committed one is current.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check the committed object: against its sources, then against a new build.
    #[arg(long)]
    check: bool,
    /// First install the toolchain (with apt-get and cargo).
    #[arg(long)]
    install: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = tree::root();
    let recorded = if args.check {
        Some(check_files(&root)?)
    } else {
        None
    };
    if args.install {
        toolchain::install()?;
    }
    let toolchain = Toolchain::find(recorded.as_ref().map(|manifest| &manifest.toolchain))?;
    eprintln!("building with {}", toolchain.versions);
    let before = Sources::of_tree(&root)?;
    let object = build::object(&root, &toolchain)?;
    let sources = Sources::of_tree(&root)?;
    let edited = before.differences(&sources);
    ensure!(
        edited.is_empty(),
        "edited while the object was built: {}; run it again",
        edited.join(", ")
    );
    if let Some(recorded) = recorded {
        check_rebuilt(&root, &recorded, &toolchain, &object)?;
        return Ok(ExitCode::from(exit_code::DONE));
    }
    fs::write(root.join(OBJECT), &object).with_context(|| format!("failed to write {OBJECT}"))?;
    let manifest = Manifest {
        object_sha256: sha256(&object),
        toolchain: toolchain.versions,
        sources,
    };
    manifest.write(&root)?;
    let Manifest { object_sha256, .. } = manifest;
    println!("{OBJECT}: {} bytes, {object_sha256}", object.len());
    Ok(ExitCode::from(exit_code::DONE))
}

/// Compares the object and its sources with what the manifest says of them.
fn check_files(root: &Path) -> Result<Manifest> {
    let recorded = Manifest::read(root)?;
    let object = fs::read(root.join(OBJECT)).with_context(|| format!("failed to read {OBJECT}"))?;
    ensure!(
        recorded.object_sha256 == sha256(&object),
        "{OBJECT} is not the object that {MANIFEST} describes; run `cargo xtask ebpf` and commit both"
    );
    let changed = recorded.sources.differences(&Sources::of_tree(root)?);
    ensure!(
        changed.is_empty(),
        "changed since {OBJECT} was built: {}; run `cargo xtask ebpf` and commit the result",
        changed.join(", ")
    );
    Ok(recorded)
}

/// With the recorded toolchain the object has to be the same byte for byte; with another one it has
/// to pass the kernel tests.
fn check_rebuilt(
    root: &Path,
    recorded: &Manifest,
    toolchain: &Toolchain,
    object: &[u8],
) -> Result<()> {
    if sha256(object) == recorded.object_sha256 {
        println!("{OBJECT}: current, and built again byte for byte");
        return Ok(());
    }
    ensure!(
        toolchain.versions != recorded.toolchain,
        "{OBJECT} cannot be reproduced: the toolchain is the recorded one ({}), the object is not; \
         run `cargo xtask ebpf` and commit the result",
        recorded.toolchain
    );
    println!(
        "{OBJECT}: sources are current; this toolchain ({}) is not the recorded one ({}), so the \
         bytes cannot be compared: running the kernel tests with the new object",
        toolchain.versions, recorded.toolchain
    );
    let copy = tempfile::tempdir().context("failed to make a temporary folder")?;
    copy_tree(root, copy.path())?;
    fs::write(copy.path().join(OBJECT), object).context("failed to write the new object")?;
    let mut tally = Tally::new()?;
    kernel::run(copy.path(), &mut tally)?;
    if tally.failed() > 0 {
        bail!(
            "the object of this toolchain fails {} kernel tests",
            tally.failed()
        );
    }
    ensure!(
        tally.passed() > 0,
        "the object of this toolchain could not be tried, because the kernel tests cannot run here: {}",
        tally.reasons().join("; ")
    );
    println!(
        "{OBJECT}: the object of this toolchain passes {} kernel tests",
        tally.passed()
    );
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for file in tree::files(from)? {
        let target = to.join(&file);
        let folder = target.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::copy(from.join(&file), &target))
            .with_context(|| format!("failed to copy {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolchain::Versions;

    /// A copy of the parts that the check reads, with a manifest that fits them.
    fn checked_copy() -> tempfile::TempDir {
        let copy = tempfile::tempdir().expect("a temporary folder");
        for part in ["Cargo.lock", "profiler-common", "profiler-ebpf"] {
            copy_all(&tree::root().join(part), &copy.path().join(part));
        }
        let object = fs::read(copy.path().join(OBJECT)).expect("the object is committed");
        let manifest = Manifest {
            object_sha256: sha256(&object),
            toolchain: Versions::unknown(),
            sources: Sources::of_tree(copy.path()).expect("the copy is complete"),
        };
        manifest.write(copy.path()).expect("the copy is writable");
        check_files(copy.path()).expect("nothing has changed");
        copy
    }

    fn copy_all(from: &Path, to: &Path) {
        if from.is_file() {
            fs::copy(from, to).expect("the copy can be written");
            return;
        }
        fs::create_dir(to).expect("the copy can be written");
        for entry in fs::read_dir(from).expect("a folder of the repository") {
            let entry = entry.expect("a folder of the repository");
            copy_all(&entry.path(), &to.join(entry.file_name()));
        }
    }

    fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).expect("it exists");
        change(&mut bytes);
        fs::write(path, bytes).expect("it can be written");
    }

    /// One changed byte of the object is found.
    #[test]
    fn an_edited_object_is_refused() {
        let copy = checked_copy();
        edit(&copy.path().join(OBJECT), |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
        let error = check_files(copy.path()).expect_err("one byte differs");
        assert!(error.to_string().contains("is not the object"), "{error}");
    }

    /// One changed line of a source is found, and the file is named.
    #[test]
    fn an_edited_source_is_refused() {
        for file in ["profiler-ebpf/src/main.rs", "profiler-common/src/lib.rs"] {
            let copy = checked_copy();
            edit(&copy.path().join(file), |bytes| {
                bytes.extend_from_slice(b"// x\n");
            });
            let error = check_files(copy.path()).expect_err("one line more");
            assert!(error.to_string().contains(file), "{error}");
        }
    }

    /// A new source file, a missing one and another version of a dependency are found.
    #[test]
    fn other_changes_are_refused() {
        let copy = checked_copy();
        fs::write(copy.path().join("profiler-ebpf/src/new.rs"), "").expect("writable");
        let error = check_files(copy.path()).expect_err("a new file");
        assert!(
            error.to_string().contains("profiler-ebpf/src/new.rs"),
            "{error}"
        );

        let copy = checked_copy();
        edit(&copy.path().join("Cargo.lock"), |bytes| {
            let lock = String::from_utf8(bytes.clone()).expect("a lock file is text");
            let before = lock.find("name = \"aya-ebpf\"").expect("a dependency");
            let (head, tail) = lock.split_at(before);
            let tail = tail.replacen("version = \"", "version = \"9", 1);
            *bytes = format!("{head}{tail}").into_bytes();
        });
        let error = check_files(copy.path()).expect_err("another version");
        assert!(error.to_string().contains("aya-ebpf"), "{error}");
    }
}
