//! whyfast as an ordinary user: with sudo for the profiler child alone, and without.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use recording::{Probes, Recording};

use crate::missing;

/// As a user who may use sudo, the rounds are profiled and the recording is the user's.
#[test]
fn user_with_sudo_gets_everything() {
    if missing("user_with_sudo_gets_everything", &["sudo", "setpriv"]) {
        return;
    }
    let user = User::new();
    let _permission = Sudoers::allow(&user.binary);
    let output = user.compare(&["--out", "out"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let recording = Recording::parse(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(
        recording.not_measured.is_empty(),
        "{:?}",
        recording.not_measured
    );
    let profiled = recording
        .rounds
        .iter()
        .filter(|round| round.probes == Probes::On);
    assert!(profiled.clone().count() > 0);
    assert!(
        profiled
            .clone()
            .all(|round| round.profile.is_some() && round.failed.is_none()),
        "{said}"
    );
    let saved = fs::metadata(user.home.path().join("out/recording.json")).unwrap();
    assert_eq!(saved.uid(), NOBODY);
}

/// Without sudo it still runs, and says what was not measured and the remedy.
#[test]
fn user_without_sudo_still_compares() {
    if missing("user_without_sudo_still_compares", &["setpriv"]) {
        return;
    }
    let user = User::new();
    let output = user.compare(&[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let recording = Recording::parse(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(matches!(output.status.code(), Some(0 | 4)), "{said}");
    assert!(recording.verdict.is_some());
    assert!(
        recording
            .rounds
            .iter()
            .all(|round| round.probes == Probes::Off)
    );
    // CPU time is read from /proc, without privileges.
    assert!(
        recording
            .rounds
            .iter()
            .all(|round| round.server_cpu.is_some())
    );
    let reason = &recording.not_measured[0];
    assert!(reason.why.contains("needs root"), "{reason:?}");
    assert_eq!(reason.remedy.as_deref(), Some("run with sudo"));
    let profile = user.run(&["profile", "--pid", "1"]);
    assert_eq!(profile.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&profile.stderr).contains("root"));
    assert_eq!(user.run(&["doctor"]).status.code(), Some(6));
    let counts = user.run(&["compare", "--lock-step", "10"]);
    assert_eq!(
        counts.status.code(),
        Some(6),
        "exact counts come from the kernel alone"
    );
}

const NOBODY: u32 = 65534;

/// The user nobody with a home and a copy of the binary that nobody can reach.
struct User {
    home: tempfile::TempDir,
    binary: PathBuf,
}

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let binary = home.path().join("whyfast");
        fs::copy(env!("CARGO_BIN_EXE_whyfast"), &binary).unwrap();
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        Self { home, binary }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(&self.binary)
            .args(arguments)
            .current_dir(self.home.path())
            .env("TMPDIR", self.home.path())
            .env_remove("SUDO_UID")
            .output()
            .unwrap()
    }

    fn compare(&self, more: &[&str]) -> Output {
        let short = [
            "compare",
            "--pairs",
            "2",
            "--duration",
            "1s",
            "--warmup",
            "50ms",
        ];
        self.run(&[&short[..], &["--format", "json"], more].concat())
    }
}

/// A permission for nobody to run one program as root, taken back at the end.
struct Sudoers(PathBuf);

impl Sudoers {
    fn allow(program: &Path) -> Self {
        let path = PathBuf::from(format!(
            "/etc/sudoers.d/whyfast-test-{}",
            std::process::id()
        ));
        let rule = format!("nobody ALL=(root) NOPASSWD: {}\n", program.display());
        fs::write(&path, rule).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
        Self(path)
    }
}

impl Drop for Sudoers {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}
