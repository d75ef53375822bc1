//! Workflow files: their steps, and the rules that keep them harmless and the same as here.
//!
//! No YAML parser: the files are our own, one key a line. What this cannot read is a violation.

/// One step of a job that is more than a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A command.
    Run(String),
    /// An action, `owner/name@commit`, and the comment behind it.
    Uses { action: String, comment: String },
}

/// The steps of a workflow with their lines, from 1.
pub(crate) fn steps(content: &str) -> Vec<(usize, Step)> {
    let mut steps = Vec::new();
    for (index, line) in content.lines().enumerate() {
        let line = line.trim_start();
        let line = line.strip_prefix("- ").unwrap_or(line);
        let step = if let Some(command) = line.strip_prefix("run:") {
            Step::Run(command.trim().to_owned())
        } else if let Some(action) = line.strip_prefix("uses:") {
            let (action, comment) = action.split_once('#').unwrap_or((action, ""));
            Step::Uses {
                action: action.trim().to_owned(),
                comment: comment.trim().to_owned(),
            }
        } else {
            continue;
        };
        steps.push((index + 1, step));
    }
    steps
}

/// The words behind `cargo xtask` of a command of ours; `None` where it is another command.
pub(crate) fn own_words(command: &str) -> Option<Vec<&str>> {
    let words = command.strip_prefix("cargo xtask ")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || " -_./=".contains(c);
    let own = words.starts_with("ci ") && words.chars().all(plain);
    own.then(|| words.split_whitespace().collect())
}

/// What is wrong with a workflow, with the line, 0 for the file as a whole. `is_known` says whether a
/// command line is one of this program.
pub(crate) fn faults(content: &str, is_known: impl Fn(&[&str]) -> bool) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for (line, step) in steps(content) {
        match step {
            Step::Run(command) => match own_words(&command) {
                None => faults.push((
                    line,
                    format!("runs {command:?}: steps run `cargo xtask ci ...` and nothing else"),
                )),
                Some(words) if !is_known(&words) => {
                    faults.push((line, format!("`{command}` is no command of xtask")));
                }
                Some(_) => {}
            },
            Step::Uses { action, comment } => {
                if !is_pinned(&action) || !comment.starts_with('v') {
                    faults.push((
                        line,
                        format!("{action}: pin the commit, with its version as a comment"),
                    ));
                }
            }
        }
    }
    for (index, line) in content.lines().enumerate() {
        if line.trim_start().starts_with("pull_request_target") {
            let text = "pull_request_target runs code of others with our rights".to_owned();
            faults.push((index + 1, text));
        }
    }
    let begins = |word: &str| content.lines().any(|line| line.starts_with(word));
    if !begins("permissions:") {
        faults.push((0, "lacks `permissions:` for the whole workflow".to_owned()));
    }
    let count = |word: &str| {
        let lines = content.lines().map(str::trim_start);
        lines.filter(|line| line.starts_with(word)).count()
    };
    if count("runs-on:") != count("timeout-minutes:") {
        faults.push((0, "every job needs `timeout-minutes:`".to_owned()));
    }
    faults
}

fn is_pinned(action: &str) -> bool {
    action.split_once('@').is_some_and(|(_, commit)| {
        commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Where workflows are, relative to the root.
pub(crate) const FOLDER: &str = ".github/workflows/";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content: &str) -> Vec<usize> {
        let faults = faults(content, |words| words == ["ci", "counts"]);
        faults.into_iter().map(|(line, _)| line).collect()
    }

    /// Steps are found whether they begin an item or follow in it.
    #[test]
    fn finds_steps() {
        let content =
            "    steps:\n      - uses: a/b@c  # v1\n      - if: always()\n        run: x y\n";
        let uses = Step::Uses {
            action: "a/b@c".to_owned(),
            comment: "v1".to_owned(),
        };
        let run = Step::Run("x y".to_owned());
        assert_eq!(steps(content), [(2, uses), (4, run)]);
    }

    /// Foreign commands, scripts, interpolation, unpinned actions, missing rights and missing limits
    /// are found.
    #[test]
    fn finds_what_is_not_allowed() {
        let fine = "permissions: {}\njobs:\n  a:\n    runs-on: x\n    timeout-minutes: 1\n";
        assert_eq!(found(fine), [0; 0]);
        let with = |step: &str| found(&format!("{fine}{step}\n"));
        assert_eq!(with("run: cargo xtask ci counts"), [0; 0]);
        let pinned = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(with(&format!("uses: a/b@{pinned}  # v1.2.3")), [0; 0]);
        let interpolated = format!("run: cargo xtask ci counts ${}", "{{ x }}");
        for wrong in [
            "run: curl x",
            "run: |",
            "run: cargo xtask ci bless",
            "run: cargo xtask test",
            interpolated.as_str(),
            "uses: a/b@v4",
            "uses: a/b@0123456789abcdef0123456789abcdef01234567",
            "pull_request_target:",
        ] {
            assert_eq!(with(wrong), [6], "{wrong}");
        }
        assert_eq!(found("jobs:\n"), [0]);
        assert_eq!(found("permissions: {}\n  runs-on: x\n"), [0]);
    }
}
