//! The compilers that can build for BPF: which ones are here, and how one is installed.
//!
//! Two kinds will do, each with the sources of `core` and with a bpf-linker of the same LLVM:
//! Debian's `rustc-web`, and a nightly of rustup.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{command, packages};

/// A compiler with the sources of its library, and the linker.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
    pub(crate) linker: PathBuf,
    /// Sources of the standard library.
    pub(crate) library: PathBuf,
    pub(crate) versions: Versions,
    /// Whether the compiler is a stable one that has to be told to take unstable flags.
    pub(crate) stable: bool,
}

/// What decides the bytes of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions {
    /// `rustc -V`.
    pub(crate) rustc: String,
    /// The compiler's LLVM.
    pub(crate) llvm: String,
    /// `bpf-linker --version`.
    pub(crate) bpf_linker: String,
}

impl fmt::Display for Versions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rustc,
            llvm,
            bpf_linker,
        } = self;
        write!(formatter, "{rustc}, LLVM {llvm}, {bpf_linker}")
    }
}

impl Versions {
    #[cfg(test)]
    pub(crate) fn unknown() -> Self {
        Self {
            rustc: String::new(),
            llvm: String::new(),
            bpf_linker: String::new(),
        }
    }
}

impl Toolchain {
    /// A toolchain of this machine: the wanted one if it is here, else the first that is complete.
    pub(crate) fn find(wanted: Option<&Versions>) -> Result<Self> {
        let mut complete = Vec::new();
        let mut missing = Vec::new();
        for candidate in [debian(), nightly()] {
            match candidate {
                Ok(toolchain) => complete.push(toolchain),
                Err(error) => missing.push(format!("{error:#}")),
            }
        }
        if let Some(exact) = complete
            .iter()
            .position(|toolchain| Some(&toolchain.versions) == wanted)
        {
            return Ok(complete.swap_remove(exact));
        }
        match complete.into_iter().next() {
            Some(toolchain) => Ok(toolchain),
            None => bail!(
                "no toolchain for BPF:\n  {}\n`cargo xtask ebpf --install` runs, on Debian and its kin:\n  {}\n  {}\nElsewhere:\n  {}",
                missing.join("\n  "),
                packages::install_line(packages::FOR_EBPF),
                linker_line(),
                ELSEWHERE,
            ),
        }
    }

    fn new(cargo: PathBuf, rustc: PathBuf, stable: bool) -> Result<Self> {
        let sysroot = command::output(Command::new(&rustc).args(["--print", "sysroot"]))?;
        let sysroot = String::from_utf8(sysroot).context("a sysroot has a plain name")?;
        let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
        if !library.join("library/core").is_dir() {
            bail!(
                "{} is without the sources of its library in {}",
                rustc.display(),
                library.display()
            );
        }
        let linker = command::find("bpf-linker", &[cargo_home().join("bin")])
            .context("bpf-linker is neither on PATH nor among the programs of cargo")?;
        let versions = Versions {
            rustc: version(&rustc, "-V")?,
            llvm: llvm_version(&rustc)?,
            bpf_linker: version(&linker, "--version")?,
        };
        Ok(Self {
            cargo,
            rustc,
            linker,
            library,
            versions,
            stable,
        })
    }
}

/// Where cargo keeps what it downloads and installs.
pub(crate) fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    std::env::var_os("CARGO_HOME").map_or_else(|| home().join(".cargo"), PathBuf::from)
}

/// Installs Debian's toolchain and a linker for it.
pub(crate) fn install() -> Result<()> {
    if Toolchain::find(None).is_ok() {
        return Ok(());
    }
    packages::install(packages::FOR_EBPF)?;
    if command::find("bpf-linker", &[cargo_home().join("bin")]).is_some() {
        return Ok(());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from(LLVM_PREFIX).join("bin"));
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)))
        .context("PATH can be extended")?;
    command::run(
        Command::new(DEBIAN_CARGO)
            .args(LINKER_INSTALL)
            .env("LLVM_PREFIX", LLVM_PREFIX)
            .env("RUSTC", DEBIAN_RUSTC)
            .env("PATH", path),
    )
}

fn debian() -> Result<Toolchain> {
    let [cargo, rustc] = [DEBIAN_CARGO, DEBIAN_RUSTC].map(PathBuf::from);
    if !cargo.exists() || !rustc.exists() {
        bail!("Debian's rustc-web and cargo-web are not here");
    }
    Toolchain::new(cargo, rustc, true)
}

fn nightly() -> Result<Toolchain> {
    let which = |program: &str| {
        let mut rustup = Command::new("rustup");
        rustup.args(["which", "--toolchain", "nightly", program]);
        let path = command::output(&mut rustup).context("no nightly of rustup")?;
        let path = String::from_utf8(path).context("a toolchain has a plain name")?;
        Ok::<_, anyhow::Error>(PathBuf::from(path.trim()))
    };
    Toolchain::new(which("cargo")?, which("rustc")?, false)
}

fn version(program: &Path, argument: &str) -> Result<String> {
    command::version(program, argument)
        .with_context(|| format!("{} does not say its version", program.display()))
}

fn llvm_version(rustc: &Path) -> Result<String> {
    let verbose = command::output(Command::new(rustc).arg("-vV"))?;
    let verbose = String::from_utf8_lossy(&verbose).into_owned();
    verbose
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))
        .map(ToOwned::to_owned)
        .with_context(|| format!("{} does not say its LLVM", rustc.display()))
}

fn linker_line() -> String {
    format!(
        "LLVM_PREFIX={LLVM_PREFIX} PATH={LLVM_PREFIX}/bin:$PATH cargo {}",
        LINKER_INSTALL.join(" ")
    )
}

const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
/// The LLVM of Debian's rustc-web.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
const LINKER_INSTALL: [&str; 7] = [
    "install",
    "bpf-linker",
    "--locked",
    "--version=0.13.0",
    "--no-default-features",
    "--features",
    "llvm-22",
];
const ELSEWHERE: &str =
    "rustup toolchain install nightly --component rust-src && cargo install bpf-linker";
