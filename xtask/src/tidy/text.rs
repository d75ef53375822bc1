//! Rules about every text file: white space, and nothing of one machine.

use std::path::Path;

use super::Violation;

/// Everything in one text file that breaks a rule.
pub(crate) fn check(path: &str, content: &str) -> Vec<Violation> {
    if GENERATED.iter().any(|suffix| path.ends_with(suffix)) {
        return machine_paths(path, content);
    }
    let mut violations = white_space(path, content);
    violations.extend(machine_paths(path, content));
    violations
}

/// Whether a file is Rust.
pub(crate) fn is_rust(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "rs")
}

fn white_space(path: &str, content: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in content.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            violations.push(Violation::new(path, index + 1, "white space at the end"));
        }
    }
    if !content.is_empty() && !content.ends_with('\n') {
        let last = content.lines().count();
        violations.push(Violation::new(
            path,
            last,
            "no newline at the end of the file",
        ));
    }
    violations
}

/// Paths that exist on one machine only. Tests in Rust may have an invented home.
fn machine_paths(path: &str, content: &str) -> Vec<Violation> {
    let mut is_test = path.contains("/tests/");
    let mut violations = Vec::new();
    for (index, line) in content.lines().enumerate() {
        is_test |= is_rust(path) && line.trim() == "#[cfg(test)]";
        let homes = HOMES.iter().filter(|_| !is_test);
        for folder in homes.chain([&WORK]) {
            let named = |after: &str| after.starts_with(|c: char| c.is_ascii_alphanumeric());
            let own_word = |before: &str| {
                !before.ends_with(|c: char| c.is_ascii_alphanumeric() || "._-/}".contains(c))
            };
            let mut parts = line.match_indices(folder);
            if parts.any(|(at, _)| own_word(&line[..at]) && named(&line[at + folder.len()..])) {
                let text = format!("a path of one machine ({folder}...)");
                violations.push(Violation::new(path, index + 1, text));
            }
        }
    }
    violations
}

/// Written so that this file does not contain what it looks for.
const HOMES: [&str; 2] = [concat!("/", "home/"), concat!("/", "Users/")];
const WORK: &str = concat!("/", "work/");

/// Output of programs, kept as it was printed: fixtures of other tools, and snapshots.
const GENERATED: [&str; 5] = [".snap", ".txt", ".out", ".json", "LICENSE-GPL2"];

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str) -> Vec<usize> {
        let violations = check("a/b.md", content);
        violations
            .into_iter()
            .map(|violation| violation.line)
            .collect()
    }

    /// White space at the end of a line and a missing newline are found.
    #[test]
    fn white_space_at_ends() {
        assert_eq!(lines("a \nb\t\nc\r\nd"), [1, 2, 3, 4]);
        assert_eq!(lines("a\n\nb\n"), [0; 0]);
        assert_eq!(lines(""), [0; 0]);
    }

    /// Paths of one machine are found; the same words in a URL or inside a longer path are not.
    #[test]
    fn paths_of_one_machine() {
        let home = concat!("see `/", "home/someone/x`\n");
        assert_eq!(lines(home), [1]);
        assert_eq!(lines(concat!("/", "work/x\n")), [1]);
        let test = format!("#[cfg(test)]\n{home}");
        assert_eq!(check("a/src/b.rs", &test), []);
        assert_eq!(lines("http://example.org/home/page\n/home\n"), [0; 0]);
    }
}
