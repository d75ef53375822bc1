//! The comment on a pull request: one, kept up to date by a run that may write.
//!
//! What the run of a pull request left behind is what its author chose. It decides nothing here but
//! words: the repository comes from the event of this run, the number is believed only where the pull
//! request has the commit that the event names, and the text mentions nobody.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::report::{COMMENT, PULL_REQUEST, PullRequest, text};
use crate::command;

/// The event of a run that follows another one.
#[derive(Debug, Deserialize)]
struct Event {
    repository: Repository,
    workflow_run: WorkflowRun,
}

#[derive(Debug, Deserialize)]
struct Repository {
    full_name: String,
}

#[derive(Debug, Deserialize)]
struct WorkflowRun {
    head_sha: String,
}

/// Brings the comment up to date.
pub(super) fn post(folder: &Path) -> Result<()> {
    let path = std::env::var_os("GITHUB_EVENT_PATH").context(
        "GITHUB_EVENT_PATH is not set: this runs on GitHub, after the run of a pull request",
    )?;
    let event = fs::read(&path).context("failed to read the event of this run")?;
    let event: Event = serde_json::from_slice(&event)
        .context("the event of this run is not that of a finished one (workflow_run)")?;
    let Some(pull_request) = text(&folder.join(PULL_REQUEST))? else {
        println!("the run was for no pull request");
        return Ok(());
    };
    let pull_request: PullRequest =
        serde_json::from_str(&pull_request).context("failed to read which pull request it was")?;
    Comments {
        // GitHub's own client, which takes the token from the environment.
        client: &|| Command::new("gh"),
        repository: &event.repository.full_name,
        pull_request: pull_request.number,
    }
    .update(
        &event.workflow_run.head_sha,
        text(&folder.join(COMMENT))?.as_deref(),
    )
}

/// The comments of one pull request.
struct Comments<'a> {
    client: &'a dyn Fn() -> Command,
    repository: &'a str,
    pull_request: u64,
}

impl Comments<'_> {
    fn update(&self, head: &str, comment: Option<&str>) -> Result<()> {
        let (repository, pull_request) = (self.repository, self.pull_request);
        let pull = format!("repos/{repository}/pulls/{pull_request}");
        let found = self.api(&["--jq", ".head.sha", &pull], None)?;
        ensure!(
            found == head,
            "pull request {pull_request} is at {found}, and {head} was measured: nothing is written"
        );
        let on_issue = format!("repos/{repository}/issues/{pull_request}/comments");
        let own = format!(
            ".[] | select(.user.login == \"github-actions[bot]\") | select(.body | \
             startswith(\"{MARK}\")) | .id"
        );
        let ours = self.api(&["--paginate", "--jq", &own, &on_issue], None)?;
        let ours = ours.lines().next();
        let ours = ours
            .map(str::parse::<u64>)
            .transpose()
            .context("GitHub names comments by something else than numbers")?;
        match (comment, ours) {
            (None, None) => println!("nothing changed, and there is no comment to correct"),
            (None, Some(id)) => self.edit(id, "### syscall budget unchanged\n")?,
            (Some(comment), Some(id)) => self.edit(id, comment)?,
            (Some(comment), None) => {
                self.api(
                    &["--method", "POST", "--input", "-", &on_issue],
                    Some(&body(comment)),
                )?;
            }
        }
        Ok(())
    }

    fn edit(&self, id: u64, comment: &str) -> Result<()> {
        let one = format!("repos/{}/issues/comments/{id}", self.repository);
        self.api(
            &["--method", "PATCH", "--input", "-", &one],
            Some(&body(comment)),
        )?;
        Ok(())
    }

    fn api(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        let mut client = (self.client)();
        client.arg("api").args(arguments);
        let printed = match input {
            None => command::output(&mut client)?,
            Some(input) => command::output_of(&mut client, input.as_bytes())?,
        };
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }
}

/// The request that sets a comment.
fn body(comment: &str) -> String {
    let harmless = comment.replace('@', "@<!-- -->");
    let cut: String = harmless.chars().take(COMMENT_CHARACTERS).collect();
    serde_json::json!({ "body": format!("{MARK}\n{cut}") }).to_string()
}

/// How our comment is known again.
const MARK: &str = "<!-- whyfast -->";
/// GitHub takes 65,536; the mark comes on top.
const COMMENT_CHARACTERS: usize = 65_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A comment carries its mark, mentions nobody and fits.
    #[test]
    fn comments_are_marked_and_harmless() {
        let hostile = format!("@everybody {}", "x".repeat(100_000));
        let request: serde_json::Value = serde_json::from_str(&body(&hostile)).expect("JSON");
        let text = request["body"].as_str().expect("a text");
        assert!(text.starts_with("<!-- whyfast -->\n@<!-- -->everybody x"));
        assert!(text.chars().count() < 65_536);
    }

    /// What a client was asked for that knows one commit and these comments of ours.
    fn asked(ours: &str, head: &str, comment: Option<&str>) -> (bool, String) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = folder.path().join("client.sh");
        let text = format!(
            "cd {}\necho \"$*\" >>log\ncase \"$*\" in\n*pulls/7) echo abc;;\n*paginate*) echo {ours};;\n\
             *) cat >>log;;\nesac\n",
            folder.path().display()
        );
        fs::write(&script, text).expect("a file can be written");
        let client = || {
            let mut sh = Command::new("sh");
            sh.arg(&script);
            sh
        };
        let comments = Comments {
            client: &client,
            repository: "o/r",
            pull_request: 7,
        };
        let done = comments.update(head, comment).is_ok();
        let log = fs::read_to_string(folder.path().join("log")).expect("it was asked");
        (done, log)
    }

    /// The one comment is made, edited or corrected; without news there is none.
    #[test]
    fn one_comment_is_kept() {
        let (done, log) = asked("", "abc", Some("news"));
        assert!(done && log.contains("--method POST --input - repos/o/r/issues/7/comments"));
        assert!(log.contains("news"), "{log}");
        let (done, log) = asked("41", "abc", Some("news"));
        assert!(done && log.contains("--method PATCH --input - repos/o/r/issues/comments/41"));
        let (done, log) = asked("41", "abc", None);
        assert!(done && log.contains("PATCH") && log.contains("unchanged"));
        let (done, log) = asked("", "abc", None);
        assert!(done && !log.contains("--method"), "{log}");
    }

    /// Where the pull request has another commit than the one that was measured, nothing is written.
    #[test]
    fn the_number_alone_is_not_believed() {
        let (done, log) = asked("41", "def", Some("news"));
        assert!(!done && !log.contains("--method"), "{log}");
    }
}
