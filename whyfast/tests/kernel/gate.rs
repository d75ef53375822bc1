//! Exact counts against a lock file, and the difference between two runs, from the command line.

use std::fs;
use std::path::Path;

use recording::{BudgetCheck, DiffWord, SyscallDiff, exit_code};

use crate::whyfast::run;

/// Counts one server in lock-step, in two repeats, and returns the recording.
fn count(folder: &Path, name: &str, arm: &str) -> String {
    let out = folder.join(name);
    let output = run(&[
        "compare",
        arm,
        "--lock-step",
        "500",
        "--pairs",
        "2",
        "--detail",
        "counts",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    out.join("recording.json").to_str().unwrap().to_owned()
}

/// The same server passes its own lock; one more `fstat` per request breaks it and is named in every
/// format, and so it is in the difference of both runs.
#[test]
fn an_extra_fstat_fails_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("syscalls.lock");
    let lock = lock.to_str().unwrap();
    let before = count(folder.path(), "before", "server=testserver:sendfile");
    let blessed = run(&["gate", lock, &before, "--bless"]);
    assert!(blessed.status.success());
    let again = count(folder.path(), "again", "server=testserver:sendfile");
    let same = run(&["gate", lock, &again]);
    assert_eq!(
        same.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&same.stdout)
    );

    let after = count(folder.path(), "after", "server=testserver:sendfile,fstat=1");
    for format in ["text", "markdown", "json"] {
        let found = run(&["gate", lock, &after, "--format", format]);
        let text = String::from_utf8_lossy(&found.stdout);
        assert_eq!(
            found.status.code(),
            Some(exit_code::LIMIT_BROKEN.into()),
            "{text}"
        );
        assert!(text.contains("fstat"), "{text}");
    }
    let found = run(&["gate", lock, &after, "--format", "json"]);
    let found: BudgetCheck = serde_json::from_slice(&found.stdout).unwrap();
    let broken: Vec<(&str, u32)> = found.sections[0]
        .changes
        .iter()
        .map(|change| (change.call.as_str(), change.seen_in))
        .collect();
    assert_eq!(broken, [("fstat", 2)]);

    let difference = run(&["diff", &before, &after, "--format", "json"]);
    let difference: SyscallDiff = serde_json::from_slice(&difference.stdout).unwrap();
    let told: Vec<(&str, DiffWord)> = difference
        .families
        .iter()
        .flat_map(|family| &family.calls)
        .filter(|call| call.change != DiffWord::NotDistinguishable)
        .map(|call| (call.call.split('(').next().unwrap(), call.change))
        .collect();
    assert_eq!(told, [("fstat", DiffWord::New)]);
    let kept = fs::read_to_string(lock).unwrap();
    assert!(
        kept.contains("[server static-1b ") && !kept.contains("fstat"),
        "{kept}"
    );
}
