//! What a worker serves, and the costs that it adds to each request.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::thread::{ClockId, NanosleepRelativeResult, Timespec};

use crate::body::BodyFile;
use crate::response::Heads;
use crate::spin::Spin;
use crate::syscall;
use crate::timing::{Injection, InjectionTimes};
use crate::{Injections, Reading, Style};

/// What a worker serves, and the memory that its connections share.
pub(crate) struct Serving<'a> {
    pub(crate) style: Style,
    pub(crate) reading: Reading,
    pub(crate) injections: Injections,
    pub(crate) body: &'a BodyFile,
    pub(crate) spin: Spin,
    /// The mutex of all workers.
    pub(crate) lock: &'a Mutex<()>,
    pub(crate) heads: Heads,
    /// The file as it was read last, by the styles that read it for each request.
    pub(crate) contents: Vec<u8>,
    /// Requests since the last one that was made to fail.
    pub(crate) since_error: u32,
    /// Times of the injections, where they are taken.
    pub(crate) times: Option<InjectionTimes>,
}

impl Serving<'_> {
    /// One of the costs that are added to each request.
    pub(crate) fn inject(&self, kind: Injection) {
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
                    if let Ok(file) = open(self.body) {
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
}

/// Opens the file by its path.
pub(crate) fn open(body: &BodyFile) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(rustix::fs::CWD, body.path.as_c_str(), flags, Mode::empty())
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
