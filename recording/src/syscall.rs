//! Names and families of system calls, per calling convention.
//!
//! Numbers mean different calls per ABI, so a number never travels without its [`Abi`]. A number
//! outside the table is printed as strace does (`syscall_0x1f4`), never dropped.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use syscalls::{aarch64, arm, x86, x86_64};

/// The table that a call number belongs to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Abi {
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM, also on a 64-bit kernel.
    Arm,
    /// 32-bit x86, also on a 64-bit kernel (`int 0x80`, `sysenter`).
    I386,
    /// 64-bit x86.
    #[serde(rename = "x86_64")]
    X86_64,
}

impl Abi {
    /// The native ABI of a machine, by its `uname -m`.
    pub fn of_machine(machine: &str) -> Option<Self> {
        match machine {
            "aarch64" => Some(Self::Aarch64),
            "x86_64" => Some(Self::X86_64),
            _ => None,
        }
    }

    /// The ABI of 32-bit programs on a 64-bit kernel of this one.
    pub fn compat(self) -> Option<Self> {
        match self {
            Self::Aarch64 => Some(Self::Arm),
            Self::X86_64 => Some(Self::I386),
            Self::Arm | Self::I386 => None,
        }
    }
}

/// The name of a call; a number without a name reads `syscall_0xNR`.
pub fn name(abi: Abi, nr: u32) -> Cow<'static, str> {
    let index = nr as usize;
    let name = match abi {
        Abi::Aarch64 => aarch64::Sysno::new(index).map(|sysno| sysno.name()),
        Abi::Arm => arm::Sysno::new(index).map(|sysno| sysno.name()),
        Abi::I386 => x86::Sysno::new(index).map(|sysno| sysno.name()),
        Abi::X86_64 => x86_64::Sysno::new(index).map(|sysno| sysno.name()),
    };
    name.map_or_else(|| format!("syscall_{nr:#x}").into(), Cow::Borrowed)
}

/// The number of a call by its name.
pub fn number(abi: Abi, name: &str) -> Option<u32> {
    let number = match abi {
        Abi::Aarch64 => name.parse::<aarch64::Sysno>().ok().map(|sysno| sysno.id()),
        Abi::Arm => name.parse::<arm::Sysno>().ok().map(|sysno| sysno.id()),
        Abi::I386 => name.parse::<x86::Sysno>().ok().map(|sysno| sysno.id()),
        Abi::X86_64 => name.parse::<x86_64::Sysno>().ok().map(|sysno| sysno.id()),
    };
    number.and_then(|number| u32::try_from(number).ok())
}

/// What a call is for, so that `recvfrom` against `read` is not reported as a cause.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Taking a connection.
    Accept,
    /// Giving a descriptor back.
    Close,
    /// Processes and threads: creation, end, waiting for them.
    Process,
    /// Descriptor and socket state: fcntl, ioctl, setsockopt.
    Control,
    /// Waiting on a word of memory.
    Futex,
    /// Address space.
    Memory,
    /// Opening a file or making a socket.
    Open,
    /// Anything else.
    Other,
    /// Waiting for events and choosing them.
    Poll,
    /// Bytes in.
    Receive,
    /// Bytes out.
    Send,
    /// Signals.
    Signal,
    /// File metadata.
    Stat,
    /// Clocks and sleeping.
    Time,
}

/// The family of a call by its name.
pub fn family(name: &str) -> Family {
    match name {
        "accept" | "accept4" => Family::Accept,
        "close" | "close_range" | "shutdown" => Family::Close,
        "clone" | "clone3" | "execve" | "execveat" | "exit" | "exit_group" | "fork" | "kill"
        | "vfork" | "wait4" | "waitid" => Family::Process,
        "bind" | "connect" | "dup" | "dup2" | "dup3" | "fcntl" | "fcntl64" | "getpeername"
        | "getsockname" | "getsockopt" | "ioctl" | "listen" | "setsockopt" => Family::Control,
        "futex" | "futex_time64" | "futex_wait" | "futex_waitv" | "futex_wake"
        | "get_robust_list" | "set_robust_list" => Family::Futex,
        "brk" | "madvise" | "mmap" | "mmap2" | "mprotect" | "mremap" | "munmap" => Family::Memory,
        "creat" | "epoll_create" | "epoll_create1" | "eventfd2" | "open" | "openat" | "openat2"
        | "pipe" | "pipe2" | "socket" | "socketpair" => Family::Open,
        "epoll_ctl" | "epoll_pwait" | "epoll_pwait2" | "epoll_wait" | "io_uring_enter" | "poll"
        | "ppoll" | "ppoll_time64" | "pselect6" | "pselect6_time64" | "select" | "_newselect" => {
            Family::Poll
        }
        "pread64" | "preadv" | "preadv2" | "read" | "readv" | "recv" | "recvfrom" | "recvmmsg"
        | "recvmsg" => Family::Receive,
        "pwrite64" | "pwritev" | "pwritev2" | "send" | "sendfile" | "sendfile64" | "sendmmsg"
        | "sendmsg" | "sendto" | "splice" | "vmsplice" | "write" | "writev" => Family::Send,
        "pause" | "rt_sigaction" | "rt_sigpending" | "rt_sigprocmask" | "rt_sigreturn"
        | "rt_sigsuspend" | "rt_sigtimedwait" | "sigaltstack" | "tgkill" | "tkill" => {
            Family::Signal
        }
        "access" | "faccessat" | "faccessat2" | "fstat" | "fstat64" | "fstatat64" | "fstatfs"
        | "getdents64" | "lseek" | "lstat" | "newfstatat" | "readlink" | "readlinkat" | "stat"
        | "statfs" | "statx" => Family::Stat,
        "clock_getres" | "clock_gettime" | "clock_nanosleep" | "gettimeofday" | "nanosleep"
        | "time" | "timerfd_settime" => Family::Time,
        _ => Family::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from arch/x86/entry/syscalls and include/uapi/asm-generic/unistd.h.
    #[test]
    fn numbers_mean_different_calls_per_abi() {
        assert_eq!(name(Abi::X86_64, 20), "writev");
        assert_eq!(name(Abi::I386, 20), "getpid");
        assert_eq!(name(Abi::Aarch64, 64), "write");
        assert_eq!(name(Abi::X86_64, 500), "syscall_0x1f4");
    }

    /// Every name leads back to its number.
    #[test]
    fn names_round_trip() {
        for abi in [Abi::Aarch64, Abi::Arm, Abi::I386, Abi::X86_64] {
            for nr in 0..600 {
                let name = name(abi, nr);
                if !name.starts_with("syscall_0x") {
                    assert_eq!(number(abi, &name), Some(nr), "{abi:?} {name}");
                }
            }
        }
    }
}
