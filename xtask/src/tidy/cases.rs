//! The tables that say which test holds which case: every test that they name exists.
//!
//! A cell names tests between back quotes: `module::test` stands in the folder that the text above the
//! table names, `test` behind `path/to/file.rs`: in that file, until the next semicolon. A module or a
//! file alone stands for all its tests.

use super::source::{Line, Source};
use super::{Violation, text};

/// Whether a file has such a table.
pub(crate) fn is_table(path: &str) -> bool {
    path.strip_prefix("docs/cases-")
        .is_some_and(|rest| rest.strip_suffix(".md").is_some())
}

/// Everything that a table names and that is not there.
pub(crate) fn check(path: &str, content: &str, sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut found = |line: usize, text: String| violations.push(Violation::new(path, line, text));
    let Some(folder) = folder(content) else {
        found(
            0,
            "names no folder: write \"Tests stand in `FOLDER`\"".into(),
        );
        return violations;
    };
    let mut rows = 0;
    for (index, line) in content.lines().enumerate() {
        let Some(cell) = test_cell(line) else {
            continue;
        };
        rows += 1;
        let claims = claims(cell, folder);
        if claims.is_empty() {
            found(index + 1, "a case without a test".into());
        }
        for claim in claims {
            if let Some(missing) = claim.missing(sources) {
                found(index + 1, missing);
            }
        }
    }
    if rows == 0 {
        found(0, "has no table of cases".into());
    }
    violations
}

/// What a cell says: a test in a file, or all tests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    file: String,
    test: Option<String>,
}

impl Claim {
    /// What is not there, if anything is not.
    fn missing(&self, sources: &[Source]) -> Option<String> {
        let Self { file, test } = self;
        let Some(source) = sources.iter().find(|source| source.path == *file) else {
            return Some(format!("there is no file {file}"));
        };
        match test {
            None if source.lines.iter().any(is_test_attribute) => None,
            None => Some(format!("{file} has no tests")),
            Some(test) if has_test(source, test) => None,
            Some(test) => Some(format!("{file} has no test {test}")),
        }
    }
}

/// The folder of tests that are named without a file.
fn folder(content: &str) -> Option<&str> {
    let (_, after) = content.split_once("Tests stand in `")?;
    after.split_once('`').map(|(folder, _)| folder)
}

/// The third cell of a row whose first one is a number, or several.
fn test_cell(line: &str) -> Option<&str> {
    let row = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    let mut cells = row.split('|');
    let numbers = cells.next()?.trim();
    let is_number = |word: &str| word.trim().parse::<u32>().is_ok();
    if !numbers.split(',').all(is_number) {
        return None;
    }
    cells.nth(1)
}

/// What a cell names.
fn claims(cell: &str, folder: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    for part in cell.split(';') {
        let mut file: Option<&str> = None;
        let mut named = 0;
        // Every other piece stands between back quotes.
        for word in part.split('`').skip(1).step_by(2) {
            let (in_file, test) = match (word.rsplit_once("::"), file) {
                _ if word.contains(' ') => continue,
                _ if text::is_rust(word) => {
                    file = Some(word);
                    continue;
                }
                (Some((module, test)), _) => (in_folder(folder, module), Some(test.to_owned())),
                (None, Some(file)) => (file.to_owned(), Some(word.to_owned())),
                (None, None) => (in_folder(folder, word), None),
            };
            named += 1;
            claims.push(Claim {
                file: in_file,
                test,
            });
        }
        if let Some(file) = file.filter(|_| named == 0) {
            claims.push(Claim {
                file: file.to_owned(),
                test: None,
            });
        }
    }
    claims
}

fn in_folder(folder: &str, module: &str) -> String {
    format!("{folder}/{}.rs", module.replace("::", "/"))
}

/// Whether a file has a function of this name that the test harness runs.
fn has_test(source: &Source, name: &str) -> bool {
    let is_it = |line: &Line| {
        let after = line.code.trim().trim_start_matches("async ");
        let after = after
            .strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(name));
        after.is_some_and(|rest| rest.starts_with(['(', '<']))
    };
    let places = source.lines.iter().enumerate();
    let mut places = places.filter(|(_, line)| is_it(line));
    places.any(|(place, _)| {
        // Attributes and comments stand between the attribute of a test and its function.
        let above = source.lines[..place].iter().rev();
        above
            .take_while(|line| line.code.trim().is_empty() || line.code.trim().starts_with("#["))
            .any(is_test_attribute)
    })
}

fn is_test_attribute(line: &Line) -> bool {
    let code = line.code.trim();
    code == "#[test]" || code.starts_with("#[tokio::test")
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTRODUCTION: &str = "Tests stand in `a/tests/it` unless another place is named.\n\n\
                                | # | right | test |\n|---|---|---|\n";

    fn sources() -> Vec<Source> {
        let file = |path: &str, tests: &[&str]| {
            let text: Vec<String> = tests
                .iter()
                .map(|name| format!("/// Says.\n#[test]\n#[expect(x)]\nfn {name}() {{}}\n"))
                .collect();
            Source::parse(path, &format!("{}fn no_test() {{}}\n", text.concat()))
        };
        vec![
            file("a/tests/it/one.rs", &["first", "second"]),
            file("a/tests/it/deep/two.rs", &["third"]),
            file("b/src/lib.rs", &["fourth", "fifth"]),
            file("b/src/empty.rs", &[]),
        ]
    }

    fn found(rows: &str) -> Vec<String> {
        check(
            "docs/cases-x.md",
            &format!("{INTRODUCTION}{rows}"),
            &sources(),
        )
        .into_iter()
        .map(|violation| format!("{}: {}", violation.line, violation.text))
        .collect()
    }

    /// Tests that are there are found, in all the ways to name them.
    #[test]
    fn what_is_there_is_found() {
        let rows = "| 1 | x | `one::first`, `one::second` |\n\
                    | 2, 3 | x | `deep::two::third` |\n\
                    | 4 | x | `b/src/lib.rs`: `fourth`, `fifth`; `one::first` |\n\
                    | 5 | x | `one`; `b/src/lib.rs` |\n\
                    | 6 | x | `one::first` and all tests of `cargo xtask test vm` |\n\
                    Case 7 cannot come up: `nothing` is named.\n";
        assert_eq!(found(rows), [""; 0]);
    }

    /// What is not there is told with its line: a test, a file, a function that is no test, a case
    /// without any.
    #[test]
    fn what_is_missing_is_told() {
        let rows = "| 1 | x | `one::third`, `one::first` |\n\
                    | 2 | x | `gone::first` |\n\
                    | 3 | x | `one::no_test` |\n\
                    | 4 | x | `b/src/lib.rs`: `fourth`; `first` |\n\
                    | 5 | x | `b/src/empty.rs` |\n\
                    | 6 | x | nothing yet |\n\
                    | 7 | x | `one::fir` |\n";
        assert_eq!(
            found(rows),
            [
                "5: a/tests/it/one.rs has no test third",
                "6: there is no file a/tests/it/gone.rs",
                "7: a/tests/it/one.rs has no test no_test",
                "8: there is no file a/tests/it/first.rs",
                "9: b/src/empty.rs has no tests",
                "10: a case without a test",
                "11: a/tests/it/one.rs has no test fir",
            ]
        );
    }

    /// A file without a table, or without the folder that it speaks of, says nothing.
    #[test]
    fn tables_are_needed() {
        assert_eq!(found(""), ["0: has no table of cases"]);
        let bare = check("docs/cases-x.md", "| 1 | x | `one::first` |\n", &sources());
        assert_eq!(bare.len(), 1);
        assert!(is_table("docs/cases-load.md") && !is_table("docs/load.md"));
    }
}
