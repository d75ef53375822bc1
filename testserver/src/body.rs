//! The file that is served: where it is, how long it is, and who removes it.

use std::ffi::{CString, OsStr};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use crate::{Body, ServeError};

/// The file that is served.
#[derive(Debug)]
pub(crate) struct BodyFile {
    /// Its absolute path, for opening it again.
    pub(crate) path: CString,
    /// The path that it is asked for by, besides `/`.
    pub(crate) url_path: String,
    /// A descriptor that stays open.
    pub(crate) file: File,
    /// Its length when it was opened, bytes.
    pub(crate) length: u64,
    /// What is in it, where it is answered from memory.
    pub(crate) contents: Option<Vec<u8>>,
    /// The folder of a generated file, removed on drop.
    folder: Option<TempDir>,
}

impl BodyFile {
    /// Opens the file, or generates it.
    pub(crate) fn new(body: &Body) -> Result<Self, ServeError> {
        match body {
            Body::File(path) => Self::open(path, None),
            Body::Generated(bytes) => {
                let folder = private_folder()?;
                let path = folder.path().join("body");
                generate(&path, *bytes).map_err(|source| ServeError::File {
                    path: path.clone(),
                    source,
                })?;
                Self::open(&path, Some(folder))
            }
        }
    }

    /// The same file compressed, under the same name, in a private folder.
    pub(crate) fn compressed(mut self) -> Result<Self, ServeError> {
        let folder = private_folder()?;
        let name = Path::new(OsStr::from_bytes(self.path.as_bytes())).file_name();
        let path = folder.path().join(name.unwrap_or_default());
        let mut compress = || {
            let file = File::create(&path)?;
            let mut encoder = GzEncoder::new(file, Compression::default());
            io::copy(&mut self.file, &mut encoder)?;
            encoder.finish().map(drop)
        };
        let failed = |source| ServeError::File {
            path: path.clone(),
            source,
        };
        compress().map_err(failed)?;
        Self::open(&path, Some(folder))
    }

    /// Reads it into memory, to be answered from there.
    pub(crate) fn keep_contents(&mut self) -> Result<(), ServeError> {
        let mut contents = Vec::new();
        self.file
            .read_to_end(&mut contents)
            .map_err(|source| ServeError::File {
                path: Path::new(OsStr::from_bytes(self.path.as_bytes())).to_owned(),
                source,
            })?;
        self.length = contents.len() as u64;
        self.contents = Some(contents);
        Ok(())
    }

    /// Removes a generated file already, where the open one is enough: then nothing is left behind
    /// even when the process is killed.
    pub(crate) fn forget_path(&mut self) -> Result<(), ServeError> {
        match self.folder.take() {
            Some(folder) => {
                let path = folder.path().to_owned();
                folder
                    .close()
                    .map_err(|source| ServeError::File { path, source })
            }
            None => Ok(()),
        }
    }

    fn open(path: &Path, folder: Option<TempDir>) -> Result<Self, ServeError> {
        let failed = |source| ServeError::File {
            path: path.to_owned(),
            source,
        };
        let not_a_file = || ServeError::NotAFile {
            path: path.to_owned(),
        };
        // Looked at before it is opened, because opening a pipe waits for a writer.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(not_a_file());
        }
        let file = File::open(path).map_err(failed)?;
        let absolute = std::path::absolute(path).map_err(failed)?;
        let name = absolute.file_name().ok_or_else(not_a_file)?;
        Ok(Self {
            url_path: format!("/{}", percent_encoded(name.as_bytes())),
            path: c_path(&absolute).map_err(failed)?,
            length: file.metadata().map_err(failed)?.len(),
            file,
            contents: None,
            folder,
        })
    }
}

fn private_folder() -> Result<TempDir, ServeError> {
    tempfile::Builder::new()
        .prefix("whyfast-testserver-")
        .tempdir()
        .map_err(|source| ServeError::File {
            path: std::env::temp_dir(),
            source,
        })
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(
        PathBuf::from(path).into_os_string().as_bytes(),
    )?)
}

/// Text that says by itself where in the file it stands, so that a wrong offset shows.
fn generate(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let lines = (0_u64..)
        .step_by(LINE_BYTES)
        .map(|at| format!("{at:0width$}\n", width = LINE_BYTES - 1));
    let mut left = bytes;
    for line in lines {
        if left == 0 {
            break;
        }
        left -= io::copy(&mut line.as_bytes().take(left), &mut file)?;
    }
    file.flush()
}

/// A file name as it stands in a URL (RFC 3986, unreserved characters as they are).
fn percent_encoded(name: &[u8]) -> String {
    let mut encoded = String::new();
    for &byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to memory does not fail");
        }
    }
    encoded
}

/// Bytes of a line of a generated file, its newline included.
const LINE_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A generated file has the length that was asked for, its text names the offset, and it goes
    /// with its folder.
    #[test]
    fn generates_and_removes() {
        let body = BodyFile::new(&Body::Generated(40)).expect("the folder is writable");
        assert_eq!((body.length, body.url_path.as_str()), (40, "/body"));
        let path = PathBuf::from(body.path.to_str().expect("a plain name"));
        let text = std::fs::read_to_string(&path).expect("it exists");
        assert_eq!(text, "000000000000000\n000000000000016\n00000000");
        drop(body);
        assert!(!path.exists());
    }

    /// A path that is not needed is gone at once, and the file can still be read; a given file stays.
    #[test]
    fn forgets_a_generated_path_only() {
        let mut body = BodyFile::new(&Body::Generated(4)).expect("the folder is writable");
        let path = PathBuf::from(body.path.to_str().expect("a plain name"));
        body.forget_path().expect("it can be removed");
        assert!(!path.exists());
        let text = io::read_to_string(&body.file).expect("it is open");
        assert_eq!(text, "0000");

        let folder = tempfile::tempdir().expect("a temporary folder");
        let given = folder.path().join("given");
        std::fs::write(&given, "x").expect("the folder is writable");
        let mut body = BodyFile::new(&Body::File(given.clone())).expect("it exists");
        body.forget_path().expect("nothing to remove");
        assert!(given.exists());
    }

    /// What is not a regular file is refused with its path; control characters are escaped.
    #[test]
    fn refuses_what_is_not_a_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = BodyFile::new(&Body::File(folder.path().into())).expect_err("a folder");
        assert!(error.to_string().ends_with("not a regular file"), "{error}");
        let missing = folder.path().join("\u{1b}[2J");
        let error = BodyFile::new(&Body::File(missing)).expect_err("missing");
        assert!(error.to_string().contains("\\u{1b}[2J"), "{error}");
    }

    /// Names are escaped as in a URL.
    #[test]
    fn names_are_encoded() {
        assert_eq!(percent_encoded("a b~é?".as_bytes()), "a%20b~%C3%A9%3F");
    }
}
