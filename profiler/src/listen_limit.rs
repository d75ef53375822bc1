//! How many connections may wait at a listening socket, which `/proc` does not show: asked from the
//! kernel with `inet_diag`, as `ss` does, for the network namespace of this process.

use std::collections::BTreeMap;

use rustix::io::Result;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// The limit of every listening TCP socket, by inode.
pub(crate) fn by_inode() -> Result<BTreeMap<u64, u64>> {
    let mut limits = BTreeMap::new();
    for family in [AF_INET, AF_INET6] {
        ask(family, &mut limits)?;
    }
    Ok(limits)
}

fn ask(family: u8, limits: &mut BTreeMap<u64, u64>) -> Result<()> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    send(&socket, &request(family), SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        // The kernel has written the next part of its answer before this returns: no need to wait.
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        if !take_messages(&buffer[..length], limits) {
            return Ok(());
        }
    }
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: all sockets in one state.
fn request(family: u8) -> Vec<u8> {
    let mut request = Vec::with_capacity(REQUEST_BYTES as usize);
    request.extend(REQUEST_BYTES.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    // Sequence and sender.
    request.extend([0; 8]);
    request.extend([family, IPPROTO_TCP, 0, 0]);
    request.extend(STATE_LISTEN.to_ne_bytes());
    // Addresses and ports: any.
    request.resize(REQUEST_BYTES as usize, 0);
    request
}

/// Takes the limits out of an answer; whether more will come.
fn take_messages(mut bytes: &[u8], limits: &mut BTreeMap<u64, u64>) -> bool {
    while let Some(length) = word(bytes, 0) {
        let length = length as usize;
        let is_socket = bytes
            .get(4..6)
            .is_some_and(|kind| kind == SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        // The end, or an error.
        if !is_socket || length < HEADER_BYTES {
            return false;
        }
        let message = bytes.get(HEADER_BYTES..length).unwrap_or_default();
        if let Some((limit, inode)) = word(message, AT_WQUEUE).zip(word(message, AT_INODE)) {
            limits.insert(inode.into(), limit.into());
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// `include/uapi/linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `include/uapi/linux/netlink.h`.
const NLM_F_REQUEST_DUMP: u16 = 0x301;
/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// With `struct inet_diag_req_v2`.
const REQUEST_BYTES: u32 = 72;
/// A bit of `idiag_states`: `TCP_LISTEN`.
const STATE_LISTEN: u32 = 1 << 10;
/// `idiag_wqueue` and `idiag_inode` of `struct inet_diag_msg`.
const AT_WQUEUE: usize = 60;
const AT_INODE: usize = 68;
/// What `ss` uses; the kernel fills at most this much at a time.
const BUFFER_BYTES: usize = 32_768;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two sockets and the end of the answer.
    #[test]
    fn takes_sockets_of_an_answer() {
        let mut message = vec![0_u8; 72];
        message[AT_WQUEUE..AT_WQUEUE + 4].copy_from_slice(&128_u32.to_ne_bytes());
        message[AT_INODE..AT_INODE + 4].copy_from_slice(&1681_u32.to_ne_bytes());
        let header = |length: u32, kind: u16| {
            let mut header = length.to_ne_bytes().to_vec();
            header.extend(kind.to_ne_bytes());
            header.resize(HEADER_BYTES, 0);
            header
        };
        let socket = [header(88, SOCK_DIAG_BY_FAMILY), message.clone()].concat();
        message[AT_INODE] += 1;
        let other = [header(88, SOCK_DIAG_BY_FAMILY), message].concat();
        let mut limits = BTreeMap::new();
        assert!(take_messages(&[socket, other].concat(), &mut limits));
        assert_eq!(limits, BTreeMap::from([(1681, 128), (1682, 128)]));
        assert!(!take_messages(&header(20, 3), &mut limits));
    }

    proptest! {
        /// No answer makes the reader panic or run forever.
        #[test]
        fn any_answer_is_read(mut bytes: Vec<u8>, length in 0_u32..100) {
            if bytes.len() >= 6 {
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            let _more = take_messages(&bytes, &mut BTreeMap::new());
        }
    }
}
