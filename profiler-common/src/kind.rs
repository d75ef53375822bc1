//! What has to be known of a call beyond its number, as one byte per row.
//!
//! This is the one list of byte-counting, process-creating, never-returning and waiting calls:
//! the programs look it up in the kernel, user space to tell "no bytes" from "does not count bytes".

use crate::{COMPAT_ROWS, NATIVE_ROWS, ROWS};

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
            Self::Wait(index) => WAIT_BIT | (index as u8),
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
            byte if byte & WAIT_BIT != 0 => Self::Wait((byte & !WAIT_BIT) as u32),
            _ => Self::Plain,
        }
    }
}

/// The kind of every row, by [`Kind::to_byte`].
pub const CALL_KINDS: [u8; ROWS as usize] = {
    let mut kinds = [0; ROWS as usize];
    mark(&mut kinds, 0, NATIVE_BYTES, Kind::Bytes);
    mark(&mut kinds, 0, NATIVE_FORKS, Kind::Fork);
    mark(&mut kinds, 0, NATIVE_EXITS, Kind::Exit);
    mark_waits(&mut kinds, 0, NATIVE_WAITS, 0);
    mark(&mut kinds, NATIVE_ROWS, COMPAT_BYTES, Kind::Bytes);
    mark(&mut kinds, NATIVE_ROWS, COMPAT_FORKS, Kind::Fork);
    mark(&mut kinds, NATIVE_ROWS, COMPAT_EXITS, Kind::Exit);
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

const WAIT_BIT: u8 = 0x80;

/// x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`): `read`, `write`, `pread64`, `pwrite64`, `readv`,
/// `writev`, `sendfile`, `sendto`, `recvfrom`, `sendmsg`, `recvmsg`, `splice`, `tee`, `vmsplice`,
/// `preadv`, `pwritev`, `copy_file_range`, `preadv2`, `pwritev2`. `sendmmsg` and `recvmmsg` return
/// messages.
const NATIVE_BYTES: &[u32] = &[
    0, 1, 17, 18, 19, 20, 40, 44, 45, 46, 47, 275, 276, 278, 295, 296, 326, 327, 328,
];
/// `clone`, `fork`, `vfork`, `clone3`.
const NATIVE_FORKS: &[u32] = &[56, 57, 58, 435];
/// `exit`, `exit_group`.
const NATIVE_EXITS: &[u32] = &[60, 231];
/// `poll`, `select`, `epoll_wait`, `pselect6`, `ppoll`, `epoll_pwait`, `epoll_pwait2`.
const NATIVE_WAITS: &[u32] = &[7, 23, 232, 270, 271, 281, 441];

/// i386 (`arch/x86/entry/syscalls/syscall_32.tbl`), in the order of [`NATIVE_BYTES`], with
/// `sendfile64`.
const COMPAT_BYTES: &[u32] = &[
    3, 4, 180, 181, 145, 146, 187, 239, 369, 371, 370, 372, 313, 315, 316, 333, 334, 377, 378, 379,
];
const COMPAT_FORKS: &[u32] = &[120, 2, 190, 435];
const COMPAT_EXITS: &[u32] = &[1, 252];
/// `poll`, `select`, `_newselect`, `epoll_wait`, `pselect6`, `ppoll`, `epoll_pwait`,
/// `epoll_pwait2`, `pselect6_time64`, `ppoll_time64`.
const COMPAT_WAITS: &[u32] = &[168, 82, 142, 256, 308, 309, 319, 441, 413, 414];

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
}
