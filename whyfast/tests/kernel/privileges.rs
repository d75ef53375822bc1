//! Capabilities in place of root: given to the program or to the process, each one missing, and what
//! they must not be used for; and limits that stand in the way.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use recording::Recording;

use crate::missing;

/// With capabilities of the program's file, another user's process is profiled with nothing missing,
/// and other verbs read no file with them.
#[test]
fn capabilities_of_the_file() {
    if missing("capabilities_of_the_file", &["setpriv", "setcap"]) {
        return;
    }
    let program = Program::new();
    program.grant(&ALL);
    let output = program.run(&[], &own_profile());
    let recording = parse(&output);
    let profile = recording.rounds[0].profile.as_ref().unwrap();
    let mut missing = profile.not_measured.iter();
    // Not every machine has those.
    assert!(
        missing.all(|missing| missing.what.starts_with("hardware counter")),
        "{:?}",
        profile.not_measured
    );
    assert!(profile.cost.map_bytes > 0);

    let secret = program.folder.path().join("secret.toml");
    fs::write(&secret, "secret words").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let secret = secret.to_str().unwrap();
    for reader in [
        &["report", secret][..],
        &["compare", "--scenario", secret],
        &["load", "--data", secret, "http://127.0.0.1:9/"],
    ] {
        let output = program.run(&[], reader);
        let said = said(&output);
        assert!(!output.status.success(), "{reader:?}");
        assert!(said.contains("Permission denied"), "{reader:?}: {said}");
        assert!(!said.contains("words"), "{reader:?}: {said}");
    }
}

/// With ambient capabilities, as a unit file gives them, it profiles, and a command gets none.
#[test]
fn ambient_capabilities() {
    if missing("ambient_capabilities", &["setpriv"]) {
        return;
    }
    let program = Program::new();
    let words: Vec<String> = ALL.iter().map(|name| format!("+{name}")).collect();
    let list = words.join(",");
    let given = [
        format!("--inh-caps={list}"),
        format!("--ambient-caps={list}"),
    ];
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    assert!(
        parse(&program.run(&given, &own_profile())).rounds[0]
            .profile
            .is_some()
    );
    let command = [
        "profile",
        "-o",
        "/dev/null",
        "--",
        "grep",
        "-E",
        "Cap(Eff|Prm|Amb)",
        "/proc/self/status",
    ];
    let output = program.run(&given, &command);
    assert!(output.status.success(), "{}", said(&output));
    let none = ["CapPrm", "CapEff", "CapAmb"].map(|set| format!("{set}:\t{:016}\n", 0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), none.concat());
}

/// The example of a unit gives exactly those capabilities that the tests here run with.
#[test]
fn the_unit_gives_these_capabilities() {
    let unit = include_str!("../../../docs/monitoring/whyfast@.service");
    let given = ALL
        .map(|name| format!("CAP_{}", name.to_uppercase()))
        .join(" ");
    for set in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        assert!(
            unit.lines().any(|line| line == format!("{set}={given}")),
            "{set}={given}"
        );
    }
}

/// Each capability that is missing is named, and no other.
#[test]
fn missing_capabilities_are_named() {
    if missing("missing_capabilities_are_named", &["setpriv", "setcap"]) {
        return;
    }
    let program = Program::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for (left_out, code) in ALL.into_iter().zip([6, 6, 2, 2]) {
        let kept: Vec<&str> = ALL.into_iter().filter(|&name| name != left_out).collect();
        program.grant(&kept);
        let output = program.run(&[], &["profile", "--port", &port, "--duration", "1ms"]);
        let said = said(&output);
        let name = format!("CAP_{}", left_out.to_uppercase());
        assert!(said.contains(&format!("missing {name}")), "{said}");
        for kept in kept {
            assert!(
                !said.contains(&format!("CAP_{}", kept.to_uppercase())),
                "{said}"
            );
        }
        assert_eq!(
            // Without the first two nothing can be attached; a target is looked for before.
            output.status.code(),
            Some(code),
            "{said}"
        );
    }
}

/// The kernel's statistics take one capability more, which is named.
#[test]
fn statistics_take_one_more() {
    if missing("statistics_take_one_more", &["setpriv", "setcap"]) {
        return;
    }
    let program = Program::new();
    program.grant(&ALL);
    let output = program.run(&[], &[&own_profile()[..], &["--bpf-stats"]].concat());
    let said = said(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(
        said.contains("missing CAP_SYS_ADMIN") && said.contains("leave out --bpf-stats"),
        "{said}"
    );
}

/// Little locked memory, and no right to raise it, does not matter to this kernel.
#[test]
fn little_locked_memory() {
    if missing("little_locked_memory", &["setpriv", "prlimit"]) {
        return;
    }
    let output = Command::new("prlimit")
        .args([
            "--memlock=65536:65536",
            "setpriv",
            "--bounding-set=-sys_resource",
        ])
        .arg("--")
        .arg(env!("CARGO_BIN_EXE_whyfast"))
        .args(own_profile())
        .output()
        .unwrap();
    assert!(parse(&output).rounds[0].profile.is_some());
}

/// Too few descriptors to load the programs: said with the limit and the remedy.
#[test]
fn few_descriptors() {
    if missing("few_descriptors", &["prlimit"]) {
        return;
    }
    let output = Command::new("prlimit")
        .args(["--nofile=14:14", env!("CARGO_BIN_EXE_whyfast")])
        .args(own_profile())
        .output()
        .unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("this process may have 14"), "{said}");
    assert!(said.contains("ulimit -n"), "{said}");
}

/// A profile of this test.
fn own_profile() -> [&'static str; 7] {
    let pid: &'static str = std::process::id().to_string().leak();
    [
        "profile",
        "--pid",
        pid,
        "--duration",
        "1ms",
        "--format",
        "json",
    ]
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn parse(output: &Output) -> Recording {
    Recording::parse(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// What profiling takes; the first two to attach, the others to find the target.
const ALL: [&str; 4] = ["bpf", "perfmon", "sys_ptrace", "dac_read_search"];

/// A copy of the program that the user nobody can reach.
struct Program {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("whyfast");
        fs::copy(env!("CARGO_BIN_EXE_whyfast"), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, path }
    }

    /// Gives its file these capabilities.
    fn grant(&self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| format!("cap_{name}")).collect();
        let status = Command::new("setcap")
            .arg(format!("{}+ep", names.join(",")))
            .arg(&self.path)
            .status();
        assert!(status.unwrap().success());
    }

    /// As nobody, with options of `setpriv`.
    fn run(&self, options: &[&str], arguments: &[&str]) -> Output {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(options)
            .arg("--")
            .arg(&self.path)
            .args(arguments)
            .current_dir("/")
            .env_remove("SUDO_UID")
            .output()
            .unwrap()
    }
}
