//! What has to be known of a call beyond its number, as one byte per row.
//!
//! This is the one list of byte-counting, descriptor-taking, process-creating, never-returning and
//! waiting calls: the programs look it up in the kernel, user space to tell "no bytes" from "does not
//! count bytes".

use crate::{COMPAT_ROWS, NATIVE_ROWS, ROWS, split_row};

/// What a call is to the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counted, nothing more.
    Plain,
    /// A positive return is a number of bytes.
    Bytes,
    /// Leaves a second time in the child, with 0.
    Fork,
    /// Never returns.
    Exit,
    /// Sleeps until there is a child, a signal or a completion: idle rather than blocked.
    Idle,
    /// Changes many descriptors at once: what is known of them is forgotten.
    Forgets,
    /// Told apart by the operation in its second argument, with the place [`FUTEX_SPLIT`].
    Futex,
    /// Returns a descriptor of this object ([`OBJECTS`]: to be looked up).
    Opens(u32),
    /// Told apart by the object behind its first argument, a descriptor.
    Descriptor {
        /// Place in [`SPLIT_CALLS`].
        split: u32,
        /// Whether a positive return is a number of bytes.
        bytes: bool,
    },
    /// Returns a number of events; the index of its [`WaitRow`](crate::WaitRow).
    Wait(u32),
}

impl Kind {
    /// The kind as stored in [`CALL_KINDS`].
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Bytes => 1,
            Self::Fork => 2,
            Self::Exit => 3,
            Self::Idle => 4,
            Self::Forgets => 5,
            Self::Futex => 6,
            Self::Opens(object) => OPENS_BIT | object as u8,
            Self::Descriptor { split, bytes } => {
                DESCRIPTOR_BIT | (split as u8) | if bytes { BYTES_BIT } else { 0 }
            }
            Self::Wait(index) => WAIT_BIT | index as u8,
        }
    }

    /// The kind of a stored byte.
    #[inline]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Plain,
            1 => Self::Bytes,
            2 => Self::Fork,
            3 => Self::Exit,
            4 => Self::Idle,
            5 => Self::Forgets,
            6 => Self::Futex,
            byte if byte & WAIT_BIT != 0 => Self::Wait((byte & !WAIT_BIT) as u32),
            byte if byte & DESCRIPTOR_BIT != 0 => Self::Descriptor {
                split: (byte & SPLIT_MASK) as u32,
                bytes: byte & BYTES_BIT != 0,
            },
            byte if byte & OPENS_BIT != 0 => Self::Opens((byte & OBJECT_MASK) as u32),
            _ => Self::Plain,
        }
    }

    /// Whether a positive return is a number of bytes.
    pub const fn counts_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Descriptor { bytes: true, .. })
    }
}

/// Objects that a call is told apart by.
pub const OBJECTS: u32 = 5;
/// A socket.
pub const SOCKET: u32 = 0;
/// A file, folder or block device.
pub const FILE: u32 = 1;
/// A pipe or FIFO.
pub const PIPE: u32 = 2;
/// An eventfd.
pub const EVENTFD: u32 = 3;
/// Any other descriptor.
pub const OTHER: u32 = 4;
/// A futex call that waits.
pub const FUTEX_WAIT: u32 = 0;
/// A futex call that wakes.
pub const FUTEX_WAKE: u32 = 1;
/// Any other futex call.
pub const FUTEX_OTHER: u32 = 2;

/// The calls of 64-bit programs that are told apart: `read`, `write`, `pread64`, `pwrite64`, `readv`,
/// `writev`, `sendfile`, `splice`, `preadv`, `pwritev`, `preadv2`, `pwritev2`, `close`, `fstat`,
/// `lseek`, `ioctl`, `fcntl`, `fsync`, `fdatasync`, `ftruncate`, and `futex`, which is the last.
/// Calls that only sockets have (`recvfrom`) need no telling apart.
pub const SPLIT_CALLS: &[u32] = &[
    0, 1, 17, 18, 19, 20, 40, 275, 295, 296, 327, 328, 3, 5, 8, 16, 72, 74, 75, 77, 202,
];
/// Of them, the first ones return bytes.
const SPLIT_BYTES: usize = 12;
/// The place of `futex` in [`SPLIT_CALLS`].
pub const FUTEX_SPLIT: u32 = SPLIT_CALLS.len() as u32 - 1;
/// The number of `close`.
pub const NR_CLOSE: u32 = 3;

/// What of a futex call's second argument is the operation.
pub const FUTEX_COMMAND_MASK: u64 = 0x7f;

/// What a futex call does, by its operation (include/uapi/linux/futex.h): WAIT, LOCK_PI, WAIT_BITSET,
/// WAIT_REQUEUE_PI and LOCK_PI2 wait; WAKE, WAKE_OP, UNLOCK_PI and WAKE_BITSET wake.
#[inline]
pub const fn futex_object(operation: u64) -> u32 {
    const WAITS: u64 = 1 << 0 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 13;
    const WAKES: u64 = 1 << 1 | 1 << 5 | 1 << 7 | 1 << 10;
    let bit = 1 << (operation & FUTEX_COMMAND_MASK & 63);
    if WAITS & bit != 0 {
        FUTEX_WAIT
    } else if WAKES & bit != 0 {
        FUTEX_WAKE
    } else {
        FUTEX_OTHER
    }
}

/// The kind of every row, by [`Kind::to_byte`].
pub const CALL_KINDS: [u8; ROWS as usize] = {
    let mut kinds = [0; ROWS as usize];
    mark(&mut kinds, 0, NATIVE_BYTES, Kind::Bytes);
    mark(&mut kinds, 0, NATIVE_FORKS, Kind::Fork);
    mark(&mut kinds, 0, NATIVE_EXITS, Kind::Exit);
    mark(&mut kinds, 0, NATIVE_IDLE, Kind::Idle);
    mark(&mut kinds, 0, NATIVE_FORGETS, Kind::Forgets);
    mark(&mut kinds, 0, NATIVE_SOCKETS, Kind::Opens(SOCKET));
    mark(&mut kinds, 0, NATIVE_EVENTFDS, Kind::Opens(EVENTFD));
    mark(&mut kinds, 0, NATIVE_OTHERS, Kind::Opens(OTHER));
    mark(&mut kinds, 0, NATIVE_OPENS, Kind::Opens(OBJECTS));
    mark_waits(&mut kinds, 0, NATIVE_WAITS, 0);
    mark_split(&mut kinds);
    mark(&mut kinds, NATIVE_ROWS, COMPAT_BYTES, Kind::Bytes);
    mark(&mut kinds, NATIVE_ROWS, COMPAT_FORKS, Kind::Fork);
    mark(&mut kinds, NATIVE_ROWS, COMPAT_EXITS, Kind::Exit);
    mark(&mut kinds, NATIVE_ROWS, COMPAT_IDLE, Kind::Idle);
    mark_waits(
        &mut kinds,
        NATIVE_ROWS,
        COMPAT_WAITS,
        NATIVE_WAITS.len() as u32,
    );
    kinds
};

/// Number of waiting calls of both ABIs.
pub const WAIT_ROWS: u32 = (NATIVE_WAITS.len() + COMPAT_WAITS.len()) as u32;

/// How a waiting call passes its limits, by the index of its [`WaitRow`](crate::WaitRow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitLimits {
    /// Timeout in the fourth argument, milliseconds; room for events in the third.
    Epoll,
    /// Room for events in the third argument; the timeout is behind a pointer.
    EpollTimespec,
    /// Timeout in the third argument, milliseconds.
    Poll,
    /// Neither is passed by value.
    Hidden,
}

/// How a waiting call passes its limits.
#[inline]
pub const fn wait_limits(index: u32) -> WaitLimits {
    match index {
        0 => WaitLimits::Poll,
        2 | 5 => WaitLimits::Epoll,
        6 => WaitLimits::EpollTimespec,
        _ => WaitLimits::Hidden,
    }
}

const WAIT_BIT: u8 = 0x80;
const DESCRIPTOR_BIT: u8 = 0x40;
const BYTES_BIT: u8 = 0x20;
const SPLIT_MASK: u8 = BYTES_BIT - 1;
const OPENS_BIT: u8 = 0x08;
const OBJECT_MASK: u8 = OPENS_BIT - 1;

/// x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`): `sendto`, `recvfrom`, `sendmsg`, `recvmsg`,
/// `tee`, `vmsplice`, `copy_file_range`; the first ones of [`SPLIT_CALLS`] count bytes as well.
/// `sendmmsg` and `recvmmsg` return messages.
const NATIVE_BYTES: &[u32] = &[44, 45, 46, 47, 276, 278, 326];
/// `clone`, `fork`, `vfork`, `clone3`.
const NATIVE_FORKS: &[u32] = &[56, 57, 58, 435];
/// `exit`, `exit_group`.
const NATIVE_EXITS: &[u32] = &[60, 231];
/// `pause`, `wait4`, `rt_sigtimedwait`, `rt_sigsuspend`, `waitid`, `io_uring_enter`.
const NATIVE_IDLE: &[u32] = &[34, 61, 128, 130, 247, 426];
/// `execve`, `execveat`, `close_range`.
const NATIVE_FORGETS: &[u32] = &[59, 322, 436];
/// `socket`, `accept`, `accept4`.
const NATIVE_SOCKETS: &[u32] = &[41, 43, 288];
/// `eventfd`, `eventfd2`.
const NATIVE_EVENTFDS: &[u32] = &[284, 290];
/// `epoll_create`, `signalfd`, `timerfd_create`, `signalfd4`, `epoll_create1`.
const NATIVE_OTHERS: &[u32] = &[213, 282, 283, 289, 291];
/// `open`, `dup`, `dup2`, `creat`, `openat`, `dup3`, `openat2`.
const NATIVE_OPENS: &[u32] = &[2, 32, 33, 85, 257, 292, 437];
/// `poll`, `select`, `epoll_wait`, `pselect6`, `ppoll`, `epoll_pwait`, `epoll_pwait2`.
const NATIVE_WAITS: &[u32] = &[7, 23, 232, 270, 271, 281, 441];

/// i386 (`arch/x86/entry/syscalls/syscall_32.tbl`): the calls that count bytes for 64-bit programs, with
/// `sendfile64`. They are not told apart by descriptor.
const COMPAT_BYTES: &[u32] = &[
    3, 4, 180, 181, 145, 146, 187, 239, 369, 371, 370, 372, 313, 315, 316, 333, 334, 377, 378, 379,
];
const COMPAT_FORKS: &[u32] = &[120, 2, 190, 435];
const COMPAT_EXITS: &[u32] = &[1, 252];
/// `waitpid`, `pause`, `sigsuspend`, `wait4`, `rt_sigtimedwait`, `rt_sigsuspend`, `waitid`,
/// `rt_sigtimedwait_time64`, `io_uring_enter`.
const COMPAT_IDLE: &[u32] = &[7, 29, 72, 114, 177, 179, 284, 421, 426];
/// `poll`, `select`, `_newselect`, `epoll_wait`, `pselect6`, `ppoll`, `epoll_pwait`,
/// `epoll_pwait2`, `pselect6_time64`, `ppoll_time64`.
const COMPAT_WAITS: &[u32] = &[168, 82, 142, 256, 308, 309, 319, 441, 413, 414];

const fn mark_split(kinds: &mut [u8; ROWS as usize]) {
    let mut index = 0;
    while index < SPLIT_CALLS.len() {
        let split = index as u32;
        let bytes = index < SPLIT_BYTES;
        let kind = if split == FUTEX_SPLIT {
            Kind::Futex
        } else {
            Kind::Descriptor { split, bytes }
        };
        kinds[SPLIT_CALLS[index] as usize] = kind.to_byte();
        let mut object = 0;
        while object < OBJECTS {
            kinds[split_row(split, object) as usize] = kind.to_byte();
            object += 1;
        }
        index += 1;
    }
}

const fn mark(kinds: &mut [u8; ROWS as usize], first_row: u32, numbers: &[u32], kind: Kind) {
    let mut index = 0;
    while index < numbers.len() {
        kinds[(first_row + numbers[index]) as usize] = kind.to_byte();
        index += 1;
    }
}

const fn mark_waits(
    kinds: &mut [u8; ROWS as usize],
    first_row: u32,
    numbers: &[u32],
    first_index: u32,
) {
    let mut index = 0;
    while index < numbers.len() {
        let kind = Kind::Wait(first_index + index as u32);
        kinds[(first_row + numbers[index]) as usize] = kind.to_byte();
        index += 1;
    }
}

const _: () = assert!(NATIVE_ROWS == COMPAT_ROWS && WAIT_ROWS < WAIT_BIT as u32);
const _: () = assert!(SPLIT_CALLS.len() <= BYTES_BIT as usize && OBJECTS < OPENS_BIT as u32);

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind survives its byte.
    #[test]
    fn kinds_round_trip() {
        for kind in [
            Kind::Plain,
            Kind::Bytes,
            Kind::Fork,
            Kind::Exit,
            Kind::Idle,
            Kind::Forgets,
            Kind::Futex,
            Kind::Opens(SOCKET),
            Kind::Opens(OBJECTS),
            Kind::Descriptor {
                split: 0,
                bytes: true,
            },
            Kind::Descriptor {
                split: 31,
                bytes: false,
            },
            Kind::Wait(0),
            Kind::Wait(WAIT_ROWS - 1),
        ] {
            assert_eq!(Kind::from_byte(kind.to_byte()), kind);
        }
    }

    /// Each waiting call has a counter row of its own.
    #[test]
    fn wait_rows_are_distinct() {
        let mut seen = [false; WAIT_ROWS as usize];
        for byte in CALL_KINDS {
            if let Kind::Wait(index) = Kind::from_byte(byte) {
                assert!(!seen[index as usize], "row {index} is used twice");
                seen[index as usize] = true;
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    /// The commands of include/uapi/linux/futex.h, with and without FUTEX_PRIVATE_FLAG (128) and
    /// FUTEX_CLOCK_REALTIME (256).
    #[test]
    fn futex_operations() {
        for (command, object) in [
            (0, FUTEX_WAIT),
            (1, FUTEX_WAKE),
            (3, FUTEX_OTHER),
            (4, FUTEX_OTHER),
            (5, FUTEX_WAKE),
            (6, FUTEX_WAIT),
            (7, FUTEX_WAKE),
            (9, FUTEX_WAIT),
            (10, FUTEX_WAKE),
            (11, FUTEX_WAIT),
            (13, FUTEX_WAIT),
        ] {
            for flags in [0, 128, 256, 384] {
                assert_eq!(futex_object(command | flags), object, "{command}");
            }
        }
    }
}
