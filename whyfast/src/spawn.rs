//! Child processes: pinned, unprivileged, and mortal.
//!
//! Every child gets a parent-death signal, set after the change of user (which clears it). The
//! signal is tied to the *thread* that spawned the child, so only the main thread, or a thread that
//! waits for the child, may spawn.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::identity::Identity;
use crate::machine::CpuList;

/// What a child is born with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Birth {
    /// The user to become; `None` keeps ours.
    pub(crate) identity: Option<Identity>,
    /// The CPUs that it may use; `None` keeps ours.
    pub(crate) cpus: Option<CpuList>,
    /// Whether it gets a session of its own, out of reach of the terminal's signals.
    pub(crate) session: bool,
}

/// A program to execute.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// Kept open until the child has been started from it.
    _file: Option<File>,
}

impl Program {
    /// This program itself.
    pub(crate) fn own(identity: Option<&Identity>) -> io::Result<Self> {
        Self::at(&std::env::current_exe()?, identity)
    }

    /// The program at a path, for a user who may not be able to walk that path: a build folder
    /// below /root is closed to others, an open descriptor is not.
    pub(crate) fn at(path: &Path, identity: Option<&Identity>) -> io::Result<Self> {
        let Some(identity) = identity else {
            return Ok(Self {
                path: path.to_owned(),
                _file: None,
            });
        };
        if reachable(path, identity) {
            return Ok(Self {
                path: path.to_owned(),
                _file: None,
            });
        }
        let file = File::open(path)?;
        let through = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(Self {
            path: through,
            _file: Some(file),
        })
    }

    /// Where it can be executed from.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A command that starts it as asked.
    pub(crate) fn command(&self, birth: &Birth) -> Command {
        let mut command = Command::new(&self.path);
        bear(&mut command, birth);
        command
    }

    /// A command that keeps the capabilities that we were given.
    pub(crate) fn privileged_command(&self, birth: &Birth) -> Command {
        let mut command = Command::new(&self.path);
        arrange(&mut command, birth, true);
        command
    }
}

/// Looks a program up on PATH and in the system folders that a user's PATH leaves out.
pub(crate) fn find_program(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether a user may execute the file by walking to it.
fn reachable(path: &Path, identity: &Identity) -> bool {
    let allowed = |path: &Path| {
        path.metadata().is_ok_and(|meta| {
            let mode = meta.mode();
            let bit = if meta.uid() == identity.uid {
                0o100
            } else if meta.gid() == identity.gid {
                0o010
            } else {
                0o001
            };
            mode & bit != 0
        })
    };
    path.canonicalize()
        .is_ok_and(|path| path.ancestors().all(allowed))
}

/// Arranges what happens between fork and exec: the child gets none of the capabilities that we were
/// given.
pub(crate) fn bear(command: &mut Command, birth: &Birth) {
    arrange(command, birth, false);
}

#[expect(
    unsafe_code,
    reason = "CPU set, user and parent-death signal are set between fork and exec"
)]
fn arrange(command: &mut Command, birth: &Birth, privileged: bool) {
    let cpus = birth.cpus.as_ref().map(CpuList::to_set);
    let identity = birth.identity.clone();
    let session = birth.session;
    let parent = rustix::process::getpid();
    let prepare = move || {
        if session {
            rustix::process::setsid()?;
        }
        if let Some(cpus) = &cpus {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        raise_descriptor_limit();
        if let Some(identity) = &identity {
            become_user(identity)?;
        }
        if !privileged {
            rustix::thread::clear_ambient_capability_set()?;
        }
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the signal was set.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::other("parent died"))
        }
    };
    // SAFETY: the closure makes system calls only; it neither allocates nor takes a lock, so it is
    // safe in the child of a process with threads.
    unsafe { command.pre_exec(prepare) };
}

/// Puts a child into a session of its own and leaves it alive when we die.
#[expect(unsafe_code, reason = "the session is made between fork and exec")]
pub(crate) fn detach(command: &mut Command) {
    let prepare = || rustix::process::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: the closure makes one system call; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the child say its id and wait for a byte before it goes on to exec.
#[expect(unsafe_code, reason = "the child waits between fork and exec")]
pub(crate) fn hold_back(command: &mut Command, pid_writer: OwnedFd, go_reader: OwnedFd) {
    let wait = move || {
        let pid = rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .to_ne_bytes();
        rustix::io::write(pid_writer.as_fd(), &pid)?;
        let mut byte = [0];
        match rustix::io::read(go_reader.as_fd(), &mut byte)? {
            1 => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::Interrupted)),
        }
    };
    // SAFETY: the closure makes system calls on descriptors that it owns; it neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(wait) };
}

/// Gives up groups, group and user, in this order, for good.
#[expect(
    unsafe_code,
    reason = "the raw calls change this thread alone, which is all of a child"
)]
fn become_user(identity: &Identity) -> io::Result<()> {
    let done = |result: libc::c_long| {
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    let (uid, gid, groups) = (identity.uid, identity.gid, &identity.groups);
    // SAFETY: the pointer is to as many live group ids as the length says; the call only reads them.
    done(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    // SAFETY: a call with plain integers.
    done(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: a call with plain integers.
    done(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })
}

/// Servers and the load generator open one descriptor per connection; the default soft limit of
/// 1,024 is a relic of select(2). Where it cannot be raised, who needs more says so itself.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _refused = setrlimit(Resource::Nofile, raised);
}
