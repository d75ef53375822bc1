//! The calls that threads of the target are inside of: from the stamps that the programs left, and
//! from `/proc` for calls that have none.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use profiler_common::{
    EVENTFD, FILE, FUTEX_SPLIT, Kind, NATIVE_ROWS, OTHER, OUTSIDE_ROW, PIPE, SOCKET, elapsed_ns,
    futex_object, pack_start, split_row, start_row,
};
use recording::{Abi, CallObject, Detail, InFlightCall, name};

use crate::delta::RowNames;
use crate::processes::{self, CurrentCall, Descriptor};
use crate::snapshot::{kind_of_row, object_of_row};
use crate::source::Tables;

/// Calls in flight at one moment.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    pub(crate) calls: Vec<InFlightCall>,
    /// Whether the kernel did not let us see the calls of some threads.
    pub(crate) hidden: bool,
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
                    Detail::Times | Detail::Sched | Detail::Stacks => {
                        stamp(tables, tid, names, clock())
                    }
                    Detail::Counts | Detail::Floor => None,
                };
                let call = stamped.or_else(|| {
                    let (nr, arguments) = found.current_call(pid, tid)?;
                    let row = row_of_call(pid, nr, arguments, abi != names.native);
                    Some(Stamp {
                        abi,
                        nr,
                        on: object_of_row(row),
                        age_ns: None,
                    })
                });
                found.calls.extend(call.map(|call| InFlightCall {
                    pid,
                    tid,
                    abi: call.abi,
                    name: name(call.abi, call.nr).into_owned(),
                    on: call.on,
                    age_ns: call.age_ns,
                }));
            }
        }
        found
    }
}

impl InFlight {
    /// The number of the call that a thread is blocked in and its first arguments, by `/proc`.
    fn current_call(&mut self, pid: u32, tid: u32) -> Option<(u32, [u64; 2])> {
        match CurrentCall::of(pid, tid) {
            CurrentCall::In { nr, arguments } => Some((nr, arguments)),
            CurrentCall::Outside | CurrentCall::Running | CurrentCall::Gone => None,
            CurrentCall::Hidden => {
                self.hidden = true;
                None
            }
        }
    }
}

/// A call that was entered and has not left.
struct Stamp {
    abi: Abi,
    nr: u32,
    on: Option<CallObject>,
    age_ns: Option<u64>,
}

fn stamp<F: Fn(u32) -> Option<(u32, bool)>>(
    tables: &Tables<'_>,
    tid: u32,
    names: &RowNames<F>,
    now_ns: u64,
) -> Option<Stamp> {
    let stamp = tables.starts.get(tid)?.0.load(Relaxed);
    if stamp == 0 {
        return None;
    }
    let row = start_row(stamp);
    let (abi, nr) = names.of(row)?;
    // A call that was found when the programs were attached has no time of entry; one may have begun after the clock was
    // read.
    let is_known = stamp >= pack_start(1, 0);
    Some(Stamp {
        abi,
        nr,
        on: object_of_row(row),
        age_ns: is_known.then(|| elapsed_ns(stamp, now_ns).unwrap_or(0)),
    })
}

/// `/proc` does not say which table a number belongs to; a program uses that of its format.
fn program_abi(pid: u32, native: Abi) -> Abi {
    match native.compat() {
        Some(compat) if processes::is_32_bit(pid) => compat,
        _ => native,
    }
}

/// The row of a call that `/proc` shows, with what it is done to.
fn row_of_call(pid: u32, nr: u32, arguments: [u64; 2], is_32_bit: bool) -> u32 {
    if nr >= NATIVE_ROWS {
        return OUTSIDE_ROW;
    }
    if is_32_bit {
        return NATIVE_ROWS + nr;
    }
    match kind_of_row(nr) {
        Kind::Descriptor { split, .. } => match processes::descriptor(pid, arguments[0]) {
            Some(Descriptor::Socket) => split_row(split, SOCKET),
            Some(Descriptor::Pipe) => split_row(split, PIPE),
            Some(Descriptor::Eventfd) => split_row(split, EVENTFD),
            Some(Descriptor::File) => split_row(split, FILE),
            Some(Descriptor::Other) => split_row(split, OTHER),
            None => nr,
        },
        Kind::Futex => split_row(FUTEX_SPLIT, futex_object(arguments[1])),
        _ => nr,
    }
}
