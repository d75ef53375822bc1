//! Where results go: stdout, or a file that appears whole or not at all.
//!
//! Results go to stdout or `-o FILE`, everything else to stderr. A file is written beside its final
//! name and renamed when complete, so a full disk leaves no half file; what was measured is then
//! printed on stdout instead, so that it is not lost.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::thread::CapabilitySet;

use crate::identity::{self, Identity};

/// Where a result goes.
#[derive(Debug)]
pub(crate) enum Output {
    /// The standard output.
    Stdout,
    /// A device, a pipe: written in place.
    InPlace(PathBuf),
    /// A regular file.
    File(PathBuf),
}

impl Output {
    /// Checks the output before anything is measured, so that a wrong path costs no run.
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Ok(Self::Stdout);
        };
        if let Ok(meta) = fs::metadata(path) {
            let kind = meta.file_type();
            if kind.is_char_device() || kind.is_fifo() || kind.is_block_device() {
                return Ok(Self::InPlace(path.to_owned()));
            }
            anyhow::ensure!(
                !meta.is_dir(),
                "{} is a folder; name a file",
                path.display()
            );
        }
        // The file that a link names is meant, not the link.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // A file without a name: nothing is left of it, however this process ends.
        tempfile::tempfile_in(folder_of(path))
            .with_context(|| format!("failed to create {}; choose another -o", path.display()))?;
        Ok(Self::File(path.to_owned()))
    }

    /// A stream that is written in place, so that it can be read as it grows. Files are given to the user
    /// behind `sudo`, as whole ones are.
    pub(crate) fn stream(self) -> anyhow::Result<Box<dyn io::Write + Send>> {
        let (path, is_file) = match self {
            Self::Stdout => return Ok(Box::new(io::stdout())),
            Self::InPlace(path) => (path, false),
            Self::File(path) => (path, true),
        };
        let is_new = is_file && !path.exists();
        let mut options = fs::OpenOptions::new();
        options.write(true).create(is_file).truncate(is_file);
        let file = options
            .open(&path)
            .with_context(|| format!("failed to open {}; choose another -o", path.display()))?;
        if let Some(owner) = identity::caller().filter(|_| is_new) {
            std::os::unix::fs::fchown(&file, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(Box::new(file))
    }

    /// What writing it may take of root's privileges: the folder may be somebody else's.
    pub(crate) fn capabilities(&self) -> CapabilitySet {
        match self {
            Self::Stdout => CapabilitySet::empty(),
            Self::File(_) => CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN,
            Self::InPlace(_) => CapabilitySet::DAC_OVERRIDE,
        }
    }

    /// Writes a result. Where a file cannot take it, it goes to stdout and the error follows.
    pub(crate) fn write(self, result: &str) -> anyhow::Result<()> {
        let (path, written) = match self {
            Self::Stdout => return to_stdout(result),
            Self::InPlace(path) => {
                let written = fs::OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .and_then(|mut file| file.write_all(result.as_bytes()));
                (path, written)
            }
            Self::File(path) => {
                let written = write_whole(&path, result, identity::caller().as_ref());
                (path, written)
            }
        };
        match written {
            Ok(()) => Ok(()),
            Err(error) => {
                to_stdout(result)?;
                Err(error).with_context(|| {
                    format!(
                        "failed to write {}; the result was printed on stdout instead, and no \
                         partial file is left. Free some space or name another file",
                        path.display()
                    )
                })
            }
        }
    }
}

/// Writes a file whole or not at all: beside its final name, then renamed. Where an owner is named,
/// the file is given to it.
pub(crate) fn write_whole(path: &Path, text: &str, owner: Option<&Identity>) -> io::Result<()> {
    // A file that is replaced keeps its mode and its owner.
    let before = fs::metadata(path).ok();
    let mode = before.as_ref().map_or(0o644, |meta| meta.mode() & 0o777);
    let mut pending = tempfile::Builder::new()
        .prefix(".whyfast-")
        .tempfile_in(folder_of(path))
        .map_err(|error| io::Error::from(error.kind()))?;
    // Through the file itself: errors of the wrapper name its passing name.
    let file = pending.as_file_mut();
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()?;
    let owner = before
        .map(|meta| (meta.uid(), meta.gid()))
        .or(owner.map(|owner| (owner.uid, owner.gid)))
        .filter(|_| rustix::process::geteuid().is_root());
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    pending.persist(path).map(drop).map_err(|error| error.error)
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn to_stdout(result: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(result.as_bytes())
        .and_then(|()| stdout.flush())
        .context("failed to write to stdout")
}

/// One diagnostic line on stderr. That stderr is gone is nobody's concern.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// How text is laid out for whoever reads stdout.
pub(crate) fn style(output: &Output) -> reports::Style {
    let terminal = matches!(output, Output::Stdout) && io::stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let width = if terminal {
        rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col))
    } else {
        0
    };
    reports::Style {
        width: if width == 0 {
            reports::Style::default().width
        } else {
            width
        },
        colour: terminal && !no_color,
    }
}
