//! An access log that is followed as it grows: every line is a request.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use memchr::memchr_iter;

/// A log from the moment on at which it was begun to be followed.
#[derive(Debug)]
pub(super) struct Following {
    path: PathBuf,
    /// The one that has the name now is the last; servers write to those before it for a while.
    files: Vec<Followed>,
    lines: u64,
    /// Why lines may be missing.
    broken: Option<String>,
}

/// A file that is open, whatever its name is by now.
#[derive(Debug)]
struct Followed {
    file: File,
    /// Device and inode.
    id: (u64, u64),
    read_bytes: u64,
}

impl Following {
    /// Begins at the end of the file; one that is not there yet may come.
    pub(super) fn begin(path: &Path) -> Result<Self, String> {
        let mut following = Self {
            path: path.to_owned(),
            files: Vec::new(),
            lines: 0,
            broken: None,
        };
        following.take_in_new_file()?;
        if let Some(followed) = following.files.last_mut() {
            followed.read_bytes = followed
                .length()
                .map_err(|error| says(path, &error.to_string()))?;
        }
        Ok(following)
    }

    /// Counts the lines that were written since the last time, in files too that were renamed meanwhile.
    pub(super) fn read(&mut self) {
        // First, so that what is written to a file until it is renamed is read before it is given up.
        let found = self.take_in_new_file();
        let mut why = found.err();
        for followed in &mut self.files {
            match followed.read_lines() {
                Ok(read) => {
                    self.lines += read.lines;
                    if read.was_cut {
                        why = Some(says(
                            &self.path,
                            "it was cut short while it was followed, and what was written just before is lost \
                             (rotate by renaming, not by copying: logrotate without copytruncate)",
                        ));
                    }
                }
                Err(error) => why = Some(says(&self.path, &error.to_string())),
            }
        }
        if self.files.len() > FILES {
            self.files.drain(..self.files.len() - FILES);
        }
        self.broken = self.broken.take().or(why);
    }

    /// Lines, or why they are not known.
    pub(super) fn end(self) -> Result<u64, String> {
        match self.broken {
            Some(why) => Err(why),
            None if self.files.is_empty() => {
                Err(says(&self.path, "it did not come into being in the window"))
            }
            None => Ok(self.lines),
        }
    }

    /// Opens the file that has the name, if that is another one than before.
    fn take_in_new_file(&mut self) -> Result<(), String> {
        let says = |error: &std::io::Error| says(&self.path, &error.to_string());
        let seen = match std::fs::metadata(&self.path) {
            Ok(seen) => seen,
            // Between two files of this name, or before the first.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(says(&error)),
        };
        if self.files.iter().any(|followed| followed.id == id(&seen)) {
            return Ok(());
        }
        // What is no file may block whoever opens it.
        if !seen.is_file() {
            return Err(self::says(&self.path, "it is no regular file"));
        }
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(says(&error)),
        };
        let opened = file.metadata().map_err(|error| says(&error))?;
        self.files.push(Followed {
            id: id(&opened),
            file,
            read_bytes: 0,
        });
        Ok(())
    }
}

/// What was new in a file.
struct NewLines {
    lines: u64,
    was_cut: bool,
}

impl Followed {
    fn length(&self) -> std::io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Lines that end in what was written since the last time.
    fn read_lines(&mut self) -> std::io::Result<NewLines> {
        let length = self.length()?;
        let was_cut = length < self.read_bytes;
        if was_cut {
            self.read_bytes = 0;
        }
        let mut lines = 0;
        self.file.seek(SeekFrom::Start(self.read_bytes))?;
        // No further than it was long: somebody may write as fast as this reads.
        let mut new = (&self.file).take(length - self.read_bytes);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = match new.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.read_bytes += count as u64;
            lines += memchr_iter(b'\n', &buffer[..count]).count() as u64;
        }
        Ok(NewLines { lines, was_cut })
    }
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn says(path: &Path, what: &str) -> String {
    format!("the access log {}: {what}", path.display())
}

/// Files that are followed at once: the one that has the name, and those that were rotated away last.
const FILES: usize = 4;

const READ_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    struct Log {
        folder: tempfile::TempDir,
    }

    impl Log {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().expect("a folder"),
            }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("access.log")
        }

        /// Opens it as a server does.
        fn open(&self) -> File {
            let mut options = File::options();
            options.create(true).append(true);
            options.open(self.path()).expect("a log")
        }
    }

    fn write(mut file: &File, text: &[u8]) {
        file.write_all(text).expect("it is written");
    }

    /// Lines from the begin on, whatever is in them; one counts when it ends.
    #[test]
    fn lines_are_counted_as_they_end() {
        let log = Log::new();
        let file = log.open();
        write(&file, b"before\nbegun ");
        let mut following = Following::begin(&log.path()).expect("it can be read");
        write(&file, b"and ended\n\xff\0\x1b[2J\nnot");
        following.read();
        following.read();
        assert_eq!(following.lines, 2);
        write(&file, b" until now\n");
        following.read();
        assert_eq!(following.end(), Ok(3));
    }

    /// A server writes to the renamed file until it is told to open the new one.
    #[test]
    fn both_files_count_while_a_log_is_rotated() {
        let log = Log::new();
        let old = log.open();
        write(&old, b"before\n");
        let mut following = Following::begin(&log.path()).expect("it can be read");
        write(&old, b"1\n");
        std::fs::rename(log.path(), log.folder.path().join("access.log.1")).expect("renamed");
        write(&old, b"2\n");
        following.read();
        let new = log.open();
        write(&old, b"3\n");
        following.read();
        write(&new, b"4\n5\n");
        write(&old, b"6\n");
        following.read();
        assert_eq!(following.end(), Ok(6));
    }

    /// A log may come into being later, and then all of it counts; one that does not is not measured.
    #[test]
    fn a_log_may_come_later() {
        let log = Log::new();
        let mut following = Following::begin(&log.path()).expect("it may come");
        following.read();
        write(&log.open(), b"1\n2\n");
        following.read();
        assert_eq!(following.end(), Ok(2));
        let never = Log::new();
        let following = Following::begin(&never.path()).expect("it may come");
        assert!(
            following
                .end()
                .is_err_and(|why| why.contains("did not come"))
        );
    }

    /// What was written before a log was cut short is lost, so the count is not known.
    #[test]
    fn a_log_that_is_cut_is_not_counted() {
        let log = Log::new();
        let file = log.open();
        write(&file, b"1\n2\n3\n");
        let mut following = Following::begin(&log.path()).expect("it can be read");
        file.set_len(0).expect("it is cut");
        write(&file, b"4\n");
        following.read();
        assert!(following.end().is_err_and(|why| why.contains("cut short")));
    }

    /// A folder, a pipe or a device has no lines.
    #[test]
    fn only_files_are_followed() {
        let log = Log::new();
        for path in [log.folder.path(), Path::new("/dev/zero")] {
            let refused = Following::begin(path).expect_err("it is no file");
            assert!(refused.contains("no regular file"), "{refused}");
        }
    }
}
