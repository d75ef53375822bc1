//! `ci report`: one comment from the results of all steps, and only where there is something to say.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use recording::{BudgetCheck, BudgetOutcome, exit_code};
use serde::Deserialize;

use super::{compare, counts, post, results};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// On GitHub, in a run that may write: bring the comment of the pull request up to date from the
    /// results that its own run left in this folder.
    #[arg(long, value_name = "FOLDER")]
    post: Option<PathBuf>,
}

pub(super) fn run(root: &Path, args: &Args) -> Result<u8> {
    if let Some(folder) = &args.post {
        post::post(folder)?;
        return Ok(exit_code::DONE);
    }
    let folder = results(root);
    let found = Found::read(&folder)?;
    let summary = found.summary();
    println!("{summary}");
    let comment = folder.join(COMMENT);
    if found.is_news() {
        fs::write(&comment, &summary)
            .with_context(|| format!("failed to write {}", comment.display()))?;
    } else if comment.exists() {
        fs::remove_file(&comment)
            .with_context(|| format!("failed to remove {}", comment.display()))?;
    }
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY") {
        append(Path::new(&path), &summary)?;
    }
    if let Some(pull_request) = PullRequest::of_this_run()? {
        let path = folder.join(PULL_REQUEST);
        fs::write(&path, pull_request.to_json())
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(exit_code::DONE)
}

/// The results of the steps that ran.
struct Found {
    counts: Option<(BudgetCheck, String)>,
    comparison: Option<String>,
}

impl Found {
    fn read(folder: &Path) -> Result<Self> {
        let counts = folder.join(counts::FOLDER);
        let check = text(&counts.join("check.json"))?;
        let check = check
            .map(|json| serde_json::from_str::<BudgetCheck>(&json))
            .transpose()
            .context("failed to read the check of the counts")?;
        let markdown = text(&counts.join("check.md"))?;
        Ok(Self {
            counts: check.zip(markdown),
            comparison: text(&folder.join(compare::FOLDER).join("report.md"))?,
        })
    }

    /// Whether a comment would tell anything: nobody is told that nothing changed.
    fn is_news(&self) -> bool {
        let Some((check, _)) = &self.counts else {
            return false;
        };
        let remarkable = |section: &recording::SectionCheck| {
            section.new || section.changes.iter().any(|change| change.breaks)
        };
        check.outcome != BudgetOutcome::Unchanged || check.sections.iter().any(remarkable)
    }

    fn summary(&self) -> String {
        let mut summary = String::new();
        match (&self.counts, &self.comparison) {
            (Some((_, markdown)), _) => summary.push_str(markdown),
            (None, Some(_)) => {}
            (None, None) => summary.push_str(NOT_CHECKED),
        }
        if let Some(comparison) = &self.comparison {
            let room = SUMMARY_BYTES.saturating_sub(summary.len());
            if comparison.len() < room {
                write!(
                    summary,
                    "\n<details><summary>comparison with the base (times never fail a build)</summary>\n\n\
                     {comparison}\n</details>\n"
                )
                .expect("a string can grow");
            } else {
                summary
                    .push_str("\nThe comparison is too long to be shown; the artifact has it.\n");
            }
        }
        summary
    }
}

/// The pull request that a run is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
pub(super) struct PullRequest {
    pub(super) number: u64,
    /// The commit that was measured.
    pub(super) head: String,
}

impl PullRequest {
    /// From the event of the run; `None` in a run that is for none.
    fn of_this_run() -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Event {
            pull_request: Option<Of>,
        }
        #[derive(Deserialize)]
        struct Of {
            number: u64,
            head: Head,
        }
        #[derive(Deserialize)]
        struct Head {
            sha: String,
        }
        let Some(path) = std::env::var_os("GITHUB_EVENT_PATH") else {
            return Ok(None);
        };
        let json = fs::read(&path).context("failed to read the event of this run")?;
        let event: Event = serde_json::from_slice(&json).context("failed to read the event")?;
        Ok(event.pull_request.map(|of| Self {
            number: of.number,
            head: of.head.sha,
        }))
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}

/// A file's text; `None` where there is no such file.
pub(super) fn text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

fn append(path: &Path, text: &str) -> Result<()> {
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("failed to add to {}", path.display()))
}

/// The comment of a pull request, where there is something to say.
pub(super) const COMMENT: &str = "comment.md";
/// Which pull request it is for.
pub(super) const PULL_REQUEST: &str = "pull-request.json";
const NOT_CHECKED: &str = "### syscall budget not checked: the step did not get so far\n";
/// A comment takes 65,536 characters; the rest is for what is added.
const SUMMARY_BYTES: usize = 60_000;

#[cfg(test)]
mod tests {
    use recording::BUDGET_SCHEMA;

    use super::*;

    fn found(outcome: BudgetOutcome) -> Found {
        let check = BudgetCheck {
            schema: BUDGET_SCHEMA.to_owned(),
            outcome,
            conditions: String::new(),
            sections: Vec::new(),
        };
        Found {
            counts: Some((check, "### syscall budget\n".to_owned())),
            comparison: None,
        }
    }

    /// Nobody is told that nothing changed, and everybody that something did.
    #[test]
    fn silence_where_nothing_changed() {
        assert!(!found(BudgetOutcome::Unchanged).is_news());
        assert!(found(BudgetOutcome::Broken).is_news());
        assert!(found(BudgetOutcome::NotComparable).is_news());
    }

    /// A run that got nowhere says so; one that only compares has no counts to speak of.
    #[test]
    fn what_did_not_run_is_said() {
        let mut nothing = Found {
            counts: None,
            comparison: None,
        };
        assert_eq!(nothing.summary(), NOT_CHECKED);
        assert!(!nothing.is_news());
        nothing.comparison = Some("### compare\n".to_owned());
        assert!(!nothing.summary().contains("not checked"));
    }

    /// A comparison is folded in, unless the comment would be longer than GitHub takes.
    #[test]
    fn long_comparisons_are_left_out() {
        let mut found = found(BudgetOutcome::Unchanged);
        found.comparison = Some("### compare\n".to_owned());
        assert!(found.summary().contains("<details>"));
        found.comparison = Some("x".repeat(SUMMARY_BYTES));
        let summary = found.summary();
        assert!(summary.len() < SUMMARY_BYTES && summary.contains("the artifact"));
    }
}
