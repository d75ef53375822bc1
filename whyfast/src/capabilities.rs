//! Capabilities that somebody gave to the program (`setcap`, a unit file): they are for profiling,
//! and nothing else may use them. Who may run the program may otherwise read every file with them.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::args::Verb;

/// Gives up, before anything is done, what the verb does not need. Root stays root: it has chosen so.
pub(crate) fn narrow(verb: &Verb) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let held = capabilities(None)?;
    let narrowed = match verb {
        Verb::Profile(_) | Verb::Doctor(_) | Verb::Tracers(_) => return Ok(()),
        // Its profiler child inherits them, itself it looks for processes only.
        Verb::Compare(_) => CapabilitySets {
            effective: CapabilitySet::empty(),
            ..held
        },
        Verb::Load(_)
        | Verb::Testserver(_)
        | Verb::Report(_)
        | Verb::Diff(_)
        | Verb::Gate(_)
        | Verb::Autopsy(_)
        | Verb::List(_)
        | Verb::Man { .. }
        | Verb::Completions { .. }
        | Verb::Guard
        | Verb::Probe(_) => NONE,
    };
    Ok(set_capabilities(None, narrowed)?)
}

/// Does something with what looking into processes of other users takes.
pub(crate) fn looking<T>(look: impl FnOnce() -> T) -> T {
    let Ok(held) = capabilities(None) else {
        return look();
    };
    let needed = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
    let raised = CapabilitySets {
        effective: held.effective | held.permitted.intersection(needed),
        ..held
    };
    // Taking what is permitted cannot fail, nor giving it back.
    let _raised = set_capabilities(None, raised);
    let seen = look();
    let _lowered = set_capabilities(None, held);
    seen
}

/// Gives up all, for the calling thread.
pub(crate) fn give_up() {
    // Always allowed; where capabilities do not exist there is nothing to give up.
    let _unsupported = set_capabilities(None, NONE);
}

const NONE: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};
