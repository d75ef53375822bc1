//! What happens below the calls of the target and is no call: counters shared by all CPUs, and the
//! ports that the target listens on.

use core::sync::atomic::AtomicU64;

/// Rare events below the calls, all CPUs.
#[repr(C)]
#[derive(Debug, Default)]
pub struct BelowEvents {
    /// Completions of `io_uring` that found the queue full.
    pub uring_overflows: AtomicU64,
    /// Segments that were sent again, from ports that the target listens on.
    pub tcp_retransmits: AtomicU64,
    /// Resets that were sent from such ports.
    pub tcp_resets_sent: AtomicU64,
    /// Resets that were received there.
    pub tcp_resets_received: AtomicU64,
}

/// Entries of the bit set of ports, 64 to an entry.
pub const PORT_WORDS: u32 = 65_536 / 64;

/// 64 ports of the bit set.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct PortWord(pub AtomicU64);

/// The entry of a port in the bit set, and its bit.
#[inline]
pub const fn port_bit(port: u16) -> (u32, u64) {
    ((port / 64) as u32, 1 << (port % 64))
}

const _: () = assert!(size_of::<BelowEvents>() == 32);
const _: () = assert!(size_of::<PortWord>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every port has a bit of its own inside of the set.
    #[test]
    fn ports_are_in_range() {
        assert_eq!(port_bit(0), (0, 1));
        assert_eq!(port_bit(443), (6, 1 << 59));
        assert_eq!(port_bit(u16::MAX), (PORT_WORDS - 1, 1 << 63));
    }
}
