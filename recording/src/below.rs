//! What happened for the target below its calls: operations of `io_uring`, the network, and
//! counters of the hardware.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TimeStats;

/// What the target did through `io_uring`, which is no system call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IoUring {
    /// One row per operation that was submitted or completed, by opcode; the unknown ones last.
    pub operations: Vec<UringOperation>,
    /// Completions that found the completion queue full. The program gets them later, or never
    /// where memory is short. Whether they are in `completed` as well depends on the kernel's version.
    pub overflows: u64,
}

/// One operation of `io_uring`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UringOperation {
    /// The opcode; `null` where it is not known: completions of a multishot request that was
    /// submitted before the probes were attached, and opcodes from 79 on.
    pub opcode: Option<u8>,
    /// Name of the opcode in lower case, `op_63` where this version knows none, `unknown` where
    /// there is no opcode.
    pub name: String,
    /// Requests that were submitted. One that was refused for its form was not.
    pub submitted: u64,
    /// Requests that were done, refused ones included. One that asked for no completion on success
    /// (`IOSQE_CQE_SKIP_SUCCESS`) is not among them when it succeeded.
    pub completed: u64,
    /// Completions of multishot requests that went on; not in `completed`.
    pub repeated: u64,
    /// Completions with an error, those in `repeated` included. A timeout that expires has one
    /// (`ETIME`).
    pub errors: u64,
    /// Time from the submission to the last completion; `null` below detail `times`. Requests in
    /// flight when the probes were attached are not timed, nor are a few where more than 65,536
    /// are in flight at once.
    pub time: Option<TimeStats>,
}

/// The network as the target's listening sockets saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// Segments that were sent again on connections to a port that the target listens on, in any
    /// network namespace; `null` where the kernel has no such tracepoint.
    pub retransmits: Option<u64>,
    /// Resets that were sent on such connections; `null` likewise.
    pub resets_sent: Option<u64>,
    /// Resets that were received on such connections; `null` likewise.
    pub resets_received: Option<u64>,
    /// The target's listening sockets, by namespace and port.
    pub listeners: Vec<ListenQueue>,
    /// Counters of the network namespaces that the target lives in.
    pub namespaces: Vec<NetworkNamespace>,
}

/// The sockets that the target listens on at one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListenQueue {
    /// Network namespace, as `/proc/PID/ns/net` shows it; `null` where it could not be read.
    pub namespace: Option<u64>,
    /// The port.
    pub port: u16,
    /// Sockets that listen at it, one per worker with `SO_REUSEPORT`.
    pub sockets: u32,
    /// Connections that waited to be accepted, the most at one socket of those moments at which it
    /// was looked at (at least every 100 ms); what came and went in between is not seen.
    pub deepest: u64,
    /// Connections that may wait at one socket; one more fits. `null` where it could not be asked
    /// for: in another network namespace than the profiler's, and without `inet_diag`.
    pub limit: Option<u64>,
}

/// What happened in a whole network namespace during the window, other programs in it included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkNamespace {
    /// Which one, as `/proc/PID/ns/net` shows it; `null` where it could not be read.
    pub namespace: Option<u64>,
    /// Connections that were complete and found the queue of the listener full.
    pub listen_overflows: u64,
    /// Connection requests that were dropped at a listener, overflows included.
    pub listen_drops: u64,
    /// Retransmission timers that expired.
    pub tcp_timeouts: u64,
}

/// Counters of the hardware for the threads of the target, kernel mode included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    /// CPU cycles; `null` where the machine does not count them.
    pub cycles: Option<HardwareCount>,
    /// Instructions that were completed; `null` likewise.
    pub instructions: Option<HardwareCount>,
    /// Accesses that missed the last cache; `null` likewise.
    pub cache_misses: Option<HardwareCount>,
    /// Branches that were predicted wrongly; `null` likewise.
    pub branch_misses: Option<HardwareCount>,
    /// The same by thread: those that were there when the probes were attached, each with the
    /// threads that it has started since.
    pub threads: Vec<HardwareThread>,
}

/// Counters of the hardware for one thread and those that it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareThread {
    /// The thread.
    pub tid: u32,
    /// As in [`Hardware::cycles`].
    pub cycles: Option<HardwareCount>,
    /// As in [`Hardware::instructions`].
    pub instructions: Option<HardwareCount>,
    /// As in [`Hardware::cache_misses`].
    pub cache_misses: Option<HardwareCount>,
    /// As in [`Hardware::branch_misses`].
    pub branch_misses: Option<HardwareCount>,
}

/// One counter of the hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareCount {
    /// Events while the counter ran.
    pub counted: u64,
    /// How long threads ran that the counter was to count, ns.
    pub enabled_ns: u64,
    /// How long it did count, ns: less where the hardware has fewer counters than were asked for.
    pub running_ns: u64,
}

impl HardwareCount {
    /// Events of the whole time, by proportion; `None` where the counter never ran although threads
    /// did.
    pub fn scaled(&self) -> Option<u64> {
        if self.running_ns == self.enabled_ns {
            return Some(self.counted);
        }
        let whole = u128::from(self.counted) * u128::from(self.enabled_ns);
        u64::try_from(whole.checked_div(self.running_ns.into())?).ok()
    }
}

/// The name of an opcode of `io_uring` in lower case: `recv`, `op_63`.
pub fn uring_operation_name(opcode: u8) -> Cow<'static, str> {
    OPERATIONS.get(usize::from(opcode)).map_or_else(
        || Cow::Owned(format!("op_{opcode}")),
        |name| Cow::Borrowed(*name),
    )
}

/// `enum io_uring_op` of `include/uapi/linux/io_uring.h`, Linux 6.18, in order from 0.
const OPERATIONS: [&str; 63] = [
    "nop",
    "readv",
    "writev",
    "fsync",
    "read_fixed",
    "write_fixed",
    "poll_add",
    "poll_remove",
    "sync_file_range",
    "sendmsg",
    "recvmsg",
    "timeout",
    "timeout_remove",
    "accept",
    "async_cancel",
    "link_timeout",
    "connect",
    "fallocate",
    "openat",
    "close",
    "files_update",
    "statx",
    "read",
    "write",
    "fadvise",
    "madvise",
    "send",
    "recv",
    "openat2",
    "epoll_ctl",
    "splice",
    "provide_buffers",
    "remove_buffers",
    "tee",
    "shutdown",
    "renameat",
    "unlinkat",
    "mkdirat",
    "symlinkat",
    "linkat",
    "msg_ring",
    "fsetxattr",
    "setxattr",
    "fgetxattr",
    "getxattr",
    "socket",
    "uring_cmd",
    "send_zc",
    "sendmsg_zc",
    "read_multishot",
    "waitid",
    "futex_wait",
    "futex_wake",
    "futex_waitv",
    "fixed_fd_install",
    "ftruncate",
    "bind",
    "listen",
    "recv_zc",
    "epoll_wait",
    "readv_fixed",
    "writev_fixed",
    "pipe",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `include/uapi/linux/io_uring.h`.
    #[test]
    fn names_known_operations() {
        for (opcode, name) in [
            (0, "nop"),
            (13, "accept"),
            (22, "read"),
            (27, "recv"),
            (47, "send_zc"),
            (59, "epoll_wait"),
            (62, "pipe"),
        ] {
            assert_eq!(uring_operation_name(opcode), name);
        }
        assert_eq!(uring_operation_name(63), "op_63");
    }

    /// A counter that ran half of the time stands for twice its events; one that never ran stands
    /// for nothing, unless nothing was to be counted.
    #[test]
    fn counts_are_scaled() {
        let count = |counted, enabled_ns, running_ns| HardwareCount {
            counted,
            enabled_ns,
            running_ns,
        };
        assert_eq!(count(10, 100, 50).scaled(), Some(20));
        assert_eq!(count(10, 100, 100).scaled(), Some(10));
        assert_eq!(count(0, 100, 0).scaled(), None);
        assert_eq!(count(0, 0, 0).scaled(), Some(0));
        assert_eq!(count(u64::MAX, u64::MAX, 1).scaled(), None);
    }
}
