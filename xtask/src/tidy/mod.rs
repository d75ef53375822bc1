//! `cargo xtask tidy`: the rules of this repository that a program can check.
//!
//! Each rule is a pure function from a file, a manifest or a package to what it violates, with a
//! test that shows a violation being found.

mod architecture;
mod cases;
mod licence;
mod manifest;
mod source;
mod style;
mod text;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use recording::exit_code;

use crate::ci::workflow;
use crate::fuzz::FOLDERS as FUZZ_FOLDERS;
use crate::tree;
use source::Source;

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    /// From 1; 0 for the file as a whole.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Violation {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            text: text.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, text } = self;
        match line {
            0 => write!(formatter, "{path}: {text}"),
            line => write!(formatter, "{path}:{line}: {text}"),
        }
    }
}

pub(crate) fn run() -> Result<ExitCode> {
    let root = tree::root();
    let mut violations = check_files(&root)?;
    violations.extend(licence::check(&tree::metadata(&root, true)?));
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("tidy: no violations");
        return Ok(ExitCode::from(exit_code::DONE));
    }
    println!("tidy: {} violations", violations.len());
    Ok(ExitCode::from(exit_code::FAILED))
}

fn check_files(root: &Path) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    let mut sources = Vec::new();
    let mut tables = Vec::new();
    for file in tree::files(root)? {
        let bytes = fs::read(root.join(&file))
            .with_context(|| format!("failed to read {}", file.display()))?;
        let path = file.to_string_lossy().into_owned();
        if FUZZ_FOLDERS
            .iter()
            .any(|folder| path.starts_with(&format!("{folder}/corpus/")))
        {
            continue;
        }
        let Ok(content) = String::from_utf8(bytes) else {
            continue;
        };
        violations.extend(text::check(&path, &content));
        if path.starts_with(workflow::FOLDER) {
            let faults = workflow::faults(&content, crate::is_command);
            let faults = faults.into_iter();
            violations.extend(faults.map(|(line, text)| Violation::new(&path, line, text)));
        }
        // Fuzz targets are not members of the workspace, and never a part of what is built for users.
        let is_fuzz = FUZZ_FOLDERS
            .iter()
            .any(|folder| path == format!("{folder}/Cargo.toml"));
        if path.ends_with("Cargo.toml") && !is_fuzz {
            violations.extend(manifest::check(&path, &content));
        }
        if text::is_rust(&path) {
            sources.push(Source::parse(&path, &content));
        } else if cases::is_table(&path) {
            tables.push((path, content));
        }
    }
    for source in &sources {
        violations.extend(style::check(source));
        violations.extend(architecture::check(source));
    }
    violations.extend(architecture::check_unsafe(&sources));
    for (path, content) in &tables {
        violations.extend(cases::check(path, content, &sources));
    }
    Ok(violations)
}
