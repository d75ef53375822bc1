//! `ci compare`: the built-in server of two revisions against each other, in one run on one machine.
//!
//! Times never fail a build at first sight: the report says what was found, and only a run that could
//! not measure is an error.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use recording::exit_code;
use tempfile::TempDir;

use super::{emptied, status};
use crate::command::{self, Optimised};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The revision to compare with [default: the newest commit that is a day old].
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// Style of the built-in server.
    #[arg(long, default_value = "sendfile", value_name = "SPEC")]
    style: String,
    /// With builds without optimisation and two short pairs: does it work? Its figures mean nothing.
    #[arg(long)]
    quick: bool,
}

pub(super) fn run(root: &Path, args: &Args) -> Result<u8> {
    let optimised = if args.quick {
        Optimised::No
    } else {
        Optimised::Yes
    };
    let head = commit(root, "HEAD")?;
    let base = match &args.base {
        Some(revision) => commit(root, revision)?,
        None => day_old(root)?.unwrap_or_else(|| head.clone()),
    };
    let head_program = command::build(root, optimised)?;
    let programs = open_folder()?;
    let keep = |program: &Path, name: &str| -> Result<PathBuf> {
        let kept = programs.path().join(name);
        std::fs::copy(program, &kept)
            .with_context(|| format!("failed to copy {}", program.display()))?;
        Ok(kept)
    };
    let head_kept = keep(&head_program, "head")?;
    let base_kept = if base == head {
        println!("both revisions are {head}: the same program twice");
        keep(&head_program, "base")?
    } else {
        let tree = BaseTree::check_out(root, &base)?;
        keep(&command::build(&tree.folder, optimised)?, "base")?
    };
    let folder = emptied(root, FOLDER)?;
    let arm = |name: &str, program: &Path| {
        format!(
            "{name}=cmd:{} testserver --style {} --workers {{workers}} --listen 127.0.0.1:{{port}} \
             --file {{root}}/{{file}}",
            program.display(),
            args.style
        )
    };
    let mut compare = Command::new(&head_program);
    compare.arg("compare");
    if args.quick {
        compare.args(["--pairs", "2", "--duration", "200ms"]);
    } else {
        compare.args(["--publish", "--pairs", PAIRS]);
    }
    compare
        .arg("--out")
        .arg(&folder)
        .args([arm("base", &base_kept), arm("head", &head_kept)]);
    Ok(match status(&mut compare)? {
        // A verdict in words is what was asked for.
        exit_code::INCONCLUSIVE => exit_code::DONE,
        // Two pairs of a busy machine say nothing, and were to say nothing.
        exit_code::NOT_COMPARABLE if args.quick => exit_code::DONE,
        code => code,
    })
}

/// The tree of another revision, which goes away with this.
struct BaseTree<'a> {
    root: &'a Path,
    folder: PathBuf,
    /// Holds the folder.
    _parent: TempDir,
}

impl<'a> BaseTree<'a> {
    fn check_out(root: &'a Path, revision: &str) -> Result<Self> {
        let parent = tempfile::tempdir().context("failed to make a temporary folder")?;
        let folder = parent.path().join("base");
        let mut add = git(root);
        add.args(["worktree", "add", "--detach", "--quiet"]);
        command::run(add.arg(&folder).arg(revision))?;
        Ok(Self {
            root,
            folder,
            _parent: parent,
        })
    }
}

impl Drop for BaseTree<'_> {
    fn drop(&mut self) {
        let mut remove = git(self.root);
        remove
            .args(["worktree", "remove", "--force"])
            .arg(&self.folder);
        if let Err(error) = command::run(&mut remove) {
            eprintln!("{error:#}");
        }
    }
}

/// A folder whose programs anybody may run: servers do not run as root.
fn open_folder() -> Result<TempDir> {
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody)
        .context("failed to open the temporary folder")?;
    Ok(folder)
}

fn commit(root: &Path, revision: &str) -> Result<String> {
    let mut parse = git(root);
    parse.args(["rev-parse", "--verify", "--end-of-options"]);
    line(parse.arg(format!("{revision}^{{commit}}")))
}

/// The newest commit that is a day old; `None` where there is none.
fn day_old(root: &Path) -> Result<Option<String>> {
    let mut list = git(root);
    let found = line(list.args(["rev-list", "-1", "--before=24 hours ago", "HEAD"]))?;
    Ok(Some(found).filter(|found| !found.is_empty()))
}

fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root);
    git
}

fn line(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&command::output(command)?)
        .trim()
        .to_owned())
}

/// What a published claim needs.
const PAIRS: &str = "10";
/// Below the results of all steps.
pub(super) const FOLDER: &str = "compare";
