//! Packages of the system: which ones are needed, for what, and how they are installed.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::command;

/// A package, and why it is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    pub(crate) purpose: &'a str,
}

/// What tests and benchmarks use where it is there.
pub(crate) const FOR_TESTS: &[Package<'static>] = &[
    package(
        "bpftool",
        "lists the programs in the kernel, to see that none is left",
    ),
    package("caddy", "a server that the load generator is tested with"),
    package("chromium", "the browser that HTML reports are tested in"),
    package("git", "lists the files that `cargo xtask tidy` reads"),
    package("h2o", "a server that comparisons are tested with"),
    package("haproxy", "a server that the load generator is tested with"),
    package("hitch", "a TLS terminator that chains are tested with"),
    package(
        "httperf",
        "a load generator whose output ours is checked against",
    ),
    package("lighttpd", "a server that comparisons are tested with"),
    package("lighttpd-mod-openssl", "TLS of that server"),
    package(
        "linux-perf",
        "whose hottest functions ours are checked against",
    ),
    package(
        "nghttp2-client",
        "h2load, which the load generator is measured and checked against",
    ),
    package("nginx", "a server that comparisons are tested with"),
    package("nodejs", "a server that the load generator is tested with"),
    package("openssl", "the certificate of the server in benchmarks"),
    package(
        "prometheus",
        "the monitoring that counters are scraped by in tests",
    ),
    package(
        "python3",
        "programs with known system calls, as targets of tests",
    ),
    package(
        "qemu-system-x86",
        "the virtual machines that tests boot other kernels in",
    ),
    package("strace", "the counts that ours are checked against"),
    package("sudo", "runs the kernel tests where the user is not root"),
    package(
        "systemd",
        "systemd-analyze, which the example of a unit is checked with",
    ),
    package("tmux", "the terminal that the live screen is tested on"),
    package(
        "util-linux",
        "taskset, setpriv and unshare, which tests run programs under",
    ),
    package("varnish", "a cache that chains are tested with"),
    package("wrk", "the load generator that ours is measured against"),
];

/// What booting other kernels takes.
pub(crate) const FOR_VM: &[Package<'static>] = &[
    package("bpftool", "runs in the virtual machine"),
    package("qemu-system-x86", "the virtual machine"),
    package("strace", "runs in the virtual machine"),
];

/// What building the object of the kernel programs takes.
pub(crate) const FOR_EBPF: &[Package<'static>] = &[
    package(
        "build-essential",
        "a C++ compiler and linker for bpf-linker",
    ),
    package("cargo-web", "a cargo that matches the compiler"),
    package("libxml2-dev", "part of LLVM's link line"),
    package("libzstd-dev", "part of LLVM's link line"),
    package("llvm-22-dev", "the LLVM of the compiler, for bpf-linker"),
    package(
        "rust-web-src",
        "the sources of core, which is built for BPF",
    ),
    package("rustc-web", "a compiler with sources of its own library"),
    package("zlib1g-dev", "part of LLVM's link line"),
];

const fn package(name: &'static str, purpose: &'static str) -> Package<'static> {
    Package { name, purpose }
}

/// Installs what is missing, without starting any service. A package that the distribution does not
/// have is named and left out: what needs it says so itself.
pub(crate) fn install(packages: &[Package<'_>]) -> Result<()> {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    ensure!(
        command::find("apt-get", &[]).is_some(),
        "packages are installed with apt-get, which is not here; install by hand: {}",
        names.join(" ")
    );
    let mut missing: Vec<&Package<'_>> = packages
        .iter()
        .filter(|package| !is_installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    update()?;
    missing.retain(|package| {
        let known = is_known(package);
        let Package { name, purpose } = package;
        let verb = if known {
            "installing"
        } else {
            "not in this distribution:"
        };
        eprintln!("{verb} {name}: {purpose}");
        known
    });
    let mut apt = as_root("sh");
    apt.args(["-c", WITHOUT_SERVICES, "sh", "/usr/sbin/policy-rc.d"])
        .args(["env", "DEBIAN_FRONTEND=noninteractive"])
        .args(["apt-get", "install", "-qq", "-y", "--no-install-recommends"])
        .args(missing.iter().map(|package| package.name));
    command::run(&mut apt)
}

/// Fetches the list of packages: an old one names files that are gone from the archive.
pub(crate) fn update() -> Result<()> {
    command::run(as_root("apt-get").args(["update", "-qq"]))
}

/// The command line that installs packages by hand.
pub(crate) fn install_line(packages: &[Package<'_>]) -> String {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    format!("apt-get install {}", names.join(" "))
}

fn is_installed(package: &Package<'_>) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package.name]);
    command::output(&mut query).is_ok_and(|status| status == b"installed")
}

fn is_known(package: &Package<'_>) -> bool {
    command::output(Command::new("apt-cache").args(["show", package.name])).is_ok()
}

/// A program as root: itself, or through a sudo that must not ask.
pub(crate) fn as_root(program: &str) -> Command {
    if command::is_root() {
        Command::new(program)
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "--", program]);
        sudo
    }
}

/// Runs a command (from the second argument on) while a policy file (the first argument) keeps
/// packages from starting their services: `invoke-rc.d` asks it, and 101 means that it is not
/// allowed. A policy that is there already is left alone; ours goes whatever happens.
const WITHOUT_SERVICES: &str = r#"
set -eu
policy=$1
shift
if ! [ -e "$policy" ] && ! [ -L "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
"$@"
"#;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn under_policy(policy: &Path, script: &str) -> Option<i32> {
        let mut command = Command::new("sh");
        command.args(["-c", WITHOUT_SERVICES, "sh"]).arg(policy);
        let status = command
            .args(["sh", "-c", script, "sh"])
            .arg(policy)
            .status();
        status.expect("a shell").code()
    }

    /// The policy forbids starts while the command runs, and is gone afterwards, also when the
    /// command fails or is interrupted.
    #[test]
    fn policy_is_temporary() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("policy-rc.d");
        assert_eq!(under_policy(&path, "\"$1\"; test $? = 101"), Some(0));
        assert!(!path.exists());
        assert_eq!(under_policy(&path, "test -x \"$1\" && exit 7"), Some(7));
        assert!(!path.exists());
        assert_eq!(under_policy(&path, "kill -TERM $PPID; exit 0"), Some(130));
        assert!(!path.exists());
    }

    /// A policy that is there already stays as it is.
    #[test]
    fn an_existing_policy_is_left_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("policy-rc.d");
        fs::write(&path, "own").expect("the folder is writable");
        assert_eq!(under_policy(&path, "true"), Some(0));
        assert_eq!(fs::read_to_string(&path).expect("still there"), "own");
    }

    /// Lists are sorted and name each package once, so that they stay readable.
    #[test]
    fn lists_are_sorted() {
        for list in [FOR_TESTS, FOR_VM, FOR_EBPF] {
            assert!(list.is_sorted_by(|a, b| a.name < b.name));
            assert!(list.iter().all(|package| !package.purpose.is_empty()));
        }
    }
}
