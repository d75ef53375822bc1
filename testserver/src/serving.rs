//! What a worker serves, how it reads it, and the costs that it adds to each request.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{ClockId, NanosleepRelativeResult, Timespec};
use rustls::ServerConfig;

use crate::body::BodyFile;
use crate::response::Heads;
use crate::spin::Spin;
use crate::syscall;
use crate::timing::{Injection, InjectionTimes};
use crate::{Injections, Reading, Style};

/// What a worker serves, and the memory that its connections share.
pub(crate) struct Serving {
    pub(crate) style: Style,
    pub(crate) reading: Reading,
    pub(crate) injections: Injections,
    pub(crate) body: Arc<BodyFile>,
    pub(crate) spin: Spin,
    /// The mutex of all workers.
    pub(crate) lock: Arc<Mutex<()>>,
    pub(crate) heads: Heads,
    /// Whether the file is compressed.
    pub(crate) is_compressed: bool,
    /// The file as it was read last, by the styles that read it for each request.
    pub(crate) contents: Vec<u8>,
    /// Requests since the last one that was made to fail.
    pub(crate) since_error: u32,
    /// The settings of TLS, where connections are encrypted.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Times of the injections, where they are taken.
    pub(crate) times: Option<InjectionTimes>,
}

impl Serving {
    /// All costs that are added to a request, timed where that is wanted.
    pub(crate) fn inject_all(&mut self) {
        match self.times.take() {
            None => Injection::ALL
                .into_iter()
                .for_each(|kind| self.inject(kind)),
            Some(mut times) => {
                times.of_each(|kind| self.inject(kind));
                self.times = Some(times);
            }
        }
    }

    /// One of the costs that are added to each request.
    fn inject(&self, kind: Injection) {
        match kind {
            Injection::Spin => self.spin.run(),
            Injection::Getppid => {
                for _call in 0..self.injections.getppid {
                    let _parent = rustix::process::getppid();
                }
            }
            Injection::Open => {
                for _time in 0..self.injections.open {
                    // A file that is gone costs the failing call alone, and the request fails by
                    // itself.
                    if let Ok(file) = open(&self.body) {
                        let _status = rustix::fs::fstat(&file);
                        syscall::close(file);
                    }
                }
            }
            Injection::Fstat => {
                for _call in 0..self.injections.fstat {
                    let _status = rustix::fs::fstat(&self.body.file);
                }
            }
            Injection::Sleep => sleep(self.injections.sleep_us),
            Injection::Lock if self.injections.lock_us > 0 => {
                let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                sleep(self.injections.lock_us);
            }
            Injection::Lock => {}
        }
    }

    /// Whether this is the one of so many requests that fails.
    pub(crate) fn fails_on_purpose(&mut self) -> bool {
        if self.injections.error_every == 0 {
            return false;
        }
        self.since_error += 1;
        let fails = self.since_error >= self.injections.error_every;
        if fails {
            self.since_error = 0;
        }
        fails
    }

    /// Reads a file into memory with `fstat` and, for a regular file that does not shrink, one `read`.
    pub(crate) fn read_whole(&mut self, file: &OwnedFd) -> rustix::io::Result<()> {
        let status = rustix::fs::fstat(file)?;
        let length = usize::try_from(status.st_size).map_err(|_too_large| Errno::FBIG)?;
        fill(&mut self.contents, length, |room, _at| {
            rustix::io::read(file, room)
        })
    }

    /// Reads the open file into memory with one `pread64`, if it does not shrink.
    pub(crate) fn read_kept(&mut self) -> rustix::io::Result<()> {
        let length = usize::try_from(self.body.length).map_err(|_too_large| Errno::FBIG)?;
        fill(&mut self.contents, length, |room, at| {
            rustix::io::pread(&self.body.file, room, at)
        })
    }
}

/// Opens the file by its path.
pub(crate) fn open(body: &BodyFile) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(rustix::fs::CWD, body.path.as_c_str(), flags, Mode::empty())
}

/// Fills a buffer from reads into the room that is left, each with its offset.
fn fill(
    contents: &mut Vec<u8>,
    length: usize,
    read: impl Fn(&mut [u8], u64) -> rustix::io::Result<usize>,
) -> rustix::io::Result<()> {
    let more = length.saturating_sub(contents.len());
    contents
        .try_reserve_exact(more)
        .map_err(|_no_memory| Errno::NOMEM)?;
    contents.resize(length, 0);
    let mut filled = 0;
    while filled < length {
        match read(&mut contents[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    contents.truncate(filled);
    Ok(())
}

/// Sleeps with one call unless a signal comes between; not at all for 0.
fn sleep(microseconds: u32) {
    if microseconds == 0 {
        return;
    }
    let mut left = Timespec {
        tv_sec: i64::from(microseconds / 1_000_000),
        tv_nsec: i64::from(microseconds % 1_000_000) * 1_000,
    };
    while let NanosleepRelativeResult::Interrupted(rest) =
        rustix::thread::clock_nanosleep_relative(ClockId::Monotonic, &left)
    {
        left = rest;
    }
}
