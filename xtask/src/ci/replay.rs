//! `ci replay`: the commands of the workflows, here and in their order.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use recording::exit_code;

use super::status;
use super::workflow::{FOLDER, Step, own_words, steps};

/// Runs the steps of every workflow; the first that does not pass ends it, with its exit code.
pub(super) fn run(root: &Path) -> Result<u8> {
    let program = std::env::current_exe().context("failed to find this program")?;
    for name in workflows(root)? {
        let path = root.join(FOLDER).join(&name);
        let content = fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        for (line, step) in steps(&content) {
            let Step::Run(command) = step else { continue };
            println!("\n-- {name}:{line}: {command}");
            let words = own_words(&command)
                .with_context(|| format!("{name}:{line} is not one of our commands"))?;
            if words.contains(&"--post") {
                println!("-- left out: it writes to GitHub");
                continue;
            }
            let mut step = Command::new(&program);
            step.args(&words).args(shortened(&words)).current_dir(root);
            let code = status(&mut step)?;
            if code != exit_code::DONE {
                println!("-- {name}:{line}: exit code {code}");
                return Ok(code);
            }
        }
    }
    Ok(exit_code::DONE)
}

/// What makes a step short enough to be run with every change: whether it works is asked, not what it
/// measures.
fn shortened(words: &[&str]) -> &'static [&'static str] {
    if words == ["ci", "compare"] {
        &["--quick", "--base", "HEAD"]
    } else {
        &[]
    }
}

/// The names of the workflow files, in order.
fn workflows(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(FOLDER);
    let entries =
        fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yml")
            && let Some(name) = path.file_name()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    ensure!(!names.is_empty(), "there is no workflow in {FOLDER}");
    Ok(names)
}
