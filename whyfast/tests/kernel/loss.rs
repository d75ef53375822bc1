//! Loss is never silent: each class that the kernel can be made to show is forced, and seen in text,
//! JSON and exit code. (The classes that only a broken clock or a nested program can cause are
//! rendered on the same path in the binary's own tests.)

use std::process::{Command, Stdio};

use recording::{LostClass, Recording};

use crate::missing;
use crate::proc::{gave_up_privileges, state};
use crate::whyfast::{Mortal, until, whyfast};

/// Children whose id lies outside the table of targets: every one is either counted or told.
#[test]
fn untracked_processes_are_said() {
    let script = "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done";
    let lost = forced("--limit-targets", script, |pid| pid + 1);
    let profile = lost.recording.rounds[0].profile.as_ref().unwrap();
    // The table has room for whole groups of ids, so that a few children fit.
    let tracked = profile.processes.len() as u64 - 1;
    assert!(tracked < 20, "{tracked}");
    lost.check(LostClass::UntrackedProcesses, 40 - tracked);
}

/// Threads whose id lies outside the table of start times.
#[test]
fn untimed_calls_are_said() {
    let lost = forced(
        "--limit-threads",
        "for i in 1 2 3; do /bin/true; done",
        |pid| pid + 1,
    );
    lost.check_at_least(LostClass::UntimedCalls, 10);
}

/// More unknown call numbers than the list has room for.
#[test]
fn unknown_numbers_are_said() {
    if missing("unknown_numbers_are_said", &["python3"]) {
        return;
    }
    let script =
        "exec python3 -c 'import ctypes\nfor n in range(700, 720): ctypes.CDLL(None).syscall(n)'";
    forced("--limit-unknown", script, |_| 4).check(LostClass::UnknownNumbers, 16);
}

/// The same run without small tables loses nothing and says so.
#[test]
fn nothing_is_lost_by_default() {
    let output = whyfast()
        .args(["profile", "--", "/bin/sh", "-c", "/bin/true; /bin/true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("lost     nothing"));
}

/// One run rendered in both formats, with its exit code.
struct Forced {
    recording: Recording,
    text: String,
    codes: [Option<i32>; 2],
}

impl Forced {
    fn check(&self, class: LostClass, count: u64) {
        self.check_at_least(class, count);
        assert_eq!(self.lost(class), count);
    }

    fn check_at_least(&self, class: LostClass, count: u64) {
        assert!(
            self.lost(class) >= count,
            "{:?}",
            self.recording.rounds[0].profile
        );
        assert!(self.text.contains(class.describe()), "{}", self.text);
        assert_eq!(self.codes, [Some(3), Some(3)]);
    }

    fn lost(&self, class: LostClass) -> u64 {
        let profile = self.recording.rounds[0].profile.as_ref().unwrap();
        profile.lost.0.get(&class).copied().unwrap_or(0)
    }
}

fn forced(option: &str, script: &str, limit: impl Fn(u32) -> u32) -> Forced {
    let run = |format: &str| {
        // Ids that were just given out are low again only after the counter wraps.
        let target = Command::new("/bin/sh")
            .args(["-c", &format!("kill -STOP $$; {script}")])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut target = Mortal(target);
        let pid = target.0.id();
        until("stopping", || state(pid) == Some('T'));
        let child = whyfast()
            .args([
                "profile",
                "--pid",
                &pid.to_string(),
                option,
                &limit(pid).to_string(),
            ])
            .args(["--format", format])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        until("attaching", || gave_up_privileges(child.id()));
        Command::new("kill")
            .args(["-CONT", &pid.to_string()])
            .status()
            .unwrap();
        target.0.wait().unwrap();
        child.wait_with_output().unwrap()
    };
    let (json, text) = (run("json"), run("text"));
    Forced {
        recording: Recording::parse(&json.stdout).unwrap(),
        text: String::from_utf8_lossy(&text.stdout).into_owned(),
        codes: [json.status.code(), text.status.code()],
    }
}
