//! What runs in a virtual machine: the test programs, linked statically, and the few programs of this
//! system that they start.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::initramfs::Initramfs;
use crate::command;
use crate::test::libtest;
use crate::tree::{self, Executable};

/// The programs, as they lie in the build folder.
#[derive(Debug)]
pub(crate) struct Guest {
    init: PathBuf,
    tests: Vec<Executable>,
    /// Programs that tests start by the path that cargo gave them.
    helpers: Vec<Executable>,
    /// Programs of this system, with the libraries that they load.
    tools: Vec<PathBuf>,
}

impl Guest {
    /// Builds the programs.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        let built = compile(root, &["build", "--bins"])?;
        let (inits, helpers) = tree::executables(&built, "bin")?
            .into_iter()
            .partition::<Vec<_>, _>(|program| program.name == INIT);
        let [init] = inits.as_slice() else {
            anyhow::bail!("cargo built {} programs named {INIT}", inits.len());
        };
        let tests = compile(root, &["test", "--no-run", "--test", "kernel"])?;
        let tests = tree::executables(&tests, "test")?;
        ensure!(!tests.is_empty(), "cargo built no tests");
        let mut tools = Vec::new();
        for tool in TOOLS.map(Path::new) {
            tools.extend(libraries(tool)?);
            tools.push(tool.to_owned());
        }
        Ok(Self {
            init: init.path.clone(),
            tests,
            helpers,
            tools,
        })
    }

    /// The names of the tests that the arguments choose.
    pub(crate) fn tests(&self, arguments: &str) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for test in &self.tests {
            // They are static programs for this architecture: they run here as well.
            let mut list = Command::new(&test.path);
            list.args(arguments.split_ascii_whitespace())
                .args(["--list", "--format", "terse"]);
            let listed = command::output(&mut list)?;
            names.extend(libtest::parse_list(&String::from_utf8_lossy(&listed)));
        }
        Ok(names)
    }

    /// The file system of a machine that runs each test program with the arguments.
    pub(crate) fn initramfs(&self, arguments: &str) -> Result<Vec<u8>> {
        let mut archive = Initramfs::default();
        archive.program(Path::new("/init"), &read(&self.init)?)?;
        // For what the first program says before it has mounted /dev.
        archive.device(Path::new("/dev/console"), (5, 1))?;
        for folder in ["/tmp", "/run", "/root"] {
            archive.folder(Path::new(folder))?;
        }
        archive.text(Path::new("/etc/passwd"), "root:x:0:0::/root:/bin/sh\n")?;
        for program in &self.helpers {
            archive.program(&program.path, &read(&program.path)?)?;
        }
        for tool in &self.tools {
            archive.program(tool, &read(tool)?)?;
        }
        let mut commands = String::new();
        for test in &self.tests {
            let path = Path::new("/tests").join(&test.name);
            archive.program(&path, &read(&test.path)?)?;
            writeln!(commands, "{} --test-threads=1 {arguments}", path.display())?;
        }
        archive.text(Path::new("/etc/vm-init"), &commands)?;
        Ok(archive.finish())
    }
}

/// Builds programs without shared libraries; the messages of cargo.
fn compile(root: &Path, what: &[&str]) -> Result<String> {
    let mut cargo = command::cargo(root);
    cargo
        .args(what)
        // Always the same packages and features, so that what they use is built once.
        .args(["--package", INIT, "--package", "profiler"])
        .args(["--features", "profiler/vm-tests", "--target", TARGET])
        .arg("--message-format=json-render-diagnostics")
        // With a target they are for the programs alone, not for what builds them.
        .env("RUSTFLAGS", RUSTFLAGS);
    eprintln!("$ {}", command::describe(&cargo));
    let output = cargo
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run cargo")?;
    ensure!(
        output.status.success(),
        "the programs for virtual machines do not build"
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The shared libraries of a program, and the loader.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = command::output(Command::new("ldd").arg(program))?;
    Ok(parse_ldd(&String::from_utf8_lossy(&listed)))
}

fn parse_ldd(listed: &str) -> Vec<PathBuf> {
    // `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)`.
    let words = listed.lines().flat_map(str::split_ascii_whitespace);
    words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

const INIT: &str = "vm-init";
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The libraries of this system need not fit the tests' machine, debug information takes time to load (names of
/// functions are what some tests look for), and without optimisation reading the kernel's type information takes seconds there.
const RUSTFLAGS: &str = "-C target-feature=+crt-static -C strip=debuginfo -C opt-level=1";
/// What tests start, besides programs of their own.
pub(crate) const TOOLS: [&str; 5] = [
    "/bin/sh",
    "/bin/true",
    "/usr/bin/strace",
    "/usr/bin/unshare",
    "/usr/sbin/bpftool",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of libraries and of the loader are found, what the kernel provides is not a file.
    #[test]
    fn reads_ldd() {
        let listed = "\tlinux-vdso.so.1 (0x00007f36b11f8000)\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f36b0ffb000)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f36b11fa000)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(parse_ldd(listed), expected.map(PathBuf::from));
        assert!(parse_ldd("\tstatically linked\n").is_empty());
    }
}
