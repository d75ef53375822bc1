//! One build of the object, with nothing of this machine in its bytes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

use super::toolchain::{Toolchain, cargo_home};
use crate::command;

/// Builds the object in a temporary folder and returns its bytes.
pub(crate) fn object(root: &Path, toolchain: &Toolchain) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let mut cargo = Command::new(&toolchain.cargo);
    cargo
        .current_dir(root)
        .args([
            "build",
            "--locked",
            "--release",
            "--package",
            "profiler-ebpf",
        ])
        .args(["--target", TARGET, "-Z", "build-std=core"])
        .arg("--target-dir")
        .arg(folder.path())
        .env("RUSTC", &toolchain.rustc)
        .env("CARGO_ENCODED_RUSTFLAGS", flags(root, toolchain)?)
        .env("PATH", path_with(&toolchain.linker)?);
    if toolchain.stable {
        // What -Z build-std and the intrinsics of the programs need of a stable compiler.
        cargo.env("RUSTC_BOOTSTRAP", "1");
    }
    // Settings of the cargo that runs this program, which is another one.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUSTC_WRAPPER"] {
        cargo.env_remove(name);
    }
    command::run(&mut cargo)?;
    let built = folder.path().join(TARGET).join("release/profiler");
    let bytes = fs::read(&built).context("failed to read the built object")?;
    without_debug(&bytes).context("failed to take the debug information out of the object")
}

/// The object without its DWARF, which is five sixths of it and which nobody reads: lines and types are in its BTF.
/// Whoever attaches would have all of it in memory.
fn without_debug(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(bytes)?;
    for section in &mut builder.sections {
        section.delete =
            section.name.starts_with(b".debug") || section.name.starts_with(b".rel.debug");
    }
    builder.delete_orphans();
    // The linker keeps the names of sections among those of symbols, the builder apart.
    let names = builder.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

/// Flags of the compiler. Every folder that could appear in the object (as debug information or in
/// a panic message) is given a name that is the same everywhere.
fn flags(root: &Path, toolchain: &Toolchain) -> Result<OsString> {
    let mut flags: Vec<OsString> = ["--cfg", "bpf_target_arch=\"x86_64\"", "-Cdebuginfo=2"]
        .into_iter()
        .chain(["-Clink-arg=--btf", "-Ctarget-cpu=v3"])
        .map(OsString::from)
        .collect();
    let mut names = vec![(root.to_owned(), "whyfast")];
    // One folder per registry, named after its address and a hash of it.
    let sources = cargo_home().join("registry/src");
    for registry in fs::read_dir(&sources).into_iter().flatten().flatten() {
        names.push((registry.path(), "registry"));
    }
    names.push((toolchain.library.clone(), "rust-src"));
    // On Debian the folder is a link, and either name may be used.
    names.push((toolchain.library.canonicalize()?, "rust-src"));
    for (path, name) in names {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(path);
        flag.push(format!("={name}"));
        flags.push(flag);
    }
    Ok(flags.join(&OsString::from("\u{1f}")))
}

fn path_with(linker: &Path) -> Result<OsString> {
    let folder = linker.parent().context("a program is in a folder")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::iter::once(folder.to_owned())
        .chain(std::env::split_paths(&path))
        .collect();
    std::env::join_paths(folders).context("PATH can be extended")
}

const TARGET: &str = "bpfel-unknown-none";
