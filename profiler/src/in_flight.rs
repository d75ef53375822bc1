//! The calls that threads of the target are inside of: from the stamps that the programs left, and
//! from `/proc` for calls that have none.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use profiler_common::{elapsed_ns, start_row};
use recording::{Abi, Detail, InFlightCall, name};

use crate::delta::RowNames;
use crate::processes::{self, CurrentCall};
use crate::source::Tables;

/// Calls in flight at one moment.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    pub(crate) calls: Vec<InFlightCall>,
    /// Whether the kernel did not let us see the calls of some threads.
    pub(crate) hidden: bool,
    /// Whether the kernel runs threads of `io_uring` for a process.
    pub(crate) io_uring: bool,
}

impl InFlight {
    /// Looks at every thread of these processes. A thread that runs at this moment inside a call
    /// without a stamp is not seen.
    pub(crate) fn observe<F: Fn(u32) -> Option<(u32, bool)>>(
        pids: &BTreeSet<u32>,
        tables: &Tables<'_>,
        detail: Detail,
        names: &RowNames<F>,
        clock: impl Fn() -> u64,
    ) -> Self {
        let mut found = Self::default();
        for &pid in pids {
            let abi = program_abi(pid, names.native);
            for tid in processes::tids(pid) {
                let stamped = match detail {
                    Detail::Times => stamp(tables, tid, names, clock()),
                    Detail::Counts | Detail::Floor => None,
                };
                let call = stamped.map(|(name, abi, age_ns)| (name, abi, Some(age_ns)));
                let call = call.or_else(|| {
                    let nr = found.current_call(pid, tid)?;
                    Some((name(abi, nr).into_owned(), abi, None))
                });
                found
                    .calls
                    .extend(call.map(|(name, abi, age_ns)| InFlightCall {
                        pid,
                        tid,
                        abi,
                        name,
                        age_ns,
                    }));
            }
        }
        found
    }
}

impl InFlight {
    /// The number of the call that a thread is blocked in, by `/proc`.
    fn current_call(&mut self, pid: u32, tid: u32) -> Option<u32> {
        match CurrentCall::of(pid, tid) {
            // Threads of io_uring never left the kernel: what looks like their call is the one
            // that made them.
            CurrentCall::In(_) if is_io_uring_thread(pid, tid) => {
                self.io_uring = true;
                None
            }
            CurrentCall::In(nr) => Some(nr),
            CurrentCall::None => None,
            CurrentCall::Hidden => {
                self.hidden = true;
                None
            }
        }
    }
}

/// `iou-wrk-PID` and `iou-sqp-PID`, whatever the program calls its own threads.
fn is_io_uring_thread(pid: u32, tid: u32) -> bool {
    let comm = processes::thread_comm(pid, tid).unwrap_or_default();
    comm.starts_with(b"iou-wrk-") || comm.starts_with(b"iou-sqp-")
}

/// The stamp of a thread: name, ABI and age of the call.
fn stamp<F: Fn(u32) -> Option<(u32, bool)>>(
    tables: &Tables<'_>,
    tid: u32,
    names: &RowNames<F>,
    now_ns: u64,
) -> Option<(String, Abi, u64)> {
    let stamp = tables.starts.get(tid as usize)?.0.load(Relaxed);
    if stamp == 0 {
        return None;
    }
    let (abi, nr) = names.of(start_row(stamp))?;
    // The call may have begun after the clock was read.
    let age_ns = elapsed_ns(stamp, now_ns).unwrap_or(0);
    Some((name(abi, nr).into_owned(), abi, age_ns))
}

/// `/proc` does not say which table a number belongs to; a program uses that of its format.
fn program_abi(pid: u32, native: Abi) -> Abi {
    match native.compat() {
        Some(compat) if processes::is_32_bit(pid) => compat,
        _ => native,
    }
}
