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
                let call = call.or_else(|| match CurrentCall::of(pid, tid) {
                    CurrentCall::In(nr) => Some((name(abi, nr).into_owned(), abi, None)),
                    CurrentCall::None => None,
                    CurrentCall::Hidden => {
                        found.hidden = true;
                        None
                    }
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
