//! Verbs that read files: what they print, and what they say about files that are none.

use std::fs;
use std::path::{Path, PathBuf};

use recording::{Frame, FrameSide, Recording, Stack, StackClock, StackSet, Stacks};

use crate::{run, said};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recording/tests/fixtures/");
const LOCK_STEP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../reports/tests/fixtures/lock-step-nginx-h2o.json"
);
const PROFILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../reports/tests/fixtures/profile-sh-cat.json"
);

fn fixture(name: &str) -> String {
    format!("{FIXTURES}{name}")
}

fn file(folder: &Path, name: &str, content: &[u8]) -> String {
    let path: PathBuf = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A recording that was cut off, is none, or is of a later version is refused by every reader with what
/// was found and the remedy; nothing goes to stdout.
#[test]
fn files_that_are_no_recordings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(LOCK_STEP).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let later = text.replacen("whyfast/1.0", "whyfast/9.0", 1);
    let endless = text.replacen(
        "\"profile_requests\": 2000.0",
        "\"profile_requests\": NaN",
        1,
    );
    let cases: [(&str, &[u8], &str); 8] = [
        ("cut", &whole[..whole.len() / 2], "cut off"),
        ("empty", b"", "empty"),
        ("foreign", b"{\"results\": []}", "not a whyfast recording"),
        ("named", b"{\"schema\": \"x\"}", "whyfast/MAJOR.MINOR"),
        ("text", b"Requests/sec: 5", "not a whyfast recording"),
        ("later", later.as_bytes(), "update whyfast"),
        ("nan", endless.as_bytes(), "not a whyfast recording"),
        ("binary", &[0xff, 0x1b, b'[', 0], "not a whyfast recording"),
    ];
    let lock = file(folder.path(), "syscalls.lock", b"");
    for (name, content, wanted) in cases {
        let path = file(folder.path(), name, content);
        for arguments in [
            vec!["report", &path],
            vec!["diff", &path, LOCK_STEP],
            vec!["gate", &lock, &path],
        ] {
            let output = run(&arguments);
            assert_eq!(
                output.status.code(),
                Some(1),
                "{arguments:?}: {}",
                said(&output)
            );
            let said = said(&output);
            assert!(
                said.contains(wanted) && said.contains(name),
                "{arguments:?}: {said}"
            );
            assert!(!said.contains('\u{1b}') && output.stdout.is_empty());
        }
    }
}

/// The two servers of one run are compared call by call; which is meant has to be clear.
#[test]
fn differences_name_their_sides() {
    let output = run(&["diff", LOCK_STEP]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(text.starts_with("--- nginx"), "{text}");
    assert!(
        text.contains("\n-setsockopt") && text.contains("\n+openat"),
        "{text}"
    );
    let profile = fixture("profile-1.0.json");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["diff", &profile], 2, "second recording"),
        (&["diff", LOCK_STEP, LOCK_STEP], 2, "--arm"),
        (
            &["diff", LOCK_STEP, "--arm", "caddy", "--arm", "h2o"],
            2,
            "nginx, h2o",
        ),
        (
            &["diff", LOCK_STEP, "--per", "connection"],
            5,
            "--per second",
        ),
        (
            &["diff", &profile, &profile, "--per", "request"],
            5,
            "--per second",
        ),
        (
            &["diff", &fixture("load-1.0.json"), &profile],
            6,
            "whyfast profile",
        ),
    ];
    for (arguments, code, wanted) in cases {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(*code),
            "{arguments:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(wanted),
            "{arguments:?}: {}",
            said(&output)
        );
    }
    let itself = run(&["diff", LOCK_STEP, LOCK_STEP, "--arm", "h2o"]);
    let text = String::from_utf8_lossy(&itself.stdout);
    assert!(text.contains("not distinguishable: 7 calls"), "{text}");
}

/// Counts are taken over into a file that is made, pass it afterwards, and fail it when it is edited; a
/// lock that is missing or wrong is an error that says what to do.
#[test]
fn locks_are_made_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("syscalls.lock");
    let lock = lock.to_str().unwrap();
    let missing = run(&["gate", lock, LOCK_STEP]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(said(&missing).contains("--bless"), "{}", said(&missing));
    assert_eq!(
        run(&["gate", lock, LOCK_STEP, "--bless"]).status.code(),
        Some(0)
    );
    assert_eq!(run(&["gate", lock, LOCK_STEP]).status.code(), Some(0));
    let text = fs::read_to_string(lock).unwrap();
    let edited = text.replace("newfstatat", "statx");
    fs::write(lock, &edited).unwrap();
    let changed = run(&["gate", lock, LOCK_STEP, "--format", "markdown"]);
    let comment = String::from_utf8_lossy(&changed.stdout);
    assert_eq!(changed.status.code(), Some(3), "{comment}");
    assert!(
        comment.contains("newfstatat") && comment.contains("statx"),
        "{comment}"
    );
    let limited = text.replace(
        "h2o version 2.2.5\n",
        "h2o version 2.2.5\nhard openat <= 0\n",
    );
    fs::write(lock, &limited).unwrap();
    let broken = run(&["gate", lock, LOCK_STEP, "--bless"]);
    assert_eq!(broken.status.code(), Some(3));
    assert_eq!(
        fs::read_to_string(lock).unwrap(),
        limited,
        "a broken limit is not taken over"
    );
    fs::write(lock, limited.replace("<= 0\n", "<= 0.00001\n")).unwrap();
    let wrong = run(&["gate", lock, LOCK_STEP]);
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    assert!(said(&wrong).contains("line"), "{}", said(&wrong));
    fs::write(lock, limited.replace("<= 0\n", "<= 0.0001\n")).unwrap();
    let fine = run(&["gate", lock, LOCK_STEP]);
    let text = String::from_utf8_lossy(&fine.stdout);
    assert_eq!(fine.status.code(), Some(2), "{text}");
    assert!(
        text.contains("0.0005"),
        "the floor is one call in 2000 requests: {text}"
    );
}

/// An old recording is written in the schema of today, and as tables for other programs.
#[test]
fn old_recordings_are_upgraded_and_tabled() {
    let compare = fixture("compare-1.0.json");
    let upgraded = run(&["report", "--format", "json", &compare]);
    let text = String::from_utf8_lossy(&upgraded.stdout);
    assert_eq!(
        crate::assert_valid(&upgraded.stdout).schema,
        recording::SCHEMA
    );
    assert!(!text.contains("whyfast/1.0\""));
    for (format, header, recording) in [
        ("csv", "order,arm,pair,probes,role", &compare),
        ("csv-syscalls", "order,arm,pair,probes,abi,call", &compare),
        (
            "csv",
            "order,arm,pair,probes,abi,call",
            &fixture("profile-1.0.json"),
        ),
        ("csv", "row,from_s,to_s", &fixture("load-1.0.json")),
    ] {
        let output = run(&["report", "--format", format, recording]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.starts_with(header), "{format} {recording}: {text}");
        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert!(
            columns.len() > 1 && columns.iter().all(|count| *count == columns[0]),
            "{text}"
        );
    }
    let load = fixture("load-1.0.json");
    let refused = run(&["report", "--format", "csv-syscalls", &load]);
    assert_eq!(refused.status.code(), Some(2));
}

/// A profile with stacks is drawn, folded and tabulated; one without is refused with the remedy, in each of these
/// formats.
#[test]
fn stacks_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(PROFILE).unwrap();
    let mut recording = Recording::parse(&bytes).unwrap();
    for (format, why) in [
        ("svg", "measure with --detail stacks"),
        ("folded", "measure with --detail stacks"),
        ("folded-off-cpu", "measure with --detail stacks"),
    ] {
        let refused = run(&["report", "--format", format, PROFILE]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(said(&refused).contains(why), "{}", said(&refused));
        assert!(refused.stdout.is_empty());
    }
    let profile = recording.rounds[0].profile.as_mut().unwrap();
    profile.stacks = Some(stacks());
    let path = file(folder.path(), "stacks.json", recording.to_json().as_bytes());
    let output = run(&["report", "--format", "folded", &path, &path]);
    let line = "server;[ends early];serve;writev 2000000\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), line.repeat(2));
    let output = run(&["report", "--format", "svg", &path]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("<svg ") && text.contains("<title>writev ([kernel]): "),
        "{text}"
    );
    let text = run(&["report", &path]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("\n writev "));
    let refused = run(&["report", "--format", "folded-off-cpu", &path]);
    assert!(
        said(&refused).contains("of threads that wait"),
        "{}",
        said(&refused)
    );
    let refused = run(&["report", "--format", "svg", &path, &path]);
    assert!(
        said(&refused).contains("name one FILE"),
        "{}",
        said(&refused)
    );
}

/// 200 samples of one stack whose callers are not known.
fn stacks() -> Stacks {
    let frame = |name: &str, module: &str, side| Frame {
        name: Some(name.to_owned()),
        module: Some(module.to_owned()),
        offset: None,
        side,
    };
    Stacks {
        clock: StackClock::Cycles,
        hz: 100,
        frames: vec![
            frame("serve", "server", FrameSide::User),
            frame("writev", "[kernel]", FrameSide::Kernel),
        ],
        on_cpu: StackSet {
            stacks: vec![Stack {
                comm: "server".to_owned(),
                frames: vec![0, 1],
                count: 200,
                ns: 2_000_000_000,
                ends_early: true,
            }],
            lost: 0,
            lost_ns: None,
        },
        off_cpu: None,
        modules: Vec::new(),
    }
}
