//! The architecture invariants that show in the text of Rust files.

use std::collections::BTreeMap;

use super::Violation;
use super::source::Source;

/// Everything in one Rust file that breaks an invariant.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut violations = one_seam_to_the_kernel(source);
    violations.extend(pure_crates(source));
    violations.extend(forbidden_unsafe(source));
    violations
}

/// Only one file of the user side names aya, so that all above it is tested without root.
fn one_seam_to_the_kernel(source: &Source) -> Vec<Violation> {
    if source.package() == "profiler-ebpf"
        || source.path == SEAM
        || source.path.starts_with(BEHIND_SEAM)
    {
        return Vec::new();
    }
    matching(source, |line| has_path(line, "aya"))
        .map(|line| {
            let text = format!("names aya: only {SEAM} does");
            Violation::new(&source.path, line, text)
        })
        .collect()
}

/// `recording` and `reports` compute: they open nothing and read no clock. Their tests may.
fn pure_crates(source: &Source) -> Vec<Violation> {
    if !PURE_CRATES.contains(&source.package()) || !source.path.contains("/src/") {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (number, line) in source.numbered().filter(|(_, line)| !line.is_test) {
        for impure in IMPURE {
            if has_path(&line.code, impure) {
                let text = format!("names `{impure}`: this crate does no input, output or time");
                violations.push(Violation::new(&source.path, number, text));
            }
        }
    }
    violations
}

/// The crates without a need for unsafe code say so to the compiler.
fn forbidden_unsafe(source: &Source) -> Vec<Violation> {
    let is_root = ["lib.rs", "main.rs"]
        .iter()
        .any(|root| source.path == format!("{}/src/{root}", source.package()));
    let forbids = |line: usize| source.lines[line].code.trim() == "#![forbid(unsafe_code)]";
    if !is_root || !SAFE_CRATES.contains(&source.package()) || (0..source.lines.len()).any(forbids)
    {
        return Vec::new();
    }
    let text = "lacks `#![forbid(unsafe_code)]`";
    vec![Violation::new(&source.path, 0, text)]
}

/// Unsafe code of a crate stands in one file.
pub(crate) fn check_unsafe(sources: &[Source]) -> Vec<Violation> {
    let mut files: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        // Programs in the kernel are unsafe throughout; what both sides share is marked as plain
        // bytes where each type stands.
        let exempt = ["profiler-ebpf", "profiler-common"].contains(&source.package());
        let has_unsafe = source.lines.iter().any(|line| {
            ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern "]
                .iter()
                .any(|form| line.code.contains(form))
        });
        if has_unsafe && !exempt && source.path.contains("/src/") {
            files.entry(source.package()).or_default().push(source);
        }
    }
    let crowded = files.into_values().filter(|files| files.len() > 1);
    crowded
        .flatten()
        .map(|source| {
            let text = "unsafe code in more than one file of the crate: gather it in one";
            Violation::new(&source.path, 0, text)
        })
        .collect()
}

fn matching(source: &Source, found: impl Fn(&str) -> bool) -> impl Iterator<Item = usize> {
    source
        .numbered()
        .filter(move |(_, line)| found(&line.code))
        .map(|(number, _)| number)
}

/// Whether a path of code stands in a line, as whole words.
fn has_path(code: &str, path: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    code.match_indices(path).any(|(at, _)| {
        let before = code[..at].bytes().next_back();
        let after = code[at + path.len()..].bytes().next();
        // `a::aya` is a module of ours.
        !before.is_some_and(|byte| is_word(byte) || byte == b':' || byte == b'.')
            && !after.is_some_and(is_word)
    })
}

const SEAM: &str = "profiler/src/source/bpf.rs";
const BEHIND_SEAM: &str = "profiler/src/source/bpf/";
const PURE_CRATES: [&str; 2] = ["recording", "reports"];
const SAFE_CRATES: [&str; 3] = ["recording", "reports", "xtask"];
const IMPURE: [&str; 10] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, content: &str) -> Vec<usize> {
        let violations = check(&Source::parse(path, content));
        violations
            .into_iter()
            .map(|violation| violation.line)
            .collect()
    }

    /// Naming aya elsewhere than at the seam is found; a word that contains it is not.
    #[test]
    fn aya_beyond_the_seam() {
        let content = "use aya::Ebpf;\nuse aya_obj::Object;\nlet maya = 1;\n// aya\n";
        assert_eq!(found("profiler/src/attach.rs", content), [1]);
        assert_eq!(found("profiler/src/source/bpf.rs", content), [0; 0]);
        assert_eq!(found("profiler/src/source/bpf/clock.rs", content), [0; 0]);
        assert_eq!(found("profiler-ebpf/src/main.rs", content), [0; 0]);
    }

    /// Input, output and time in a pure crate are found, in its tests they are allowed.
    #[test]
    fn impurity_in_pure_crates() {
        let content = "use std::fs;\nlet a = Instant::now();\nuse std::time::Duration;\n\
                       #[cfg(test)]\nuse std::fs;\n";
        assert_eq!(found("reports/src/diff.rs", content), [1, 2]);
        assert_eq!(found("loadgen/src/clock.rs", content), [0; 0]);
    }

    /// A crate that has to forbid unsafe code and does not is found.
    #[test]
    fn missing_forbid() {
        assert_eq!(found("reports/src/lib.rs", "//! a\n"), [0]);
        assert_eq!(
            found("reports/src/lib.rs", "//! a\n#![forbid(unsafe_code)]\n"),
            [0; 0]
        );
        assert_eq!(found("loadgen/src/lib.rs", "//! a\n"), [0; 0]);
    }

    /// Unsafe code in a second file of a crate is found, in every such file.
    #[test]
    fn scattered_unsafe() {
        let files = |paths: &[&str]| {
            let sources: Vec<Source> = paths
                .iter()
                .map(|path| Source::parse(path, "unsafe { a() }\n"))
                .collect();
            check_unsafe(&sources).len()
        };
        assert_eq!(files(&["a/src/x.rs", "b/src/x.rs"]), 0);
        assert_eq!(files(&["a/src/x.rs", "a/src/y.rs", "b/src/x.rs"]), 2);
    }
}
