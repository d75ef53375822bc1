//! `fuzz`: every fuzz target, for a short time, from the committed corpus.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::command;
use crate::tree;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this target.
    target: Option<String>,
    /// Time for each target, seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// First install cargo-fuzz.
    #[arg(long)]
    install: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = tree::root();
    if args.install && program().is_none() {
        let mut install = command::cargo(&root);
        command::run(install.args(["install", "--locked", "cargo-fuzz"]))?;
    }
    let Some(program) = program() else {
        bail!("cargo-fuzz is not installed: run `cargo xtask fuzz --install`");
    };
    let mut targets = Vec::new();
    for folder in FOLDERS {
        let of_folder = self::targets(&root.join(folder))?;
        targets.extend(of_folder.into_iter().map(|target| (folder, target)));
    }
    if let Some(wanted) = &args.target {
        targets.retain(|(_, target)| target == wanted);
        ensure!(
            !targets.is_empty(),
            "no fuzz target {wanted:?} in the folders fuzz_targets of {}",
            FOLDERS.join(", ")
        );
    }
    // What the fuzzer finds goes there; the committed corpus is only read.
    let found = tempfile::tempdir().context("failed to make a temporary folder")?;
    for (folder, target) in targets {
        let found = found.path().join(&target);
        std::fs::create_dir(&found)
            .with_context(|| format!("failed to make {}", found.display()))?;
        let mut fuzz = Command::new(&program);
        fuzz.current_dir(&root)
            // The parsers are safe Rust: panics and memory are what can go wrong.
            .args([
                "fuzz",
                "run",
                "--fuzz-dir",
                folder,
                "--sanitizer",
                "none",
                &target,
            ])
            .arg(&found)
            .arg(root.join(folder).join("corpus").join(&target))
            .arg("--")
            .arg(format!("-max_total_time={}", args.seconds))
            .args([
                "-timeout=10",
                "-rss_limit_mb=1024",
                "-max_len=4096",
                "-verbosity=0",
            ]);
        if has_nightly() {
            fuzz.env("RUSTUP_TOOLCHAIN", "nightly");
        } else {
            // The stable compiler has what a fuzzer needs, behind this lock.
            fuzz.env("RUSTC_BOOTSTRAP", "1");
        }
        command::run(&mut fuzz)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where cargo-fuzz is.
fn program() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let more: Vec<PathBuf> = home.into_iter().map(|home| home.join("bin")).collect();
    command::find("cargo-fuzz", &more)
}

fn has_nightly() -> bool {
    Command::new("rustc")
        .args(["+nightly", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The names of the targets, in order.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.join("fuzz_targets");
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("failed to read {}", folder.display()))?;
    let mut targets = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem()
        {
            targets.push(name.to_string_lossy().into_owned());
        }
    }
    targets.sort();
    Ok(targets)
}

/// Where fuzz targets are, relative to the root: one folder per crate that has some.
pub(crate) const FOLDERS: [&str; 2] = ["loadgen/fuzz", "reports/fuzz"];
