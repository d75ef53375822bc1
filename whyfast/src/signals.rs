//! Ctrl-C in two stages: the first ends early with the results so far, the second kills.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Set once the user, the system or a lost terminal asks to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn install() -> io::Result<Self> {
        let interrupt = Self::default();
        // What whoever started us ignores (nohup, a background job) stays ignored.
        let ignored = ignored_signals();
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter();
        for signal in wanted.filter(|signal| ignored & (1 << (signal - 1)) == 0) {
            // The order matters: on the second signal the flag is already set.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&interrupt.0))?;
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    /// Whether a signal has arrived.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Leaves ending to the parent: a half that is controlled over its stdin must not die of the signal
/// to the whole group that its parent handles.
pub(crate) fn leave_to_parent() -> io::Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ignored))?;
    }
    Ok(())
}

/// The signals that this process ignores, as a mask.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
