// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! TCP on the connections of the target: those with a local port that it listens on.

use core::sync::atomic::AtomicU64;

use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::{BelowEvents, port_bit};

use crate::{
    kernel::{add, load, local_port},
    maps::{BELOW, PORTS},
};

/// Counts an event of the socket that is the first argument of the tracepoint.
#[inline(always)]
pub(crate) fn count(ctx: &BtfTracePointContext, counter: impl Fn(&BelowEvents) -> &AtomicU64) {
    // A segment that belongs to no socket is answered with a reset too.
    let Some(port) = local_port(ctx, 0) else {
        return;
    };
    let (word, bit) = port_bit(port);
    if PORTS.get(word).is_some_and(|word| load(&word.0) & bit != 0) {
        add(BELOW.get(0).map(counter), 1);
    }
}
