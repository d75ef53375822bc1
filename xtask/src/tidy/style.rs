//! Rules about the text of Rust files: beginnings, lengths, names, and what must not be left over.

use super::Violation;
use super::source::{Line, Source};

/// Everything in one Rust file that breaks a rule of style.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let rules: [fn(&Source) -> Vec<Violation>; 8] = [
        beginning,
        length,
        file_name,
        leftovers,
        names,
        ports,
        sleeps,
        unnumbered_reminders,
    ];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

/// Every file says first what it owns; a licence of its own may stand above.
fn beginning(source: &Source) -> Vec<Violation> {
    let first = source
        .lines
        .iter()
        .find(|line| !line.whole.starts_with("// SPDX-License-Identifier: "));
    match first {
        Some(line) if line.whole.starts_with("//! ") => Vec::new(),
        _ => vec![Violation::new(
            &source.path,
            1,
            "begins without `//!`: say what the file owns",
        )],
    }
}

fn length(source: &Source) -> Vec<Violation> {
    let lines = source.lines.len();
    if lines <= MAX_LINES {
        return Vec::new();
    }
    let text = format!("{lines} lines, more than {MAX_LINES}: split it by what its parts own");
    vec![Violation::new(&source.path, 0, text)]
}

fn file_name(source: &Source) -> Vec<Violation> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let folder = source.path.rsplit('/').nth(1).unwrap_or_default();
    let vague = |word: &str| ["utils", "util", "helpers", "types"].contains(&word);
    if vague(name.trim_end_matches(".rs")) || (name == "mod.rs" && vague(folder)) {
        let text = "this name fits anything: name the file after what it owns";
        return vec![Violation::new(&source.path, 0, text)];
    }
    Vec::new()
}

/// Attributes and macros that do not belong in what is committed.
fn leftovers(source: &Source) -> Vec<Violation> {
    let forms = [
        (
            "#[ignore",
            "a test that does not run: let it skip itself, aloud",
        ),
        ("#[should_panic", "any panic passes it: check the outcome"),
        ("todo!(", "left over"),
        ("unimplemented!(", "left over"),
        ("dbg!(", "left over"),
    ];
    let mut violations = Vec::new();
    for (number, line) in source.numbered() {
        for (form, reason) in forms {
            if has_word_before(&line.code, form) {
                let text = format!("`{form}`: {reason}");
                violations.push(Violation::new(&source.path, number, text));
            }
        }
    }
    violations
}

/// Tests that wait for time to pass. Where time is what is tested (a slow server), a comment on the
/// line or above it says so: `// sleeps: WHY`.
fn sleeps(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut explained = false;
    for (number, line) in source.numbered() {
        let explained_before = explained;
        explained = line.comment.contains("sleeps: ");
        let sleeps = line.is_test && has_word_before(&line.code, "thread::sleep(");
        if sleeps && !explained && !explained_before {
            let text = "waits for time: wait for the event itself, or say why (`// sleeps: WHY`)";
            violations.push(Violation::new(&source.path, number, text));
        }
    }
    violations
}

/// Whether a needle stands in code as a word of its own, and not at the end of a longer one.
fn has_word_before(code: &str, needle: &str) -> bool {
    code.match_indices(needle).any(|(at, _)| {
        let before = code[..at].bytes().next_back();
        !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn names(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in source.numbered() {
        for keyword in ["struct", "enum", "trait", "type"] {
            if let Some(name) = name_after(&line.code, keyword)
                && name.ends_with("Manager")
            {
                let text = format!("`{name}` says little: name what it is");
                violations.push(Violation::new(&source.path, number, text));
            }
        }
        // The name of a test is a sentence, which may begin with the method GET.
        if let Some(name) = name_after(&line.code, "fn")
            && name.starts_with("get_")
            && !line.is_test
        {
            let text = format!("`{name}`: leave out `get_`");
            violations.push(Violation::new(&source.path, number, text));
        }
    }
    violations
}

/// The identifier after a keyword.
fn name_after<'a>(code: &'a str, keyword: &str) -> Option<&'a str> {
    let mut words = code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.find(|word| *word == keyword)?;
    words.next().filter(|name| !name.is_empty())
}

/// Tests that listen or connect on a port that somebody else may have.
fn ports(source: &Source) -> Vec<Violation> {
    let opens = |line: &&(usize, &Line)| {
        ["bind(", "connect(", "listen("]
            .iter()
            .any(|call| line.1.code.contains(call))
    };
    let tests = source.numbered().filter(|(_, line)| line.is_test);
    tests
        .collect::<Vec<_>>()
        .iter()
        .filter(opens)
        .filter(|(_, line)| has_port(&line.whole))
        .map(|&(number, _)| {
            let text = "a fixed port may be taken: bind port 0 and ask for the address";
            Violation::new(&source.path, number, text)
        })
        .collect()
}

/// Whether a line has an address with a port other than 0 between quotes.
fn has_port(line: &str) -> bool {
    ["127.0.0.1:", "localhost:", "0.0.0.0:", "[::1]:", "[::]:"]
        .iter()
        .flat_map(|host| line.split(host).skip(1))
        .any(|after| after.starts_with(|digit: char| ('1'..='9').contains(&digit)))
}

/// Reminders have the number of an issue, or nobody comes back to them.
fn unnumbered_reminders(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in source.numbered() {
        for word in ["TODO", "FIXME", "XXX"] {
            let numbered = |after: &str| {
                after
                    .strip_prefix("(#")
                    .is_some_and(|digits| digits.starts_with(|digit: char| digit.is_ascii_digit()))
            };
            if line
                .comment
                .split(word)
                .skip(1)
                .any(|after| !numbered(after))
            {
                let text = format!("`{word}` without a number, as in `{word}(#12)`");
                violations.push(Violation::new(&source.path, number, text));
            }
        }
    }
    violations
}

/// A file that is longer holds more than one thing.
const MAX_LINES: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&Source) -> Vec<Violation>, path: &str, content: &str) -> Vec<usize> {
        let source = Source::parse(path, content);
        rule(&source)
            .into_iter()
            .map(|violation| violation.line)
            .collect()
    }

    /// A file begins with what it owns, under a licence at most.
    #[test]
    fn beginnings() {
        let check = |content| found(beginning, "a/src/lib.rs", content).len();
        assert_eq!(check("//! Owns it.\n"), 0);
        assert_eq!(
            check("// SPDX-License-Identifier: GPL-2.0-only\n//! Owns it.\n"),
            0
        );
        assert_eq!(check("use a;\n//! Late.\n"), 1);
        assert_eq!(check("// A comment.\n"), 1);
        assert_eq!(check(""), 1);
    }

    /// Long files are found.
    #[test]
    fn lengths() {
        assert_eq!(found(length, "a/src/lib.rs", &"a\n".repeat(500)), [0; 0]);
        assert_eq!(found(length, "a/src/lib.rs", &"a\n".repeat(501)), [0]);
    }

    /// Names that fit anything are found, as files and as folders.
    #[test]
    fn file_names() {
        for (path, violations) in [
            ("a/src/utils.rs", 1),
            ("a/src/types.rs", 1),
            ("a/src/helpers/mod.rs", 1),
            ("a/src/subtypes.rs", 0),
        ] {
            assert_eq!(found(file_name, path, "").len(), violations, "{path}");
        }
    }

    /// Left-overs are found in code, not in what strings and comments say of them.
    #[test]
    fn left_overs() {
        let check = |content| found(leftovers, "a/src/lib.rs", content);
        assert_eq!(
            check("todo!()\n#[ignore]\n#[should_panic]\ndbg!(1)"),
            [1, 2, 3, 4]
        );
        assert_eq!(check("#[ignore = \"x\"]\nunimplemented!()"), [1, 2]);
        assert_eq!(check("// todo!()\n\"dbg!(\"\nmytodo!()"), [0; 0]);
    }

    /// Sleeping tests are found, unless they say why; other code may sleep.
    #[test]
    fn sleeping_tests() {
        let check = |content| found(sleeps, "a/src/lib.rs", content);
        assert_eq!(
            check("thread::sleep(a);\n#[cfg(test)]\nstd::thread::sleep(a);"),
            [3]
        );
        let explained = "#[cfg(test)]\n// sleeps: a slow server\nthread::sleep(a);\n";
        assert_eq!(check(explained), [0; 0]);
        assert_eq!(check(&format!("{explained}thread::sleep(a);")), [4]);
    }

    /// Vague type names and getters are found.
    #[test]
    fn names_of_items() {
        let check = |content| found(names, "a/src/lib.rs", content);
        assert_eq!(check("pub struct RunManager {\npub fn get_run() {"), [1, 2]);
        assert_eq!(check("struct Run;\nfn target() {\nfn get() {"), [0; 0]);
        assert_eq!(check("let widget_get_ = get_run();"), [0; 0]);
        assert_eq!(check("#[cfg(test)]\nfn get_has_no_body() {"), [0; 0]);
    }

    /// Fixed ports in tests are found, port 0 and text are not.
    #[test]
    fn fixed_ports() {
        let check = |content| found(ports, "a/tests/it/main.rs", content);
        assert_eq!(check("TcpListener::bind(\"127.0.0.1:8080\")"), [1]);
        assert_eq!(check("TcpStream::connect(\"localhost:1\")"), [1]);
        assert_eq!(check("TcpListener::bind(\"127.0.0.1:0\")"), [0; 0]);
        assert_eq!(check("parse(\"http://127.0.0.1:8080/\")"), [0; 0]);
    }

    /// Reminders without a number are found, in comments only.
    #[test]
    fn reminders() {
        let check = |content| found(unnumbered_reminders, "a/src/lib.rs", content);
        assert_eq!(check("// TODO later\n// FIXME(me)"), [1, 2]);
        assert_eq!(check("// TODO(#12) later\nlet a = \"TODO\";"), [0; 0]);
    }
}
